"""Settings from the command line: --set optimizer.alpha=1e-4, by dotted path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from zerocross.methods import Value
from zerocross.train.config import Config, from_dict, to_dict, unknown_field
from zerocross.train.variants import in_two_stages, warm_started, with_method

# Free-form sections: new names may be set here; the component that receives them checks them.
_OPEN = {"data.options", "model.options", "stages.optimizer", "stages.real"}


def changed(
    config: Config, assignments: Mapping[str, str], *, in_two_steps: bool = False, init_from: str | None = None
) -> Config:
    """Return a copy of a config with dotted fields set from text: {"optimizer.alpha": "1e-4", "stages.0.epochs": "5"}.

    Changing the method also switches to that method's hyperparameters, whatever the order of the assignments. Settings
    that follow from others (a warm start) are derived last, unless an assignment sets them explicitly.

    Args:
        config: The config to start from.
        assignments: Dotted path -> text.
        in_two_steps: Also split the run into two stages: real weights with binary activations, then both binary.
        init_from: Also start from the weights of a run (`trained_run`).

    Examples:
        >>> from zerocross import train
        >>> config = train.changed(train.Config(), {"optimizer.alpha": "1e-2", "stages.0.epochs": "5"})
        >>> config.optimizer["alpha"], config.stages[0].epochs
        (0.01, 5)
    """
    if "method" in assignments:
        config = with_method(config, assignments["method"].strip())
    if in_two_steps:
        config = in_two_stages(config)
    values = to_dict(config)
    if init_from is not None:
        values["stages"][0]["init_from"] = init_from
    for path, text in assignments.items():
        _assign(values, path, text)
    config = from_dict(values)
    explicit = any(path.endswith("optimizer.warm_start") for path in assignments)
    new_start = in_two_steps or init_from is not None or any(path.endswith(".init_from") for path in assignments)
    return warm_started(config) if new_start and not explicit else config


def _assign(values: Any, path: str, text: str) -> None:
    *parents, last = path.split(".")
    here: Any = values
    trail: list[str] = []
    for name in parents:
        here = here[_key(here, name, path)]
        if not name.isdigit():
            trail.append(name)
        if not isinstance(here, (dict, list)):
            raise ValueError(f"--set {path}: {'.'.join(trail)} is a single value and has no fields")
    if isinstance(here, dict) and ".".join(trail) in _OPEN:
        # For a model's option "none" is a string; for a hyperparameter it means "not set".
        here[last] = text.strip() if trail[-1] == "options" and text.strip() == "none" else _parse(text)
        return
    key = _key(here, last, path)
    old = here[key]
    if isinstance(old, (dict, list)):
        parts = old if isinstance(old, dict) else map(str, range(len(old)))
        raise ValueError(
            f"--set {path} names a section, not a value; it contains {', '.join(parts) or 'no fields yet'}"
        )
    # Strings stay strings ("32" as precision, "none" as binarize); the config checks the type.
    here[key] = text.strip() if isinstance(old, str) else _parse(text)


def _key(here: Any, name: str, path: str) -> Any:
    if isinstance(here, list):
        if not name.isdigit() or int(name) >= len(here):
            raise ValueError(f"--set {path}: {name!r} is not one of 0..{len(here) - 1}")
        return int(name)
    if name not in here:
        raise ValueError("--set " + unknown_field(path, name, list(here)))
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
