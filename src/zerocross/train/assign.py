"""Settings from the command line: --set optimizer.alpha=1e-4, by dotted path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from zerocross.methods import Value
from zerocross.train.config import Config, from_dict, to_dict, unknown_field
from zerocross.train.variants import in_two_stages, warm_started, with_method

# Free-form sections: a name that is not there yet may be set; its own part of the program checks it.
_OPEN = {"data.options", "model.options", "stages.optimizer", "stages.real"}


def changed(
    config: Config, assignments: Mapping[str, str], *, in_two_steps: bool = False, init_from: str | None = None
) -> Config:
    """A config with dotted fields set from text: {"optimizer.alpha": "1e-4", "stages.0.epochs": "5"}.

    Another method is taken with its own hyperparameters, whatever the order of the assignments. What follows from other
    settings, a warm start, is derived last, and only where no assignment names it.

    Args:
        config: To begin with.
        assignments: Dotted path -> text.
        in_two_steps: Also divide the run: real weights with binary activations first, then both binary.
        init_from: Also start from the weights of a run (`trained_run`).
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
            raise ValueError(f"--set {path}: {'.'.join(trail)} is a single value and has no parts")
    if isinstance(here, dict) and ".".join(trail) in _OPEN:
        # A model's option may be the word "none"; a hyperparameter that is "none" is not set.
        here[last] = text.strip() if trail[-1] == "options" and text.strip() == "none" else _parse(text)
        return
    key = _key(here, last, path)
    old = here[key]
    if isinstance(old, (dict, list)):
        parts = old if isinstance(old, dict) else map(str, range(len(old)))
        raise ValueError(f"--set {path} names a section, not a value; it has {', '.join(parts) or 'no parts yet'}")
    # What is text stays text: a precision of 32, binarize none. Whether the type is right is for the config to say.
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
