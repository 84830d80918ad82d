"""Schedules as pure functions of the step: factors and ramps of param-group fields."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import Tensor

Shape = Literal["cosine", "linear", "constant", "step", "fifths", "exponential"]
_ENDS = {"cosine": 0.0, "linear": 0.0, "exponential": 1e-3}  # the factor just after the last update


@dataclass(frozen=True)
class Schedule:
    """A factor for each step = 0 .. total - 1, with linear warm-up.

    Args:
        shape: "cosine": (1 + cos(pi t)) / 2. "linear": 1 - t. "constant": 1. "step": `drop` to the power of the number
            of `milestones` passed. "fifths": 0.1 to the power of the number of fifths passed. "exponential": 1e-3 to
            the power of t. t runs from 0 at the first update after the warm-up to 1 just after the last, so that no
            update has factor 0.
        total: Total number of updates, >= 1.
        warmup: Number of warm-up updates, 0 <= warmup < total.
        milestones: For "step": fractions of the run, each in (0, 1), increasing.
        drop: For "step": the factor at a milestone, in (0, 1].
        end: For "cosine", "linear" and "exponential": the factor at t = 1, in [0, 1]; by default 0, 0 and 1e-3.

    Examples:
        >>> from zerocross.optim import Schedule
        >>> schedule = Schedule.parse("cosine", total=100, warmup=10)
        >>> [round(schedule.factor(step), 3) for step in (0, 10, 55, 99)]
        [0.091, 1.0, 0.5, 0.0]
    """

    shape: Shape
    total: int
    warmup: int = 0
    milestones: tuple[float, ...] = (0.5, 0.75)
    drop: float = 0.1
    end: float | None = None

    def __post_init__(self) -> None:
        if self.shape not in get_args(Shape):
            raise ValueError(f"schedule is {self.shape!r}; it must be one of {', '.join(get_args(Shape))}")
        if self.total < 1:
            raise ValueError(f"a schedule has {self.total} updates in total; it needs at least 1")
        if not 0 <= self.warmup < self.total:
            raise ValueError(
                f"warm-up is {self.warmup} updates; it must be at least 0 and less than the total, {self.total}"
            )
        if not all(0 < m < 1 for m in self.milestones) or list(self.milestones) != sorted(self.milestones):
            raise ValueError(f"milestones are {self.milestones}; they must be increasing fractions between 0 and 1")
        if not 0 < self.drop <= 1:
            raise ValueError(f"drop is {self.drop}; it must lie in (0, 1]")
        lowest = 0 if self.shape != "exponential" else math.ulp(0)
        if self.end is not None and not (self.shape in _ENDS and lowest <= self.end <= 1):
            raise ValueError(
                f"schedule {self.shape!r} ends at {self.end}; {', '.join(_ENDS)} can end at a factor from 0 to 1 "
                "(exponential: above 0), the other shapes have no configurable end"
            )

    @classmethod
    def parse(cls, text: str, total: int, warmup: int = 0) -> Schedule:
        """Parse a schedule from the text of a config.

        "cosine", or any other shape; "linear:0.1": down to 0.1; "step:0.4,0.8": times 0.1 at each of these fractions;
        "step:0.5*0.2": times 0.2.

        Args:
            text: A shape, optionally followed by a colon and its argument.
            total: See Schedule.
            warmup: See Schedule.
        """
        name, colon, argument = (part.strip() for part in text.partition(":"))
        shape: Any = name
        if not colon:
            return cls(shape, total, warmup)
        try:
            if shape == "step":
                milestones, _, drop = argument.partition("*")
                fractions = tuple(float(part) for part in milestones.split(","))
                return cls(shape, total, warmup, fractions, float(drop or cls.drop))
            end = float(argument)
        except ValueError as error:
            raise ValueError(
                f"schedule is {text!r}: {error}; write a shape alone, 'linear:0.1' for its end, or "
                "'step:0.4,0.8*0.1' for its milestones and factor"
            ) from None
        return cls(shape, total, warmup, end=end)

    def factor(self, step: int) -> float:
        """Return the factor at update `step`, counted from 0; constant after the end."""
        if step < self.warmup:
            return (step + 1) / (self.warmup + 1)
        t = min((step - self.warmup) / (self.total - self.warmup), 1.0)
        end = _ENDS.get(self.shape, 0.0) if self.end is None else self.end
        if self.shape == "cosine":
            return end + (1 - end) * (1 + math.cos(math.pi * t)) / 2
        if self.shape == "linear":
            return 1 - t * (1 - end)
        if self.shape == "step":
            return self.drop ** sum(step >= m * self.total for m in self.milestones)
        if self.shape == "fifths":
            return 0.1 ** int(5 * t)
        if self.shape == "exponential":
            return end**t
        return 1.0


@dataclass(frozen=True)
class Ramp:
    """A linear ramp of a hyperparameter over the run; written "1e-2->1e-5" in a config.

    Args:
        first: Its value at the first update.
        last: Its value just after the last one.

    Examples:
        >>> from zerocross.optim import Ramp
        >>> Ramp.parse("1e-2->1e-5").value(step=50, total=100)
        0.005005
    """

    first: float
    last: float

    @classmethod
    def parse(cls, text: str) -> Ramp:
        """Parse a ramp such as "1e-2->1e-5"."""
        first, arrow, last = text.partition("->")
        try:
            ramp = cls(float(first), float(last)) if arrow else None
        except ValueError:
            ramp = None
        if ramp is None or not (math.isfinite(ramp.first) and math.isfinite(ramp.last)):
            raise ValueError(f"{text!r} is not a ramp; write two numbers and an arrow, for instance 1e-2->1e-5")
        return ramp

    def value(self, step: int, total: int) -> float:
        """Return the value at update `step` of `total`, counted from 0; constant after the end."""
        return (self.first - self.last) * (1 - min(step / total, 1.0)) + self.last


def set_field(groups: Iterable[dict[str, Any]], field: str, factor: float) -> None:
    """Set a field of param groups to its initial value times a factor; alpha is the field "lr".

    Examples:
        >>> import torch
        >>> import zerocross
        >>> optimizer = zerocross.GradientFilter([torch.nn.Parameter(torch.ones(2, 2))], alpha=1e-2)
        >>> zerocross.optim.set_field(optimizer.param_groups, "lr", 0.5)  # half of the initial alpha
        >>> optimizer.param_groups[0]["lr"]
        0.005
    """
    for group in groups:
        _check_field(group, field)
        initial = group.setdefault(f"initial_{field}", _number(group[field]))
        _write(group, field, initial * factor)


def set_value(groups: Iterable[dict[str, Any]], field: str, value: float) -> None:
    """Set a field of param groups, multiplied by the group's `FIELD_scale` if it has one.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> optimizer = zerocross.GradientFilter([torch.nn.Parameter(torch.ones(2, 2))], gamma=0.1)
        >>> zerocross.optim.set_value(optimizer.param_groups, "gamma", 0.2)
        >>> optimizer.param_groups[0]["gamma"]
        0.2
    """
    for group in groups:
        _check_field(group, field)
        _write(group, field, value * group.get(f"{field}_scale", 1.0))


def _check_field(group: dict[str, Any], field: str) -> None:
    if field not in group:
        raise ValueError(f"a param group has no field {field!r}; it has {', '.join(sorted(set(group) - {'params'}))}")


def _number(value: Any) -> float:
    return float(value) if isinstance(value, Tensor) else value


def _write(group: dict[str, Any], field: str, value: float) -> None:
    if isinstance(group[field], Tensor):
        group[field].fill_(value)  # in place: a CUDA graph reads this tensor
    else:
        group[field] = value
