"""Plan the steps of a network: the kernel, the buffers and the constants of each group of nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from zerocross.runtime.bounds import PLANNED_STEP_BYTES, binary_bytes, byte_bytes, check_memory, real_bytes
from zerocross.runtime.format import real_weight, weight_signs
from zerocross.runtime.fuse import Group, fuse, simplify
from zerocross.runtime.geometry import (
    ConvGeometry,
    Fields,
    image_shape,
    is_depthwise,
    outside_strides,
    strides,
    suits_lines_of_bytes,
    suits_winograd,
    target_fields,
    window_fields,
)
from zerocross.runtime.graph import Graph, Node
from zerocross.runtime.infer import Value
from zerocross.runtime.kernels.points import OUTPUTS, POINTS, SUM_BYTES, TERMS, transform_weights
from zerocross.runtime.kernels.steps import LANES, TILED, EpilogueOp, Rows, Space, StepKind, Window
from zerocross.runtime.layout import (
    binary_panels,
    bits_pitch,
    border_bases,
    by_panel,
    byte_panels,
    depthwise_panels,
    real_panels,
    round_up,
    row_panels,
    spread,
)
from zerocross.runtime.program import Buffer, PlannedStep, aligned
from zerocross.runtime.stages import Stage, merge_stages

MAX_BYTE_TERMS = (1 << 31) // (255 * 128)  # longest sum of products of bytes that always fits 32 bits
CODE_OF_ZERO = 128


@dataclass(frozen=True)
class Plan:
    """A network before memory is allocated: its steps, and the weights and parameters that they refer to."""

    steps: list[PlannedStep]
    constants: list[np.ndarray]
    bytes: int


def make_plan(graph: Graph, limit: int) -> Plan:
    """Plan a checked graph; raise a ValueError if planning it or its plan would take more than `limit` bytes."""
    return _Planner(*simplify(graph), limit).plan()


class _Planner:
    """State of planning: the steps and constants so far, and the buffers that hold each value."""

    def __init__(self, graph: Graph, values: dict[str, Value], limit: int) -> None:
        self.graph = graph
        self.makers = {node.output: node for node in graph.nodes}
        self.limit = limit
        self.bytes = 0  # of constants and planned steps
        self.values = values
        self.shapes = {name: image_shape(value.shape) for name, value in values.items()}
        self.steps: list[PlannedStep] = []
        self.reals: dict[str, Buffer] = {}
        self.bits: dict[str, Buffer] = {}
        self.bordered: dict[tuple[str, tuple[int, int]], Buffer] = {}
        self.bytes_of: dict[tuple[str, tuple[int, int]], tuple[Buffer, Buffer]] = {}
        self.constants: list[np.ndarray] = []

    def plan(self) -> Plan:
        self._import()
        for group in fuse(self.graph, self.values, fold=True):
            self._emit(group)
        self._export()
        return Plan(self.steps, self.constants, self.bytes)

    def _put(self, array: np.ndarray) -> int:
        """Store an array among the constants and return its address."""
        self._afford(array.nbytes, "the network")
        self.bytes += array.nbytes
        kept = aligned(array.nbytes)
        kept[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.constants.append(kept)
        return kept.ctypes.data

    def _afford(self, needed: int, what: str) -> None:
        check_memory(self.bytes + needed, self.limit, what)

    # ---- values in memory ---------------------------------------------------------------------------------------

    def _new_real(self, name: str, zeros: tuple[int, int] = (0, 0)) -> Buffer:
        if name not in self.reals:
            shape = self.shapes[name]
            self.reals[name] = Buffer("real", shape, 4 * round_up(shape[0], LANES), zeros=zeros)
        return self.reals[name]

    def _new_bits(self, name: str) -> Buffer:
        if name not in self.bits:
            users = [node for node in self.graph.nodes if name in node.inputs and node.op == "binary_conv2d"]
            border = tuple(max((node.attrs["padding"][axis] for node in users), default=0) for axis in range(2))
            fill = any(node.attrs["pad_value"] == 1 for node in users) and max(border) > 0
            shape = self.shapes[name]
            self.bits[name] = Buffer("bits", shape, bits_pitch(shape[0]), (border[0], border[1]), int(fill))
        return self.bits[name]

    def _real(self, name: str) -> Buffer:
        """Return the buffer of a value as float32; bits become -1 and +1."""
        if name not in self.reals:
            source, target = self.bits[name], self._new_real(name)
            self._add_step(
                StepKind.UNPACK, name, {"source": source.at(), **strides("source", source), **target_fields(target)}
            )
        return self.reals[name]

    def _packed(self, name: str) -> Buffer:
        """Return the buffer of a value as bits; flattened bits are stored as -1 and +1, and packed again here."""
        if name not in self.bits:
            fields = window_fields(self.reals[name], Window.MAX) | self._sign(name, None)
            self._add_step(StepKind.WINDOW, name, fields)
        return self.bits[name]

    def _padded(self, name: str, padding: tuple[int, int]) -> Buffer:
        """Return the buffer of a real value with a border of zeros."""
        if name == self.graph.nodes[0].output and name not in self.reals:
            return self.bordered[name, (0, 0)]
        source = self._real(name)
        if padding == (0, 0):
            return source
        if (name, padding) not in self.bordered:
            target = Buffer("real", source.shape, source.pitch, padding)
            self.bordered[name, padding] = target
            self._move(name, source, strides("source", source) | {"source_channel": 4}, target_fields(target))
        return self.bordered[name, padding]

    def _on_bytes(self, node: Node) -> bool:
        """Return True if a real layer is computed in 8 bits: its weights are int8, and its sums fit 32 bits."""
        if node.op not in ("conv2d", "linear") or node.attrs.get("groups", 1) != 1:
            return False
        weight = self.graph.tensors[node.tensors["weight"]]
        return weight.dtype == np.int8 and weight[0].size <= MAX_BYTE_TERMS

    def _codes(self, name: str, padding: tuple[int, int]) -> tuple[Buffer, Buffer]:
        """Return the buffer of a value as bytes, with a border of zeros (code 128), and the scale of each image."""
        if (name, padding) not in self.bytes_of:
            source = self._real(name)
            target = Buffer("bytes", source.shape, source.pitch // 4, padding, CODE_OF_ZERO)
            self._quantize(
                name, target, padding, {"source": source.at(), **strides("source", source), "source_channel": 4}
            )
        return self.bytes_of[name, padding]

    def _quantize(self, name: str, target: Buffer, padding: tuple[int, int], source_fields: Fields) -> None:
        scale = Buffer("real", (1, 1, 1), 4 * LANES)
        self.bytes_of[name, padding] = target, scale
        scale_fields = {"scale": scale.at(), "scale_image": scale.image}
        self._add_step(StepKind.QUANTIZE, name, source_fields | target_fields(target) | scale_fields)

    # ---- steps --------------------------------------------------------------------------------------------------

    def _add_step(
        self, kind: StepKind, like: str, fields: Fields, stages: list[tuple[int, int, Any, int]] | None = None
    ) -> None:
        """Add a step with the shape of the value `like`."""
        channels, height, width = self.shapes[like]
        self._afford(PLANNED_STEP_BYTES, "the network")
        self.bytes += PLANNED_STEP_BYTES
        base = {"kind": kind, "pixels": height * width, "width": width, "channels": channels}
        self.steps.append(PlannedStep({**base, "panels": -(-channels // LANES), **fields}, stages or ()))

    def _move(self, like: str, source: Buffer | None, source_fields: Fields, target_fields: Fields) -> None:
        at = {} if source is None else {"source": source.at()}
        self._add_step(StepKind.MOVE, like, {**at, **source_fields, **target_fields})

    def _import(self) -> None:
        """Copy the caller's (N, C, H, W) array to memory, with a border if only convolutions read it."""
        name = self.graph.nodes[0].output
        users = [node for node in self.graph.nodes if name in node.inputs]
        shape = self.shapes[name]
        outside = outside_strides("source", shape) | {"space_from": Space.OUTSIDE}
        if name != self.graph.output and len(users) == 1 and users[0].op == "conv2d" and self._on_bytes(users[0]):
            padding = users[0].attrs["padding"]
            self._quantize(name, Buffer("bytes", shape, shape[0], padding, CODE_OF_ZERO), padding, outside)
            return
        if name != self.graph.output and all(node.op == "conv2d" and not is_depthwise(node) for node in users):
            border = tuple(max(node.attrs["padding"][axis] for node in users) for axis in range(2))
            target = Buffer("real", shape, 4 * shape[0], (border[0], border[1]))
            self.bordered[name, (0, 0)] = target
            if all(self._suits_winograd(node, target) for node in users):  # they read the caller's array
                return
        else:
            target = self._new_real(name)
        self._move(name, None, outside, target_fields(target))

    def _suits_winograd(self, node: Node, source: Buffer) -> bool:
        return not self._on_bytes(node) and suits_winograd(ConvGeometry(node, source, self.shapes[node.output]))

    def _export(self) -> None:
        name = self.graph.output
        source = self._real(name)
        outside = outside_strides("target", self.shapes[name]) | {"space_to": Space.OUTSIDE}
        self._move(name, source, strides("source", source) | {"source_channel": 4}, outside)

    def _emit(self, group: Group) -> None:
        if group.op in ("concat", "pad_channels", "flatten"):
            self._emit_move(group)
            return
        make: dict[str, Callable[[Group], tuple[StepKind, Fields]]] = {
            "binary_conv2d": self._binary,
            "binary_linear": self._binary,
            "conv2d": self._conv,
            "linear": self._conv,
        }
        kind, fields = make.get(group.op, self._pool)(group)
        own = group.source if group.op == "identity" else group.node.output
        stages = self._stages(group, self.shapes[own][0])
        if group.real:
            target = self._new_real(group.result, self._zeros(group))
            fields |= {"real": target.at(extra=4 * group.channel), "real_pitch": target.pitch}
            if group.pooled:
                zeros = self._put(np.zeros(target.pitch // 4 + LANES, np.float32))
                fields |= {"pool": zeros, "pool_image": target.image, "pool_line": target.line}
        if group.sign is not None:
            fields |= self._sign(group.sign.output, group.sign, group.channel, self.shapes[own][0])
        self._add_step(kind, own, fields, stages)

    def _zeros(self, group: Group) -> tuple[int, int]:
        """Return the numbers of channels before and after that no group writes."""
        maker = self.makers[group.result]
        return (maker.attrs["before"], maker.attrs["after"]) if maker.op == "pad_channels" else (0, 0)

    def _emit_move(self, group: Group) -> None:
        source, target = self._real(group.source), self._new_real(group.result, self._zeros(group))
        if group.op == "flatten":
            fields = outside_strides("target", source.shape) | {"target": target.at(), "target_image": target.image}
        else:
            fields = target_fields(target, 4 * group.channel)
        self._move(group.source, source, strides("source", source) | {"source_channel": 4}, fields)

    def _sign(self, name: str, node: Node | None, channel: int = 0, channels: int | None = None) -> Fields:
        """Return the fields of a step that stores bits."""
        target = self._new_bits(name)
        channels = target.shape[0] if channels is None else channels
        shift = None if node is None or node.op != "sign" else self.graph.tensor(node, "shift")
        shift = np.zeros(target.shape[0]) if shift is None else shift
        # In float32, x + shift >= 0 exactly if x >= -shift. Bits beyond the last channel must be 0, whatever the value.
        least = by_panel([-shift[channel : channel + channels]], [math.nan])
        return {"bits": target.at(extra=channel // 8), **strides("bits", target), "least": self._put(least)}

    def _stages(self, group: Group, channels: int) -> list[tuple[int, int, Any, int]]:
        """Return the stages after a group's source: kind, parameters' address, offset and pitch of the added value."""
        stages: list[Stage] = []

        def put(stage: EpilogueOp, *vectors: Any) -> None:
            stages.append((stage, [np.broadcast_to(vector, channels) for vector in vectors], 0, 0))

        bias = self.graph.tensor(group.node, "bias") if group.op in ("conv2d", "linear") else None
        if self._on_bytes(group.node) and group.op != "identity":
            put(EpilogueOp.AFFINE, self.graph.tensor(group.node, "weight_scale"), 0.0 if bias is None else bias)
        elif bias is not None:
            put(EpilogueOp.AFFINE, 1.0, bias)
        for link in group.links:
            node, own = link.node, slice(link.channel, link.channel + channels)
            tensors = {role: self.graph.tensors[key] for role, key in node.tensors.items()}
            if node.op == "affine":
                put(EpilogueOp.AFFINE, tensors["scale"][own], tensors["shift"][own])
            elif node.op == "prelu":
                put(EpilogueOp.PRELU, tensors["slope"] if len(tensors["slope"]) == 1 else tensors["slope"][own])
            elif node.op == "relu":
                put(EpilogueOp.CLAMP, 0.0, math.inf)
            elif node.op == "hardtanh":
                put(EpilogueOp.CLAMP, node.attrs["min"], node.attrs["max"])
            elif link.other is not None:
                other = self._real(link.other)
                stages.append((EpilogueOp.ADD, [], other.at(extra=4 * link.channel), other.pitch))
        if group.sign is not None and group.sign.op == "threshold":
            direction = self.graph.tensors[group.sign.tensors["direction"]].astype(np.float32)
            put(EpilogueOp.AFFINE, direction, -direction * self.graph.tensors[group.sign.tensors["threshold"]])
        return [
            (kind, self._put(by_panel(vectors)) if vectors else 0, offset, pitch)
            for kind, vectors, offset, pitch in merge_stages(stages)
        ]

    # ---- sources ------------------------------------------------------------------------------------------------

    def _binary(self, group: Group) -> tuple[StepKind, Fields]:
        node, source = group.node, self._packed(group.source)
        conv = ConvGeometry(node, source, self.shapes[node.output])
        self._afford(binary_bytes(conv.shape, conv.groups, conv.outputs), f"node {node.output!r}")
        signs = weight_signs(self.graph, node).reshape(conv.shape)
        plain = conv.plain
        panels = binary_panels(signs, conv.groups, parities=plain in (-1, TILED))
        bases = border_bases(
            signs, conv.groups, conv.sizes, conv.outputs, conv.stride, conv.padding, conv.dilation,
            node.attrs.get("pad_value", 0), source.fill,
        )  # fmt: skip
        used = conv.taps * source.pitch % 4
        row = round_up(conv.taps * source.pitch, 4)
        repeats = 1 if conv.groups == 1 else 2
        base, line, column = (self._put(array) for array in bases)
        fields = conv.fields(direct=row == source.pitch == 4 and conv.groups == 1)
        fields |= {"plain": plain} | ({} if plain in (-1, TILED) else {"direct": Rows.IN_LINES})
        return StepKind.BINARY, fields | {
            "row": repeats * row, "tail": (1 << 8 * used) - 1 if used else -1, "repeats": repeats,
            "weight": self._put(panels), "terms": panels.shape[1], "panel": panels[0].nbytes,
            "base": base, "base_line": line, "base_column": column, "factor": 2 if conv.groups == 1 else 1,
        }  # fmt: skip

    def _conv(self, group: Group) -> tuple[StepKind, Fields]:
        node = group.node
        if is_depthwise(node):
            source, shape = self._real(group.source), node.attrs["shape"]
            self._afford(real_bytes((LANES, *shape[1:]), 1, shape[0]), f"node {node.output!r}")
            weight = real_weight(self.graph, node)
            fields = window_fields(source, Window.WEIGHTED, node.attrs["shape"][2:], node)
            return StepKind.WINDOW, fields | {"weight": self._put(depthwise_panels(weight))}
        if self._on_bytes(node):
            return self._byte_conv(group)
        source = self._padded(group.source, node.attrs.get("padding", (0, 0)))
        conv = ConvGeometry(node, source, self.shapes[node.output])
        self._afford(real_bytes(conv.shape, conv.groups, conv.tap // 4), f"node {node.output!r}")
        weight = real_weight(self.graph, node)
        dense = weight.reshape(conv.shape) if conv.groups == 1 else spread(weight, conv.groups)
        if suits_winograd(conv):
            return self._winograd(group, conv, weight)
        fields = conv.fields(direct=True)
        if not fields["direct"] and conv.in_lines:
            fields["direct"] = Rows.IN_LINES
        panels = real_panels(dense, conv.tap // 4)
        return StepKind.REAL, fields | {
            "row": 4 * panels.shape[1], "tail": -1, "repeats": 1, "weight": self._put(panels), "terms": panels.shape[1],
            "panel": panels[0].nbytes,
        }  # fmt: skip

    def _winograd(self, group: Group, conv: ConvGeometry, weight: np.ndarray) -> tuple[StepKind, Fields]:
        """Add the step that transforms the caller's array, and return the one that multiplies."""
        tiles, (_, height, width) = conv.outputs[1] // OUTPUTS, conv.source.shape
        lines = (conv.outputs[0] - 1) * conv.stride[0] + conv.kernel[0]
        groups = tiles // LANES + 1
        values = Buffer("real", (LANES, POINTS * TERMS * lines, groups), 4 * LANES)
        self._add_step(StepKind.TRANSFORM, group.node.output, {
            "pixels": lines * tiles, "width": tiles, "channels": conv.shape[1], "panels": 1, "column": values.line,
            "height_in": height, "width_in": width, "pad_y": conv.padding[0], "pad_x": conv.padding[1],
            **target_fields(values), **outside_strides("source", conv.source.shape),
        })  # fmt: skip
        points = [row_panels(each.reshape(len(weight), -1)) for each in transform_weights(weight)]
        pairs = [[each[first : first + 2].ravel() for each in points] for first in range(0, len(points[0]), 2)]
        weights = np.concatenate([np.concatenate(pair) for pair in pairs])
        return StepKind.WINOGRAD, {
            "source": values.at(), "source_image": values.image, "source_line": conv.stride[0],
            "source_pixel": TERMS * lines * values.line, "runs_y": conv.kernel[0], "runs_x": 1, "column": values.line,
            "direct": Rows.DIRECT,
            "row": POINTS * SUM_BYTES // OUTPUTS,
            "tail": -1, "repeats": 1, "weight": self._put(weights), "panel": 4 * len(weights) // len(points[0]),
            "terms": -(-(2 * POINTS - 1) * conv.kernel[0] * conv.shape[1] // OUTPUTS),  # products of an output
        }  # fmt: skip

    def _byte_conv(self, group: Group) -> tuple[StepKind, Fields]:
        node = group.node
        source, scale = self._codes(group.source, node.attrs.get("padding", (0, 0)))
        conv = ConvGeometry(node, source, self.shapes[node.output])
        self._afford(byte_bytes(conv.shape, conv.tap), f"node {node.output!r}")
        in_lines, weight = suits_lines_of_bytes(conv), self.graph.tensors[node.tensors["weight"]].reshape(conv.shape)
        panels, offsets = byte_panels(weight, conv.tap, in_lines=in_lines)
        fields = conv.fields(direct=conv.tap % 4 == 0) | ({"direct": Rows.IN_LINES} if in_lines else {})
        return StepKind.BYTES, fields | {
            "row": 8 if in_lines else 4 * panels.shape[1], "tail": -1, "repeats": 1,
            "weight": self._put(panels), "terms": panels.shape[1],
            "panel": panels[0].nbytes, "offsets": self._put(offsets), "scale": scale.at(), "scale_image": scale.image,
        }  # fmt: skip

    def _pool(self, group: Group) -> tuple[StepKind, Fields]:
        node, source = group.node, self._real(group.source)
        if group.op == "avg_pool2d":
            kernel = node.attrs["kernel"]
            mode = Window.MEAN if _all_full(node, source.shape[1:], self.shapes[node.output][1:]) else Window.AVERAGE
            fields = window_fields(source, mode, kernel, node)
            return StepKind.WINDOW, fields | {"count_pad": int(node.attrs["count_include_pad"])}
        if group.op == "max_pool2d":
            return StepKind.WINDOW, window_fields(source, Window.MAX, node.attrs["kernel"], node)
        if group.op == "global_avg_pool":
            return StepKind.WINDOW, window_fields(source, Window.AVERAGE, source.shape[1:])
        return StepKind.WINDOW, window_fields(source, Window.MAX, (1, 1), node if group.op == "subsample" else None)


def _all_full(node: Node, sizes: tuple[int, ...], outputs: tuple[int, ...]) -> bool:
    """Return True if every window of an average pool lies inside the image and has a power of two of pixels."""
    kernel, stride = node.attrs["kernel"], node.attrs["stride"]
    inside = all((outputs[axis] - 1) * stride[axis] + kernel[axis] <= sizes[axis] for axis in range(2))
    return inside and node.attrs["padding"] == (0, 0) and (kernel[0] * kernel[1]).bit_count() == 1
