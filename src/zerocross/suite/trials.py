"""Tables of settings: a space's settings by a Sobol sequence, a few seeds each; searches are then read off the table.

What random search finds after k trials is exact: the expectation over all draws of k settings without replacement. A
search sees one seed; the quality of what it finds is the mean over the seeds that it did not see.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from scipy.stats import qmc

from zerocross.suite.table import Find, Settings, SuiteRun, suite_run
from zerocross.suite.tasks import Task
from zerocross.tune.space import Parameter, SearchSpace, Value
from zerocross.tune.spaces import SPACES as SEARCHED

# name -> the space, with the method in its fixed settings, and the settings that are drawn: a power of two
SPACES: Mapping[str, tuple[SearchSpace, int]] = MappingProxyType(
    {"filter": (SEARCHED["filter"], 128), "latent": (SEARCHED["latent"], 128)}
)
TRIALS = (1, 2, 5, 10, 25)
_SOBOL_SEED = 8


def settings_of(space: SearchSpace, count: int) -> list[Settings]:
    """Settings of a space by a scrambled Sobol sequence of a fixed seed; numbers have four digits."""
    shares = qmc.Sobol(len(space.parameters), scramble=True, rng=_SOBOL_SEED).random(count)
    return [
        {part.name: _value(part, float(share)) for part, share in zip(space.parameters, row, strict=True)}
        for row in shares
    ]


def _value(part: Parameter, share: float) -> Value:
    if part.choices:
        return part.choices[int(share * len(part.choices))]
    low, high = part.ends
    value = low * (high / low) ** share if part.log else low + share * (high - low)
    return float(f"{value:.4g}")


def runs(task: Task, name: str, count: int, seeds: int) -> list[SuiteRun]:
    """The trainings of a table, on held-out training data: setting by setting, seeds within."""
    space, _ = SPACES[name]
    method = str(space.fixed["method"])
    return [
        suite_run(task, method, f"settings:{name}", seed, settings, validate=True)
        for settings in settings_of(space, count)
        for seed in range(seeds)
    ]


def table_of(task: Task, name: str, count: int, seeds: int, find: Find) -> np.ndarray | None:
    """The scores, settings by seeds; None if a run is missing."""
    found = [find(run) for run in runs(task, name, count, seeds)]
    scores = [result["score"] for result in found if result is not None]
    return np.array(scores).reshape(count, seeds) if len(scores) == len(found) else None


def random_search(table: np.ndarray) -> np.ndarray:
    """Expected quality of what random search finds after 1, 2, ... n trials: exact, the mean over the seed it sees.

    Args:
        table: Settings by seeds, at least 2 seeds.
    """
    count, seeds = table.shape
    if seeds < 2:
        raise ValueError(f"the table has {seeds} seed; quality takes at least one more than a search sees")
    curves = []
    for seen in range(seeds):
        quality = np.delete(table, seen, axis=1).mean(axis=1)
        order = np.argsort(-table[:, seen], kind="stable")
        # The setting of rank r is the best of k: k - 1 others come from the n - r worse ones.
        curves.append(
            [
                sum(math.comb(count - 1 - r, k - 1) * quality[order[r]] for r in range(count)) / math.comb(count, k)
                for k in range(1, count + 1)
            ]
        )
    return np.mean(curves, axis=0)


def regret(curve: np.ndarray, best: float, trials: Sequence[int] = TRIALS) -> dict[int, float]:
    """Points below `best` after some numbers of trials."""
    return {k: best - float(curve[k - 1]) for k in trials if k <= len(curve)}


def trials_to(curve: np.ndarray, best: float, points: float) -> int | None:
    """Trials until the expected quality is within some points of `best`; None if it never is."""
    near = [k for k, quality in enumerate(curve, 1) if quality >= best - points]
    return near[0] if near else None
