"""The search's own cost: trials a minute by one worker and by several, and what each sampler takes for a suggestion."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna

from zerocross import tune
from zerocross.experiments.objective import Reader, Training
from zerocross.train import Place, from_dict, to_dict
from zerocross.train.config import Config
from zerocross.tune.space import Settings
from zerocross.tune.workers import one_thread, run

TARGET = 1.6  # two workers over one
TRIALS = 25  # of the searches whose suggestions are timed


@dataclass(frozen=True)
class TuneTimes:
    """Trials a minute in each round by number of workers, and seconds a suggestion by sampler and space."""

    trials: int
    rates: dict[int, list[float]]
    suggestions: dict[str, dict[str, float]]

    def rate(self, workers: int) -> float:
        """The median over rounds."""
        return statistics.median(self.rates[workers])

    def gain(self, workers: int) -> float:
        """How many times one worker's throughput."""
        return self.rate(workers) / self.rate(1)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for a file."""
        rates = {str(workers): rates for workers, rates in self.rates.items()}
        gains = {str(workers): self.gain(workers) for workers in self.rates}
        return {"trials": self.trials, "trials_a_minute": rates, "gain": gains, "suggestion_seconds": self.suggestions}


def measure(
    config: Config,
    data_dir: str | None = None,
    *,
    trials: int = 12,
    rounds: int = 3,
    workers: Sequence[int] = (1, 2),
    samplers: Sequence[str] = tune.SAMPLERS,
    say: Callable[[str], object] = str,
) -> TuneTimes:
    """Search with one worker and with several in turn, then time each sampler's suggestions.

    Args:
        config: what a trial trains; random settings of the filter are tried.
        data_dir: where its data are.
        trials: of each search, >= 1.
        rounds: how often each number of workers is measured, >= 1.
        workers: numbers of them; the first is 1.
        samplers: whose suggestions are timed.
        say: told what is going on.
    """
    rates: dict[int, list[float]] = {count: [] for count in workers}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for count in workers:
                say(f"round {number + 1} of {rounds}, {count} worker{'s' * (count > 1)}: {trials} trials")
                file = Path(folder) / f"{number}-{count}.db"
                rates[count].append(_rate(config, data_dir, f"sqlite:///{file}", trials, count, number))
    suggestions: dict[str, dict[str, float]] = {}
    with one_thread():  # as workers on all cores have
        for sampler in samplers:
            say(f"suggestions by {sampler}")
            suggestions[sampler] = {name: _suggestion(sampler, space) for name, space in tune.SPACES.items()}
    return TuneTimes(trials, rates, suggestions)


def _rate(config: Config, data_dir: str | None, url: str, trials: int, workers: int, seed: int) -> float:
    """Trials a minute from the first one's start to the last one's end, without the start of the processes.

    The first trial of each worker is left out: it waits for the data to be read and for torch to warm up.
    """
    about = {"config": to_dict(dataclasses.replace(config, seed=seed))}
    plan = tune.Plan(tune.SPACES["filter"], "random", seed, about=about)
    study = tune.begin_or_join(tune.connect(url), "bench", plan)
    tune.extend(study, trials + workers)
    if failed := [str(ended) for ended in run(workers, _work, url, data_dir) if ended.code]:
        raise RuntimeError(f"a worker has failed: {failed[0]}")
    ends = sorted(one.datetime_complete for one in study.load().get_trials(deepcopy=False) if one.datetime_complete)
    seconds = (ends[-1] - ends[workers - 1]).total_seconds()
    return 60 * (len(ends) - workers) / seconds


def _work(url: str, data_dir: str | None) -> None:
    """A worker, in a process of its own."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = tune.join(tune.connect(url, create=False), "bench")
    tune.work(study, Training(from_dict(study.plan.about["config"]), Reader(Place(data_dir))))


def _suggestion(sampler: str, space: tune.Space) -> float:
    """Mean seconds of a suggestion over a search with an objective that takes no time."""

    def smooth(settings: Settings, report: tune.Report) -> float:
        del report
        return -sum(float(value) ** 2 for value in settings.values() if isinstance(value, float))

    return statistics.fmean(one.sampler_seconds for one in tune.search(smooth, space, TRIALS, sampler).outcomes)
