"""The search space of each method: ranges around its published values, derived by one set of rules.

Rules instead of a table per method, so that hand-picked ranges favour no method, and a new method has its space
automatically:

- learning rates, alphas, thresholds and other positive numbers: a decade to each side, on a log scale;
- gamma as 1 - momentum: 0.01 to 1, on a log scale; torch's momentum: 0, 0.8, 0.9, 0.95 or 0.99;
- weight decay: a decade to each side; where it is 0: 0, 1e-5 or 1e-4;
- a ramp "a->b": both ends times one factor, from 1/3 to 3;
- options that are None (clip and clip_gradient of latent SGD): None or 1; its start: 1e-4 to 1e-1;
- the order of a filter: 2, 3 or 4;
- the learning rate of real parameters: a decade to each side; where the authors train all parameters with one
  optimizer, it equals that of the binary weights.

Schedules, warm-ups and networks stay as published. Values have four digits, so that a setting is the same on every
machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zerocross.methods import get
from zerocross.train.config import Config

Choices = tuple[float | str | None, ...]
_FIXED = {"schedule", "warm_start"}
_ODD: Mapping[str, Choices] = {"momentum": (0.0, 0.8, 0.9, 0.95, 0.99), "order": (2.0, 3.0, 4.0)}
_UNSET: Choices = (None, 1.0)
_NO_DECAY: Choices = (0.0, 1e-5, 1e-4)
_AT_MOST_1 = {"alpha", "gamma", "clip", "sigma"}


@dataclass(frozen=True)
class Range:
    """The range of a tuned value: a number from `low` to `high` on a log scale, one of `choices`, or a scaled ramp.

    Args:
        paths: The config fields that take this value, as dotted paths.
        low: Lower end, greater than 0.
        high: Upper end, greater than `low`.
        choices: The possible values, instead of a range of numbers.
        ramp: The published "a->b" whose ends are multiplied by the number.
    """

    paths: tuple[str, ...]
    low: float = 0.0
    high: float = 0.0
    choices: Choices = ()
    ramp: str = ""

    def at(self, share: float) -> Any:
        """Return the value at a share of the range, in [0, 1)."""
        if self.choices:
            return self.choices[int(share * len(self.choices))]
        number = math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        if not self.ramp:
            return _short(number)
        return "->".join(f"{_short(float(end) * number):g}" for end in self.ramp.split("->"))

    def __str__(self) -> str:
        name = " and ".join(self.paths)
        if self.choices:
            return f"{name} in {{{', '.join(map(str, self.choices))}}}"
        return f"{name} {f'({self.ramp}) times ' if self.ramp else ''}{self.low:g}..{self.high:g}"


@dataclass(frozen=True)
class MethodSpace:
    """The search space of a method."""

    ranges: tuple[Range, ...]

    def at(self, shares: Sequence[float]) -> dict[str, Any]:
        """Return the settings at a share of each range, in [0, 1): dotted path -> value."""
        values = {}
        for each, share in zip(self.ranges, shares, strict=True):
            values |= dict.fromkeys(each.paths, each.at(float(share)))
        return values


def space_of(config: Config, *, twin: bool = False) -> MethodSpace:
    """Return the search space of a config's method, around the config's values; for the twin, of its lr only."""
    real = Range(("real.lr",), _short(config.real.lr / 10), _short(config.real.lr * 10))
    if twin:
        return MethodSpace((real,))
    method = get(config.method)
    one_lr = "lr" in method.real and method.real["lr"] == method.hyperparameters.get("lr")
    ranges = []
    for name, value in config.optimizer.items():
        paths = (f"optimizer.{name}", "real.lr") if one_lr and name == "lr" else (f"optimizer.{name}",)
        if name not in _FIXED and (tuned := _range(paths, name, value, is_lr=name == method.lr_name)) is not None:
            ranges.append(tuned)
    return MethodSpace(tuple(ranges) if one_lr else (*ranges, real))


def _range(paths: tuple[str, ...], name: str, value: Any, *, is_lr: bool) -> Range | None:
    if name in _ODD:
        return Range(paths, choices=_ODD[name])
    if value is None:
        return Range(paths, 1e-4, 1e-1) if name == "start" else Range(paths, choices=_UNSET)
    if isinstance(value, str) and "->" in value:
        return Range(paths, _short(1 / 3), 3.0, ramp=value)
    if name == "gamma" and not is_lr:
        return Range(paths, 1e-2, 1.0)
    if name == "weight_decay" and value == 0:
        return Range(paths, choices=_NO_DECAY)
    if not isinstance(value, int | float) or not value > 0:
        return None
    high = value * 10
    return Range(paths, _short(value / 10), _short(min(high, 1.0) if name in _AT_MOST_1 and value <= 1 else high))


def _short(number: float) -> float:
    return float(f"{number:.4g}")
