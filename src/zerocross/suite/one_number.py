"""One number instead of alpha and gamma: trainings that measure how much a fixed flip rate loses, and where.

1. Sensitivity: accuracy over the flip rate, and over alpha at gamma = 0.1, on held-out training data.
2. The default flip rate is the best one on average over half of the tasks (the first, third, ... of the list).
3. On test data, with other seeds: the default against the best of 25 settings of (alpha, gamma), found per task on
   held-out data; the other half of the tasks judges.
4. Variants (closed loop, per layer, tied, normalised gradients), each with its own best rate, chosen as in 2.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from zerocross.suite.table import Find, Settings, SuiteRun, suite_run
from zerocross.suite.tasks import Task
from zerocross.suite.trials import settings_of
from zerocross.tune.spaces import SPACES

RATES = (1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1)
ALPHAS = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
TRIALS = 25
CHOOSING_SEEDS, JUDGING_SEEDS = range(5), range(5, 10)
OPEN = "open"
VARIANTS: Mapping[str, Settings] = MappingProxyType(
    {
        OPEN: {},
        "closed": {"optimizer.control": "closed"},
        "layer": {"optimizer.control": "layer"},
        "tied": {"optimizer.gamma": None},
        "rms": {"optimizer.normalize": "rms"},
        "sign": {"optimizer.normalize": "sign"},
        "adam": {"optimizer.normalize": "adam"},
    }
)


@dataclass(frozen=True)
class Halves:
    """The tasks that choose defaults, and the tasks that judge them.

    Args:
        choosing: The first, third, ... task.
        judging: The others.
    """

    choosing: Sequence[Task]
    judging: Sequence[Task]


def halves(tasks: Sequence[Task]) -> Halves:
    """Split tasks by their position in the list, so that the split is not a choice."""
    if len(tasks) < 2:
        raise ValueError(
            f"there are {len(tasks)} tasks; one half chooses and the other judges, so there must be at least 2"
        )
    return Halves(tasks[0::2], tasks[1::2])


def flip_runs(task: Task, variant: str, rate: float, *, judge: bool = False) -> list[SuiteRun]:
    """Return a variant with a flip rate, on held-out training data, or (to judge) on test data with other seeds."""
    settings = {"optimizer.flip_rate": rate, **VARIANTS[variant]}
    return _seeds(task, "flip", settings, judge=judge)


def alpha_runs(task: Task, alpha: float) -> list[SuiteRun]:
    """Return the paper's filter with an alpha and gamma = 0.1, on held-out training data."""
    return _seeds(task, "filter", {"optimizer.alpha": alpha, "optimizer.gamma": 0.1})


def search_settings() -> list[Settings]:
    """Return the (alpha, gamma) of a search: the first settings of the Sobol sequence of the filter's space."""
    return settings_of(SPACES["filter"], 32)[:TRIALS]


def search_runs(task: Task, settings: Settings, *, judge: bool = False) -> list[SuiteRun]:
    """Return one setting of the search, on held-out training data, or (to judge) on test data with other seeds."""
    return _seeds(task, "filter", settings, judge=judge)


def _seeds(task: Task, method: str, settings: Settings, *, judge: bool = False) -> list[SuiteRun]:
    seeds = JUDGING_SEEDS if judge else CHOOSING_SEEDS
    return [suite_run(task, method, "one-number", seed, settings, validate=not judge) for seed in seeds]


def choosing_runs(tasks: Sequence[Task], *, variants: bool = True) -> list[SuiteRun]:
    """Return all trainings on held-out data: sensitivity and search on all tasks, variants on those that choose."""
    runs = []
    for task in tasks:
        for rate in RATES:
            runs += flip_runs(task, OPEN, rate)
        for alpha in ALPHAS:
            runs += alpha_runs(task, alpha)
        for settings in search_settings():
            runs += search_runs(task, settings)
    for task in halves(tasks).choosing if variants else ():
        for variant in VARIANTS:
            for rate in RATES:
                runs += flip_runs(task, variant, rate) if variant != OPEN else []
    return runs


def mean_score(runs: Sequence[SuiteRun], find: Find) -> float | None:
    """Return the mean over seeds, or None if a run is missing."""
    scores = scores_of(runs, find)
    return None if scores is None else statistics.fmean(scores)


def scores_of(runs: Sequence[SuiteRun], find: Find) -> list[float] | None:
    """Return the score of each seed, or None if a run is missing."""
    results = [find(run) for run in runs]
    return None if any(result is None for result in results) else [result["score"] for result in results if result]


def default_rate(tasks: Sequence[Task], variant: str, find: Find) -> float | None:
    """Return the best flip rate of a variant on average over the tasks that choose; None if a run is missing."""
    means = {}
    for rate in RATES:
        scores = [mean_score(flip_runs(task, variant, rate), find) for task in halves(tasks).choosing]
        if any(score is None for score in scores):
            return None
        means[rate] = statistics.fmean(score for score in scores if score is not None)
    return max(means, key=lambda rate: means[rate])


def best_settings(task: Task, find: Find) -> Settings | None:
    """Return the (alpha, gamma) of the best trial on held-out data; None if a run is missing."""
    means = [(mean_score(search_runs(task, settings), find), settings) for settings in search_settings()]
    if any(mean is None for mean, _ in means):
        return None
    return max(means, key=lambda pair: pair[0] or 0.0)[1]


def judging_runs(tasks: Sequence[Task], find: Find) -> list[SuiteRun]:
    """Return the trainings on test data whose settings are known already."""
    runs = []
    rates = {variant: default_rate(tasks, variant, find) for variant in VARIANTS}
    for task in tasks:
        if (settings := best_settings(task, find)) is not None:
            runs += search_runs(task, settings, judge=True)
        for variant, rate in rates.items():
            if rate is not None and (variant == OPEN or task in halves(tasks).judging):
                runs += flip_runs(task, variant, rate, judge=True)
    return runs


def measured(tasks: Sequence[Task], find: Find) -> dict[str, Any]:
    """Return all finished results as plain containers."""
    rates = {variant: default_rate(tasks, variant, find) for variant in VARIANTS}
    judging = {task.name for task in halves(tasks).judging}
    rows: dict[str, dict[str, Any]] = {}
    for task in tasks:
        row: dict[str, Any] = {"half": "judges" if task.name in judging else "chooses"}
        row["flip_rate"] = _curve({rate: flip_runs(task, OPEN, rate) for rate in RATES}, find)
        row["alpha"] = _curve({alpha: alpha_runs(task, alpha) for alpha in ALPHAS}, find)
        if (settings := best_settings(task, find)) is not None:
            row["best"] = {"settings": dict(settings), "test": scores_of(search_runs(task, settings, judge=True), find)}
        row["variants"] = {
            variant: scores
            for variant, rate in rates.items()
            if rate is not None and (scores := scores_of(flip_runs(task, variant, rate, judge=True), find)) is not None
        }
        rows[task.name] = row
    return {"rates": rates, "tasks": rows}


def _curve(runs: Mapping[float, Sequence[SuiteRun]], find: Find) -> list[list[Any]]:
    """Return [value, score of each seed] for each value whose runs are all finished."""
    pairs = [(value, scores_of(group, find)) for value, group in runs.items()]
    return [[value, scores] for value, scores in pairs if scores is not None]
