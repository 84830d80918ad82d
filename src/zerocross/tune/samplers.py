"""Samplers by name."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

SAMPLERS = ("botorch", "gp", "tpe", "random")
"""The names of samplers.

Examples:
    >>> from zerocross import tune
    >>> tune.SAMPLERS
    ('botorch', 'gp', 'tpe', 'random')
"""
STARTUP = 5  # random trials before the first model: a fifth of the paper's 25


def check(name: str) -> None:
    """Raise ValueError if a sampler is unknown or its package is not installed."""
    if name not in SAMPLERS:
        raise ValueError(f"sampler {name!r} is unknown; choose one of {', '.join(SAMPLERS)}")
    if name == "botorch":
        try:
            importlib.import_module("optuna_integration.botorch")
            importlib.import_module("botorch")
        except ImportError as error:
            raise ValueError(
                f"sampler 'botorch' requires a package ({error}): pip install 'zerocross[tune]'"
            ) from error


class TimedSampler(BaseSampler):
    """A sampler wrapper that measures the sampler's own time, without that of the storage."""

    def __init__(self, sampler: BaseSampler) -> None:
        self.sampler = sampler
        self.seconds = 0.0

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Delegate to the sampler."""
        return self._count(self.sampler.infer_relative_search_space, study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Delegate to the sampler."""
        return self._count(self.sampler.sample_relative, study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Delegate to the sampler."""
        return self._count(self.sampler.sample_independent, study, trial, param_name, param_distribution)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Delegate to the sampler."""
        self._count(self.sampler.before_trial, study, trial)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Delegate to the sampler."""
        self.sampler.after_trial(study, trial, state, values)

    def _count(self, method: Callable[..., Any], *args: Any) -> Any:
        start = time.perf_counter()
        try:
            return method(*args)
        finally:
            self.seconds += time.perf_counter() - start


def build(name: str, seed: int, number: int, *, pending: bool = False) -> BaseSampler:
    """Create the sampler of one trial; it depends on seed, trial number and history, not on the process.

    Args:
        name: "botorch" (BoTorch's Gaussian process, log expected improvement), "gp" (Optuna's own), "tpe", "random".
        seed: Seed of the study.
        number: Number of the trial, counted without retries.
        pending: True if other trials are running; BoTorch then takes them into account, which takes more time. The
            other samplers always do.
    """
    check(name)
    trial_seed = int(np.random.SeedSequence([seed, number]).generate_state(1)[0]) >> 1  # torch and numpy take 31 bits
    if name == "random":
        return optuna.samplers.RandomSampler(seed=trial_seed)
    if name == "tpe":
        return optuna.samplers.TPESampler(n_startup_trials=STARTUP, seed=trial_seed)
    if name == "gp":
        return optuna.samplers.GPSampler(n_startup_trials=STARTUP, seed=trial_seed)
    botorch: Any = importlib.import_module("optuna_integration.botorch")
    acquisition = botorch.qlogei_candidates_func if pending else botorch.logei_candidates_func
    return botorch.BoTorchSampler(
        n_startup_trials=STARTUP, seed=trial_seed, consider_running_trials=pending, candidates_func=acquisition
    )
