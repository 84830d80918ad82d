"""Whole graphs: fusion, memory, batches, threads and invalid inputs."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from reference.runtime_graphs import Builder
from reference.runtime_interpreter import interpret
from zerocross.runtime import model as runtime_model
from zerocross.runtime import thread_pool, worker
from zerocross.runtime.fuse import fuse, simplify
from zerocross.runtime.graph import Graph
from zerocross.runtime.kernels import native
from zerocross.runtime.model import Model
from zerocross.runtime.thread_pool import processors

several = pytest.mark.skipif(processors() < 2, reason="needs two processors")


def stem(b: Builder, width: int) -> str:
    return b.prelu(b.affine(b.conv("x", width, (3, 3), binary=False, padding=(1, 1))))


def bireal_block(b: Builder, x: str, width: int, stride: int, shortcut: str) -> str:
    conv = b.affine(b.conv(b.sign(x), width, (3, 3), padding=(1, 1), stride=(stride, stride)))
    other = x
    if stride > 1:
        other = {
            "pool": lambda: b.add("avg_pool2d", x, kernel=(2, 2), stride=(2, 2), ceil_mode=True),
            "subsample": lambda: b.add("subsample", x, stride=(2, 2)),
            "conv": lambda: b.add("max_pool2d", x, kernel=(2, 2), stride=(2, 2), ceil_mode=True),
        }[shortcut]()
    if width > b.channels[x]:
        if shortcut == "conv":
            other = b.affine(b.conv(other, width, (1, 1), binary=False))
        else:
            other = b.pad_channels(other, 0, width - b.channels[x])
    return b.prelu(b.add("add", conv, other))


def bireal(width: int, shortcut: str) -> tuple[Builder, Graph]:
    b = Builder(3, 9, 8)
    x = stem(b, width)
    for wide, stride in ((width, 1), (2 * width, 2), (2 * width, 1)):
        x = bireal_block(b, x, wide, stride, shortcut)
    return b, b.graph(b.linear(b.add("global_avg_pool", x), 2 * width, 10, binary=False))


def react(width: int) -> tuple[Builder, Graph]:
    """Build two branches over the same signs, concatenated, as in ReActNet."""
    b = Builder(3, 8, 8)
    x = b.affine(b.conv("x", width, (3, 3), binary=False, padding=(1, 1), stride=(2, 2)))
    for _ in range(2):
        three = b.affine(b.conv(b.sign(x, shifted=True), b.channels[x], (3, 3), padding=(1, 1)))
        y = b.affine(b.prelu(b.affine(b.add("add", three, x))))
        signs = b.sign(y, shifted=True)
        halves = [b.add("add", b.affine(b.conv(signs, b.channels[y], (1, 1))), y) for _ in range(2)]
        x = b.affine(b.prelu(b.affine(b.concat(*halves))))
    return b, b.graph(b.linear(b.add("global_avg_pool", x), b.channels[x], 7, binary=False))


def thresholds() -> tuple[Builder, Graph]:
    """Build a network with thresholds of sums, pooled sums and flattened bits."""
    b = Builder(2, 8, 8)
    bits = b.sign(b.conv("x", 24, (3, 3), binary=False, padding=(1, 1)))
    bits = b.threshold(b.add("max_pool2d", b.conv(bits, 40, (3, 3), padding=(1, 1)), kernel=(2, 2), stride=(2, 2)))
    bits = b.threshold(b.conv(bits, 20, (3, 3)))
    flat = b.add("flatten", bits, channels=80)
    return b, b.graph(b.affine(b.linear(b.threshold(b.linear(flat, 80, 33)), 33, 10)))


NETWORKS = {
    "bireal pool": lambda: bireal(16, "pool"),
    "bireal subsample, odd": lambda: bireal(21, "subsample"),
    "bireal conv": lambda: bireal(32, "conv"),
    "react": lambda: react(16),
    "react, odd": lambda: react(10),
    "thresholds": thresholds,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_equals_its_naive_twin(name: str):
    builder, graph = NETWORKS[name]()
    x = builder.batch(5)
    np.testing.assert_allclose(Model(graph)(x), interpret(graph, x)[graph.output], rtol=1e-5, atol=1e-4)


def test_concatenations_that_are_not_aligned_to_panels():
    b = Builder(5, 4, 4)
    x = b.affine("x")
    parts = [b.affine(b.conv(b.sign(x), width, (1, 1))) for width in (7, 16, 9)]
    wide = b.concat(*parts, x, x)
    wide = b.pad_channels(wide, 3, 2)
    output = b.add("add", wide, b.pad_channels(b.concat(*parts, x, x), 0, 5))
    graph, batch = b.graph(output), b.batch(3)
    np.testing.assert_array_equal(Model(graph)(batch), interpret(graph, batch)[output])


@pytest.mark.parametrize("around", [(0, 20), (16, 3), (3, 2)])
def test_channels_around_bare_sums_are_zero(around: tuple[int, int]):
    b = Builder(21, 4, 4)
    output = b.pad_channels(b.conv(b.sign("x"), 5, (3, 3), padding=(1, 1)), *around)
    graph, batch = b.graph(output), b.batch(3)
    np.testing.assert_array_equal(Model(graph)(batch), interpret(graph, batch)[output])


def test_nothing_is_overwritten_before_it_is_read():
    """Windows overlap, so that a result written over its input would be wrong."""
    b = Builder(16, 7, 7)
    x = b.add("relu", "x")
    for _ in range(4):
        x = b.add("add", b.add("avg_pool2d", x, kernel=(3, 3), padding=(1, 1)), x)
    for _ in range(3):
        x = b.add("max_pool2d", x, kernel=(2, 2))
    graph, batch = b.graph(x), b.batch(3)
    np.testing.assert_array_equal(Model(graph)(batch), interpret(graph, batch)[x])


def test_values_with_several_users():
    """One value has two signs, and one is used both before and after its activation."""
    b = Builder(18, 5, 5)
    value = b.affine(b.conv(b.sign("x"), 18, (3, 3), padding=(1, 1)))
    one, two = (b.conv(b.sign(value, shifted=shifted), 18, (1, 1)) for shifted in (False, True))
    bent = b.prelu(value)
    total = b.add("add", b.add("add", one, two), b.add("add", bent, value))
    pixels = b.add("flatten", b.sign(total), channels=18 * 25)
    graph, batch = b.graph(b.linear(pixels, 18 * 25, 6)), b.batch(3)
    np.testing.assert_array_equal(Model(graph)(batch), interpret(graph, batch)[graph.output])


@pytest.mark.parametrize("op", ["sign", "relu", "flatten", "input"])
def test_trivial_graphs(op: str):
    b = Builder(3, 4, 5)
    output = "x" if op == "input" else b.sign("x") if op == "sign" else b.add(op, "x")
    graph, batch = b.graph(output), b.batch(3)
    np.testing.assert_array_equal(Model(graph)(batch), interpret(graph, batch)[output])


@pytest.mark.parametrize("binary", [False, True])
def test_flattening_a_single_pixel_moves_nothing(binary: bool):
    b = Builder(21, 3, 3)
    pixel = b.add("avg_pool2d", "x", kernel=(3, 3))
    pixel = b.sign(pixel) if binary else pixel
    output = b.linear(b.add("flatten", pixel), 21, 5, binary=binary)
    graph, batch = b.graph(output), b.batch(3)
    np.testing.assert_allclose(Model(graph)(batch), interpret(graph, batch)[output], rtol=1e-5, atol=1e-5)
    assert "flatten" not in {group.op for group in fuse(*simplify(graph))}


def test_a_block_is_one_pass():
    """Sign, convolution, batch norm, shortcut, activation and the next sign form one group."""
    b = Builder(32, 6, 6)
    x = b.affine("x")
    for _ in range(3):
        x = b.prelu(b.add("add", b.affine(b.conv(b.sign(x), 32, (3, 3), padding=(1, 1))), x))
    groups = fuse(*simplify(b.graph(x)))
    assert [group.op for group in groups] == ["identity", *["binary_conv2d"] * 3]
    assert [len(group.links) for group in groups] == [1, 3, 3, 3]
    assert [group.sign is not None for group in groups] == [True, True, True, False]
    assert all(group.real for group in groups)


def test_both_branches_of_a_concatenation_include_the_nodes_after_it():
    _, graph = react(16)
    groups = fuse(*simplify(graph))
    assert "concat" not in {group.op for group in groups}
    branches = [group for group in groups if group.node.op == "binary_conv2d" and group.node.attrs["shape"][2] == 1]
    assert [group.channel for group in branches] == [0, 16, 0, 32]
    assert {len(group.links) for group in branches} == {5}


def test_results_do_not_depend_on_batches():
    builder, graph = bireal(16, "pool")
    model, x = Model(graph), builder.batch(70)
    whole = model(x)
    for size in (1, 3, 64):
        np.testing.assert_array_equal(model(x[:size]), whole[:size])
    np.testing.assert_array_equal(model(x), whole)


@several
@pytest.mark.parametrize("name", NETWORKS)
def test_results_do_not_depend_on_threads(name: str):
    builder, graph = NETWORKS[name]()
    x = builder.batch(9)
    alone, together = Model(graph), Model(graph, threads=2)
    for size in (1, 2, 9):
        np.testing.assert_array_equal(together(x[:size]), alone(x[:size]))
    together.threads = 1
    np.testing.assert_array_equal(together(x), alone(x))


def test_an_input_may_be_read_only():
    builder, graph = bireal(16, "pool")
    model, x = Model(graph), builder.batch(2)
    expected = model(x)
    x.flags.writeable = False
    np.testing.assert_array_equal(model(x), expected)


def test_more_threads_than_processors_or_images(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runtime_model, "processors", lambda: 4)
    monkeypatch.setattr(thread_pool, "SHORT", -1.0)  # wait for other threads even in the shortest job
    builder, graph = bireal(16, "pool")
    alone, together, x = Model(graph), Model(graph, threads=4), builder.batch(5)
    whole = alone(x)
    for turn in range(40):
        size = 1 + turn % 5
        np.testing.assert_array_equal(together(x[:size]), whole[:size])


@several
def test_threads_do_not_share_steps_that_are_too_short(monkeypatch: pytest.MonkeyPatch):
    builder, graph = bireal(16, "pool")
    x = builder.batch(2)
    calls: list[bool] = []
    run = thread_pool.ThreadPool.run

    def noting(pool: thread_pool.ThreadPool, x: int, y: int, *, alone: bool) -> None:
        calls.append(alone)
        run(pool, x, y, alone=alone)

    monkeypatch.setattr(thread_pool.ThreadPool, "run", noting)
    for least, images in ((1 << 13, 1), (1 << 13, 2), (0, 1)):
        monkeypatch.setattr(worker, "SHARED_WORK", least)
        np.testing.assert_array_equal(Model(graph, threads=2)(x[:images]), Model(graph)(x[:images]))
    assert calls[::2] == [True, False, False]


@several
def test_threads_that_have_fallen_asleep_are_woken():
    builder, graph = bireal(16, "pool")
    alone, together, x = Model(graph), Model(graph, threads=2), builder.batch(3)
    whole = alone(x)
    for rest in (0.0, 0.02, 0.0, 0.1):  # seconds; a thread polls for work for about a millisecond
        time.sleep(rest)
        for size in (1, 3, 1):
            np.testing.assert_array_equal(together(x[:size]), whole[:size])


@several
def test_threads_end_with_their_model():
    builder, graph = bireal(16, "pool")
    before = set(threading.enumerate())
    model = Model(graph, threads=2)
    model(builder.batch(1))
    (own,) = set(threading.enumerate()) - before
    assert own.is_alive()
    del model
    own.join(timeout=30)
    assert not own.is_alive()


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=several)])
def test_eight_threads_call_one_model_with_batches_of_mixed_sizes(threads: int):
    builder, graph = bireal(16, "pool")
    model, x = Model(graph, threads=threads), builder.batch(70)
    expected = np.concatenate([model(one[None]) for one in x])  # sequential, image by image
    start = threading.Barrier(8)

    def call(caller: int) -> list[tuple[int, int]]:
        start.wait(timeout=30)
        differing = []
        for turn in range(12):
            size = (1, 2, 3, 7, 64)[(caller + turn) % 5]
            first = (5 * caller + turn) % (len(x) - size + 1)
            if not np.array_equal(model(x[first : first + size]), expected[first : first + size]):
                differing.append((first, size))
        return differing

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, range(8))) == [[]] * 8
    assert len(model._idle) <= 8  # workers are reused: at most as many as there were concurrent calls


@several
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_model_survives_a_fork():
    code = """
