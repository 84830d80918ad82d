"""Translate every packed op to ONNX operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zerocross.export.onnx.writer import OnnxWriter
from zerocross.runtime.format import real_weight, weight_signs
from zerocross.runtime.graph import Graph, Node
from zerocross.runtime.infer import Value
from zerocross.runtime.plan import MAX_BYTE_TERMS

LARGEST = 2**31 - 1


@dataclass(frozen=True)
class OnnxNode:
    """One node of a packed graph, and the shapes and kinds of all values."""

    graph: Graph
    node: Node
    values: dict[str, Value]
    writer: OnnxWriter

    @property
    def x(self) -> str:
        """Name of its first input."""
        return self.node.inputs[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of its first input, without the batch dimension."""
        return self.values[self.x].shape

    def vector(self, role: str, name: str = "") -> str:
        """Add the node's vector of this role as a constant that broadcasts over its output; return its name."""
        return self.channels(self.graph.tensors[self.node.tensors[role]], name or role)

    def channels(self, vector: np.ndarray, name: str) -> str:
        """Add one number per channel as a constant that broadcasts over the node's output; return its name."""
        ends = (1,) * (len(self.values[self.node.output].shape) - 1)
        return self.writer.constant(f"{self.node.output}/{name}", vector.reshape(1, -1, *ends))


def _conv(c: OnnxNode) -> None:
    attrs, node, w = c.node.attrs, c.node, c.writer
    binary = node.op == "binary_conv2d"
    x, pads = c.x, (*attrs["padding"], *attrs["padding"])
    if binary and attrs["pad_value"] == 1 and any(pads):
        x, pads = _padded(c, pads, 1.0), (0, 0, 0, 0)
    scale, bias = (c.graph.tensor(node, role) for role in ("weight_scale", "bias"))
    unit = ""
    if _on_codes(c):
        x, unit = _codes(c)
    inputs = [x, _weight(c, binary=binary)]
    scaled = scale is not None and (_bits(c) or bool(unit))
    if bias is not None and not scaled:
        inputs.append(w.constant(f"{node.output}/bias", bias))
    output = w.name(f"{node.output}/Conv") if scaled else node.output
    w.add(
        "Conv", inputs, output, kernel_shape=attrs["shape"][2:], strides=attrs["stride"], pads=pads,
        dilations=attrs["dilation"], group=attrs["groups"],
    )  # fmt: skip
    if scale is not None and scaled:
        _scaled(c, output, scale, bias, unit)


def _linear(c: OnnxNode) -> None:
    node, w = c.node, c.writer
    binary = node.op == "binary_linear"
    scale, bias = (c.graph.tensor(node, role) for role in ("weight_scale", "bias"))
    x, unit = _codes(c) if _on_codes(c) else (c.x, "")
    scaled = scale is not None and (_bits(c) or bool(unit))
    product = w.name(f"{node.output}/MatMul") if scaled or bias is not None else node.output
    w.add("MatMul", [x, _weight(c, binary=binary)], product)
    if scale is not None and scaled:
        _scaled(c, product, scale, bias, unit)
    elif bias is not None:
        w.add("Add", [product, c.channels(bias, "bias")], node.output)


def _bits(c: OnnxNode) -> bool:
    """Return True if the weights of a layer are stored as bits."""
    return c.graph.tensors[c.node.tensors["weight"]].dtype == np.uint8


def _on_codes(c: OnnxNode) -> bool:
    """Return True if a layer multiplies integers, as the packed runtime does with int8 weights."""
    weight = c.graph.tensors[c.node.tensors["weight"]]
    return weight.dtype == np.int8 and c.node.attrs.get("groups", 1) == 1 and weight[0].size <= MAX_BYTE_TERMS


def _codes(c: OnnxNode) -> tuple[str, str]:
    """Return the input as integers within -127..127, and the scale of each sample."""
    w, near = c.writer, c.node.output
    axes = list(range(1, len(c.shape) + 1))
    largest = w.step("ReduceMax", [w.step("Abs", [c.x], near)], near, axes=axes, keepdims=1)
    most = w.constant("code_limit", 127.0)
    inverse = w.step("Div", [most, w.step("Max", [largest, w.constant("least", 1e-30)], near)], near)  # zeros stay 0
    codes = w.step("Round", [w.step("Mul", [c.x, inverse], near)], near)
    return codes, w.step("Div", [largest, most], near)


