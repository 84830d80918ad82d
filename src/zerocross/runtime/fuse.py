"""Fuse nodes into groups: a layer together with the operations applied to its values before they are stored."""

from __future__ import annotations

import graphlib
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from zerocross.runtime.graph import Graph, Node
from zerocross.runtime.infer import Value, infer
from zerocross.runtime.kernels.steps import LANES

SOURCES = frozenset(
    {"conv2d", "linear", "binary_conv2d", "binary_linear", "avg_pool2d", "max_pool2d", "global_avg_pool", "subsample"}
)
ELEMENTWISE = frozenset({"affine", "prelu", "relu", "hardtanh", "add"})
MAX_LEVELS = 4  # nested concatenations between a value and the buffer in which it is stored
MAX_LINKS = 1 << 16  # total over all groups


@dataclass(frozen=True)
class Link:
    """An elementwise node in a group.

    The channels of the group start at `channel` of the node's channels; `other` is the value that an "add" adds.
    """

    node: Node
    channel: int
    other: str | None


@dataclass(frozen=True)
class Group:
    """One pass over memory: a source node, the elementwise nodes that follow it, and the stored results.

    Args:
        op: Op of the source node; "identity" if the group starts with an elementwise node.
        node: The source node (for "identity", the first elementwise node).
        source: The value that the source node reads.
        links: The elementwise nodes that follow, in order.
        result: The value at the end of the group.
        channel: First channel of `result` that this group computes.
        real: Store the result as float32.
        sign: The sign or threshold node whose bits are stored, or None.
        pooled: The result is the average of 2 x 2 values, and only bits are stored of the values themselves.
    """

    op: str
    node: Node
    source: str
    links: tuple[Link, ...]
    result: str
    channel: int
    real: bool
    sign: Node | None
    pooled: bool = False

    def needs(self) -> list[str]:
        """Return the values that the group reads."""
        return [self.source, *(link.other for link in self.links if link.other is not None)]

    def makes(self) -> list[str]:
        """Return the values that the group stores, completely or in part."""
        return [self.result] * self.real + ([] if self.sign is None else [self.sign.output])


def fuse(graph: Graph, values: Mapping[str, Value], *, fold: bool = False) -> list[Group]:
    """Return the groups of a simplified graph in execution order.

    Args:
        graph: The simplified graph.
        values: The shape and kind of each of its values.
        fold: Let binary layers store averages of 2 x 2 pixels, see `fold_pools`.
    """
    groups = _Fusion(graph, values).groups()
    if fold:
        groups = fold_pools(groups, graph, values)
    # A value follows every group that stores a part of it, and a group follows the values that it reads.
    order: graphlib.TopologicalSorter[int | str] = graphlib.TopologicalSorter()
    for number, group in enumerate(groups):
        order.add(number, *group.needs())
        for name in group.makes():
            order.add(name, number)
    return [groups[item] for item in order.static_order() if isinstance(item, int)]


def fold_pools(groups: list[Group], graph: Graph, values: Mapping[str, Value]) -> list[Group]:
    """Let binary layers store averages of 2 x 2 pixels themselves, where nothing else reads the pixels.

    The shortcut of a layer with stride 2 is such an average. Storing it takes a quarter of the memory traffic, and the
    layer itself can add it: one step less.
    """
    for pool in [group for group in groups if group.op == "avg_pool2d"]:
        makers = [group for group in groups if group.real and group.result == pool.source]
        readers = [group for group in groups if pool.source in group.needs()]
        if readers != [pool] or pool.source == graph.output or not _folds(pool, makers, values):
            continue
        alone = not pool.links and pool.sign is None
        name, channel = (pool.result, pool.channel) if alone else (pool.node.output, 0)
        folded: dict[int, Group | None] = {
            id(group): replace(group, result=name, channel=group.channel + channel, pooled=True) for group in makers
        }
        rest = [(pool, None)] if alone else _behind_pool(pool, groups, graph)
        folded |= {id(group): each for group, each in rest}
        replaced = [folded.get(id(group), group) for group in groups]
        groups = [group for group in replaced if group is not None]
    return groups


