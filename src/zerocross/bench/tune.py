"""The search's own cost: trials a minute by one worker and by several, and what each sampler takes for a suggestion."""

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

TARGET = 1.6  # two workers over one, each on one thread
TRIALS = 25  # of the searches whose suggestions are timed


@dataclass(frozen=True)
class WorkerSetup:
    """Workers of a search.

    Args:
        workers: how many processes.
        alone: whether each has one thread only, also where there are cores left.
    """

    workers: int
    alone: bool = True

    @property
    def label(self) -> str:
        """How a table names it."""
        threads = "1 thread each" if self.alone else "all threads"
        return f"{self.workers} worker{'s' * (self.workers > 1)}, {threads}"


ONE, ALL_THREADS, TWO = WorkerSetup(1), WorkerSetup(1, alone=False), WorkerSetup(2)


@dataclass(frozen=True)
class TuneTimes:
    """Trials a minute in each round by crew, and seconds a suggestion by sampler and space."""

    trials: int
    rates: dict[WorkerSetup, list[float]]
    suggestions: dict[str, dict[str, float]]

    def rate(self, crew: WorkerSetup) -> float:
        """The median over rounds."""
        return statistics.median(self.rates[crew])

    def gain(self, crew: WorkerSetup) -> float:
        """How many times the throughput of one worker on one thread."""
        return self.rate(crew) / self.rate(ONE)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for a file."""
        rates = {crew.label: rates for crew, rates in self.rates.items()}
        gains = {crew.label: self.gain(crew) for crew in self.rates}
        return {"trials": self.trials, "trials_a_minute": rates, "gain": gains, "suggestion_seconds": self.suggestions}


def measure(
    config: Config,
    data_dir: str | None = None,
    *,
    trials: int = 12,
    rounds: int = 3,
    crews: Sequence[WorkerSetup] = (ONE, ALL_THREADS, TWO),
    samplers: Sequence[str] = tune.SAMPLERS,
    say: Callable[[str], object] = str,
) -> TuneTimes:
    """Search with one worker and with several in turn, then time each sampler's suggestions.

    Args:
        config: what a trial trains; random settings of the filter are tried.
        data_dir: where its data are.
        trials: of each search, >= 1.
        rounds: how often each crew is measured, >= 1.
        crews: who searches; ONE among them.
        samplers: whose suggestions are timed.
        say: told what is going on.
    """
    rates: dict[WorkerSetup, list[float]] = {crew: [] for crew in crews}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for place, crew in enumerate(crews):
                say(f"round {number + 1} of {rounds}, {crew.label}: {trials} trials")
                url = f"sqlite:///{Path(folder) / f'{number}-{place}.db'}"
                rates[crew].append(_rate(config, data_dir, url, trials, crew, number))
    suggestions: dict[str, dict[str, float]] = {}
    with one_thread():  # as workers on all cores have
        for sampler in samplers:
            say(f"suggestions by {sampler}")
            suggestions[sampler] = {name: _suggestion(sampler, tune.SPACES[name]) for name in ("filter", "latent")}
    return TuneTimes(trials, rates, suggestions)


def _rate(config: Config, data_dir: str | None, url: str, trials: int, crew: WorkerSetup, seed: int) -> float:
    """Trials a minute from the first one's start to the last one's end, without the start of the processes.

    The first trial of each worker is left out: it waits for the data to be read and for torch to warm up.
    """
    about = {"config": to_dict(dataclasses.replace(config, seed=seed))}
    plan = tune.StudyPlan(tune.SPACES["filter"], "random", seed, about=about)
    study = tune.begin_or_join(tune.connect(url), "bench", plan)
    workers = crew.workers
    tune.extend(study, trials + workers)
    if failed := [str(ended) for ended in run(workers, _work, url, data_dir, crew.alone) if ended.code]:
        raise RuntimeError(f"a worker has failed: {failed[0]}")
    ends = sorted(one.datetime_complete for one in study.load().get_trials(deepcopy=False) if one.datetime_complete)
    seconds = (ends[-1] - ends[workers - 1]).total_seconds()
    return 60 * (len(ends) - workers) / seconds


def _work(url: str, data_dir: str | None, alone: bool) -> None:
    """A worker, in a process of its own."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = tune.join(tune.connect(url, create=False), "bench")
    with one_thread() if alone else nullcontext():
        tune.work(study, Training(from_dict(study.plan.about["config"]), Reader(Placement(data_dir))))


def _suggestion(sampler: str, space: tune.SearchSpace) -> float:
    """Mean seconds of a suggestion over a search with an objective that takes no time."""

    def smooth(settings: Settings, report: tune.Report) -> float:
        del report
        return -sum(float(value) ** 2 for value in settings.values() if isinstance(value, float))

    return statistics.fmean(one.sampler_seconds for one in tune.search(smooth, space, TRIALS, sampler).outcomes)
