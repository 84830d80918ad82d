"""One number instead of alpha and gamma: trainings that measure how much a fixed flip rate loses, and where.

1. Screening, on held-out training data: accuracy over the flip rate, over alpha at gamma = 0.1, and over a grid of 25
   settings of (alpha, gamma), with a few seeds.
2. Deciding, on held-out training data: the default flip rate is the best one on average over half of the tasks (the
   first, third, ... of the suite), see `default_rate`. The best settings of each task's grid are repeated
   with more seeds, and the best one is chosen. The variants (closed loop, per layer, tied, normalised gradients) are
   trained at three flip rates around the default, on the tasks that choose it.
3. Judging, on test data with other seeds: the default against the best setting of each task, and the variants, each
   with its own best rate, on the other half of the tasks.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from zerocross.suite.table import COMPILED, Find, Settings, SuiteRun, suite_run
from zerocross.suite.tasks import TASKS, Task

RATES = (1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1)
ALPHAS = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
GAMMA = 0.1
# All nine alphas at the paper's gamma, and all but the smallest at a longer and a shorter inner memory.
GRID = (
    *((alpha, GAMMA) for alpha in ALPHAS),
    *((alpha, gamma) for gamma in (0.03, 0.3) for alpha in ALPHAS[1:]),
)
SCREENING_SEEDS, CURVE_SEEDS = range(2), range(3)  # of each setting of the grid; of each point of a sensitivity curve
CHOOSING_SEEDS, JUDGING_SEEDS = range(5), range(5, 10)
LEAST_NOISE = 0.05  # points; a task without noise must not decide alone
FINALISTS = 6  # settings of the grid that are repeated with all CHOOSING_SEEDS
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
        choosing: The first, third, ... task of the suite.
        judging: The others.
    """

    choosing: Sequence[Task]
    judging: Sequence[Task]


def halves(tasks: Sequence[Task]) -> Halves:
    """Split tasks by their position in the suite, so that the split is not a choice; each half must have a task."""
    first = set(list(TASKS)[0::2])
    split = Halves([task for task in tasks if task.name in first], [task for task in tasks if task.name not in first])
    if not split.choosing or not split.judging:
        raise ValueError(
            f"the tasks {', '.join(task.name for task in tasks)} all belong to one half of the suite; name tasks that "
            f"choose the default ({', '.join(name for name in TASKS if name in first)}) and tasks that judge it (the "
            "others)"
        )
    return split


def flip_runs(task: Task, variant: str, rate: float, seeds: Sequence[int], *, judge: bool = False) -> list[SuiteRun]:
    """Return a variant with a flip rate, on held-out training data, or (to judge) on test data."""
    return _runs(task, "flip", {"optimizer.flip_rate": rate, **VARIANTS[variant]}, seeds, judge=judge)


def grid_runs(task: Task, setting: tuple[float, float], seeds: Sequence[int], *, judge: bool = False) -> list[SuiteRun]:
    """Return the filter with (alpha, gamma), on held-out training data, or (to judge) on test data."""
    alpha, gamma = setting
    return _runs(task, "filter", {"optimizer.alpha": alpha, "optimizer.gamma": gamma}, seeds, judge=judge)


def _runs(task: Task, method: str, settings: Settings, seeds: Sequence[int], *, judge: bool) -> list[SuiteRun]:
    settings = {**settings, **COMPILED}
    return [suite_run(task, method, "one-number", seed, settings, validate=not judge) for seed in seeds]


def screening_runs(tasks: Sequence[Task]) -> list[SuiteRun]:
    """Return the trainings of the first part: flip rates, alphas and the grid, on held-out training data."""
    choosing = halves(tasks).choosing
    runs = []
    for task in tasks:
        for rate in RATES:
            runs += flip_runs(task, OPEN, rate, CHOOSING_SEEDS if task in choosing else CURVE_SEEDS)
        for setting in GRID:
            runs += grid_runs(task, setting, CURVE_SEEDS if setting[1] == GAMMA else SCREENING_SEEDS)
    return runs


def deciding_runs(tasks: Sequence[Task], find: Find, *, variants: bool = True) -> list[SuiteRun]:
    """Return the trainings of the second part, once those of the first are finished.

    Args:
        tasks: The tasks.
        find: Returns the result of a run, or None.
        variants: Also train the variants.
    """
    runs = [
        run for task in tasks for setting in finalists(task, find) for run in grid_runs(task, setting, CHOOSING_SEEDS)
    ]
    if variants:
        for variant in VARIANTS:
            for rate in rates_of(tasks, variant, find) if variant != OPEN else ():
                for task in halves(tasks).choosing:
                    runs += flip_runs(task, variant, rate, CURVE_SEEDS)
    return runs


def mean_score(runs: Sequence[SuiteRun], find: Find) -> float | None:
    """Return the mean over seeds, or None if a run is missing."""
    scores = scores_of(runs, find)
    return None if scores is None else statistics.fmean(scores)


def scores_of(runs: Sequence[SuiteRun], find: Find) -> list[float] | None:
    """Return the score of each seed, or None if a run is missing."""
    results = [find(run) for run in runs]
    return None if any(result is None for result in results) else [result["score"] for result in results if result]


