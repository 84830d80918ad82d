"""Infer the shape and kind of every value of a packed network, with one rule per op, and check the whole graph.

Shapes omit the batch dimension. The kind is "real" (float32), "bits" (-1 and +1: from a sign or a threshold, possibly
flattened) or "sums" (integers: from a binary layer, possibly max-pooled, subsampled or flattened). An op on real values
also accepts bits and sums, as the numbers that they represent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zerocross.runtime.graph import MAX_SIZE, Graph, Node, Shape, checked_nodes, short

MAX_ELEMENTS = 1 << 26  # per activation and sample: 256 MB of float32


@dataclass(frozen=True)
class Value:
    """An activation: its shape without N, and its kind: "real", "bits" or "sums"."""

    shape: Shape
    kind: str = "real"


def check(graph: Graph) -> Graph:
    """Check a graph and return it with all attributes filled in; a ValueError names the invalid node and the reason."""
    filled = replace(graph, nodes=checked_nodes(graph.nodes))
    values = infer(filled)
    _check_use(filled, values)
    return filled


def infer(graph: Graph) -> dict[str, Value]:
    """Return the shape and kind of every value, in the order of the nodes; all attributes must be filled in."""
    if not 1 <= len(graph.input_size) <= 3:
        raise ValueError(f"input_size is {graph.input_size}; it must have 1 to 3 dimensions")
    values: dict[str, Value] = {}
    for node in graph.nodes:
        operands = []
        for name in node.inputs:
            if name not in values:
                raise ValueError(f"node {node.output!r}: input {short(name)} is not the output of an earlier node")
            operands.append(values[name])
        if node.output in values:
            raise ValueError(f"two nodes are named {node.output!r}")
        try:
            value = Value(tuple(graph.input_size)) if node.op == "input" else _RULES[node.op](node, operands, graph)
            _check_shape(value.shape)
        except ValueError as error:
            raise ValueError(f"node {node.output!r} ({node.op}): {error}") from None
        values[node.output] = value
    if graph.output not in values:
        raise ValueError(f"the graph's output {short(graph.output)} is not the output of a node")
    return values


def _check_use(graph: Graph, values: Mapping[str, Value]) -> None:
    """Check that every value and tensor is used, and that each output has a class name if there are any."""
    used = {name for node in graph.nodes for name in node.inputs} | {graph.output}
    if idle := [name for name in values if name not in used]:
        raise ValueError(f"the value of node {idle[0]!r} is never used")
    referred = {key for node in graph.nodes for key in node.tensors.values()}
    if idle := [key for key in graph.tensors if key not in referred]:
        raise ValueError(f"tensor {short(idle[0])} is never used")
    if graph.classes and values[graph.output].shape != (len(graph.classes),):
        raise ValueError(f"{len(graph.classes)} class names for an output of shape {values[graph.output].shape}")
    if graph.preprocessing is not None:
        graph.preprocessing.check(graph.input_size)


def _check_shape(shape: Shape) -> None:
    if not all(1 <= size <= MAX_SIZE for size in shape) or math.prod(shape) > MAX_ELEMENTS:
        raise ValueError(
            f"a value has shape {shape}; sizes must be within 1..{MAX_SIZE}, and their product at most {MAX_ELEMENTS}"
        )


def _tensor(graph: Graph, node: Node, role: str, dtypes: Sequence[str], shapes: Sequence[Shape]) -> np.ndarray | None:
    key = node.tensors.get(role)
    if key is None:
        return None
    array = graph.tensors.get(key)
    if array is None:
        raise ValueError(f"tensor {short(key)} ({role}) is not in the file")
    if array.dtype.name not in dtypes or array.shape not in shapes:
        wanted = " or ".join(str(shape) for shape in dict.fromkeys(shapes))
        raise ValueError(
            f"{role} is {array.dtype.name} of shape {array.shape}; it must be {' or '.join(dtypes)} of shape {wanted}"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{role} contains values that are not finite")
    return array


def _vector(graph: Graph, node: Node, role: str, size: int, *, single: bool = False) -> None:
    _tensor(graph, node, role, ("float32",), ((size,), (1,)) if single else ((size,),))


def _bits(graph: Graph, node: Node) -> None:
    count = math.prod(node.attrs["shape"])
    packed = _tensor(graph, node, "weight", ("uint8",), ((-(-count // 8),),))
    if packed is not None and count % 8 and int(packed[-1]) >> count % 8:
        raise ValueError("the unused bits in the last byte of weight must be 0")


def _weight(graph: Graph, node: Node) -> None:
    """Check weights and bias of a real layer: float32, float16, int8 with a scale per output, or bits."""
    outputs = node.attrs["shape"][0]
    dtype = graph.tensors[node.tensors["weight"]].dtype.name if node.tensors["weight"] in graph.tensors else ""
    if dtype == "uint8":
        _bits(graph, node)
    else:
        _tensor(graph, node, "weight", ("float32", "float16", "int8", "uint8"), (node.attrs["shape"],))
    if dtype.startswith("float") and "weight_scale" in node.tensors:
        raise ValueError(f"weight_scale must not be given for {dtype} weights")
    if dtype == "int8" and "weight_scale" not in node.tensors:
        raise ValueError("weight_scale is missing: int8 weights need one per output")
    _vector(graph, node, "weight_scale", outputs)
    _vector(graph, node, "bias", outputs)


def _image(shape: Shape) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise ValueError(f"its input has shape {shape}; it must be (channels, height, width)")
    return shape[0], shape[1], shape[2]


def _conv_shape(node: Node, shape: Shape) -> Shape:
    channels, *sizes = _image(shape)
    outputs, inputs, *kernel = node.attrs["shape"]
    groups = node.attrs["groups"]
    if channels != inputs * groups or outputs % groups:
        raise ValueError(f"a weight of shape {node.attrs['shape']} in {groups} groups does not fit {channels} channels")
    return outputs, *_windows(sizes, kernel, node)


def _windows(sizes: Sequence[int], kernel: Sequence[int], node: Node) -> list[int]:
    """Return the number of windows along each axis, computed as in PyTorch."""
    attrs, counts = node.attrs, []
    dilations = attrs.get("dilation", (1, 1))
    for size, width, stride, pad, dilation in zip(
        sizes, kernel, attrs["stride"], attrs["padding"], dilations, strict=True
    ):
        room = size + 2 * pad - dilation * (width - 1) - 1
        if room < 0:
            raise ValueError(f"a window of {width} (dilation {dilation}) does not fit {size} + 2 x {pad} pixels")
        count = room // stride + 1
        if attrs.get("ceil_mode") and room % stride and count * stride < size + pad:
            count += 1  # a last window that starts inside the image or in its left padding
        counts.append(count)
    return counts


def _conv(node: Node, operands: list[Value], graph: Graph) -> Value:
    _weight(graph, node)
    return Value(_conv_shape(node, operands[0].shape))


def _binary_conv(node: Node, operands: list[Value], graph: Graph) -> Value:
    _require_bits(operands[0])
    _bits(graph, node)
    return Value(_conv_shape(node, operands[0].shape), "sums")


def _features(node: Node, shape: Shape) -> Shape:
    outputs, inputs = node.attrs["shape"]
    if shape != (inputs,):
        raise ValueError(f"its input has shape {shape}, but its weight has {inputs} inputs")
    return (outputs,)


def _linear(node: Node, operands: list[Value], graph: Graph) -> Value:
    _weight(graph, node)
    return Value(_features(node, operands[0].shape))


def _binary_linear(node: Node, operands: list[Value], graph: Graph) -> Value:
    _require_bits(operands[0])
    _bits(graph, node)
    return Value(_features(node, operands[0].shape), "sums")


def _require_bits(value: Value) -> None:
    if value.kind != "bits":
        raise ValueError(f"its input is {value.kind}; a binary layer needs bits, from a sign or a threshold")


def _sign(node: Node, operands: list[Value], graph: Graph) -> Value:
    _vector(graph, node, "shift", operands[0].shape[0])
    return Value(operands[0].shape, "bits")


def _threshold(node: Node, operands: list[Value], graph: Graph) -> Value:
    if operands[0].kind != "sums":
        raise ValueError(f"its input is {operands[0].kind}; a threshold needs the sums of a binary layer")
    size = (operands[0].shape[0],)
    _tensor(graph, node, "threshold", ("int32",), (size,))
    direction = _tensor(graph, node, "direction", ("int8",), (size,))
    if direction is None or not (np.abs(direction) == 1).all():
        raise ValueError("direction must contain only -1 and +1")
    return Value(operands[0].shape, "bits")


def _affine(node: Node, operands: list[Value], graph: Graph) -> Value:
    for role in ("scale", "shift"):
        _vector(graph, node, role, operands[0].shape[0])
    return Value(operands[0].shape)


def _prelu(node: Node, operands: list[Value], graph: Graph) -> Value:
    _vector(graph, node, "slope", operands[0].shape[0], single=True)
    return Value(operands[0].shape)


def _hardtanh(node: Node, operands: list[Value], graph: Graph) -> Value:  # noqa: ARG001 - every rule takes all three
    if node.attrs["min"] > node.attrs["max"]:
        raise ValueError(f"min = {node.attrs['min']} is above max = {node.attrs['max']}")
    return Value(operands[0].shape)


def _add(node: Node, operands: list[Value], graph: Graph) -> Value:  # noqa: ARG001
    if operands[0].shape != operands[1].shape:
        raise ValueError(f"shapes {operands[0].shape} and {operands[1].shape} cannot be added")
    return Value(operands[0].shape)


def _concat(node: Node, operands: list[Value], graph: Graph) -> Value:  # noqa: ARG001
    if len({value.shape[1:] for value in operands}) != 1:
        raise ValueError(f"shapes {[value.shape for value in operands][:4]} differ beyond their channels")
    return Value((sum(value.shape[0] for value in operands), *operands[0].shape[1:]))


def _pool(node: Node, operands: list[Value], graph: Graph) -> Value:  # noqa: ARG001
    channels, *sizes = _image(operands[0].shape)
    for width, pad in zip(node.attrs["kernel"], node.attrs["padding"], strict=True):
        if pad > width // 2:
            raise ValueError(f"padding {pad} is more than half of the window {width}")
    sums = node.op == "max_pool2d" and operands[0].kind == "sums"
    return Value((channels, *_windows(sizes, node.attrs["kernel"], node)), "sums" if sums else "real")


def _global_avg_pool(node: Node, operands: list[Value], graph: Graph) -> Value:  # noqa: ARG001
    return Value(_image(operands[0].shape)[:1])


def _flatten(node: Node, operands: list[Value], graph: Graph) -> Value:  # noqa: ARG001
    return Value((math.prod(operands[0].shape),), operands[0].kind)


def _subsample(node: Node, operands: list[Value], graph: Graph) -> Value:  # noqa: ARG001
    channels, *sizes = _image(operands[0].shape)
    kept = [-(-size // stride) for size, stride in zip(sizes, node.attrs["stride"], strict=True)]
    return Value((channels, *kept), "sums" if operands[0].kind == "sums" else "real")


def _pad_channels(node: Node, operands: list[Value], graph: Graph) -> Value:  # noqa: ARG001
    channels, *rest = operands[0].shape
    return Value((channels + node.attrs["before"] + node.attrs["after"], *rest))


def _same(node: Node, operands: list[Value], graph: Graph) -> Value:  # noqa: ARG001
    return Value(operands[0].shape)


_RULES: dict[str, Callable[[Node, list[Value], Graph], Value]] = {
    "conv2d": _conv,
    "linear": _linear,
    "sign": _sign,
    "binary_conv2d": _binary_conv,
    "binary_linear": _binary_linear,
    "threshold": _threshold,
    "affine": _affine,
    "prelu": _prelu,
    "relu": _same,
    "hardtanh": _hardtanh,
    "add": _add,
    "concat": _concat,
    "avg_pool2d": _pool,
    "max_pool2d": _pool,
    "global_avg_pool": _global_avg_pool,
    "flatten": _flatten,
    "subsample": _subsample,
    "pad_channels": _pad_channels,
}
