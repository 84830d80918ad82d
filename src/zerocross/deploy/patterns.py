"""Patterns of several ATen operators: the sign with values in {-1, +1}, and the PReLU of RPReLU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx

from zerocross.deploy.trace import Traced


@dataclass(frozen=True)
class Match:
    """A sign or a PReLU that ends in a node: its input, the slope of a PReLU, and its inner nodes."""

    op: str
    source: fx.Node
    slope: Any
    inner: tuple[fx.Node, ...]


def aten_name(node: Any) -> str:
    """Return the name of a node's ATen operator, such as "conv2d"; "" for other nodes."""
    schema = getattr(getattr(node, "target", None), "_schema", None)
    return "" if schema is None else schema.name.removeprefix("aten::")


def matches(traced: Traced) -> tuple[dict[fx.Node, Match], set[fx.Node]]:
    """Return the patterns by their last node, and the nodes that belong to them only."""
    patterns = {}
    for node in traced.nodes:
        match = (
            _sign(node) if aten_name(node) == "sub" else _where(traced, node) if aten_name(node) == "where" else None
        )
        if match is not None:
            patterns[node] = match
    inner_nodes: set[fx.Node] = set()
    inner = [each for match in patterns.values() for each in match.inner]
    for node in sorted(set(inner), key=list(traced.nodes).index, reverse=True):  # users first
        if all(user in patterns or user in inner_nodes for user in node.users):
            inner_nodes.add(node)
    return patterns, inner_nodes


def _sign(node: fx.Node) -> Match | None:
    """Match zerocross.nn.sign: clamp(x, 0, 0) + 2 [x >= 0] - 1."""
    total, one = _two(node.args)
    if aten_name(total) != "add" or one != 1 or total.kwargs.get("alpha") != 2:
        return None
    clamp, step = _two(total.args)
    if aten_name(clamp) != "clamp" or tuple(clamp.args[1:]) != (0, 0) or not _not_negative(step, clamp.args[0]):
        return None
    return Match("sign", clamp.args[0], None, (total, clamp, step))


def _where(traced: Traced, node: fx.Node) -> Match | None:
    """Match where(x >= 0, 1, -1), a sign, and where(x >= 0, x, slope x), a PReLU as in RPReLU."""
    step, high, low = node.args if len(node.args) == 3 else (None, None, None)
    source = step.args[0] if isinstance(step, fx.Node) and step.args else None
    if not isinstance(step, fx.Node) or not isinstance(source, fx.Node) or not _not_negative(step, source):
        return None
    if _number(traced, high) == 1 and _number(traced, low) == -1:
        return Match("sign", source, None, (step,))
    if high is source and aten_name(low) == "mul" and isinstance(low, fx.Node) and source in low.args:
        a, b = _two(low.args)
        slope = traced.of(b if a is source else a)
        if not isinstance(slope, fx.Node):
            return Match("prelu", source, slope, (step, low))
    return None


def _not_negative(node: Any, source: Any) -> bool:
    return aten_name(node) == "ge" and node.args[0] is source and node.args[1] == 0


def _two(args: Iterable[Any]) -> tuple[Any, Any]:
    first, second, *_ = [*args, None, None]
    return first, second


def _number(traced: Traced, value: Any) -> float | None:
    value = traced.of(value)
    if isinstance(value, Tensor) and value.numel() == 1:
        return float(value)
    return float(value) if isinstance(value, int | float) else None
