"""Check that trainings converge: twice the length improves the score by no more than the noise between seeds.

A score that falls by more than the noise is reported as "overfits": longer training hurts, so that the task is not too
short.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zerocross.suite.table import TWIN, Find, SuiteRun
from zerocross.suite.tasks import Task

METHODS = ("filter", TWIN)
SEEDS = 3


@dataclass(frozen=True)
class Convergence:
    """Scores of one method at the length of a task and at twice that length, per seed, on held-out training data."""

    method: str
    single: tuple[float, ...]
    double: tuple[float, ...]

    @property
    def change(self) -> float:
        """The change of the mean score at twice the length, in points."""
        return statistics.fmean(self.double) - statistics.fmean(self.single)

    @property
    def noise(self) -> float:
        """The standard deviation over seeds, the larger of the two."""
        return max(statistics.stdev(self.single), statistics.stdev(self.double))

    @property
    def converged(self) -> bool:
        """True if twice the length improves the score by no more than the noise between seeds."""
        return self.change <= self.noise

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if not self.converged:
            return "no"
        return "yes, overfits" if self.change < -self.noise else "yes"


def runs(task: Task, seeds: int = SEEDS, methods: Sequence[str] = METHODS) -> list[SuiteRun]:
    """Return the trainings of the check: each method at the length of the task and at twice that length."""
    if seeds < 2:
        raise ValueError(f"seeds is {seeds}; it must be at least 2 to measure the noise between seeds")
    return [_run(task, method, seed, times) for method in methods for times in (1, 2) for seed in range(seeds)]


def _run(task: Task, method: str, seed: int, times: int) -> SuiteRun:
    epochs = times * task.epochs
    config = task.config(method, seed=seed, validate=True, epochs=epochs)
    return SuiteRun(task, method, "converge", {"epochs": epochs}, config)


def rows(task: Task, find: Find, seeds: int = SEEDS, methods: Sequence[str] = METHODS) -> list[Convergence]:
    """Return a row for each method whose trainings are complete.

    Args:
        task: The task.
        find: Returns the result of a run, or None.
        seeds: Number of seeds, at least 2.
        methods: Names in zerocross.methods, or "real".
    """
    complete = []
    for method in methods:
        results = [find(run) for run in runs(task, seeds, [method])]
        scores = tuple(result["score"] for result in results if result is not None)
        if len(scores) == len(results):
            complete.append(Convergence(method, scores[:seeds], scores[seeds:]))
    return complete


def document(rows_by_task: dict[str, list[Convergence]]) -> dict[str, Any]:
    """Return all rows as plain containers, and the tasks without complete measurements."""
    return {
        "measured": {
            name: [
                {
                    "method": row.method,
                    "single": list(row.single),
                    "double": list(row.double),
                    "change": round(row.change, 3),
                    "noise": round(row.noise, 3),
                    "converged": row.converged,
                }
                for row in rows
            ]
            for name, rows in rows_by_task.items()
            if rows
        },
        "unmeasured": [name for name, rows in rows_by_task.items() if len(rows) < len(METHODS)],
    }


def summary(rows_by_task: Mapping[str, Sequence[Convergence]]) -> str:
    """Return one paragraph: how many tasks have converged, and what the others still gain.

    Args:
        rows_by_task: The rows of every task of the suite, empty for those that are not measured.
    """
    complete = {name: rows for name, rows in rows_by_task.items() if len(rows) == len(METHODS)}
    if not complete:
        return "Not measured yet: run `zerocross suite converge`."
    short = {name: [row for row in rows if not row.converged] for name, rows in complete.items()}
    gains = [
        f"{name} ({', '.join(f'{row.method} {row.change:+.2f}, noise {row.noise:.2f}' for row in rows)})"
        for name, rows in short.items()
        if rows
    ]
    text = (
        "The filter and the full-precision twin were trained for the length of each task and for twice that length, on "
        f"held-out training data. On {len(complete) - len(gains)} of {len(complete)} tasks twice the length gains no "
        "more than the noise between seeds."
    )
    if gains:
        text += f" **Not converged** are {'; '.join(gains)}, in points."
    if missing := [name for name in rows_by_task if name not in complete]:
        text += f" Not measured: {', '.join(missing)}."
    return text
