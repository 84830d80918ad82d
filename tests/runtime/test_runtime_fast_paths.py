"""Kernels for particular shapes: taps that are read in place or gathered by lines, Winograd's method, sums in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reference.runtime_graphs import Builder
from reference.runtime_interpreter import interpret
from zerocross.runtime.graph import Graph
from zerocross.runtime.kernels.points import transform_weights
from zerocross.runtime.kernels.steps import Rows, StepKind
from zerocross.runtime.model import Model
from zerocross.runtime.plan import make_plan
from zerocross.runtime.program import assemble
from zerocross.runtime.thread_pool import processors

AROUND = {"padding": (3, 3), "stride": (2, 2), "dilation": (1, 1), "groups": 1}


def kinds(model: Model) -> list[StepKind]:
    return [StepKind(kind) for kind in model.steps()["kind"]]


# ---- bits, gathered by parities of whole lines ----------------------------------------------------------------------


@pytest.mark.parametrize("channels", [17, 32, 60, 64, 96, 128, 160, 544])
@pytest.mark.parametrize(("kernel", "stride"), [((3, 3), (1, 1)), ((3, 3), (2, 2)), ((2, 5), (3, 1)), ((4, 1), (1, 2))])
def test_rows_of_bits_by_parities_of_lines(channels: int, kernel: tuple[int, int], stride: tuple[int, int]):
    b = Builder(channels, 11, 13, seed=channels)
    output = b.conv(b.sign("x"), 20, kernel, stride=stride, padding=(1, 0))
    model, x = Model(b.graph(output)), b.batch(3)
    assert max(model.steps()["scan_line"]) > 0  # this path was taken
    np.testing.assert_array_equal(model(x), interpret(model.graph, x)[output])


@pytest.mark.parametrize("how", [{"dilation": (1, 2)}, {"dilation": (2, 1)}, {"groups": 2}])
def test_other_rows_of_bits_are_gathered_word_by_word(how: dict[str, Any]):
    b = Builder(64, 11, 13)
    output = b.conv(b.sign("x"), 20, (3, 3), padding=(1, 1), **how)
    model, x = Model(b.graph(output)), b.batch(3)
    assert max(model.steps()["scan_line"]) == 0
    np.testing.assert_array_equal(model(x), interpret(model.graph, x)[output])


def test_images_of_a_batch_have_separate_parities():
    """Blocks of rows extend from one image to the next."""
    b = Builder(32, 5, 3)
    output = b.conv(b.sign("x"), 16, (3, 3), padding=(1, 1))
    model, x = Model(b.graph(output)), b.batch(37)
    np.testing.assert_array_equal(model(x), interpret(model.graph, x)[output])


# ---- real numbers, read in place -------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3, 16, 19])
@pytest.mark.parametrize("width", [8, 15, 16, 48])
def test_real_taps_are_read_in_place(channels: int, width: int):
    b = Builder(channels, 6, width)
    output = b.conv("x", 33, (3, 5), binary=False, bias=True, padding=(1, 2))
    model, x = Model(b.graph(output)), b.batch(2)
    assert (max(model.steps()["direct"]) == Rows.IN_LINES) == (width % 8 == 0)
    np.testing.assert_allclose(model(x), interpret(model.graph, x)[output], rtol=1e-5, atol=1e-4)


# ---- bytes, of which whole words are read in place -------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [(7, 7), (5, 7), (8, 3), (7, 5), (3, 7)])
@pytest.mark.parametrize("width", [16, 30, 48, 80])
def test_words_of_a_first_layer_of_bytes_are_read_in_place(kernel: tuple[int, int], width: int):
    b = Builder(3, 17, width)
    around = AROUND | {"padding": (3, kernel[1] // 2)}
    output = b.byte_conv("x", 40, kernel, bias=True, **around)
    model, x = Model(b.graph(output)), b.batch(3)
    suits = width % 16 == 0 and kernel in ((7, 7), (5, 7), (8, 3))
    assert (max(model.steps()["direct"]) == Rows.IN_LINES) == suits
    np.testing.assert_array_equal(model(x), interpret(model.graph, x)[output])


# ---- Winograd's method ----------------------------------------------------------------------------------------------


def resnet_stem(height: int, width: int, outputs: int = 64, *, inner: bool = False) -> tuple[Builder, Graph]:
    b = Builder(3, height, width)
    source = b.affine("x") if inner else "x"
    return b, b.graph(b.affine(b.conv(source, outputs, (7, 7), binary=False, bias=True, **AROUND)))


@pytest.mark.parametrize(("height", "width"), [(16, 16), (33, 48), (9, 112), (32, 64), (5, 127), (4, 128), (3, 256)])
def test_the_first_layer_of_a_resnet(height: int, width: int):
    b, graph = resnet_stem(height, width)
    model, x = Model(graph), b.batch(3)
    assert StepKind.WINOGRAD in kinds(model)
    expected = interpret(graph, x.astype(np.float64))[graph.output]
    error = model(x) - expected
    assert np.sqrt((error**2).mean()) < 1e-6 * np.sqrt((expected**2).mean())  # 2e-7 for a direct convolution
    assert np.abs(error).max() < 1e-5 * np.sqrt((expected**2).mean())


def test_other_layers_do_not_use_winograd():
    cases = [resnet_stem(32, 30), resnet_stem(32, 32, 40), resnet_stem(32, 32, inner=True)]
    for b, graph in cases:
        model, x = Model(graph), b.batch(2)
        assert StepKind.WINOGRAD not in kinds(model)
        np.testing.assert_allclose(model(x), interpret(graph, x)[graph.output], rtol=1e-5, atol=1e-4)


def test_an_input_that_other_layers_read_as_well():
    b = Builder(3, 16, 16)
    both = [
        b.affine(b.conv("x", 32, (size, size), binary=False, **AROUND | {"padding": (size // 2,) * 2}))
        for size in (7, 3)
    ]
    graph, x = b.graph(b.add("add", *both)), b.batch(2)
    model = Model(graph)
    assert {StepKind.WINOGRAD, StepKind.REAL} <= set(kinds(model))
    np.testing.assert_allclose(model(x), interpret(graph, x)[graph.output], rtol=1e-5, atol=1e-4)


def test_results_depend_neither_on_batches_nor_on_threads():
    b, graph = resnet_stem(40, 48)
    x = b.batch(5)
    one = Model(graph)(x)
    for count in range(1, 5):
        np.testing.assert_array_equal(Model(graph)(x[:count]), one[:count])
    if processors() > 1:
        two = Model(graph, threads=2)
        for _ in range(20):
            np.testing.assert_array_equal(two(x[:1]), one[:1])
            np.testing.assert_array_equal(two(x), one)


def test_weights_at_the_points_are_values_of_polynomials():
    weight = np.random.default_rng(0).standard_normal((2, 3, 7, 7))
    result = transform_weights(weight)
    assert [each.shape for each in result] == [(2, 7, 6)] * 6 + [(2, 7, 3)]
    np.testing.assert_allclose(
        result[0][:, :, 0], weight[:, 0, :, 0] / -2, rtol=1e-6
    )  # at 0, even: 1/((-1)(1)(-2)(2)(-1/2))
    np.testing.assert_allclose(result[5][:, :, 3], weight[:, 0, :, 5], rtol=1e-6)  # at infinity: the last tap


# ---- windows --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize("width", [16, 17, 32, 40])
@pytest.mark.parametrize("window", [((3, 3), (2, 2), (1, 1)), ((3, 3), (1, 1), (1, 1)), ((5, 4), (1, 2), (2, 2))])
def test_windows_next_to_the_border(op: str, width: int, window: tuple[tuple[int, int], ...]):
    b = Builder(20, 9, width)
    kernel, stride, padding = window
    more: dict[str, Any] = {"dilation": (1, 1)} if op == "max_pool2d" else {"count_include_pad": False}
    output = b.add(op, b.affine("x"), kernel=kernel, stride=stride, padding=padding, ceil_mode=False, **more)
    graph, x = b.graph(output), b.batch(3)
    np.testing.assert_array_equal(Model(graph)(x), interpret(graph, x)[output])


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("place", [(0, 0), (3, 7), (8, 15)])
def test_a_maximum_keeps_nan_of_either_sign(negative: bool, place: tuple[int, int], stride: int):
    b = Builder(16, 9, 16)
    window = {"kernel": (3, 3), "stride": (stride,) * 2, "padding": (1, 1), "dilation": (1, 1), "ceil_mode": False}
    model, x = Model(b.graph(b.add("max_pool2d", b.add("relu", "x"), **window))), b.batch(1)
    x[(0, 5, *place)] = np.copysign(np.float32(np.nan), -1 if negative else 1)
    near = np.zeros((9, 16), bool)
    near[max(0, place[0] - 1) : place[0] + 2, max(0, place[1] - 1) : place[1] + 2] = True
    y = model(x)[0]
    np.testing.assert_array_equal(np.isnan(y[5]), near[::stride, ::stride])
    assert not np.isnan(np.delete(y, 5, axis=0)).any()


# ---- sums that overwrite the added value -----------------------------------------------------------------------------


def shortcuts(count: int, *, used_again: bool = False) -> tuple[Builder, Graph]:
    b = Builder(32, 10, 11)
    first = x = b.affine("x")
    for _ in range(count):
        x = b.add("add", b.affine(b.conv(b.sign(x), 32, (3, 3), padding=(1, 1))), x)
    return b, b.graph(b.add("add", x, first) if used_again else x)


def real_offsets(graph: Graph) -> list[int]:
    """Return the offsets at which the steps of a plan store float32."""
    steps = assemble(make_plan(graph, 1 << 30).steps, 1).steps
    return [int(step["real"]) for step in steps if step["real"] >= 0]


def test_a_sum_overwrites_a_shortcut_that_is_not_used_again():
    b, graph = shortcuts(6)
    x = b.batch(3)
    assert len(real_offsets(graph)) == 7
    assert len(set(real_offsets(graph))) == 1
    np.testing.assert_array_equal(Model(graph)(x), interpret(graph, x)[graph.output])


def test_a_shortcut_that_is_used_again_is_not_overwritten():
    b, graph = shortcuts(2, used_again=True)
    x = b.batch(3)
    first, *others = real_offsets(graph)
    assert first not in others[:2]
    np.testing.assert_array_equal(Model(graph)(x), interpret(graph, x)[graph.output])
