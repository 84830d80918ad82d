"""The graph of a packed network: nodes in execution order, and the attributes, tensors and inputs of each op.

An activation has a batch dimension and 1 to 3 more: (N, F), (N, C, L) or (N, C, H, W). `infer` returns shapes and
kinds.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zerocross.runtime.preprocess import Preprocessing

MAX_NODES = 4096
MAX_INPUTS = 4 * MAX_NODES  # of all nodes together
MAX_SIZE = 1 << 20  # of one dimension, or of any integer attribute
MAX_NAME = 200

Shape = tuple[int, ...]

_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = 60


@dataclass(frozen=True)
class Node:
    """One operation: applies `op` to the values named `inputs` and produces the value named `output`.

    `tensors` maps a role ("weight", "scale", ...) to a key of `Graph.tensors`. A node read from a file has every
    attribute of its op, including defaults.
    """

    op: str
    inputs: tuple[str, ...]
    output: str
    attrs: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """A packed network.

    Args:
        nodes: Nodes in execution order. The first node, and no other, is "input".
        output: Name of the value that the network returns.
        input_size: Shape of one sample, without N.
        tensors: All parameters by key: uint8, int8, int32, float16 or float32.
        preprocessing: How an input is computed from a file; None if unknown.
        classes: One name per output, or empty.
        provenance: Text entries that describe how the file was created.
    """

    nodes: tuple[Node, ...]
    output: str
    input_size: Shape
    tensors: Mapping[str, np.ndarray]
    preprocessing: Preprocessing | None = None
    classes: tuple[str, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)

    def tensor(self, node: Node, role: str) -> np.ndarray | None:
        """Return a node's tensor for a role, or None."""
        key = node.tensors.get(role)
        return None if key is None else self.tensors[key]


@dataclass(frozen=True)
class _Attr:
    """An attribute: `length` integers (0: a single number), each within low..high; default None: required."""

    kind: type
    default: Any = None
    low: float = 0
    high: float = MAX_SIZE
    length: int = 0

    def check(self, value: Any, where: str) -> Any:
        if not self.length:
            return self._number(value, where)
        if not isinstance(value, list | tuple) or len(value) != self.length:
            raise ValueError(f"{where} is {short(value)}; it must be {self.length} numbers")
        return tuple(self._number(number, where) for number in value)

    def _number(self, value: Any, where: str) -> Any:
        # Not isinstance: a bool is an int, but must not be accepted as one.
        if type(value) is not self.kind and not (self.kind is float and type(value) is int):
            raise ValueError(f"{where} is {short(value)}; it must be of type {self.kind.__name__}")
        if self.kind is not bool and not self.low <= value <= self.high:
            raise ValueError(f"{where} is {short(value)}; it must be within {self.low}..{self.high}")
        return self.kind(value)


def _pair(default: int | None, low: int = 1) -> _Attr:
    return _Attr(int, None if default is None else (default, default), low, length=2)


_LARGEST = float(np.finfo(np.float32).max)
_FLAG = _Attr(bool, default=False)
_WINDOW = {"stride": _pair(1), "padding": _pair(0, low=0), "dilation": _pair(1)}
_CONV = {"shape": _Attr(int, low=1, length=4), **_WINDOW, "groups": _Attr(int, 1, 1)}
_LINEAR = {"shape": _Attr(int, low=1, length=2)}
_POOL = {"kernel": _pair(None), "stride": _pair(1), "padding": _pair(0, low=0), "ceil_mode": _FLAG}


@dataclass(frozen=True)
class Op:
    """Signature of an op: attributes, required and optional tensors by role, range of the number of inputs."""

    attrs: Mapping[str, _Attr] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    inputs: tuple[int, int] = (1, 1)


OPS: dict[str, Op] = {
    "input": Op(inputs=(0, 0)),
    "conv2d": Op(_CONV, ("weight",), ("weight_scale", "bias")),
    "linear": Op(_LINEAR, ("weight",), ("weight_scale", "bias")),
    "sign": Op({}, (), ("shift",)),
    "binary_conv2d": Op({**_CONV, "pad_value": _Attr(int, 0, 0, 1)}, ("weight",)),
    "binary_linear": Op(_LINEAR, ("weight",)),
    "threshold": Op({}, ("threshold", "direction")),
    "affine": Op({}, ("scale", "shift")),
    "prelu": Op({}, ("slope",)),
    "relu": Op(),
    "hardtanh": Op({"min": _Attr(float, -1.0, -_LARGEST, _LARGEST), "max": _Attr(float, 1.0, -_LARGEST, _LARGEST)}),
    "add": Op(inputs=(2, 2)),
    "concat": Op(inputs=(2, 1024)),
    "avg_pool2d": Op({**_POOL, "count_include_pad": _Attr(bool, default=True)}),
    "max_pool2d": Op({**_POOL, "dilation": _pair(1)}),
    "global_avg_pool": Op(),
    "flatten": Op(),
    "subsample": Op({"stride": _pair(None)}),
    "pad_channels": Op({"before": _Attr(int, 0), "after": _Attr(int, 0)}),
}
"""Every op that a graph may contain."""


def checked_nodes(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Check each node by itself, without shapes, and return the nodes with all attributes filled in."""
    if not 1 <= len(nodes) <= MAX_NODES:
        raise ValueError(f"the graph has {len(nodes)} nodes; it must have 1..{MAX_NODES}")
    if (inputs := sum(len(node.inputs) for node in nodes)) > MAX_INPUTS:
        raise ValueError(f"the nodes of the graph have {inputs} inputs in total; at most {MAX_INPUTS} are allowed")
    if [index for index, node in enumerate(nodes) if node.op == "input"] != [0]:
        raise ValueError("the graph must have exactly one 'input' node, and it must be the first node")
    return tuple(_checked_node(node) for node in nodes)


def _checked_node(node: Node) -> Node:
    _check_name(node.output)
    where = f"node {node.output!r}"
    spec = OPS.get(node.op) if isinstance(node.op, str) else None
    if spec is None:
        raise ValueError(f"{where}: op {short(node.op)} is unknown; this version knows {', '.join(OPS)}")
    where = f"{where} ({node.op})"
    for what, names, known in (
        ("attribute", node.attrs, spec.attrs),
        ("tensor", node.tensors, spec.required + spec.optional),
    ):
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"{where}: {what} {short(unknown[0])} is unknown; known: {', '.join(known) or 'none'}")
    if missing := [role for role in spec.required if role not in node.tensors]:
        raise ValueError(f"{where}: tensor {missing[0]!r} is missing")
    if not spec.inputs[0] <= len(node.inputs) <= spec.inputs[1]:
        raise ValueError(f"{where} has {len(node.inputs)} inputs; it must have {spec.inputs[0]}..{spec.inputs[1]}")
    attrs = {}
    for name, attr in spec.attrs.items():
        value = node.attrs.get(name, attr.default)
        if value is None:
            raise ValueError(f"{where}: attribute {name!r} is missing")
        attrs[name] = attr.check(value, f"{where}: {name}")
    return Node(node.op, tuple(node.inputs), node.output, attrs, dict(node.tensors))


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise ValueError(f"{short(name)} is not a valid name; a name has 1..{MAX_NAME} printable characters")


def short(value: Any) -> str:
    """Return the representation of a value, cut to a length that fits in a message."""
    return _BRIEF.repr(value)[:80]
