"""Trainings as jobs: a config, where its data are, and the time it will take by that of similar ones."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from zerocross import train
from zerocross.models.style import Style
from zerocross.sweep.cache import RunCache
from zerocross.sweep.execute import run_jobs
from zerocross.sweep.execution import Execution
from zerocross.sweep.job import Job, Kind, Known, Result
from zerocross.train.build import check
from zerocross.train.config import Config, build_part, from_dict, resolved, to_dict
from zerocross.train.precision import settled

# What makes two runs take equally long for an epoch, from the closest likeness to a loose one.
_LIKENESS = (
    ("data", "model", "method", "batch_size", "precision", "compile", "stages"),
    ("data", "model", "method"),
    ("data", "size"),
)
_STYLE = {field.name for field in fields(Style)}  # how a network is binary, which matters less than its size


def run_all(
    configs: Iterable[Config],
    place: train.Placement,
    cache: RunCache,
    execution: Execution | None = None,
    *,
    show: bool = True,
    describe: Callable[[Config], str] | None = None,
) -> list[Result]:
    """The results of all configs, in their order; what the cache holds is not trained again.

    A run that fails is {"hash", "config", "failed": reason}, is not kept, and does not stop the others.

    Args:
        configs: Equal ones are run once.
        place: Data and device of all runs: one process each.
        cache: Where results are kept.
        execution: How many at a time, and where; by default one, here.
        show: Progress on the terminal.
        describe: A run's name in lines of progress.

    Raises:
        Interrupted: on SIGINT or SIGTERM; see run_jobs.
    """
    if place.processes != 1:
        raise ValueError(f"many runs take one device each, not {place.devices} x {place.nodes}; raise jobs instead")
    configs = list(configs)
    check_precision(configs, execution)
    configs = [settled(config, place.accelerator) for config in configs]
    jobs = [training(config, place, describe) for config in configs]
    found = {job.key for job in jobs if cache.find(job) is not None}
    check_all([config for config in configs if config.hash not in found], place)
    return run_jobs(jobs, cache, execution, show=show)


def training(config: Config, place: train.Placement, describe: Callable[[Config], str] | None = None) -> Job:
    """The job of a config."""
    label = describe(config) if describe else f"{config.method}, seed {config.seed}"
    return Job(config.hash, KIND, label, {"config": to_dict(config), "place": dataclasses.asdict(place)})


def check_precision(configs: Iterable[Config], execution: Execution | None) -> None:
    """Refuse a precision that is not named on a cluster: machines would settle it differently."""
    if execution is not None and execution.cluster == "slurm" and any(each.precision == "auto" for each in configs):
        raise ValueError(
            "precision is 'auto', which would be settled by this machine, not by the cluster's; name it: "
            "--set precision=bf16, or 32"
        )


def check_all(configs: Sequence[Config], place: train.Placement) -> None:
    """Refuse, before the first run, what one of them would refuse later; data that are missing, too."""
    sources = {str(config.data): config for config in configs}
    for source, first in sources.items():
        dataset = train.load_data(first, place)
        for config in configs:
            if str(config.data) == source:
                check(config, dataset, processes=1)


def guessed_seconds(config: Config, known: Sequence[Mapping[str, Any]]) -> float | None:
    """How long a run will take, by the epochs of the finished runs that are most like it; None if there is none."""
    mine = _described(to_dict(resolved(config)))  # as results have it
    described = [(each, _described(each["config"])) for each in known]
    for names in _LIKENESS:
        alike = [each for each, theirs in described if all(theirs[name] == mine[name] for name in names)]
        if alike:
            return statistics.fmean(each["seconds"] / _epochs(each["config"]) for each in alike) * _epochs(mine)
    return None


def _described(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config with the size of its network beside it."""
    options = {name: value for name, value in config["model"]["options"].items() if name not in _STYLE}
    return {**config, "size": [config["model"]["name"], options]}


def _epochs(config: Mapping[str, Any]) -> int:
    return sum(stage["epochs"] for stage in config["stages"])


def _check(job: Job, result: Result) -> None:
    if result["hash"] != job.key or from_dict(result["config"]).hash != job.key:
        raise ValueError("it holds the result of another config")
    float(result["final"]["top1"])


def _work(job: Job, folder: Path, show: bool) -> Result:
    place = build_part(train.Placement, job.payload["place"], "place.")
    if (folder / "config.json").exists():
        return train.resume(folder, data_dir=place.data_dir, show=show).result
    return train.begin(from_dict(job.payload["config"]), folder, place, show=show).result


def _guess(job: Job, known: Known) -> float | None:
    return guessed_seconds(from_dict(job.payload["config"]), [result for _, result in known])


KIND = Kind(
    "training",
    noun="run",
    parts=("hash", "config", "evaluated_on", "data", "final", "history", "ff_ratio", "seconds", "provenance"),
    check=_check,
    work=_work,
    score=lambda result: f"{result['evaluated_on']} {result['final']['top1']:.2f} %",
    guess=_guess,
)