def rates_of(tasks: Sequence[Task], variant: str, find: Find) -> Sequence[float]:
    """Return the flip rates among which a variant's is chosen: all, or the default of OPEN and its neighbours."""
    if variant == OPEN:
        return RATES
    default = default_rate(tasks, OPEN, find)
    if default is None:
        return ()
    at = RATES.index(default)
    return RATES[max(at - 1, 0) : at + 2]


def default_rate(tasks: Sequence[Task], variant: str, find: Find) -> float | None:
    """Return the best flip rate of a variant on average over the tasks that choose; None if a run is missing.

    Scores count in units of their task's noise between seeds: otherwise the task with the fewest held-out samples,
    whose scores are mostly luck, would decide. A rate counts together with its neighbours: on a plateau, where single
    rates differ by luck only, this finds a rate away from its edges.
    """
    seeds = CHOOSING_SEEDS if variant == OPEN else CURVE_SEEDS
    rates = rates_of(tasks, variant, find)
    totals = dict.fromkeys(rates, 0.0)
    for task in halves(tasks).choosing:
        scores = {rate: scores_of(flip_runs(task, variant, rate, seeds), find) for rate in rates}
        groups = [group for group in scores.values() if group is not None]
        if not groups or len(groups) < len(rates):
            return None
        noise = math.sqrt(statistics.fmean(statistics.variance(group) for group in groups))
        for rate, group in zip(rates, groups, strict=True):
            totals[rate] += statistics.fmean(group) / max(noise, LEAST_NOISE)
    heights = list(totals.values())
    smooth = [statistics.fmean(heights[max(at - 1, 0) : at + 2]) for at in range(len(rates))]
    return rates[smooth.index(max(smooth))] if rates else None


def finalists(task: Task, find: Find) -> list[tuple[float, float]]:
    """Return the best settings of the grid after screening; an empty list if a run is missing."""
    return _sorted(task, GRID, SCREENING_SEEDS, find)[:FINALISTS]


def best_setting(task: Task, find: Find) -> tuple[float, float] | None:
    """Return the (alpha, gamma) of the best finalist; None if a run is missing."""
    best = _sorted(task, finalists(task, find), CHOOSING_SEEDS, find)
    return best[0] if best else None


def _sorted(
    task: Task, settings: Sequence[tuple[float, float]], seeds: Sequence[int], find: Find
) -> list[tuple[float, float]]:
    """Return settings by their mean score, equal ones by their mean loss; an empty list if a run is missing."""
    found = {setting: [find(run) for run in grid_runs(task, setting, seeds)] for setting in settings}
    if any(result is None for results in found.values() for result in results):
        return []

    def order(setting: tuple[float, float]) -> tuple[float, float]:
        results = [result for result in found[setting] if result is not None]
        losses = [result.get("loss", math.inf) for result in results]  # a diverged run has none
        return -statistics.fmean(result["score"] for result in results), statistics.fmean(losses)

    return sorted(settings, key=order)


def judging_runs(tasks: Sequence[Task], find: Find) -> list[SuiteRun]:
    """Return the trainings on test data whose settings are known already."""
    runs = []
    rates = {variant: default_rate(tasks, variant, find) for variant in VARIANTS}
    for task in tasks:
        if (setting := best_setting(task, find)) is not None:
            runs += grid_runs(task, setting, JUDGING_SEEDS, judge=True)
        for variant, rate in rates.items():
            if rate is not None and (variant == OPEN or task in halves(tasks).judging):
                runs += flip_runs(task, variant, rate, JUDGING_SEEDS, judge=True)
    return runs


def measured(tasks: Sequence[Task], find: Find) -> dict[str, Any]:
    """Return all finished results as plain containers."""
    rates = {variant: default_rate(tasks, variant, find) for variant in VARIANTS}
    judging = {task.name for task in halves(tasks).judging}
    rows: dict[str, dict[str, Any]] = {}
    for task in tasks:
        row: dict[str, Any] = {"half": "judges" if task.name in judging else "chooses"}
        row["flip_rate"] = _curve({rate: flip_runs(task, OPEN, rate, CURVE_SEEDS) for rate in RATES}, find)
        row["alpha"] = _curve({alpha: grid_runs(task, (alpha, GAMMA), CURVE_SEEDS) for alpha in ALPHAS}, find)
        row["grid"] = [
            [*setting, scores]
            for setting in GRID
            if (scores := scores_of(grid_runs(task, setting, SCREENING_SEEDS), find)) is not None
        ]
        if (setting := best_setting(task, find)) is not None:
            test = scores_of(grid_runs(task, setting, JUDGING_SEEDS, judge=True), find)
            row["best"] = {"settings": {"alpha": setting[0], "gamma": setting[1]}, "test": test}
        row["variants"] = {
            variant: scores
            for variant, rate in rates.items()
            if rate is not None
            and (scores := scores_of(flip_runs(task, variant, rate, JUDGING_SEEDS, judge=True), find)) is not None
        }
        rows[task.name] = row
    return {"rates": rates, "tasks": rows}


def _curve(runs: Mapping[float, Sequence[SuiteRun]], find: Find) -> list[list[Any]]:
    """Return [value, score of each seed] for each value whose runs are all finished."""
    pairs = [(value, scores_of(group, find)) for value, group in runs.items()]
    return [[value, scores] for value, scores in pairs if scores is not None]