def _folds(pool: Group, makers: list[Group], values: Mapping[str, Value]) -> bool:
    """Return True if the layers that make a pool's input can store its averages."""
    attrs, (_, *sizes) = pool.node.attrs, values[pool.source].shape
    square = attrs["kernel"] == attrs["stride"] == (2, 2) and attrs["padding"] == (0, 0)
    even = len(sizes) == 2 and all(size % 2 == 0 for size in sizes)
    return square and even and bool(makers) and all(maker.op == "binary_conv2d" for maker in makers)


def _behind_pool(pool: Group, groups: list[Group], graph: Graph) -> list[tuple[Group, Group | None]]:
    """Return the groups to replace, with what follows the average moved to the layer that it is added to, if any."""
    name = pool.node.output
    real = pool.real and pool.result != name  # the average itself is stored already
    own: list[tuple[Group, Group | None]] = [(pool, replace(pool, op="identity", source=name, real=real))]
    if not pool.links:
        return own
    first, *links = pool.links
    if first.other is not None and first.channel == pool.channel == 0:
        layers = [group for group in groups if group.result == first.other and group.real]
        readers = [group for group in groups if first.other in group.needs()]
        alone = len(layers) == 1 and layers[0].sign is None and first.other != graph.output and readers == [pool]
        if alone and layers[0].op in SOURCES and not layers[0].pooled and layers[0].channel == 0:
            (layer,) = layers
            added = replace(first, other=name)
            taken = replace(
                layer, links=(*layer.links, added, *links), result=pool.result, real=pool.real, sign=pool.sign
            )
            return [(pool, None), (layer, taken)]
    return own


def simplify(graph: Graph) -> tuple[Graph, dict[str, Value]]:
    """Remove flatten nodes that move no data: those of single pixels, and those of an input that is only flattened.

    Returns:
        The graph, and the shape and kind of each of its values. A layer of this graph may read the features of a
        single pixel.
    """
    values = infer(graph)
    first = graph.nodes[0].output
    users = [node for node in graph.nodes if first in node.inputs]
    flat_input = first != graph.output and all(node.op == "flatten" for node in users)
    size = (math.prod(graph.input_size),) if flat_input else graph.input_size
    names: dict[str, str] = {}
    nodes = []
    for node in graph.nodes:
        inputs = tuple(names.get(name, name) for name in node.inputs)
        shape = values[node.inputs[0]].shape if inputs else ()
        if node.op == "flatten" and ((inputs == (first,) and flat_input) or math.prod(shape[1:]) == 1):
            names[node.output] = inputs[0]
        else:
            nodes.append(replace(node, inputs=inputs))
    simple = replace(graph, nodes=tuple(nodes), input_size=size, output=names.get(graph.output, graph.output))
    return simple, {name: value for name, value in values.items() if name not in names} | {first: Value(size)}


def _link(node: Node, value: str) -> Link:
    first, *rest = node.inputs
    other = (rest[0] if value == first else first) if node.op == "add" else None
    return Link(node, 0, other)


@dataclass(frozen=True)
class _Tail:
    """The nodes that follow a value within its group."""

    links: tuple[Link, ...]
    result: str
    channel: int
    real: bool
    sign: Node | None


