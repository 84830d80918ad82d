"""Convert a packed graph to the steps of a C file: which values are stored, by which step, and in which form.

A real value is stored pixel by pixel, channels last; bits are stored in the same order, eight per byte, and each pixel
starts with a new byte. All other values, such as the sums of a layer and elementwise results up to a sign, exist only
for one pixel at a time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace

from zerocross.runtime.fuse import Group, fuse, simplify
from zerocross.runtime.geometry import image_shape, is_depthwise
from zerocross.runtime.graph import Graph, Node
from zerocross.runtime.infer import Value, check

Size = tuple[int, int, int]
BINARY = ("binary_conv2d", "binary_linear")
LAYERS = ("conv2d", "linear")
MAX_ELEMENTS = (1 << 31) - 1  # per array: indices are int32_t


@dataclass(eq=False)
class CBuffer:
    """A stored value.

    Attributes:
        value: Name of the value in the graph.
        kind: "real" or "bits".
        size: Channels, height and width.
        place: "memory" (planned), or "input" and "output", which belong to the caller.
        planar: True if channels come first, as in the caller's arrays, and not last.
        offset: Offset in elements from the start of the memory for its kind.
    """

    value: str
    kind: str
    size: Size
    place: str = "memory"
    planar: bool = False
    offset: int = -1

    @property
    def pitch(self) -> int:
        """Elements (floats, or bytes of bits) per pixel."""
        return self.size[0] if self.kind == "real" else -(-self.size[0] // 8)

    @property
    def elements(self) -> int:
        """Total number of elements."""
        return self.pitch * self.size[1] * self.size[2]


@dataclass(frozen=True)
class CLink:
    """An elementwise node of a step.

    The channels of the step start at `channel` of the node's channels; `other` is the value that an "add" adds.
    """

    node: Node
    channel: int
    other: CBuffer | None


@dataclass(eq=False)
class CStep:
    """One pass over the pixels of a value.

    Attributes:
        op: A packed op, or "identity", "unpack" (bits to reals), "planar" (to channels first) or "pixels" (to channels
            last).
        node: The node after which the step is named.
        source: Buffer that the step reads.
        size: Channels, height and width of the values that it computes.
        links: The elementwise nodes that follow.
        real: Buffer in which the values are stored, or None.
        bits: Buffer in which their signs are stored, or None.
        sign: The sign or threshold node, or None.
        channel: First channel of `real` and `bits` that the step writes.
        clear: Set `real` to 0 first, since no step writes some of its channels.
        in_place: True if `real` overwrites the added value.
    """

    op: str
    node: Node
    source: CBuffer
    size: Size
    links: tuple[CLink, ...] = ()
    real: CBuffer | None = None
    bits: CBuffer | None = None
    sign: Node | None = None
    channel: int = 0
    clear: bool = False
    in_place: bool = False

    def reads(self) -> list[CBuffer]:
        """Return the buffers that the step reads."""
        return [self.source, *(link.other for link in self.links if link.other is not None)]

    def writes(self) -> list[CBuffer]:
        """Return the buffers that the step writes, completely or in part."""
        return [buffer for buffer in (self.real, self.bits) if buffer is not None]


@dataclass
class CProgram:
    """The steps of a network, in order."""

    graph: Graph
    output_size: tuple[int, ...]
    steps: list[CStep] = field(default_factory=list)


def make_program(graph: Graph) -> CProgram:
    """Return the steps of a packed graph; raise a ValueError with the reason if it is invalid or too large."""
    graph = check(graph)
    simple, values = simplify(graph)
    simple, values = _without_flatten(simple, values)
    return _Builder(graph, simple, values).program()


def _without_flatten(graph: Graph, values: dict[str, Value]) -> tuple[Graph, dict[str, Value]]:
    """Let linear layers read images directly: a linear layer on an image is a convolution of the image's size."""
    users: dict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        for name in node.inputs:
            users[name].append(node)
    names: dict[str, str] = {}
    nodes = []
    for each in graph.nodes:
        node = replace(each, inputs=tuple(names.get(name, name) for name in each.inputs))
        linear = all(user.op in ("linear", "binary_linear") for user in users[node.output])
        if node.op == "flatten" and linear and node.output != graph.output:
            names[node.output] = node.inputs[0]
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes)), {name: value for name, value in values.items() if name not in names}


