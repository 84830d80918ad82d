"""Many runs: what the results folder holds is read, the rest is trained, one by one or side by side."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from zerocross import train
from zerocross.sweep.cache import RunCache, failure
from zerocross.sweep.jobs import Interrupted, side_by_side
from zerocross.sweep.progress import Progress
from zerocross.train.build import check
from zerocross.train.config import Config
from zerocross.train.precision import settled


def name_of(config: Config) -> str:
    """A run's name in lines of progress."""
    return f"{config.method}, seed {config.seed}"


def run_all(
    configs: Iterable[Config],
    place: train.Placement,
    results: Path,
    work: Path,
    *,
    show: bool = True,
    jobs: int = 1,
    keep: bool = False,
    describe: Callable[[Config], str] = name_of,
) -> list[dict[str, Any]]:
    """The results of all configs, in their order.

    Each result is written to results/HASH.json as soon as it is there, and read from there the next time. A run that
    fails is {"hash", "config", "failed": reason}, is not kept, and does not stop the others. Raises Interrupted on
    SIGINT or SIGTERM; what was under way has saved itself, and the same call goes on from there.

    Args:
        configs: Equal ones are run once.
        place: Data and device of all runs: one process each.
        results: Where results are.
        work: Where unfinished runs have their folders.
        show: Progress on the terminal.
        jobs: Runs at a time, at least 1. More than one take a process and a share of the threads each: small networks
            train faster side by side on one thread each than in turn on all of them.
        keep: Keep the folders of finished runs (weights, metrics), too.
        describe: A run's name in lines of progress.
    """
    if jobs < 1:
        raise ValueError(f"jobs is {jobs}; it must be at least 1")
    if place.processes != 1:
        raise ValueError(f"many runs take one device each, not {place.devices} x {place.nodes}; raise jobs instead")
    configs = [settled(config, place.accelerator) for config in configs]
    wanted = {config.hash: config for config in configs}
    shelf = RunCache(place, results, work, keep)
    outcomes = {key: found for key, config in wanted.items() if (found := shelf.find(config)) is not None}
    todo = [config for key, config in wanted.items() if key not in outcomes]
    check_all(todo, place)
    jobs = max(1, min(jobs, len(todo)))
    progress = Progress(todo, list(outcomes.values()), results, jobs=jobs, describe=describe, show=show)
    run = side_by_side if jobs > 1 else one_by_one
    outcomes |= run(todo, shelf, progress, jobs)
    return [outcomes[config.hash] for config in configs]


def one_by_one(todo: Sequence[Config], shelf: RunCache, progress: Progress, jobs: int = 1) -> dict[str, dict[str, Any]]:
    """Train in this process, on all its threads."""
    del jobs
    outcomes = {}
    for config in todo:
        progress.begin(config)
        try:
            outcome = shelf.finish(config, show=progress.show, say=progress.say)
        except train.RunError as failed:
            outcome = failure(config, str(failed))
        except train.Stopped as stopped:
            raise Interrupted(stopped.exit_code - 128, f"{stopped}, {progress.standing()}") from stopped
        except KeyboardInterrupt as stopped:  # between two updates of no run: while data are read, for one
            raise Interrupted(signal.SIGINT, f"stopped, {progress.standing()}") from stopped
        outcomes[config.hash] = outcome
        progress.end(config, outcome)
    return outcomes


def check_all(todo: Sequence[Config], place: train.Placement) -> None:
    """Refuse, before the first run, what one of them would refuse later; data that are missing, too."""
    sources = {str(config.data): config for config in todo}
    for source, first in sources.items():
        dataset = train.load_data(first, place)
        for config in todo:
            if str(config.data) == source:
                check(config, dataset, processes=1)
