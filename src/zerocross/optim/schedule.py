"""Schedules as pure functions of the step: the factor by which a param-group field is multiplied at an update."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

Shape = Literal["cosine", "linear", "constant", "step", "fifths", "exponential"]


@dataclass(frozen=True)
class Schedule:
    """factor(step) for step = 0 .. total - 1, after `warmup` updates of linear rise.

    Args:
        shape: "cosine": (1 + cos(pi t)) / 2. "linear": 1 - t. "constant": 1. "step": `drop` to the power of how many
            `milestones` have passed. "fifths": 0.1 to the power of how many fifths have passed. "exponential":
            1e-3 to the power of t. t runs from 0 at the first update after the warm-up to 1 just after the last, so
            that no update is spent at 0.
        total: Updates in all, >= 1.
        warmup: Updates of linear rise before, 0 <= warmup < total.
        milestones: For "step": fractions of the whole, each in (0, 1), rising.
        drop: For "step": the factor at a milestone, in (0, 1].
    """

    shape: Shape
    total: int
    warmup: int = 0
    milestones: tuple[float, ...] = (0.5, 0.75)
    drop: float = 0.1

    def __post_init__(self) -> None:
        if self.shape not in get_args(Shape):
            raise ValueError(f"schedule is {self.shape!r}; it can be {', '.join(get_args(Shape))}")
        if self.total < 1:
            raise ValueError(f"a schedule over {self.total} updates; it needs at least 1")
        if not 0 <= self.warmup < self.total:
            raise ValueError(
                f"warm-up is {self.warmup} updates; it must be 0 or more, and below the total, {self.total}"
            )
        if not all(0 < m < 1 for m in self.milestones) or list(self.milestones) != sorted(self.milestones):
            raise ValueError(f"milestones are {self.milestones}; they must be rising fractions between 0 and 1")
        if not 0 < self.drop <= 1:
            raise ValueError(f"drop is {self.drop}; it must lie in (0, 1]")

    def factor(self, step: int) -> float:
        """The factor at update `step`, counted from 0; beyond the end, that of the end."""
        if step < self.warmup:
            return (step + 1) / (self.warmup + 1)
        t = min((step - self.warmup) / (self.total - self.warmup), 1.0)
        if self.shape == "cosine":
            return (1 + math.cos(math.pi * t)) / 2
        if self.shape == "linear":
            return 1 - t
        if self.shape == "step":
            return self.drop ** sum(step >= m * self.total for m in self.milestones)
        if self.shape == "fifths":
            return 0.1 ** int(5 * t)
        if self.shape == "exponential":
            return 1e-3**t
        return 1.0


def set_field(groups: Iterable[dict[str, Any]], field: str, factor: float) -> None:
    """Set a field of param groups to its first value times a factor; alpha is the field "lr"."""
    for group in groups:
        if field not in group:
            raise ValueError(
                f"a param group has no field {field!r}; it has {', '.join(sorted(set(group) - {'params'}))}"
            )
        group[field] = group.setdefault(f"initial_{field}", group[field]) * factor
