"""Search spaces as data: parameters with their ranges, and fixed settings."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import optuna

Value = float | int | bool | str | None
Settings = Mapping[str, Value]


@dataclass(frozen=True)
class Parameter:
    """One searched setting: a number in a range, or one of several choices.

    Args:
        name: Name of the setting, as passed to the objective.
        low: Lower end of the range, inclusive.
        high: Upper end, inclusive, above `low`.
        log: Search on a log scale (requires low > 0).
        choices: Instead of a range: at least two numbers, strings, booleans or None.

    Examples:
        >>> from zerocross import tune
        >>> print(tune.Parameter("alpha", 1e-5, 1e-1, log=True))
        alpha 1e-05..0.1 log
        >>> print(tune.Parameter("clip", choices=(None, 1.0)))
        clip in {none, 1}
    """

    name: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"a parameter's name is {self.name!r}; it must be a non-empty string")
        if not isinstance(self.log, bool):
            raise ValueError(f"{self.name}: log is {self.log!r}; it must be true or false")
        if not isinstance(self.choices, (list, tuple)):
            raise ValueError(f"{self.name}: choices is {self.choices!r}; it must be a list")
        object.__setattr__(self, "choices", tuple(self.choices))
        if self.choices:
            self._check_choices()
        else:
            self._check_range()

    def _check_choices(self) -> None:
        if self.low is not None or self.high is not None or self.log:
            raise ValueError(f"{self.name} has choices and a range (low, high, log); use one of the two")
        if bad := [choice for choice in self.choices if not isinstance(choice, Value)]:
            raise ValueError(f"{self.name}: {bad[0]!r} cannot be a choice; use numbers, strings, true, false or null")
        if len({(type(choice), choice) for choice in self.choices}) != len(self.choices) or len(self.choices) < 2:
            raise ValueError(f"{self.name}: choices are {list(self.choices)}; give at least two different ones")

    def _check_range(self) -> None:
        for end, value in (("low", self.low), ("high", self.high)):
            if value is None:
                raise ValueError(f"{self.name} has no {end}; give low and high, or choices")
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise ValueError(f"{self.name}: {end} is {value!r}; it must be a finite number")
            object.__setattr__(self, end, float(value))
        low, high = self.ends
        if low == high:
            raise ValueError(f"{self.name}: the range {low:g}..{high:g} is empty; high must be above low")
        if low > high:
            raise ValueError(f"{self.name}: the range {low:g}..{high:g} is inverted; high must be above low")
        if self.log and low <= 0:
            raise ValueError(f"{self.name}: low is {low:g}; on a log scale it must be above 0")

    @property
    def ends(self) -> tuple[float, float]:
        """Low and high of a range."""
        return float(self.low or 0.0), float(self.high or 0.0)

    def probes(self) -> tuple[Value, ...]:
        """Return a value inside the range followed by its ends, or every choice."""
        if self.choices:
            return self.choices
        low, high = self.ends
        return (math.sqrt(low * high) if self.log else (low + high) / 2), low, high

    def suggest(self, trial: optuna.Trial) -> Value:
        """Return the value that a trial's sampler suggests."""
        if self.choices:
            return trial.suggest_categorical(self.name, self.choices)
        return trial.suggest_float(self.name, *self.ends, log=self.log)

    def to_dict(self) -> dict[str, Any]:
        """Return the form used in JSON files."""
        if self.choices:
            return {"name": self.name, "choices": list(self.choices)}
        return {"name": self.name, "low": self.low, "high": self.high, "log": self.log}

    def __str__(self) -> str:
        if self.choices:
            return f"{self.name} in {{{', '.join(map(short, self.choices))}}}"
        return f"{self.name} {self.low:g}..{self.high:g}{' log' * self.log}"


@dataclass(frozen=True)
class SearchSpace:
    """A search space.

    Args:
        parameters: At least one; their names differ.
        fixed: Settings that all trials share.

    Examples:
        >>> from zerocross import tune
        >>> space = tune.SearchSpace((tune.Parameter("alpha", 1e-5, 1e-1, log=True),), fixed={"gamma": 0.1})
        >>> print(space)
        alpha 1e-05..0.1 log, gamma=0.1
    """

    parameters: tuple[Parameter, ...]
    fixed: Settings = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = self.names
        if not names:
            raise ValueError("a search space needs at least one parameter")
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"{twice[0]} appears twice in the search space")
        if both := [name for name in names if name in self.fixed]:
            raise ValueError(f"{both[0]} is both searched and fixed; remove one of the two")
        if bad := [name for name, value in self.fixed.items() if not isinstance(value, Value)]:
            raise ValueError(f"{bad[0]} is fixed at {self.fixed[bad[0]]!r}; use a number, string, true, false or null")

    @property
    def names(self) -> list[str]:
        """The parameters' names."""
        return [parameter.name for parameter in self.parameters]

    def suggest(self, trial: optuna.Trial) -> dict[str, Value]:
        """Return a trial's settings: the fixed ones, and those that its sampler suggests."""
        return {**self.fixed, **{parameter.name: parameter.suggest(trial) for parameter in self.parameters}}

    def probes(self) -> list[dict[str, Value]]:
        """Return settings at the extremes of each parameter in turn, to check a space before any trial runs."""
        middle = {**self.fixed, **{parameter.name: parameter.probes()[0] for parameter in self.parameters}}
        others = [{**middle, part.name: value} for part in self.parameters for value in part.probes()[1:]]
        return [middle, *others]

    def to_dict(self) -> dict[str, Any]:
        """Return the form used in JSON files."""
        return {"fixed": dict(self.fixed), "parameters": [parameter.to_dict() for parameter in self.parameters]}

    def __str__(self) -> str:
        fixed = [f"{name}={value}" for name, value in self.fixed.items()]
        return ", ".join([*map(str, self.parameters), *fixed])


def from_dict(values: Any) -> SearchSpace:
    """Create a SearchSpace from {"parameters": [...], "fixed": {...}}; raise ValueError on unknown keys."""
    if not isinstance(values, dict) or not isinstance(values.get("parameters"), list):
        raise ValueError('a search space is {"parameters": [{"name": ..., "low": ..., "high": ...}, ...]}')
    _refuse_unknown(values, ("parameters", "fixed"), "a search space")
    known = [part.name for part in fields(Parameter)]
    for parameter in values["parameters"]:
        if not isinstance(parameter, dict) or "name" not in parameter:
            raise ValueError(f'a parameter is {parameter!r}; it must be {{"name": ..., ...}}')
        _refuse_unknown(parameter, known, f"parameter {parameter['name']}")
    fixed = values.get("fixed", {})
    if not isinstance(fixed, dict):
        raise ValueError(f'fixed is {fixed!r}; it must be {{"name": value, ...}}')
    return SearchSpace(tuple(Parameter(**parameter) for parameter in values["parameters"]), fixed)


def read(path: Path) -> SearchSpace:
    """Read a SearchSpace from a JSON file."""
    try:
        return from_dict(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:  # includes JSONDecodeError
        raise ValueError(f"{path}: {error}") from error


def short(value: Value) -> str:
    """Format a setting in a few characters."""
    return f"{value:.3g}" if isinstance(value, float) else "none" if value is None else str(value)


def _refuse_unknown(values: Mapping[str, Any], known: list[str] | tuple[str, ...], what: str) -> None:
    if unknown := [key for key in values if key not in known]:
        raise ValueError(f"{what} has no {unknown[0]!r}; it has {', '.join(known)}")
