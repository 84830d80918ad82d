"""Derive the command that repeats a run from its config."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from zerocross.train import RECIPES, Config, changed
from zerocross.train.config import resolved, to_dict
from zerocross.train.variants import with_epochs, with_method

_OPTIONS = {"seed": "--seed", "precision": "--precision", "compile": "--compile"}


def train_command(config: Config) -> str:
    """Return the `zerocross train` command whose config has the same hash, or one that refers to the config file."""
    words = _words(config) if config.recipe in RECIPES else None
    if words is None:
        return f"zerocross train config.json (the config in results/runs/{config.hash}.json)"
    return shlex.join(["zerocross", "train", *words])


def _words(config: Config) -> list[str] | None:
    base, words = RECIPES[config.recipe].config, [config.recipe]
    if (epochs := _epochs(config)) != _epochs(base):
        base = with_epochs(base, epochs)
        words += ["--epochs", str(epochs)]
    if config.method != base.method:
        base = with_method(base, config.method)
        words += ["--method", config.method]
    base = dataclasses.replace(base, processes=config.processes)
    if config.processes != 1:
        words += ["--devices", str(config.processes)]
    values, before = dict(_flat(to_dict(resolved(config)))), dict(_flat(to_dict(resolved(base))))
    changes = {path: _text(value) for path, value in values.items() if before.get(path) != value}
    changes |= {path: "null" for path in before if path not in values}
    try:
        if changed(base, changes).hash != config.hash:
            return None
    except ValueError:  # for example two-step training, which single settings cannot express
        return None
    for path, text in changes.items():
        words += [_OPTIONS[path], text] if path in _OPTIONS else ["--set", f"{path}={text}"]
    return words


def _epochs(config: Config) -> int:
    return sum(stage.epochs for stage in config.stages)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _flat(values: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        inner = dict(enumerate(value)) if isinstance(value, list) else value
        if isinstance(inner, dict):
            yield from _flat(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner
