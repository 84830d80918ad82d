"""Tables of settings: a Sobol sequence over a space, with a few seeds per setting, from which searches are simulated.

The expected result of random search after k trials is exact: the mean over all draws of k settings without replacement.
Bayesian search (suite/bayes.py) chooses among the settings of the table. A search sees one seed; the quality of the
setting that it returns is the mean over the other seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

import numpy as np
from scipy.special import gammaln
from scipy.stats import qmc

from zerocross.suite.table import COMPILED, Find, Settings, SuiteRun, suite_run
from zerocross.suite.tasks import Task
from zerocross.tune.space import Parameter, SearchSpace, Value
from zerocross.tune.spaces import SPACES as SEARCHED

# space -> number of settings in its table, a power of two
SPACES: Mapping[str, int] = MappingProxyType(
    {"flip": 32, "filter": 128, "latent": 128, "latent-narrow": 64, "latent-wide": 64}
)
TRIALS = (1, 2, 5, 10, 25)
POINTS = (0.5, 1.0, 2.0)
_SOBOL_SEED = 8


def shares_of(space: SearchSpace, count: int) -> np.ndarray:
    """Return points of the unit cube, (count, parameters), from a scrambled Sobol sequence with a fixed seed."""
    return qmc.Sobol(len(space.parameters), scramble=True, rng=_SOBOL_SEED).random(count)


def settings_of(space: SearchSpace, count: int) -> list[Settings]:
    """Return the settings at these points; numbers are rounded to four digits."""
    return [
        {part.name: _value(part, float(share)) for part, share in zip(space.parameters, row, strict=True)}
        for row in shares_of(space, count)
    ]


def _value(part: Parameter, share: float) -> Value:
    if part.choices:
        return part.choices[int(share * len(part.choices))]
    low, high = part.ends
    value = low * (high / low) ** share if part.log else low + share * (high - low)
    return float(f"{value:.4g}")


def coordinates(space: SearchSpace, count: int) -> np.ndarray:
    """Return the settings as inputs of a model: numbers in [0, 1], choices as equidistant points."""
    shares = shares_of(space, count)
    for column, part in enumerate(space.parameters):
        if part.choices:
            choices = len(part.choices)
            shares[:, column] = np.floor(shares[:, column] * choices) / (choices - 1)
    return shares


def is_possible(settings: Settings) -> bool:
    """Return False for a setting that latent-sgd refuses: lr * weight_decay, which is alpha, must be at most 1."""
    return float(settings.get("optimizer.lr", 0.0)) * float(settings.get("optimizer.weight_decay", 0.0)) <= 1


def runs(task: Task, name: str, count: int, seeds: int) -> list[SuiteRun]:
    """Return the trainings of a table, on held-out training data, by setting and then by seed."""
    space = SEARCHED[name]
    method = str(space.fixed["method"])
    return [
        suite_run(task, method, f"settings:{name}", seed, {**settings, **COMPILED}, validate=True)
        for settings in settings_of(space, count)
        if is_possible(settings)
        for seed in range(seeds)
    ]


def table_of(task: Task, name: str, count: int, seeds: int, find: Find) -> np.ndarray | None:
    """Return the scores, settings by seeds; None if a run is missing. An impossible setting scores 0."""
    results = [find(run) for run in runs(task, name, count, seeds)]
    scores = [result["score"] for result in results if result is not None]
    if len(scores) < len(results):
        return None
    table = np.zeros((count, seeds))
    table[[is_possible(settings) for settings in settings_of(SEARCHED[name], count)]] = np.reshape(scores, (-1, seeds))
    return table


def qualities(table: np.ndarray) -> np.ndarray:
    """Return the mean over all other seeds, for each seed and setting: (seeds, settings).

    Raises:
        ValueError: If the table has fewer than two seeds.
    """
    seeds = table.shape[1]
    if seeds < 2:
        raise ValueError(
            f"the table has {seeds} seed; at least 2 are needed, one for the search and one for its quality"
        )
    return (table.sum(axis=1) - table.T) / (seeds - 1)


def random_search(table: np.ndarray) -> np.ndarray:
    """Return the expected quality of random search after 1, 2, ... n trials, averaged over the seed that it sees.

    Args:
        table: Scores, settings by seeds, at least 2 seeds.
    """
    order = np.argsort(-table.T, axis=1, kind="stable")
    return np.take_along_axis(qualities(table), order, axis=1).mean(axis=0) @ _chances(len(table))


@cache
def _chances(count: int) -> np.ndarray:
    """Return [r, k - 1]: the probability that rank r is the best of k settings, the others being worse."""
    rank, k = np.arange(count)[:, None], np.arange(1, count + 1)[None, :]
    worse = count - 1 - rank
    possible = worse >= k - 1
    log = _log_binomial(np.where(possible, worse, k - 1), k - 1) - _log_binomial(np.full_like(k, count), k)
    return np.where(possible, np.exp(log), 0.0)


def _log_binomial(n: np.ndarray, k: np.ndarray) -> np.ndarray:
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def regret(curve: np.ndarray, best: float, trials: Sequence[int] = TRIALS) -> dict[int, float]:
    """Return the difference to `best`, in points, after given numbers of trials."""
    return {k: best - float(curve[k - 1]) for k in trials if k <= len(curve)}


def trials_to(curve: np.ndarray, best: float, points: float) -> int | None:
    """Return the number of trials until the expected quality is within `points` of `best`; None if it never is."""
    near = np.flatnonzero(curve >= best - points - 1e-9)  # probabilities are rounded
    return int(near[0]) + 1 if len(near) else None
