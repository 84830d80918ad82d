"""Rank methods over tasks from the results of the suite, as is usual in time-series classification.

Mean rank over tasks; Friedman's test; pairwise Wilcoxon signed-rank tests over tasks with Holm's correction; the mean
difference to the full-precision twin with a bootstrap interval over tasks and seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy import stats

from zerocross.suite.table import TWIN, Find, published, tuned
from zerocross.suite.tasks import Task

Scores = Mapping[str, Mapping[str, Sequence[float]]]  # task -> method -> score of each seed
LEVEL = 0.05
_RESAMPLES = 2000


def scores_of(
    table: str, tasks: Sequence[Task], methods: Sequence[str], seeds: int, trials: int, find: Find
) -> tuple[dict[str, dict[str, list[float]]], int]:
    """Return the scores of a table for methods and tasks with all seeds, and the number of runs that diverged."""
    runs = published(tasks, methods, seeds) if table == "published" else tuned(tasks, methods, seeds, trials, find)
    scores: dict[str, dict[str, list[float]]] = {task.name: {} for task in tasks}
    diverged = 0
    for run in runs:
        if (result := find(run)) is not None:
            scores[run.task.name].setdefault(run.method, []).append(result["score"])
            diverged += "diverged" in result
    return {
        task: {method: values for method, values in row.items() if len(values) == seeds} for task, row in scores.items()
    }, diverged


def complete(scores: Scores) -> tuple[list[str], list[str]]:
    """Return tasks and methods without gaps; removes, one by one, the task or method that lacks the largest share."""
    tasks = list(scores)
    methods = list(dict.fromkeys(method for row in scores.values() for method in row))
    while tasks and methods:
        gaps = {("task", task): sum(m not in scores[task] for m in methods) / len(methods) for task in tasks}
        gaps |= {("method", m): sum(m not in scores[task] for task in tasks) / len(tasks) for m in methods}
        worst = max(gaps, key=lambda name: gaps[name])
        if gaps[worst] == 0:
            break
        (tasks if worst[0] == "task" else methods).remove(worst[1])
    return tasks, methods


def holm(p_values: Sequence[float]) -> list[float]:
    """Apply Holm's step-down correction: p-values times the number of those not smaller, monotone, at most 1."""
    order = np.argsort(p_values, kind="stable")
    corrected, highest = [0.0] * len(order), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * float(p_values[index])))
        corrected[index] = highest
    return corrected


def rank(scores: Scores, wanted: Sequence[str] = (), *, seed: int = 0) -> dict[str, Any]:
    """Rank the tasks and methods of a table that have no gaps, and list those that are left out.

    Args:
        scores: task -> method -> score of each seed in percent; "real" is the full-precision twin.
        wanted: Methods to list as left out if they have no scores at all.
        seed: Seed of the bootstrap.
    """
    tasks, methods = complete(scores)
    everything = list(dict.fromkeys([*wanted, *(method for row in scores.values() for method in row)]))
    left_out = {
        "tasks": [task for task in scores if task not in tasks],
        "methods": [method for method in everything if method not in methods],
    }
    binary = [method for method in methods if method != TWIN]
    document: dict[str, Any] = {"tasks": tasks, "left_out": left_out, "methods": {}, "pairs": [], "groups": []}
    if len(binary) < 3 or len(tasks) < 3:
        return {**document, "friedman": None, "why_not": "a ranking needs at least 3 methods on at least 3 tasks"}
    means = np.array([[np.mean(scores[task][method]) for method in binary] for task in tasks])
    ranks = stats.rankdata(-means, axis=1)
    order = [binary[index] for index in np.argsort(ranks.mean(axis=0), kind="stable")]
    column = {method: binary.index(method) for method in binary}
    tied = bool((means == means[:, :1]).all())  # scipy's test divides by zero
    friedman: Any = None if tied else stats.friedmanchisquare(*means.T)
    pairs = _pairs(means, order, column)
    apart = {frozenset(pair["methods"]) for pair in pairs if pair["holm"] < LEVEL}
    random = np.random.default_rng(seed)
    for method in order:
        others = means[:, [column[other] for other in order if other != method]]
        difference = means[:, [column[method]]] - others
        document["methods"][method] = {
            "rank": round(float(ranks[:, column[method]].mean()), 3),
            "mean": round(float(means[:, column[method]].mean()), 2),
            "wins": int((difference > 0).sum()),
            "ties": int((difference == 0).sum()),
            "losses": int((difference < 0).sum()),
            "to_twin": to_twin(scores, tasks, method, random) if TWIN in methods else None,
        }
    significance = {
        "statistic": 0.0 if tied else float(friedman.statistic),
        "p": 1.0 if tied else float(friedman.pvalue),
    }
    return {**document, "friedman": significance, "pairs": pairs, "groups": groups(order, apart)}


def _pairs(means: np.ndarray, order: Sequence[str], column: Mapping[str, int]) -> list[dict[str, Any]]:
    couples = list(combinations(order, 2))
    p_values = []
    for one, other in couples:
        difference = means[:, column[one]] - means[:, column[other]]
        tested: Any = stats.wilcoxon(difference) if difference.any() else None
        p_values.append(1.0 if tested is None else float(tested.pvalue))
    return [
        {"methods": list(couple), "p": p, "holm": corrected}
        for couple, p, corrected in zip(couples, p_values, holm(p_values), strict=True)
    ]


def groups(order: Sequence[str], apart: set[frozenset[str]]) -> list[list[str]]:
    """Return maximal runs of at least two methods in the ranking of which no two differ significantly."""
    intervals: list[list[str]] = []
    last = -1
    for first in range(len(order)):
        end = first
        while end + 1 < len(order) and not any(
            frozenset((order[end + 1], each)) in apart for each in order[first : end + 1]
        ):
            end += 1
        if end > first and end > last:
            intervals.append(list(order[first : end + 1]))
            last = end
    return intervals


def to_twin(scores: Scores, tasks: Sequence[str], method: str, random: np.random.Generator) -> dict[str, float]:
    """Return the mean difference to the twin in points, with a 95 % bootstrap interval over tasks and seeds."""
    ours = np.array([scores[task][method] for task in tasks], dtype=float)
    twin = np.array([scores[task][TWIN] for task in tasks], dtype=float)
    count, seeds = ours.shape
    draws = []
    for _ in range(_RESAMPLES):
        rows = random.integers(count, size=count)[:, None]
        draws.append(
            ours[rows, random.integers(seeds, size=(count, seeds))].mean()
            - twin[rows, random.integers(seeds, size=(count, seeds))].mean()
        )
    low, high = np.quantile(draws, (0.025, 0.975))
    return {"mean": round(float(ours.mean() - twin.mean()), 2), "low": round(low, 2), "high": round(high, 2)}
