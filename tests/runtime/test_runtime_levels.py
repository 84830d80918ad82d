"""The code for each supported processor level computes the same as the naive twin; each runs in its own process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from zerocross.runtime.kernels import native, target

CHECK = """
import sys
import numpy as np
from reference.runtime_graphs import Builder
from reference.runtime_interpreter import interpret
from zerocross.runtime.kernels.native import use_level
from zerocross.runtime.model import Model

use_level(sys.argv[1])
around = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
for seed, channels in enumerate((3, 16, 32, 64, 100)):
    b = Builder(channels, 7, 9, seed=seed)
    stem = b.byte_conv("x", 20, (3, 3), bias=True, **around)
    shortcut = b.prelu(b.affine(stem))
    sums = b.conv(b.sign(shortcut, shifted=True), 20, (3, 3), padding=(1, 1))
    both = b.add("add", b.affine(sums), shortcut)
    halves = b.add("avg_pool2d", both, kernel=(2, 2), stride=(2, 2), padding=(0, 0), ceil_mode=seed % 2 == 0,
                   count_include_pad=False)
    most = b.add("max_pool2d", halves, kernel=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(1, 1), ceil_mode=False)
    graph, x = b.graph(most), b.batch(3)
    np.testing.assert_array_equal(Model(graph)(x), interpret(graph, x)[most])
    b = Builder(channels, 7, 9, seed=seed)
    wide = b.conv(b.sign("x"), 33, (3, 3), stride=(2, 1), padding=(1, 1), groups=1)
    graph, x = b.graph(wide), b.batch(3)
    np.testing.assert_array_equal(Model(graph)(x), interpret(graph, x)[wide])
    b = Builder(channels, 7, 9, seed=seed)
    real = b.conv("x", 21, (3, 3), binary=False, bias=True, **around)
    graph, x = b.graph(real), b.batch(3)
    np.testing.assert_allclose(Model(graph)(x), interpret(graph, x)[real], rtol=1e-5, atol=1e-4)
b = Builder(3, 20, 32)
around = {"stride": (2, 2), "padding": (3, 3), "dilation": (1, 1), "groups": 1}
first = b.conv("x", 64, (7, 7), binary=False, bias=True, **around)
graph, x = b.graph(first), b.batch(3)
np.testing.assert_allclose(Model(graph)(x), interpret(graph, x)[first], rtol=1e-5, atol=1e-4)
b = Builder(3, 20, 32)
first = b.byte_conv("x", 40, (7, 7), bias=True, **around)
most = b.add("max_pool2d", first, kernel=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(1, 1), ceil_mode=False)
graph, x = b.graph(most), b.batch(3)
np.testing.assert_array_equal(Model(graph)(x), interpret(graph, x)[most])
for channels in (32, 64, 160, 544):
    b = Builder(channels, 9, 13, seed=channels)
    shortcut = b.affine("x")
    for _ in range(2):
        sums = b.affine(b.conv(b.sign(shortcut, shifted=True), channels, (3, 3), padding=(1, 1)))
        shortcut = b.affine(b.prelu(b.add("add", sums, shortcut)))
    graph, x = b.graph(shortcut), b.batch(3)
    np.testing.assert_array_equal(Model(graph)(x), interpret(graph, x)[shortcut])
for channels in (32, 64, 100):  # tiles that lie within a line, and averages of 2 x 2 pixels
    b = Builder(channels, 6, 16, seed=channels)
    x = b.prelu(b.affine(b.conv(b.sign("x"), channels, (3, 3), padding=(1, 1))))
    sums = b.affine(b.conv(b.sign(x, shifted=True), channels, (3, 3), stride=(2, 2), padding=(1, 1)))
    halves = b.add("avg_pool2d", x, kernel=(2, 2), stride=(2, 2), padding=(0, 0), ceil_mode=False,
                   count_include_pad=False)
    both = b.affine(b.prelu(b.add("add", sums, halves)))
    graph = b.graph(b.add("add", both, b.conv(b.sign(both), channels, (1, 1))))
    model, batch = Model(graph), b.batch(3)
    assert (model.steps()["pool"] != 0).any()
    np.testing.assert_array_equal(model(batch), interpret(graph, batch)[graph.output])
print("the same")
"""


@pytest.mark.slow
@pytest.mark.parametrize("level", [level.name for level in target.LEVELS])
def test_a_level_equals_the_naive_twin(level: str):
    if missing := target.level_named(level, here=False).missing():
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", CHECK, level], env=env, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.stdout.endswith("the same\n"), done.stderr


def test_unknown_and_unsupported_levels_are_refused(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ValueError, match="level = 'sse9': it must be one of avx512, avx2, portable"):
        native.use_level("sse9")
    monkeypatch.setattr(target.llvm, "get_host_cpu_features", lambda: {"avx2": True})
    with pytest.raises(ValueError, match=r"level = 'avx512': this processor lacks avx512f, .*it supports 'portable'"):
        native.use_level("avx512")
    assert target.best_level().name == "portable"


def test_a_level_must_be_chosen_before_code_is_loaded():
    native.load_run(str)
    with pytest.raises(RuntimeError, match="choose a level before the first network"):
        native.use_level("portable")
