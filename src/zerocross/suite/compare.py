"""Compare methods on one recipe: the same network, data and budget, each with its own settings, over seeds."""

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

KIND = "zerocross compare"  # identifies files written by this command
_FF_POINTS = 100  # of a curve; each point is the mean over a block of updates


def configs(
    recipe: str,
    seeds: Mapping[str, int],
    *,
    epochs: int | None = None,
    changes: Mapping[str, str] | None = None,
    in_two_steps: bool = False,
) -> list[Config]:
    """Return the runs of a comparison, seed 0 of all methods first, so that early results cover all methods.

    The method of the recipe uses the recipe's hyperparameters; every other method uses its own.

    Args:
        recipe: A name from zerocross.train.recipes.
        seeds: Method -> number of seeds (0, 1, ...).
        epochs: Total epochs of each run; None uses those of the recipe.
        changes: Dotted fields set from text, in all runs.
        in_two_steps: Train real weights with binary activations first, then both binary.
    """
    config = recipes.get(recipe).config
    if epochs is not None:
        config = with_epochs(config, epochs)
    for field, instead in (("method", "--methods"), ("seed", "--seeds")):
        if field in (changes or {}):
            raise ValueError(f"--set {field} would make all runs of a comparison the same; use {instead}")
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
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def two_step_methods(recipe: str) -> list[str]:
    """Return the methods that can train in two steps: those with latent weights and one stage, and the filter."""
    config, names = recipes.get(recipe).config, []
    for name in methods.METHODS:
        try:
            _of_method(config, name, {}, in_two_steps=True)
        except ValueError:
            continue
        names.append(name)
    return names


def summarise(results: Sequence[Mapping[str, Any]], **about: Any) -> dict[str, Any]:
    """Return a comparison as plain containers: one row per method, best mean first, methods without a result last.

    Args:
        results: Results and failures from run_all.
        about: Further entries, such as the command.
    """
    check_revisions(result for result in results if "failed" not in result)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for result in sorted(results, key=lambda each: each["config"]["seed"]):
        groups.setdefault(result["config"]["method"], []).append(result)
    rows = {name: _row(name, group) for name, group in groups.items()}
    order = sorted(rows, key=lambda name: -np.inf if rows[name]["mean"] is None else rows[name]["mean"], reverse=True)
    config = results[0]["config"]
    finished = [result for result in results if "failed" not in result]
    return {
        "kind": KIND,
        "recipe": config["recipe"],
        "model": config["model"]["name"],
        "epochs": max(sum(stage["epochs"] for stage in result["config"]["stages"]) for result in results),
        "evaluated_on": finished[0]["evaluated_on"] if finished else None,
        "data": finished[0]["data"] if finished else None,
        **about,
        "methods": {name: rows[name] for name in order},
        "provenance": provenance(),
    }


def _row(name: str, group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    method = methods.get(name)
    finished = [result for result in group if "failed" not in result]
    top1 = [result["final"]["top1"] for result in finished]
    used = group[0]["config"]["optimizer"]
    return {
        "n": len(finished),
        "mean": statistics.fmean(top1) if top1 else None,
        "sd": statistics.stdev(top1) if len(top1) > 1 else None,
        "seeds": {str(result["config"]["seed"]): result["final"]["top1"] for result in finished},
        "failed": {str(result["config"]["seed"]): result["failed"] for result in group if "failed" in result},
        "accuracy": _accuracy(finished) if finished else None,
        "ff_ratio": _flips(finished) if finished else None,
        "seconds": statistics.fmean(result["seconds"] for result in finished) if finished else None,
        "to_tune": len(method.tuned),
        "tuned": list(method.tuned),
        "summary": method.summary,
        "source": method.source,
        "settings": method.settings,
        "changed": {key: value for key, value in method.hyperparameters.items() if used[key] != value},
        "config": group[0]["config"],
        "hashes": [result["hash"] for result in finished],
        "commits": sorted({str(result["provenance"]["commit"]) for result in finished}),
    }


def _accuracy(group: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return accuracy over epochs, which count over all stages; `binary` is True once the weights are binary."""
    stages = group[0]["config"]["stages"]
    history = group[0]["history"]
    return {
        "epoch": list(range(1, len(history) + 1)),
        **_over_seeds(np.array([[line["top1"] for line in result["history"]] for result in group])),
        "binary": [stages[line["stage"]]["binarize"] == "both" for line in history],
    }


def _flips(group: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]] | None:
    """Return the FF ratio over updates, in blocks of equal length; None for a method without flips."""
    if not group[0]["ff_ratio"]:
        return None
    update, values = np.array([result["ff_ratio"] for result in group]).transpose(2, 0, 1)
    blocks = np.array_split(np.arange(values.shape[1]), min(_FF_POINTS, values.shape[1]))
    return {
        "update": [float(update[0, block].mean()) for block in blocks],
        **_over_seeds(np.stack([values[:, block].mean(axis=1) for block in blocks], axis=1)),
    }


def _over_seeds(curves: np.ndarray) -> dict[str, list[Any]]:
    """Return mean and extremes of curves, given one row per seed."""
    return {
        "mean": curves.mean(axis=0).tolist(),
        "low": curves.min(axis=0).tolist(),
        "high": curves.max(axis=0).tolist(),
    }
