"""Narrow binary layers whose tiles lie within a line, and layers that store averages of 2 x 2 pixels themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reference.runtime_graphs import Builder
from reference.runtime_interpreter import interpret
from zerocross.runtime.graph import Graph
from zerocross.runtime.kernels.steps import TILED, StepKind
from zerocross.runtime.model import Model
from zerocross.runtime.thread_pool import processors

STAGES = ("", "affine", "affine add", "affine add prelu", "affine add prelu affine", "prelu", "affine relu")
HALVES: dict[str, Any] = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "count_include_pad": False}


def check(graph: Graph, batch: np.ndarray) -> Model:
    """Compare all numbers with those of the naive twin, on one thread and on two, for one image and for several."""
    expected = interpret(graph, batch)[graph.output]
    model = Model(graph)
    np.testing.assert_array_equal(model(batch), expected)
    np.testing.assert_array_equal(model(batch[:1]), expected[:1])
    if processors() > 1:
        model.threads = 2
        for _ in range(10):
            np.testing.assert_array_equal(model(batch[:1]), expected[:1])
        np.testing.assert_array_equal(model(batch), expected)
        model.threads = 1
    return model


def behind(b: Builder, value: str, shortcut: str, stages: str) -> str:
    for stage in stages.split():
        value = (
            b.add("add", value, shortcut) if stage == "add" else getattr(b, stage, lambda x: b.add("relu", x))(value)
        )
    return value


@pytest.mark.parametrize("outputs", [32, 40])  # the second leaves surplus lanes
@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize(
    ("channels", "kernel", "plain"), [(32, (3, 3), 0), (64, (3, 3), TILED), (60, (1, 1), TILED), (128, (3, 3), -1)]
)
def test_every_stage_behind_narrow_layers(
    channels: int, kernel: tuple[int, int], plain: int, stages: str, outputs: int
):
    b = Builder(channels, 6, 16, seed=channels)
    around = (kernel[0] // 2, kernel[1] // 2)
    shortcut = b.affine(b.conv(b.sign("x"), outputs, (1, 1))) if "add" in stages else ""
    output = behind(b, b.conv(b.sign("x", shifted=True), outputs, kernel, padding=around), shortcut, stages)
    last = b.conv(b.sign(output, shifted=True), 16, (1, 1))  # reads the bits of the result as well
    model = check(b.graph(b.concat(output, last)), b.batch(3))
    assert plain in model.steps()["plain"]


@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (1, 2), (3, 1), (1, 3)])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (2, 5), (5, 2)])
@pytest.mark.parametrize("channels", [20, 32, 64])
def test_shapes_of_narrow_layers(channels: int, kernel: tuple[int, int], stride: tuple[int, int]):
    b = Builder(channels, 9, 8 * stride[1] + kernel[1] - 1, seed=channels)
    output = b.conv(b.sign("x"), 20, kernel, stride=stride, padding=(1, 0))
    model = check(b.graph(output), b.batch(3))
    assert (max(model.steps()["plain"]) == TILED) == (channels == 64 and stride[1] < 3)


def test_padding_of_ones():
    for channels in (32, 64):
        b = Builder(channels, 8, 8, seed=channels)
        check(b.graph(b.conv(b.sign("x"), 16, (3, 3), padding=(1, 1), pad_value=1)), b.batch(2))


# ---- averages -------------------------------------------------------------------------------------------------------


def pools(model: Model) -> tuple[bool, int]:
    steps = model.steps()
    return bool((steps["pool"] != 0).any()), int((steps["kind"] == StepKind.WINDOW).sum())


@pytest.mark.parametrize(("height", "width"), [(8, 16), (6, 10), (14, 14), (4, 28)])
@pytest.mark.parametrize("channels", [16, 20, 64, 96])
def test_a_shortcut_of_averages(channels: int, height: int, width: int):
    """The block of ReActNet with stride 2: two steps less."""
    b = Builder(channels, height, width, seed=width)
    x = b.affine(b.prelu(b.affine(b.conv(b.sign("x"), channels, (3, 3), padding=(1, 1)))))
    sums = b.affine(b.conv(b.sign(x, shifted=True), channels, (3, 3), stride=(2, 2), padding=(1, 1)))
    both = b.affine(b.prelu(b.add("add", sums, b.add("avg_pool2d", x, ceil_mode=True, **HALVES))))
    last = b.conv(b.sign(both, shifted=True), channels, (1, 1))
    model = check(b.graph(b.add("add", both, last)), b.batch(3))
    assert pools(model) == (True, 1)  # the first signs are a window of single pixels


def test_averages_of_two_branches():
    b = Builder(32, 8, 16)
    signs = b.sign("x")
    halves = [b.affine(b.conv(signs, channels, (1, 1))) for channels in (32, 20)]
    x = b.prelu(b.concat(*halves))
    sums = b.conv(b.sign(x), 52, (3, 3), stride=(2, 2), padding=(1, 1))
    graph = b.graph(b.add("add", b.affine(sums), b.add("avg_pool2d", x, ceil_mode=False, **HALVES)))
    assert pools(check(graph, b.batch(3))) == (True, 1)


def test_averages_that_another_layer_reads():
    b = Builder(32, 8, 16)
    x = b.affine(b.conv(b.sign("x"), 32, (3, 3), padding=(1, 1)))
    average = b.add("avg_pool2d", x, ceil_mode=False, **HALVES)
    signs = b.conv(b.sign(average, shifted=True), 32, (1, 1))
    graph = b.graph(b.add("add", b.prelu(average), signs))
    assert pools(check(graph, b.batch(3)))[0]


@pytest.mark.parametrize("why", ["odd", "kernel", "read twice", "real layer"])
def test_other_averages_are_steps_of_their_own(why: str):
    b = Builder(16, 7 if why == "odd" else 8, 16)
    how: dict[str, Any] = HALVES | ({"kernel": (3, 3), "stride": (1, 1)} if why == "kernel" else {})
    around = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    x = b.affine("x") if why == "real layer" else b.affine(b.conv(b.sign("x"), 16, (3, 3), **around))
    average = b.add("avg_pool2d", x, ceil_mode=False, **how)
    rest = b.add("subsample", x, stride=(2, 2)) if why == "read twice" else average
    graph = b.graph(b.add("add", average, rest) if why == "read twice" else average)
    assert not pools(check(graph, b.batch(3)))[0]


# ---- slices ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bytes_", [False, True])
@pytest.mark.parametrize("window", [((3, 3), (1, 1)), ((2, 2), (0, 0))])
def test_a_large_first_layer_and_its_pooling_take_turns(bytes_: bool, window: tuple[tuple[int, int], tuple[int, int]]):
    """One image on one thread is computed in slices, several images and threads are not: the results are the same."""
    b = Builder(3, 128, 128)
    around = {"stride": (2, 2), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    stem = b.byte_conv("x", 32, (3, 3), **around) if bytes_ else b.conv("x", 32, (3, 3), binary=False, **around)
    pooled = b.add(
        "max_pool2d", b.affine(stem), kernel=window[0], stride=(2, 2), padding=window[1], dilation=(1, 1),
        ceil_mode=False,
    )  # fmt: skip
    graph, x = b.graph(b.conv(b.sign(pooled), 16, (3, 3), padding=(1, 1))), b.batch(4)
    model = Model(graph)
    assert max(model.steps()["slices"]) == 16
    together = model(x)
    for number in range(len(x)):
        np.testing.assert_array_equal(model(x[number : number + 1]), together[number : number + 1])
    expected = interpret(graph, x)[graph.output]
    assert (together == expected).mean() > 0.999  # a sum of floats may round to the other side of 0
    if processors() > 1:
        np.testing.assert_array_equal(Model(graph, threads=2)(x[:1]), together[:1])
