"""The C file in the benchmark computes the same as the packed runtime."""

from __future__ import annotations

import shutil

import pytest

from reference.runtime_graphs import Builder
from zerocross.bench.inference_c import BUILDS, c_contenders
from zerocross.runtime.model import Model


def test_every_build_predicts_the_whole_batch():
    if not (shutil.which("gcc") or shutil.which("clang")):
        pytest.skip("no C compiler")
    b = Builder(3, 6, 6)
    x = b.sign(b.conv("x", 9, (3, 3), binary=False))
    graph = b.graph(b.add("global_avg_pool", b.affine(b.conv(x, 5, (3, 3), padding=(1, 1)))))
    batch = b.batch(3)
    calls = c_contenders(graph, batch)
    assert list(calls) == list(BUILDS)
    for call in calls.values():
        assert call() == pytest.approx(Model(graph)(batch), abs=1e-4)