import os, sys
import numpy as np
from reference.runtime_graphs import Builder
from zerocross.runtime.model import Model
b = Builder(20, 4, 4)
model, x = Model(b.graph(b.conv(b.sign("x"), 8, (3, 3))), threads=2), b.batch(4)
whole = model(x)
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(model(x), whole) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_in_new_process(code) == "0\n"


def test_any_floating_point_array_is_accepted():
    b = Builder(3, 4, 4)
    graph = b.graph(b.conv(b.sign("x"), 5, (3, 3), padding=(1, 1)))
    model, x = Model(graph), b.batch(4)
    whole = model(x)
    np.testing.assert_array_equal(model(x.astype(np.float64)), whole)
    np.testing.assert_array_equal(model(np.ascontiguousarray(x[..., ::-1])[..., ::-1]), whole)
    fixed = x.copy()
    fixed.setflags(write=False)
    np.testing.assert_array_equal(model(fixed), whole)
    assert model(x[:0]).shape == (0, 5, 4, 4)
    assert whole.dtype == np.float32


def test_wrong_inputs_and_threads_are_refused():
    b = Builder(3, 4, 4)
    model = Model(b.graph(b.sign("x")))
    with pytest.raises(ValueError, match=r"shape \(3, 4, 4\); this network takes \(N, 3, 4, 4\)"):
        model(np.zeros((3, 4, 4)))
    for threads in (0, processors() + 1):
        with pytest.raises(ValueError, match=rf"threads = {threads}: it must be within 1..{processors()}"):
            Model(model.graph, threads=threads)


