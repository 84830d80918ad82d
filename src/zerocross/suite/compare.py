"""Methods side by side: the same network, data and budget, each at its own settings, over seeds."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zerocross import methods
from zerocross.provenance import provenance
from zerocross.sweep.stale import check_revisions
from zerocross.train import assign, recipes
from zerocross.train.config import Config
from zerocross.train.variants import with_epochs, with_method

KIND = "zerocross compare"  # tells our files from others
_FF_POINTS = 100  # of a curve: a mean over the updates in between says more than each of them


def configs(
    recipe: str,
    seeds: Mapping[str, int],
    *,
    epochs: int | None = None,
    changes: Mapping[str, str] | None = None,
    in_two_steps: bool = False,
) -> list[Config]:
    """The runs of a comparison: seed 0 of all methods first, so that all of them are seen early.

    The recipe's own method keeps the recipe's hyperparameters; every other one takes its own.

    Args:
        recipe: A name from zerocross.train.recipes.
        seeds: Method -> how many seeds, 0, 1, ...
        epochs: Of each run in all; None takes the recipe's.
        changes: Dotted fields set from text, in all runs.
        in_two_steps: Real weights with binary activations first, then both binary.
    """
    config = recipes.get(recipe).config
    if epochs is not None:
        config = with_epochs(config, epochs)
    for field, instead in (("method", "--methods"), ("seed", "--seeds")):
        if field in (changes or {}):
            raise ValueError(f"--set {field} would make all runs of a comparison alike: use {instead}")
    firsts = {name: _of_method(config, name, changes or {}, in_two_steps=in_two_steps) for name in seeds}
    return [
        dataclasses.replace(first, seed=seed)
        for seed in range(max(seeds.values()))
        for name, first in firsts.items()
        if seed < seeds[name]
    ]


def _of_method(config: Config, name: str, changes: Mapping[str, str], *, in_two_steps: bool) -> Config:
    methods.get(name)
    try:
        return assign.changed(with_method(config, name), changes, in_two_steps=in_two_steps)
    except ValueError as wrong:
        raise ValueError(f"{name}: {wrong}") from None


def two_step_methods(recipe: str) -> list[str]:
    """The methods that can be trained in two steps: those with latent weights and one stage, and the filter."""
    config, able = recipes.get(recipe).config, []
    for name in methods.METHODS:
        try:
            _of_method(config, name, {}, in_two_steps=True)
        except ValueError:
            continue
        able.append(name)
    return able


def summarise(results: Sequence[Mapping[str, Any]], **about: Any) -> dict[str, Any]:
    """A comparison as plain containers: a row per method, the best mean first, those without any result last.

    Args:
        results: From run_all: results, and failures.
        about: More to say at the top (the command, for one).
    """
    check_revisions(result for result in results if "failed" not in result)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for result in sorted(results, key=lambda each: each["config"]["seed"]):
        groups.setdefault(result["config"]["method"], []).append(result)
    rows = {name: _row(name, group) for name, group in groups.items()}
    order = sorted(rows, key=lambda name: -np.inf if rows[name]["mean"] is None else rows[name]["mean"], reverse=True)
    config = results[0]["config"]
    good = [result for result in results if "failed" not in result]
    return {
        "kind": KIND,
        "recipe": config["recipe"],
        "model": config["model"]["name"],
        "epochs": max(sum(stage["epochs"] for stage in result["config"]["stages"]) for result in results),
        "evaluated_on": good[0]["evaluated_on"] if good else None,
        "data": good[0]["data"] if good else None,
        **about,
        "methods": {name: rows[name] for name in order},
        "provenance": provenance(),
    }


def _row(name: str, group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    method = methods.get(name)
    good = [result for result in group if "failed" not in result]
    top1 = [result["final"]["top1"] for result in good]
    used = group[0]["config"]["optimizer"]
    return {
        "n": len(good),
        "mean": statistics.fmean(top1) if top1 else None,
        "sd": statistics.stdev(top1) if len(top1) > 1 else None,
        "seeds": {str(result["config"]["seed"]): result["final"]["top1"] for result in good},
        "failed": {str(result["config"]["seed"]): result["failed"] for result in group if "failed" in result},
        "accuracy": _accuracy(good) if good else None,
        "ff_ratio": _flips(good) if good else None,
        "seconds": statistics.fmean(result["seconds"] for result in good) if good else None,
        "to_tune": len(method.tuned),
        "tuned": list(method.tuned),
        "summary": method.summary,
        "source": method.source,
        "settings": method.settings,
        "changed": {key: value for key, value in method.hyperparameters.items() if used[key] != value},
        "config": group[0]["config"],
        "hashes": [result["hash"] for result in good],
        "commits": sorted({str(result["provenance"]["commit"]) for result in good}),
    }


def _accuracy(group: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Accuracy after each epoch, counted over all stages; `binary` tells whether the weights are yet."""
    stages = group[0]["config"]["stages"]
    history = group[0]["history"]
    return {
        "epoch": list(range(1, len(history) + 1)),
        **_over_seeds(np.array([[line["top1"] for line in result["history"]] for result in group])),
        "binary": [stages[line["stage"]]["binarize"] == "both" for line in history],
    }


def _flips(group: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]] | None:
    """The FF ratio over updates, in blocks of equal length; None for a method that counts no flips."""
    if not group[0]["ff_ratio"]:
        return None
    update, values = np.array([result["ff_ratio"] for result in group]).transpose(2, 0, 1)
    blocks = np.array_split(np.arange(values.shape[1]), min(_FF_POINTS, values.shape[1]))
    return {
        "update": [float(update[0, block].mean()) for block in blocks],
        **_over_seeds(np.stack([values[:, block].mean(axis=1) for block in blocks], axis=1)),
    }


def _over_seeds(curves: np.ndarray) -> dict[str, list[Any]]:
    """Mean and extremes of curves, a row per seed."""
    return {
        "mean": curves.mean(axis=0).tolist(),
        "low": curves.min(axis=0).tolist(),
        "high": curves.max(axis=0).tolist(),
    }
