"""Every kernel against its naive twin, over odd shapes: integers are bit-exact, real sums equal up to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.runtime_graphs import Builder
from reference.runtime_interpreter import interpret
from zerocross.runtime.bits import BitMatrix
from zerocross.runtime.model import Model

pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))


def run_both(builder: Builder, output: str, images: int = 2) -> tuple[np.ndarray, np.ndarray]:
    graph = builder.graph(output)
    x = builder.batch(images)
    return Model(graph)(x), interpret(graph, x)[output]


def equal(builder: Builder, output: str, images: int = 2) -> None:
    ours, twin = run_both(builder, output, images)
    np.testing.assert_array_equal(ours, twin)


def close(builder: Builder, output: str, images: int = 2) -> None:
    np.testing.assert_allclose(*run_both(builder, output, images), rtol=1e-5, atol=1e-4)


@settings(max_examples=60)
@given(rows=st.integers(1, 70), words=st.integers(1, 40), columns=st.integers(1, 40), seed=st.integers(0, 99))
def test_a_product_of_bits_is_the_product_of_their_signs(rows: int, words: int, columns: int, seed: int):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 2**64, (size, words), np.uint64) for size in (rows, columns))
    left, right = (
        2 * np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little").astype(np.int64) - 1 for bits in (a, b)
    )
    np.testing.assert_array_equal(BitMatrix(b).product(a), left @ right.T)


def test_a_product_refuses_other_matrices():
    matrix = BitMatrix(np.zeros((3, 2), np.uint64))
    with pytest.raises(ValueError, match=r"float64 of shape \(4, 2\); it must be uint64 of shape \(rows, 2\)"):
        matrix.product(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="rows, 2"):
        matrix.product(np.zeros((4, 3), np.uint64))


@settings(max_examples=60)
@given(features=st.integers(1, 300), outputs=st.integers(1, 40), images=st.integers(1, 9), seed=st.integers(0, 99))
def test_binary_linear(features: int, outputs: int, images: int, seed: int):
    b = Builder(features, seed=seed)
    equal(b, b.linear(b.sign("x", shifted=seed % 2 == 0), features, outputs), images)


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, Any]:
    groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
    kernel, dilation = draw(pairs), draw(pairs)
    padding = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    reach = [dilation[axis] * (kernel[axis] - 1) + 1 for axis in range(2)]
    sizes = [draw(st.integers(max(1, reach[axis] - 2 * padding[axis]), 9)) for axis in range(2)]
    channels = groups * draw(st.integers(1, 90 // groups))
    return {
        "size": (channels, *sizes),
        "outputs": groups * draw(st.integers(1, 36 // groups)),
        "kernel": kernel,
        "attrs": {"stride": draw(pairs), "padding": padding, "dilation": dilation, "groups": groups},
        "seed": draw(st.integers(0, 99)),
    }


@settings(max_examples=150)
@given(conv=convolutions(), pad_value=st.integers(0, 1))
def test_binary_convolution(conv: dict[str, Any], pad_value: int):
    b = Builder(*conv["size"], seed=conv["seed"])
    equal(b, b.conv(b.sign("x"), conv["outputs"], conv["kernel"], pad_value=pad_value, **conv["attrs"]))


@pytest.mark.parametrize("channels", [16, 32, 64, 128, 192])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_binary_convolution_of_usual_widths(channels: int, kernel: int):
    b = Builder(channels, 6, 5)
    padding = (kernel // 2, kernel // 2)
    equal(b, b.conv(b.sign("x"), 32, (kernel, kernel), padding=padding))


def test_two_convolutions_pad_the_same_bits_differently():
    b = Builder(20, 5, 5)
    signs = b.sign("x")
    zeros = b.conv(signs, 16, (3, 3), padding=(1, 1))
    ones = b.conv(signs, 16, (5, 5), padding=(2, 2), pad_value=1)
    bare = b.conv(signs, 16, (1, 1))
    equal(b, b.add("add", b.add("add", zeros, ones), bare))


@settings(max_examples=60)
@given(conv=convolutions(), bias=st.booleans())
def test_real_convolution(conv: dict[str, Any], bias: bool):
    b = Builder(*conv["size"], seed=conv["seed"])
    close(b, b.conv("x", conv["outputs"], conv["kernel"], binary=False, bias=bias, **conv["attrs"]))


@settings(max_examples=30)
@given(conv=convolutions())
def test_real_convolution_of_the_output_of_another_layer(conv: dict[str, Any]):
    b = Builder(*conv["size"], seed=conv["seed"])
    close(b, b.conv(b.add("relu", "x"), conv["outputs"], conv["kernel"], binary=False, **conv["attrs"]))


@settings(max_examples=100)
@given(conv=convolutions(), bias=st.booleans(), inner=st.booleans())
def test_convolution_of_bytes_is_bit_exact(conv: dict[str, Any], bias: bool, inner: bool):
    b = Builder(*conv["size"], seed=conv["seed"])
    conv["attrs"]["groups"] = 1
    x = b.add("relu", "x") if inner else "x"  # input in the runtime's own memory, or in the caller's
    equal(b, b.byte_conv(x, conv["outputs"], conv["kernel"], bias=bias, **conv["attrs"]), images=3)


@settings(max_examples=30)
@given(features=st.integers(1, 300), outputs=st.integers(1, 40), images=st.integers(1, 20), seed=st.integers(0, 99))
def test_linear_layer_of_bytes_is_bit_exact(features: int, outputs: int, images: int, seed: int):
    b = Builder(features, seed=seed)
    equal(b, b.byte_linear("x", features, outputs), images)


@pytest.mark.parametrize(("number", "expected"), [(np.nan, "nan"), (np.inf, "nan"), (1e-38, "bias"), (0.0, "bias")])
def test_numbers_that_cannot_be_quantized(number: float, expected: str):
    b = Builder(2, 4, 4)
    graph = b.graph(b.byte_conv("x", 5, (3, 3), bias=True, stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1))
    x = np.zeros((2, 2, 4, 4), np.float32)
    x[1, 0, 2, 3] = number
    y = Model(graph)(x)
    bias = graph.tensors[graph.nodes[-1].tensors["bias"]]
    # The other image is unaffected.
    np.testing.assert_array_equal(y[0], np.broadcast_to(bias[:, None, None], y[0].shape))
    if expected == "nan":
        assert np.isnan(y[1]).all()
    else:
        np.testing.assert_array_equal(y[1], y[0])


@settings(max_examples=30)
@given(conv=convolutions())
def test_depthwise_convolution(conv: dict[str, Any]):
    b = Builder(*conv["size"], seed=conv["seed"])
    attrs = {**conv["attrs"], "groups": conv["size"][0]}
    close(b, b.conv("x", conv["size"][0], conv["kernel"], binary=False, bias=True, **attrs))


@settings(max_examples=20)
@given(features=st.integers(1, 100), outputs=st.integers(1, 50), images=st.integers(1, 9))
def test_real_linear(features: int, outputs: int, images: int):
    b = Builder(features)
    close(b, b.linear("x", features, outputs, binary=False), images)


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    kernel = draw(pairs)
    padding = tuple(draw(st.integers(0, size // 2)) for size in kernel)
    sizes = [draw(st.integers(kernel[axis], 9)) for axis in range(2)]
    attrs = {"kernel": kernel, "stride": draw(pairs), "padding": padding, "ceil_mode": draw(st.booleans())}
    return {"size": (draw(st.integers(1, 40)), *sizes), "attrs": attrs}


@settings(max_examples=60)
@given(window=windows(), dilation=pairs, images=st.integers(1, 3))
def test_max_pool(window: dict[str, Any], dilation: tuple[int, int], images: int):
    channels, *sizes = window["size"]
    attrs = window["attrs"]
    grown = [
        size + (pace - 1) * (width - 1) for size, pace, width in zip(sizes, dilation, attrs["kernel"], strict=True)
    ]
    b = Builder(channels, *grown)
    equal(b, b.add("max_pool2d", "x", dilation=dilation, **attrs), images)


@settings(max_examples=60)
@given(window=windows(), include=st.booleans(), images=st.integers(1, 3))
def test_average_pool(window: dict[str, Any], include: bool, images: int):
    b = Builder(*window["size"])
    equal(b, b.add("avg_pool2d", "x", count_include_pad=include, **window["attrs"]), images)


def test_maximum_and_average_keep_nan():
    for op in ("max_pool2d", "avg_pool2d"):
        b = Builder(3, 4, 4)
        graph = b.graph(b.add(op, "x", kernel=(2, 2), stride=(2, 2)))
        x = b.batch(1)
        x[0, 1, 0, 1] = x[0, 2, 3, 2] = np.nan
        is_nan = np.isnan(Model(graph)(x))
        assert is_nan[0, 1, 0, 0]
        assert is_nan[0, 2, 1, 1]
        assert is_nan.sum() == 2


@settings(max_examples=30)
@given(size=st.tuples(st.integers(1, 40), st.integers(1, 9), st.integers(1, 9)), stride=pairs)
def test_subsample_and_global_average(size: tuple[int, int, int], stride: tuple[int, int]):
    b = Builder(*size)
    equal(b, b.add("global_avg_pool", b.add("subsample", "x", stride=stride)))


@settings(max_examples=60)
@given(
    size=st.sampled_from([(1,), (7,), (33,), (5, 6), (17, 3, 2)]),
    ops=st.lists(st.sampled_from(["affine", "prelu", "single", "relu", "hardtanh", "add", "twice"]), max_size=6),
    seed=st.integers(0, 99),
)
def test_chains_of_elementwise_nodes_are_exact(size: tuple[int, ...], ops: list[str], seed: int):
    b = Builder(*size, seed=seed)
    value = b.add("hardtanh", "x", min=-0.5, max=2.0)
    for op in ops:
        if op in ("affine", "prelu"):
            value = getattr(b, op)(value)
        elif op == "single":
            value = b.prelu(value, single=True)
        elif op == "add":
            value = b.add("add", "x", value)
        elif op == "twice":
            value = b.add("add", value, value)
        else:
            value = b.add(op, value)
    equal(b, value, images=5)
    equal(b, b.sign(value, shifted=True), images=5)