def test_memory_is_reused():
    """Twelve layers need no more memory than three: the memory of a buffer is free after its last use."""

    def bytes_of(depth: int) -> int:
        b = Builder(32, 8, 8)
        x = b.affine("x")
        for _ in range(depth):
            x = b.prelu(b.add("add", b.affine(b.conv(b.sign(x), 32, (3, 3), padding=(1, 1))), x))
        model = Model(b.graph(x))
        model(b.batch(1))
        return math.prod(model._idle[0].memory_for(1).held[0].shape)

    assert bytes_of(12) == bytes_of(3)


LINEAR = """
import sys
from reference.runtime_graphs import Builder
from zerocross.runtime.model import Model
b = Builder(4)
model = Model(b.graph(b.linear("x", 4, 2, binary=False)), cache={cache!r}, say=lambda text: print("said:", text))
model(b.batch(2)), model(b.batch(2))
print({{"torch", "numba"}} & sys.modules.keys())
"""


def run_in_new_process(code: str) -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=600
    )
    return done.stdout


def test_a_warm_cache_needs_neither_torch_nor_numba():
    Model(Builder(3).graph("x"))(np.zeros((1, 3)))  # compiles if necessary
    assert run_in_new_process(LINEAR.format(cache=None)) == "set()\n"


@pytest.mark.slow
def test_compiling_is_reported_once_and_damaged_code_is_compiled_again(tmp_path: Path):
    without = "from pathlib import Path\nfrom zerocross.runtime.kernels import native\nnative.PREBUILT = Path('none')\n"
    code = without + LINEAR.format(cache=str(tmp_path / "new"))
    first = run_in_new_process(code)
    assert "said: compiling kernels for this processor" in first
    assert f"and cached in {tmp_path / 'new'}" in first
    assert "said" not in run_in_new_process(code)
    (file,) = (tmp_path / "new").iterdir()
    file.write_bytes(file.read_bytes()[:-100])
    assert "said: kernels compiled in" in run_in_new_process(code)


def test_damaged_code_is_not_run(tmp_path: Path):
    file = tmp_path / "code"
    assert native.read_object(file) is None
    code, blocked = b"some code", tmp_path / "file"
    blocked.write_text("not a folder")
    assert [*native._written([blocked / "code", file], code)] == [str(tmp_path)]
    assert native.read_object(file) == code
    for damaged in (b"", file.read_bytes()[:-1], file.read_bytes() + b"x"):
        file.write_bytes(damaged)
        assert native.read_object(file) is None
