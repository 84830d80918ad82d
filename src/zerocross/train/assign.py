"""Settings from the command line: --set optimizer.alpha=1e-4, by dotted path and in the type of the old value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from zerocross.methods import Value
from zerocross.train.config import Config, from_dict, to_dict, unknown_field

# Free-form sections: a name that is not there yet may be set; its own part of the program checks it.
_OPEN = {"data.options", "model.options", "stages.optimizer", "stages.real"}


def changed(config: Config, assignments: Mapping[str, str]) -> Config:
    """A config with dotted fields set from text: {"optimizer.alpha": "1e-4", "stages.0.epochs": "5"}."""
    values = to_dict(config)
    for path, text in assignments.items():
        _assign(values, path, text)
    return from_dict(values)


def _assign(values: Any, path: str, text: str) -> None:
    *parents, last = path.split(".")
    here: Any = values
    trail: list[str] = []
    for name in parents:
        here = here[_key(here, name, path)]
        if not name.isdigit():
            trail.append(name)
        if not isinstance(here, (dict, list)):
            raise ValueError(f"--set {path}: {'.'.join(trail)} is a single value and has no parts")
    if isinstance(here, dict) and last not in here and ".".join(trail) in _OPEN:
        here[last] = _parse(text)
        return
    key = _key(here, last, path)
    if isinstance(here[key], (dict, list)):
        parts = here[key] if isinstance(here[key], dict) else map(str, range(len(here[key])))
        raise ValueError(f"--set {path} names a section, not a value; it has {', '.join(parts) or 'no parts yet'}")
    here[key] = _like(_parse(text), here[key], path, text)


def _key(here: Any, name: str, path: str) -> Any:
    if isinstance(here, list):
        if not name.isdigit() or int(name) >= len(here):
            raise ValueError(f"--set {path}: {name!r} is not one of 0..{len(here) - 1}")
        return int(name)
    if name not in here:
        raise ValueError("--set " + unknown_field(path, name, set(here)))
    return name


def _parse(text: str) -> Value:
    lowered = text.strip().lower()
    if lowered in {"none", "null"}:
        return None
    try:
        value = json.loads(lowered)
    except json.JSONDecodeError:
        try:
            return float(lowered)
        except ValueError:
            return text.strip()
    return value if isinstance(value, (int, float, bool)) else text.strip()


def _like(value: Value, old: Value, path: str, text: str) -> Value:
    """The value in the type of the one that it replaces, where that one has a type to go by."""
    if old is None or value is None:
        return value
    if isinstance(old, str):
        return text.strip()
    if isinstance(old, bool):
        fits = isinstance(value, bool)
    elif isinstance(old, int):
        fits = isinstance(value, int) and not isinstance(value, bool)
    else:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
        value = float(value) if fits else value  # type: ignore[arg-type]
    if not fits:
        kind = {bool: "true or false", int: "a whole number", float: "a number"}[type(old)]
        raise ValueError(f"--set {path}={text}: {text!r} is not {kind}; it is {old} now")
    return value
