"""Small files that would need much memory or time are refused before memory is allocated."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import numpy as np
import pytest

from reference.runtime_graphs import Builder
from reference.runtime_interpreter import interpret
from zerocross.runtime.format import parse, serialize
from zerocross.runtime.graph import Graph
from zerocross.runtime.model import Model


def wide_activation() -> Graph:
    b = Builder(1, 8192, 8192)  # 256 MB, and 16 times as much when each pixel is padded to 16 channels
    return b.graph(b.add("global_avg_pool", b.add("relu", "x")))


def far_padding() -> Graph:
    b = Builder(3, 4, 4)
    return b.graph(b.conv("x", 2, (1, 1), binary=False, padding=(1 << 20, 1 << 20), stride=(1 << 20, 1 << 20)))


def many_groups(binary: bool) -> Graph:
    b = Builder(1 << 13, 1, 1)
    x = b.sign("x") if binary else b.add("relu", "x")
    return b.graph(b.conv(x, 1 << 14, (1, 1), binary=binary, groups=1 << 13))


def large_window() -> Graph:
    b = Builder(1, 300, 300)
    return b.graph(b.conv(b.sign("x"), 1, (300, 300), padding=(150, 150)))


def many_vectors() -> Graph:
    b = Builder(1 << 20)
    x = "x"
    for _ in range(300):
        x = b.add("relu", x)
    return b.graph(x)


LARGE: dict[str, Callable[[], Graph]] = {
    "an activation": wide_activation,
    "padding": far_padding,
    "groups": lambda: many_groups(binary=False),
    "binary groups": lambda: many_groups(binary=True),
    "a window": large_window,
    "vectors": many_vectors,
}


@pytest.mark.parametrize("name", LARGE)
def test_a_small_file_cannot_request_much_memory(name: str):
    graph = parse(serialize(LARGE[name]()))
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(ValueError, match=r"needs .* MiB of memory; the limit .* max_memory|overlaps the border"):
        Model(graph, max_memory=100 << 20 if name == "vectors" else None)
    assert time.process_time() - began < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 700_000, "KiB"


def test_a_small_file_cannot_request_much_time():
    b = Builder(1, 1024, 1024)
    x = b.add("max_pool2d", "x", kernel=(1000, 1000), padding=(500, 500))
    with pytest.raises(ValueError, match="vector operations for one sample"):
        Model(b.graph(x))


def test_max_memory_raises_the_limit():
    b = Builder(3, 8, 8)
    graph, batch = b.graph(b.conv(b.sign("x"), 5, (3, 3))), b.batch(2)
    with pytest.raises(ValueError, match=r"Pass a larger max_memory"):
        Model(graph, max_memory=1000)
    with pytest.raises(ValueError, match=r"max_memory is 0; it must be a positive number"):
        Model(graph, max_memory=0)
    np.testing.assert_array_equal(Model(graph, max_memory=1 << 20)(batch), interpret(graph, batch)[graph.output])


@pytest.mark.parametrize("between", ["affine", "nothing"])
def test_many_nested_concatenations(between: str):
    b = Builder(16, 2, 2)
    x = b.add("relu", "x")
    for _ in range(400):
        x = b.concat(b.add("relu", x) if between == "affine" else x, b.add("relu", "x"))
    graph, batch = b.graph(b.add("global_avg_pool", x)), b.batch(2)
    np.testing.assert_array_equal(Model(graph)(batch), interpret(graph, batch)[graph.output])


def test_branches_that_share_too_many_steps_are_refused():
    b = Builder(16, 1, 1)
    x = b.concat(*(b.conv(b.sign("x"), 16, (1, 1)) for _ in range(64)))
    for _ in range(1100):
        x = b.add("relu", x)
    with pytest.raises(ValueError, match="too many steps"):
        Model(b.graph(x))


@pytest.mark.parametrize("limit", [np.iinfo(np.int32).min, np.iinfo(np.int32).max])
def test_thresholds_that_all_have_the_same_extreme_value(limit: int):
    b = Builder(20)
    vectors = {"threshold": np.full(5, limit, np.int32), "direction": np.full(5, -1, np.int8)}
    graph = b.graph(b.add("threshold", b.linear(b.sign("x"), 20, 5), tensors=vectors))
    again, batch = parse(serialize(graph)), b.batch(3)
    assert again.tensors[again.nodes[-1].tensors["threshold"]].tolist() == [limit] * 5
    np.testing.assert_array_equal(Model(again)(batch), interpret(graph, batch)[graph.output])