class _Fusion:
    """State of fusing a graph: the users of each value, and the nodes that already belong to a group."""

    def __init__(self, graph: Graph, values: Mapping[str, Value]) -> None:
        self.graph = graph
        self.values = values
        self.makers = {node.output: node for node in graph.nodes}
        self.users: dict[str, list[Node | None]] = defaultdict(list)
        for node in graph.nodes:
            for name in node.inputs:
                self.users[name].append(node)
        self.users[graph.output].append(None)
        self.grouped: set[str] = set()
        self.tails: dict[str, _Tail] = {}
        self.merged = self._merged_concats()
        self.links = 0  # number of links in all groups so far

    def groups(self) -> list[Group]:
        groups = []
        for node in self.graph.nodes[1:]:
            if node.output in self.grouped:
                continue
            if node.op in SOURCES:
                groups.append(self._group(node.op, node, (), self.tail(node.output)))
            elif node.op in ("concat", "pad_channels", "flatten"):
                groups += self._moves(node)
            else:
                groups.append(self._identity(node))
        return groups

    def _moves(self, node: Node) -> list[Group]:
        """Return a group for each input, which copies the input to its channels of the output."""
        channel = node.attrs["before"] if node.op == "pad_channels" else 0
        groups = []
        for name in node.inputs:
            groups.append(Group(node.op, node, name, (), node.output, channel, real=True, sign=None))
            channel += self.values[name].shape[0]
        return groups

    def _identity(self, node: Node) -> Group:
        self.grouped.add(node.output)
        if node.op in ("sign", "threshold"):
            return Group("identity", node, node.inputs[0], (), node.inputs[0], 0, real=False, sign=node)
        return self._group("identity", node, (_link(node, node.inputs[0]),), self.tail(node.output))

    def _group(self, op: str, node: Node, links: tuple[Link, ...], tail: _Tail) -> Group:
        links = (*links, *tail.links)
        self.links += len(links)
        if self.links > MAX_LINKS:
            raise ValueError(
                f"the branches of its concatenations share too many steps; at most {MAX_LINKS} are allowed"
            )
        return Group(op, node, node.inputs[0], links, tail.result, tail.channel, tail.real, tail.sign)

    def tail(self, value: str) -> _Tail:
        """Return the nodes that can be applied to a value in registers.

        Every branch of a concatenation applies the nodes that follow the concatenation.
        """
        if value not in self.tails:
            self.tails[value] = self._find_tail(value)
        return self.tails[value]

    def _find_tail(self, value: str) -> _Tail:
        links: list[Link] = []
        while (node := self._only_user(value)) is not None and node.op in ELEMENTWISE:
            self.grouped.add(node.output)
            links.append(_link(node, value))
            value = node.output
        if node is not None and node.op == "threshold":
            self.grouped.add(node.output)
            return _Tail(tuple(links), value, 0, real=False, sign=node)
        if (
            node is not None and node.op == "pad_channels"
        ):  # a last panel may write zeros past its channels, onto padding that is 0 anyway
            self.grouped.add(node.output)
            return _Tail(tuple(links), node.output, node.attrs["before"], real=True, sign=None)
        if node is not None and node.output in self.merged:
            self.grouped.add(node.output)
            return self._behind_concat(node, value, links)
        signs = [user for user in self.users[value] if user is not None and user.op == "sign"]
        self.grouped.update(sign.output for sign in signs[:1])
        real = len(self.users[value]) > len(signs[:1])
        return _Tail(tuple(links), value, 0, real, signs[0] if signs else None)

    def _behind_concat(self, node: Node, value: str, links: list[Link]) -> _Tail:
        channel = sum(self.values[name].shape[0] for name in node.inputs[: node.inputs.index(value)])
        tail = self.tail(node.output)
        shifted = tuple(replace(link, channel=link.channel + channel) for link in tail.links)
        return replace(tail, links=(*links, *shifted), channel=tail.channel + channel)

    def _only_user(self, value: str) -> Node | None:
        user = self.users[value][0] if len(self.users[value]) == 1 else None
        return None if user is None or (user.output in self.grouped and user.op != "concat") else user

    def _merged_concats(self) -> set[str]:
        """Return the concatenations whose branches each store their own part; nesting is limited to MAX_LEVELS."""
        names: set[str] = set()
        levels: dict[str, int] = {}
        for node in self.graph.nodes:
            level = max((levels[name] for name in node.inputs), default=0)
            if node.op == "concat" and level < MAX_LEVELS and self._can_merge(node):
                names.add(node.output)
                levels[node.output] = level + 1
            else:
                levels[node.output] = level if node.op in ELEMENTWISE else 0
        return names

    def _can_merge(self, concat: Node) -> bool:
        """Return True if every branch can store its own part: nothing else reads it, and it fills whole panels."""
        sizes = [self.values[name].shape[0] for name in concat.inputs]
        return (
            all(size % LANES == 0 for size in sizes[:-1])
            and len(set(concat.inputs)) == len(concat.inputs)
            and all(
                len(self.users[name]) == 1 and self.makers[name].op in SOURCES | ELEMENTWISE for name in concat.inputs
            )
        )