class _Builder:
    """State of building a program: the steps so far, and the buffers that hold each value."""

    def __init__(self, original: Graph, graph: Graph, values: dict[str, Value]) -> None:
        self.original, self.graph = original, graph
        self.sizes: dict[str, Size] = {name: image_shape(value.shape) for name, value in values.items()}
        self.values = values
        self.makers = {node.output: node for node in graph.nodes}
        self.reals: dict[str, CBuffer] = {}
        self.bits: dict[str, CBuffer] = {}
        self.steps: list[CStep] = []
        name = graph.nodes[0].output
        self.input = CBuffer(name, "real", self.sizes[name], "input", planar=_order_matters(self.sizes[name]))
        if not self.input.planar:
            self.reals[name] = self.input

    def program(self) -> CProgram:
        for group in fuse(self.graph, self.values):
            self._add(group)
        self._finish()
        for buffer in {id(buffer): buffer for step in self.steps for buffer in step.writes()}.values():
            if buffer.elements > MAX_ELEMENTS:
                raise ValueError(
                    f"the value of {buffer.value!r} has {buffer.elements} elements: too many for C's int32_t"
                )
        output_size = self.values[self.graph.output].shape
        return CProgram(self.original, output_size, self.steps)

    def _finish(self) -> None:
        """Copy the result to the caller's array, unless a step has already written it there."""
        name = self.graph.output
        source = self._real(name)
        if source.place != "output":
            target = CBuffer(name, "real", self.sizes[name], "output", planar=True)
            op = "planar" if _order_matters(self.sizes[name]) and not source.planar else "identity"
            self.steps.append(CStep(op, self.makers[name], source, self.sizes[name], real=target))

    def _new_real(self, name: str) -> CBuffer:
        if name not in self.reals:
            outside = name == self.graph.output and not _order_matters(self.sizes[name])
            self.reals[name] = CBuffer(name, "real", self.sizes[name], "output" if outside else "memory")
        return self.reals[name]

    def _real(self, name: str) -> CBuffer:
        """Return the buffer of a value as floats, channels last."""
        if name not in self.reals:
            from_input = name == self.input.value
            source = self.input if from_input else self.bits[name]
            step = CStep("pixels" if from_input else "unpack", self.makers[name], source, self.sizes[name])
            step.real = self._new_real(name)
            self.steps.append(step)
        return self.reals[name]

    def _packed(self, name: str) -> CBuffer:
        """Return the buffer of a value as bits; flattened bits are stored as -1 and +1, and packed again here."""
        if name not in self.bits:
            self.bits[name] = CBuffer(name, "bits", self.sizes[name])
            step = CStep("identity", self.makers[name], self._real(name), self.sizes[name], bits=self.bits[name])
            self.steps.append(step)
        return self.bits[name]

    def _add(self, group: Group) -> None:
        if group.op in ("concat", "pad_channels", "flatten"):
            source = self._real(group.source)
            op = "planar" if group.op == "flatten" else "identity"
            step = CStep(op, group.node, source, source.size, channel=group.channel)
        else:
            own = group.source if group.op == "identity" else group.node.output
            step = CStep(group.op, group.node, self._source(group), self.sizes[own], channel=group.channel)
            step.links = tuple(
                CLink(link.node, link.channel, None if link.other is None else self._real(link.other))
                for link in group.links
            )
        if group.real:
            step.clear = self.makers[group.result].op == "pad_channels" and group.result not in self.reals
            step.real = self._new_real(group.result)
        if group.sign is not None:
            name = group.sign.output
            step.sign, step.bits = group.sign, self.bits.setdefault(name, CBuffer(name, "bits", self.sizes[name]))
        self.steps.append(step)

    def _source(self, group: Group) -> CBuffer:
        if group.op in BINARY:
            return self._packed(group.source)
        if group.op in LAYERS and not is_depthwise(group.node) and group.source == self.input.value:
            return self.input
        return self._real(group.source)


def _order_matters(size: Size) -> bool:
    """Return True if channels first and channels last are different orders."""
    return size[0] > 1 and size[1] * size[2] > 1


def layer_shape(step: CStep) -> tuple[int, int, int, int]:
    """Return outputs, inputs per group, kernel height and width; the kernel of a linear layer is its whole input."""
    shape = step.node.attrs["shape"]
    outputs, inputs = shape[:2]
    kernel = shape[2:] or step.source.size[1:]
    return outputs, inputs // (1 if len(shape) == 4 else math.prod(kernel)), kernel[0], kernel[1]