def _weight(c: OnnxNode, *, binary: bool) -> str:
    """Return the weight of a layer; for a linear layer in the shape (inputs, outputs)."""
    bits = binary or _bits(c)
    load = weight_signs if bits else _stored_weight if _on_codes(c) else real_weight
    weight = load(c.graph, c.node)
    weight = weight.T if weight.ndim == 2 else weight
    if bits:
        return c.writer.binary_weight(weight, c.node.output)
    return c.writer.constant(f"{c.node.output}/weight", weight)


def _stored_weight(graph: Graph, node: Node) -> np.ndarray:
    return graph.tensors[node.tensors["weight"]].astype(np.float32)


def _scaled(c: OnnxNode, x: str, scale: np.ndarray, bias: np.ndarray | None, unit: str = "") -> None:
    """Write x * unit * scale + bias, for a layer whose weights are bits or integers."""
    x = c.writer.step("Mul", [x, unit], c.node.output) if unit else x
    product = c.node.output if bias is None else c.writer.name(f"{c.node.output}/scaled")
    c.writer.add("Mul", [x, c.channels(scale, "weight_scale")], product)
    if bias is not None:
        c.writer.add("Add", [product, c.channels(bias, "bias")], c.node.output)


def _padded(c: OnnxNode, pads: tuple[int, ...], value: float) -> str:
    """Return the input with its images padded by `value`."""
    top, left, bottom, right = pads
    around = c.writer.constant("pads", [0, 0, top, left, 0, 0, bottom, right], np.int64)
    return c.writer.step("Pad", [c.x, around, c.writer.constant("padding", value)], c.node.output)


def _sign(c: OnnxNode) -> None:
    x = c.x
    if c.graph.tensor(c.node, "shift") is not None:
        x = c.writer.step("Add", [x, c.vector("shift")], c.node.output)
    c.writer.sign(x, c.node.output)


def _threshold(c: OnnxNode) -> None:
    """Write [sum >= t], or [sum <= t] if the direction is -1, as the sign of direction * (sum - t)."""
    threshold, direction = (c.graph.tensors[c.node.tensors[role]] for role in ("threshold", "direction"))
    near = c.node.output
    # Sums are far below 2 ** 24, so thresholds that float32 cannot represent are never reached.
    limits = np.clip(threshold.astype(np.float64), -(2.0**24), 2.0**24)
    x = c.writer.step("Sub", [c.x, c.channels(limits, "threshold")], near)
    if (direction < 0).any():
        x = c.writer.step("Mul", [x, c.channels(direction, "direction")], near)
    c.writer.sign(x, near)


def _affine(c: OnnxNode) -> None:
    product = c.writer.step("Mul", [c.x, c.vector("scale")], c.node.output)
    c.writer.add("Add", [product, c.vector("shift")], c.node.output)


def _prelu(c: OnnxNode) -> None:
    slope = c.graph.tensors[c.node.tensors["slope"]]
    full = np.broadcast_to(slope, c.shape[0]).reshape(-1, *(1,) * (len(c.shape) - 1))
    c.writer.add("PRelu", [c.x, c.writer.constant(f"{c.node.output}/slope", full)], c.node.output)


def _hardtanh(c: OnnxNode) -> None:
    limits = [c.writer.constant(f"{c.node.output}/{end}", c.node.attrs[end]) for end in ("min", "max")]
    c.writer.add("Clip", [c.x, *limits], c.node.output)


def _plain(op: str, **attrs: int) -> Callable[[OnnxNode], None]:
    def write(c: OnnxNode) -> None:
        c.writer.add(op, c.node.inputs, c.node.output, **attrs)

    return write


