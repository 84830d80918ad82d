"""Cost of a search: trials per minute with one worker and with several, and seconds per suggestion of each sampler."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna

from zerocross import tune
from zerocross.sweep.objective import Reader, Training
from zerocross.train import Placement, from_dict, to_dict
from zerocross.train.config import Config
from zerocross.tune.space import Settings
from zerocross.tune.workers import one_thread, run

TARGET = 1.6  # throughput of two workers over that of one, each on one thread
TRIALS = 25  # trials of the searches whose suggestions are timed


@dataclass(frozen=True)
class WorkerSetup:
    """Workers of a search.

    Args:
        workers: Number of processes.
        alone: Give each process one thread only, even if cores remain idle.
    """

    workers: int
    alone: bool = True

    @property
    def label(self) -> str:
        """Name in tables."""
        threads = "1 thread each" if self.alone else "all threads"
        return f"{self.workers} worker{'s' * (self.workers > 1)}, {threads}"


ONE, ALL_THREADS, TWO = WorkerSetup(1), WorkerSetup(1, alone=False), WorkerSetup(2)


@dataclass(frozen=True)
class TuneTimes:
    """Trials per minute in each round by setup, and seconds per suggestion by sampler and space."""

    trials: int
    rates: dict[WorkerSetup, list[float]]
    suggestions: dict[str, dict[str, float]]

    def rate(self, setup: WorkerSetup) -> float:
        """Return the median over rounds."""
        return statistics.median(self.rates[setup])

    def gain(self, setup: WorkerSetup) -> float:
        """Return the throughput relative to one worker on one thread."""
        return self.rate(setup) / self.rate(ONE)

    def as_dict(self) -> dict[str, Any]:
        """Return all measurements as plain values for a file."""
        rates = {setup.label: rates for setup, rates in self.rates.items()}
        gains = {setup.label: self.gain(setup) for setup in self.rates}
        return {"trials": self.trials, "trials_a_minute": rates, "gain": gains, "suggestion_seconds": self.suggestions}


def measure(
    config: Config,
    data_dir: str | None = None,
    *,
    trials: int = 12,
    rounds: int = 3,
    setups: Sequence[WorkerSetup] = (ONE, ALL_THREADS, TWO),
    samplers: Sequence[str] = tune.SAMPLERS,
    say: Callable[[str], object] = str,
) -> TuneTimes:
    """Search with one worker and with several in turn, then time each sampler's suggestions.

    Args:
        config: The training of a trial; random settings of the filter are tried.
        data_dir: Folder with its data.
        trials: Trials of each search, >= 1.
        rounds: Measurements of each setup, >= 1.
        setups: Setups to measure; must include ONE.
        samplers: Samplers whose suggestions are timed.
        say: Called with progress messages.
    """
    rates: dict[WorkerSetup, list[float]] = {setup: [] for setup in setups}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for index, setup in enumerate(setups):
                say(f"round {number + 1} of {rounds}, {setup.label}: {trials} trials")
                url = f"sqlite:///{Path(folder) / f'{number}-{index}.db'}"
                rates[setup].append(_rate(config, data_dir, url, trials, setup, number))
    suggestions: dict[str, dict[str, float]] = {}
    with one_thread():  # as for workers on all cores
        for sampler in samplers:
            say(f"suggestions by {sampler}")
            suggestions[sampler] = {name: _suggestion(sampler, tune.SPACES[name]) for name in ("filter", "latent")}
    return TuneTimes(trials, rates, suggestions)


def _rate(config: Config, data_dir: str | None, url: str, trials: int, setup: WorkerSetup, seed: int) -> float:
    """Return trials per minute, without the time to start the processes.

    The first trial of each worker is left out: it includes reading the data and warming up torch.
    """
    about = {"config": to_dict(dataclasses.replace(config, seed=seed))}
    plan = tune.StudyPlan(tune.SPACES["filter"], "random", seed, about=about)
    study = tune.begin_or_join(tune.connect(url), "bench", plan)
    workers = setup.workers
    tune.extend(study, trials + workers)
    if failed := [str(ended) for ended in run(workers, _work, url, data_dir, setup.alone) if ended.code]:
        raise RuntimeError(f"a worker failed: {failed[0]}")
    ends = sorted(one.datetime_complete for one in study.load().get_trials(deepcopy=False) if one.datetime_complete)
    seconds = (ends[-1] - ends[workers - 1]).total_seconds()
    return 60 * (len(ends) - workers) / seconds


def _work(url: str, data_dir: str | None, alone: bool) -> None:
    """Run a worker in its own process."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = tune.join(tune.connect(url, create=False), "bench")
    with one_thread() if alone else nullcontext():
        tune.work(study, Training(from_dict(study.plan.about["config"]), Reader(Placement(data_dir))))


def _suggestion(sampler: str, space: tune.SearchSpace) -> float:
    """Return the mean seconds per suggestion in a search whose objective takes no time."""

    def smooth(settings: Settings, report: tune.Report) -> float:
        del report
        return -sum(float(value) ** 2 for value in settings.values() if isinstance(value, float))

    return statistics.fmean(one.sampler_seconds for one in tune.search(smooth, space, TRIALS, sampler).outcomes)
