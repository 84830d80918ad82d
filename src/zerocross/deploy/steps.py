"""The intermediate form of a network during packing: steps, rewritten by passes that are pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

Eager = Callable[[Tensor], Tensor]
"""An elementwise operation exactly as the network computes it, on (N, C) or (N, C, H, W) in float32."""


@dataclass(frozen=True)
class Step:
    """One operation, which becomes a node of the packed graph.

    Args:
        op: An op of the packed graph, or "pad2d" or "reshape", which passes must remove.
        inputs: Names of the steps whose values are the inputs.
        name: Unique name of this step.
        shape: Shape of its value, without N.
        module: Path of the module that contains the operation.
        label: Role in the network ("batch norm", "scale", "bias", ...), for the table.
        attrs: Attributes of the op.
        tensors: Parameters by role; scales and shifts in float64 until they are stored.
        eager: For an elementwise step, the operation exactly as the network computes it.
        folded: Labels of the steps that were folded into this one.
        kept: The reason why it was not folded, if relevant.
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
    """Steps by name, in execution order, and the name of the result."""

    steps: Mapping[str, Step]
    output: str

    def uses(self) -> Counter[str]:
        """Count the uses of each value; the result counts as one."""
        return Counter([*(name for step in self.steps.values() for name in step.inputs), self.output])

    def replaced(self, new: Mapping[str, Step], removed: Mapping[str, str] | None = None) -> StepGraph:
        """Return the graph with some steps replaced by new ones and others by existing values."""
        removed = dict(removed or {})

        def final(name: str) -> str:
            while name in removed:
                name = removed[name]
            return name

        steps = {}
        for name, old in self.steps.items():
            if name not in removed:
                step = new.get(name, old)
                inputs = tuple(final(each) for each in step.inputs)
                steps[name] = step if inputs == step.inputs else replace(step, inputs=inputs)
        return StepGraph(steps, final(self.output))

    def alive(self) -> StepGraph:
        """Return the graph without unused steps; the input is always kept."""
        used, steps = {self.output}, {}
        for step in reversed(list(self.steps.values())):
            if step.name in used or step.op == "input":
                steps[step.name] = step
                used.update(step.inputs)
        return StepGraph(dict(reversed(steps.items())), self.output)