def _windows(c: OnnxNode) -> tuple[int, int, int, int]:
    """Return the padding on all four sides with which every window fits, including the last ones of ceil mode."""
    attrs, ends = c.node.attrs, []
    counts = c.values[c.node.output].shape[1:]
    dilation = attrs.get("dilation", (1, 1))
    for axis in range(2):
        span = (counts[axis] - 1) * attrs["stride"][axis] + dilation[axis] * (attrs["kernel"][axis] - 1) + 1
        ends.append(max(attrs["padding"][axis], span - c.shape[1 + axis] - attrs["padding"][axis]))
    return *attrs["padding"], ends[0], ends[1]


def _max_pool(c: OnnxNode) -> None:
    attrs, pads, x = c.node.attrs, _windows(c), c.x
    if any(pad >= size for pad, size in zip(pads, attrs["kernel"] * 2, strict=True)):  # more than runtimes allow
        x, pads = _padded(c, pads, -math.inf), (0, 0, 0, 0)
    c.writer.add(
        "MaxPool", [x], c.node.output, kernel_shape=attrs["kernel"], strides=attrs["stride"], pads=pads,
        dilations=attrs["dilation"],
    )  # fmt: skip


def _avg_pool(c: OnnxNode) -> None:
    attrs, pads = c.node.attrs, _windows(c)
    window = {"kernel_shape": attrs["kernel"], "strides": attrs["stride"]}
    if pads[:2] == pads[2:] and all(pad < size for pad, size in zip(pads, attrs["kernel"] * 2, strict=True)):
        include = int(attrs["count_include_pad"])
        c.writer.add("AveragePool", [c.x], c.node.output, pads=pads, count_include_pad=include, **window)
        return
    # Windows of ceil mode reach beyond the padding: write out the divisors that PyTorch uses.
    padded = _padded(c, pads, 0.0)
    mean = c.writer.step("AveragePool", [padded], c.node.output, **window)
    sides = [_divisors(c, axis) for axis in range(2)]
    factor = math.prod(attrs["kernel"]) / np.outer(*sides)
    c.writer.add("Mul", [mean, c.writer.constant(f"{c.node.output}/factor", factor[None, None])], c.node.output)


def _divisors(c: OnnxNode, axis: int) -> np.ndarray:
    attrs, size = c.node.attrs, c.shape[1 + axis]
    kernel, stride, pad = (attrs[name][axis] for name in ("kernel", "stride", "padding"))
    begin = np.arange(c.values[c.node.output].shape[1 + axis]) * stride - pad
    if attrs["count_include_pad"]:
        return np.minimum(begin + kernel, size + pad) - begin
    return np.minimum(begin + kernel, size) - np.maximum(begin, 0)


def _global_avg_pool(c: OnnxNode) -> None:
    c.writer.add("Flatten", [c.writer.step("GlobalAveragePool", [c.x], c.node.output)], c.node.output, axis=1)


def _subsample(c: OnnxNode) -> None:
    parts = {"starts": (0, 0), "ends": (LARGEST, LARGEST), "axes": (2, 3), "steps": c.node.attrs["stride"]}
    inputs = [c.writer.constant(name, numbers, np.int64) for name, numbers in parts.items()]
    c.writer.add("Slice", [c.x, *inputs], c.node.output)


def _pad_channels(c: OnnxNode) -> None:
    rest = [0] * (len(c.shape) - 1)
    pads = [0, c.node.attrs["before"], *rest, 0, c.node.attrs["after"], *rest]
    inputs = [c.writer.constant("pads", pads, np.int64), c.writer.constant("zero", 0.0)]
    c.writer.add("Pad", [c.x, *inputs], c.node.output)


OPERATORS: dict[str, Callable[[OnnxNode], None]] = {
    "conv2d": _conv,
    "linear": _linear,
    "sign": _sign,
    "binary_conv2d": _conv,
    "binary_linear": _linear,
    "threshold": _threshold,
    "affine": _affine,
    "prelu": _prelu,
    "relu": _plain("Relu"),
    "hardtanh": _hardtanh,
    "add": _plain("Add"),
    "concat": _plain("Concat", axis=1),
    "avg_pool2d": _avg_pool,
    "max_pool2d": _max_pool,
    "global_avg_pool": _global_avg_pool,
    "flatten": _plain("Flatten", axis=1),
    "subsample": _subsample,
    "pad_channels": _pad_channels,
}
