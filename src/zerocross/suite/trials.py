"""Tables of settings: a Sobol sequence over a space, with a few seeds per setting, from which searches are simulated.

The result of random search after k trials is exact: the expectation over all draws of k settings without replacement.
A search sees one seed; the quality of the setting it selects is the mean over the other seeds.
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

# name -> (space, with the method among its fixed settings; number of settings to draw, a power of two)
SPACES: Mapping[str, tuple[SearchSpace, int]] = MappingProxyType(
    {"filter": (SEARCHED["filter"], 128), "latent": (SEARCHED["latent"], 128)}
)
TRIALS = (1, 2, 5, 10, 25)
_SOBOL_SEED = 8


def settings_of(space: SearchSpace, count: int) -> list[Settings]:
    """Draw settings of a space by a scrambled Sobol sequence with a fixed seed; numbers have four digits."""
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
    """Return the trainings of a table, evaluated on held-out training data, by setting and then by seed."""
    space, _ = SPACES[name]
    method = str(space.fixed["method"])
    return [
        suite_run(task, method, f"settings:{name}", seed, settings, validate=True)
        for settings in settings_of(space, count)
        for seed in range(seeds)
    ]


def table_of(task: Task, name: str, count: int, seeds: int, find: Find) -> np.ndarray | None:
    """Return the scores as an array of settings by seeds; None if a run is missing."""
    results = [find(run) for run in runs(task, name, count, seeds)]
    scores = [result["score"] for result in results if result is not None]
    return np.array(scores).reshape(count, seeds) if len(scores) == len(results) else None


def random_search(table: np.ndarray) -> np.ndarray:
    """Return the exact expected quality of random search after 1, 2, ... n trials, averaged over the seed that it sees.

    Args:
        table: Scores of settings by seeds, with at least 2 seeds.
    """
    count, seeds = table.shape
    if seeds < 2:
        raise ValueError(
            f"the table has {seeds} seed; at least 2 are needed, one for the search and one for its quality"
        )
    curves = []
    for seen in range(seeds):
        quality = np.delete(table, seen, axis=1).mean(axis=1)
        order = np.argsort(-table[:, seen], kind="stable")
        # The setting of rank r is the best of k if the k - 1 others are among the n - r worse ones.
        curves.append(
            [
                sum(math.comb(count - 1 - r, k - 1) * quality[order[r]] for r in range(count)) / math.comb(count, k)
                for k in range(1, count + 1)
            ]
        )
    return np.mean(curves, axis=0)


def regret(curve: np.ndarray, best: float, trials: Sequence[int] = TRIALS) -> dict[int, float]:
    """Return the difference to `best`, in points, after given numbers of trials."""
    return {k: best - float(curve[k - 1]) for k in trials if k <= len(curve)}


def trials_to(curve: np.ndarray, best: float, points: float) -> int | None:
    """Return the number of trials until the expected quality is within `points` of `best`; None if it never is."""
    near = [k for k, quality in enumerate(curve, 1) if quality >= best - points]
    return near[0] if near else None
