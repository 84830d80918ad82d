"""The naive twin of the runtime: interprets a packed graph node by node, in plain numpy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from zerocross.runtime.format import real_weight, weight_signs
from zerocross.runtime.graph import Graph, Node

Array = np.ndarray


def interpret(graph: Graph, x: Array) -> dict[str, Array]:
    """Return every value of the graph for a batch: bits as -1 and +1, real values as float32."""
    values: dict[str, Array] = {}
    for node in graph.nodes:
        given = [values[name] for name in node.inputs]
        tensors = {role: graph.tensors[key] for role, key in node.tensors.items()}
        values[node.output] = x if node.op == "input" else OPS[node.op](graph, node, tensors, *given)
    return values


def taps(x: Array, node: Node, kernel: tuple[int, int], fill: float) -> list[tuple[tuple[int, int], Array]]:
    """Return for every tap of a window the pixels at that tap, (N, C, windows down, windows across)."""
    attrs = node.attrs
    stride, dilation = attrs["stride"], attrs.get("dilation", (1, 1))
    padding = attrs.get("padding", (0, 0))
    counts = []
    for axis in range(2):
        room = x.shape[2 + axis] + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1
        count = room // stride[axis] + 1
        if attrs.get("ceil_mode") and room % stride[axis] and count * stride[axis] < x.shape[2 + axis] + padding[axis]:
            count += 1
        counts.append(count)
    results = []
    for place in product(range(kernel[0]), range(kernel[1])):
        pixels = np.full((*x.shape[:2], *counts), fill, x.dtype)
        for y, column in product(range(counts[0]), range(counts[1])):
            at = [
                number * stride[axis] - padding[axis] + place[axis] * dilation[axis]
                for axis, number in enumerate((y, column))
            ]
            if 0 <= at[0] < x.shape[2] and 0 <= at[1] < x.shape[3]:
                pixels[:, :, y, column] = x[:, :, at[0], at[1]]
        results.append((place, pixels))
    return results


def convolve(x: Array, weight: Array, node: Node, fill: float) -> Array:
    """A grouped convolution, tap by tap."""
    groups = node.attrs["groups"]
    outputs, inputs = weight.shape[:2]
    each = outputs // groups
    total: Any = 0
    for (ky, kx), pixels in taps(x, node, weight.shape[2:], fill):
        parts = [
            np.einsum(
                "oi,nihw->nohw",
                weight[g * each : (g + 1) * each, :, ky, kx],
                pixels[:, g * inputs : (g + 1) * inputs],
            )
            for g in range(groups)
        ]
        total = total + np.concatenate(parts, 1)
    return total


def per_channel(vector: Array, x: Array) -> Array:
    return vector.reshape(-1, *(1,) * (x.ndim - 2))


def codes(x: Array) -> tuple[Array, Array]:
    """Return activations as integers within -127..127, and the scale of each image."""
    most = np.abs(x.astype(np.float32)).reshape(len(x), -1).max(axis=1).reshape(-1, *(1,) * (x.ndim - 1))
    inverse = np.divide(np.float32(127), most, out=np.zeros_like(most), where=most > 0)
    return np.rint(x.astype(np.float32) * inverse).astype(np.int64), most / np.float32(127)


def on_bytes(tensors: dict[str, Array], sums: Array, scale: Array) -> Array:
    """Convert sums of products of codes and 8-bit weights to real numbers."""
    out = sums.astype(np.float32) * scale.reshape(-1, *(1,) * (sums.ndim - 1))
    return _biased(out * per_channel(tensors["weight_scale"], out), tensors)


def conv2d(graph: Graph, node: Node, tensors: dict[str, Array], x: Array) -> Array:
    if tensors["weight"].dtype == np.int8 and node.attrs["groups"] == 1:
        given, scale = codes(x)
        return on_bytes(tensors, convolve(given, tensors["weight"].astype(np.int64), node, 0), scale)
    out = convolve(x.astype(np.float64), real_weight(graph, node).astype(np.float64), node, 0)
    return _biased(out.astype(np.float32), tensors)


def linear(graph: Graph, node: Node, tensors: dict[str, Array], x: Array) -> Array:
    if tensors["weight"].dtype == np.int8:
        given, scale = codes(x)
        return on_bytes(tensors, given @ tensors["weight"].astype(np.int64).T, scale)
    out = x.astype(np.float64) @ real_weight(graph, node).astype(np.float64).T
    return _biased(out.astype(np.float32), tensors)


def _biased(out: Array, tensors: dict[str, Array]) -> Array:
    return out + per_channel(tensors["bias"], out) if "bias" in tensors else out


def binary_conv2d(graph: Graph, node: Node, tensors: dict[str, Array], x: Array) -> Array:
    return convolve(x.astype(np.int64), weight_signs(graph, node).astype(np.int64), node, node.attrs["pad_value"])


def binary_linear(graph: Graph, node: Node, tensors: dict[str, Array], x: Array) -> Array:
    return x.astype(np.int64) @ weight_signs(graph, node).astype(np.int64).T


def sign(graph: Graph, node: Node, tensors: dict[str, Array], x: Array) -> Array:
    x = x.astype(np.float32)
    shifted = x + per_channel(tensors["shift"], x) if "shift" in tensors else x
    return np.where(shifted >= 0, 1, -1)


def threshold(graph: Graph, node: Node, tensors: dict[str, Array], x: Array) -> Array:
    limit = per_channel(tensors["threshold"].astype(np.int64), x)
    rising = per_channel(tensors["direction"], x) > 0
    return np.where(np.where(rising, x >= limit, x <= limit), 1, -1)


def affine(graph: Graph, node: Node, tensors: dict[str, Array], x: Array) -> Array:
    x = x.astype(np.float32)
    return x * per_channel(tensors["scale"], x) + per_channel(tensors["shift"], x)


def prelu(graph: Graph, node: Node, tensors: dict[str, Array], x: Array) -> Array:
    x = x.astype(np.float32)
    return np.where(x >= 0, x, x * per_channel(tensors["slope"], x))


def relu(graph: Graph, node: Node, tensors: dict[str, Array], x: Array) -> Array:
    return np.maximum(x.astype(np.float32), np.float32(0))


def hardtanh(graph: Graph, node: Node, tensors: dict[str, Array], x: Array) -> Array:
    return np.clip(x.astype(np.float32), np.float32(node.attrs["min"]), np.float32(node.attrs["max"]))


def add(graph: Graph, node: Node, tensors: dict[str, Array], x: Array, y: Array) -> Array:
    return x.astype(np.float32) + y.astype(np.float32)


def concat(graph: Graph, node: Node, tensors: dict[str, Array], *parts: Array) -> Array:
    return np.concatenate([part.astype(np.float32) for part in parts], 1)


def max_pool2d(graph: Graph, node: Node, tensors: dict[str, Array], x: Array) -> Array:
    places = taps(x.astype(np.float32), node, node.attrs["kernel"], -np.inf)
    return np.max([pixels for _, pixels in places], axis=0)


def avg_pool2d(graph: Graph, node: Node, tensors: dict[str, Array], x: Array) -> Array:
    x = x.astype(np.float32)
    kernel, stride, padding = (node.attrs[name] for name in ("kernel", "stride", "padding"))
    total = np.float32(0)
    for _, pixels in taps(x, node, kernel, 0):
        total = total + pixels
    sides = []
    for axis, count in enumerate(total.shape[2:]):
        begin = np.arange(count) * stride[axis] - padding[axis]
        size, pad = x.shape[2 + axis], padding[axis]
        if node.attrs["count_include_pad"]:
            sides.append(np.minimum(begin + kernel[axis], size + pad) - begin)
        else:
            sides.append(np.minimum(begin + kernel[axis], size) - np.maximum(begin, 0))
    return total / np.outer(*sides).astype(np.float32)


def global_avg_pool(graph: Graph, node: Node, tensors: dict[str, Array], x: Array) -> Array:
    total = np.zeros(x.shape[:2], np.float32)
    for y, column in product(range(x.shape[2]), range(x.shape[3])):
        total = total + x[:, :, y, column].astype(np.float32)
    return total / np.float32(x.shape[2] * x.shape[3])


def flatten(graph: Graph, node: Node, tensors: dict[str, Array], x: Array) -> Array:
    return x.reshape(len(x), -1)


def subsample(graph: Graph, node: Node, tensors: dict[str, Array], x: Array) -> Array:
    down, across = node.attrs["stride"]
    return x[:, :, ::down, ::across]


def pad_channels(graph: Graph, node: Node, tensors: dict[str, Array], x: Array) -> Array:
    around = [(0, 0), (node.attrs["before"], node.attrs["after"]), *[(0, 0)] * (x.ndim - 2)]
    return np.pad(x.astype(np.float32), around)


OPS: dict[str, Callable[..., Array]] = {
    function.__name__: function
    for function in (
        conv2d, linear, sign, binary_conv2d, binary_linear, threshold, affine, prelu, relu, hardtanh, add, concat,
        avg_pool2d, max_pool2d, global_avg_pool, flatten, subsample, pad_channels,
    )
}  # fmt: skip
