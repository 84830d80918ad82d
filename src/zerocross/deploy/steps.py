"""A network on its way into a file: steps, which passes rewrite, each pass a pure function of the steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

Eager = Callable[[Tensor], Tensor]
"""An elementwise operation as the network itself computes it: on (N, C) or (N, C, H, W), in float32."""


@dataclass(frozen=True)
class Step:
    """One operation: a node of the packed graph in the making.

    Args:
        op: an op of the packed graph, or "pad2d" or "reshape", which must be gone in the end.
        inputs: names of the steps whose values go in.
        name: of this step, unique.
        shape: of its value, without N.
        module: the path of the module that it comes from.
        label: what it was in the network ("batch norm", "scale", "bias", ...), for the table.
        attrs: of the op.
        tensors: parameters by role; scales and shifts in float64 until they are stored.
        eager: of an elementwise step: its value for any input, exactly as the network computes it.
        folded: labels of the steps that were folded into this one.
        kept: why it was not folded, where one might ask.
    """

    op: str
    inputs: tuple[str, ...]
    name: str
    shape: tuple[int, ...]
    module: str = ""
    label: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    eager: tuple[Eager, ...] = ()
    folded: tuple[str, ...] = ()
    kept: str = ""


@dataclass(frozen=True)
class StepGraph:
    """Steps by name, in an order in which they can be run, and the name of the result."""

    steps: Mapping[str, Step]
    output: str

    def uses(self) -> Counter[str]:
        """How often each value is used; the result counts as a use."""
        return Counter([*(name for step in self.steps.values() for name in step.inputs), self.output])

    def replaced(self, new: Mapping[str, Step], gone: Mapping[str, str] | None = None) -> StepGraph:
        """The program with some steps replaced, and others gone in favour of the value that stands in their place."""
        gone = dict(gone or {})

        def final(name: str) -> str:
            while name in gone:
                name = gone[name]
            return name

        steps = {}
        for name, old in self.steps.items():
            if name not in gone:
                step = new.get(name, old)
                inputs = tuple(final(each) for each in step.inputs)
                steps[name] = step if inputs == step.inputs else replace(step, inputs=inputs)
        return StepGraph(steps, final(self.output))

    def alive(self) -> StepGraph:
        """The program without steps that nothing uses; the input always stays."""
        wanted, steps = {self.output}, {}
        for step in reversed(list(self.steps.values())):
            if step.name in wanted or step.op == "input":
                steps[step.name] = step
                wanted.update(step.inputs)
        return StepGraph(dict(reversed(steps.items())), self.output)
