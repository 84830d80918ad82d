"""Look up methods by name; check and complete their hyperparameters, including ramps."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress

import torch
from torch import nn

from zerocross.checks import check_choice, did_you_mean
from zerocross.methods.method import Method, Value
from zerocross.methods.registry import METHODS
from zerocross.optim import Ramp

_RENAMED = {"binaryconnect": "binarynet"}


def current_name(name: str) -> str:
    """Return the current name for a renamed method, with a warning; return other names unchanged.

    Examples:
        >>> from zerocross.methods import current_name
        >>> current_name("filter")
        'filter'
    """
    if name not in _RENAMED:
        return name
    warnings.warn(
        f"method {name!r} is deprecated, use {_RENAMED[name]!r} instead, which has the recipe of that paper",
        DeprecationWarning,
        stacklevel=3,
    )
    return _RENAMED[name]


def get(name: str) -> Method:
    """Return a method by name; raise an error that lists the names if it is unknown.

    Examples:
        >>> from zerocross.methods import get
        >>> get("latent-sgd").kind
        'latent'
    """
    name = current_name(name)
    check_choice("method", name, METHODS)
    return METHODS[name]


def hyperparameters(name: str, chosen: Mapping[str, Value]) -> dict[str, Value]:
    """Return a method's hyperparameters: the defaults, overridden by those chosen.

    Raises ValueError for unknown names and for values whose type differs from the default's; if the default is None, a
    number or None is expected. A number may be a ramp, "1e-2->1e-5", whose ends must be valid values.

    Examples:
        >>> from zerocross.methods import hyperparameters
        >>> hyperparameters("filter", {"alpha": 1e-2})["alpha"]
        0.01
    """
    defaults = get(name).hyperparameters
    result = dict(defaults)
    for key, value in chosen.items():
        if key not in defaults:
            raise ValueError(
                f"method {name!r} has no hyperparameter {key!r}; it has {', '.join(defaults)}"
                f"{did_you_mean(key, defaults)}"
            )
        result[key] = None if value is None and key in get(name).optional else _checked(key, value, defaults[key])
    if any(map(_is_ramp, result.values())):
        _check_ramps(name, result)
    return result


def _is_ramp(value: Value) -> bool:
    return isinstance(value, str) and "->" in value


def _checked(key: str, value: Value, default: Value) -> Value:
    if isinstance(default, str) and not _is_ramp(default):
        if isinstance(value, str):
            return value
        raise ValueError(f"optimizer.{key} is {value!r}; it must be a string")
    if value is default is None or _is_ramp(value):
        return value
    if isinstance(value, str) and _is_ramp(default):  # --set keeps strings as strings
        with suppress(ValueError):
            return float(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    expected = "a number or none" if default is None else "a number"
    raise ValueError(f"optimizer.{key} is {value!r}; it must be {expected}, or a ramp over the run such as 1e-2->1e-5")


def _check_ramps(name: str, values: Mapping[str, Value]) -> None:
    method = get(name)
    for end in ("first", "last"):
        optimizer = method.build(
            [nn.Parameter(torch.ones(2, 2))], _at(end, values), 1
        )  # raises if a value is out of range
        for key in filter(lambda key: _is_ramp(values[key]), values):
            if _field(method, key) not in optimizer.param_groups[0]:
                raise ValueError(
                    f"optimizer.{key} is {values[key]!r}; {name} reads it only once, at the start: use a number"
                )
    if _is_ramp(values[method.lr_name]) and values["schedule"] != "constant":
        raise ValueError(
            f"optimizer.{method.lr_name} is {values[method.lr_name]!r} with optimizer.schedule {values['schedule']!r}: "
            "a ramp replaces the schedule; set optimizer.schedule to constant"
        )


def _at(end: str, values: Mapping[str, Value]) -> dict[str, Value]:
    return {key: getattr(Ramp.parse(str(v)), end) if _is_ramp(v) else v for key, v in values.items()}


def first_values(values: Mapping[str, Value]) -> dict[str, Value]:
    """Return the hyperparameters at the first update, with ramps replaced by their initial values.

    Examples:
        >>> from zerocross.methods import first_values
        >>> first_values({"gamma": "1e-2->1e-5", "tau": 1e-6})
        {'gamma': 0.01, 'tau': 1e-06}
    """
    return _at("first", values)


def ramps(name: str, values: Mapping[str, Value]) -> dict[str, Ramp]:
    """Return param-group field -> ramp for the hyperparameters that are ramps.

    Examples:
        >>> from zerocross.methods import ramps
        >>> ramps("bop2ndorder", {"gamma": "1e-2->1e-5", "tau": 1e-6})
        {'lr': Ramp(first=0.01, last=1e-05)}
    """
    method = get(name)
    return {_field(method, key): Ramp.parse(str(v)) for key, v in values.items() if _is_ramp(v)}


def _field(method: Method, key: str) -> str:
    return "lr" if key == method.lr_name else key
