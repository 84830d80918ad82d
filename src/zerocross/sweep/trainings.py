"""Trainings as jobs: a config, the placement of its data, and an estimate of its time from similar runs."""

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

# Settings that make the epochs of two runs take equally long, from the strictest similarity to the loosest.
_SIMILARITY = (
    ("data", "model", "method", "batch_size", "precision", "compile", "stages"),
    ("data", "model", "method"),
    ("data", "size"),
)
_STYLE = {field.name for field in fields(Style)}  # options of binarization, which affect the time less than the size


def run_all(
    configs: Iterable[Config],
    place: train.Placement,
    cache: RunCache,
    execution: Execution | None = None,
    *,
    show: bool = True,
    describe: Callable[[Config], str] | None = None,
) -> list[Result]:
    """Return the results of all configs, in their order; finished runs are read from the cache.

    A failing run does not stop the others. In place of its result it returns {"hash", "config", "failed": reason},
    which is not cached.

    Args:
        configs: The configs to train. Equal configs run once.
        place: Data and device of all runs; each run uses one process.
        cache: The cache of results.
        execution: How many runs at a time, and where; by default one, in this process.
        show: Show progress on the terminal.
        describe: Returns the name of a run for progress messages.

    Raises:
        Interrupted: on SIGINT or SIGTERM; see run_jobs.
    """
    if place.processes != 1:
        raise ValueError(f"a run of a sweep uses one device, not {place.devices} x {place.nodes}; raise jobs instead")
    configs = list(configs)
    check_precision(configs, execution)
    configs = [settled(config, place.accelerator) for config in configs]
    jobs = [training(config, place, describe) for config in configs]
    cached = {job.key for job in jobs if cache.find(job) is not None}
    check_all([config for config in configs if config.hash not in cached], place)
    return run_jobs(jobs, cache, execution, show=show)


def training(config: Config, place: train.Placement, describe: Callable[[Config], str] | None = None) -> Job:
    """Return the job of a config."""
    label = describe(config) if describe else f"{config.method}, seed {config.seed}"
    return Job(config.hash, KIND, label, {"config": to_dict(config), "place": dataclasses.asdict(place)})


def check_precision(configs: Iterable[Config], execution: Execution | None) -> None:
    """Raise a ValueError for precision "auto" on a cluster, where machines could resolve it differently."""
    if execution is not None and execution.cluster == "slurm" and any(each.precision == "auto" for each in configs):
        raise ValueError(
            "precision is 'auto', which this machine would resolve, not those of the cluster; set it: "
            "--set precision=bf16, or 32"
        )


def check_all(configs: Sequence[Config], place: train.Placement) -> None:
    """Raise, before the first run starts, the errors that any of them would raise later, such as missing data."""
    sources = {str(config.data): config for config in configs}
    for source, first in sources.items():
        dataset = train.load_data(first, place)
        for config in configs:
            if str(config.data) == source:
                check(config, dataset, processes=1)


def guessed_seconds(config: Config, known: Sequence[Mapping[str, Any]]) -> float | None:
    """Estimate the seconds of a run from the epochs of the most similar finished runs; None if there are none."""
    mine = _described(to_dict(resolved(config)))  # in the form that results have
    described = [(result, _described(result["config"])) for result in known]
    for names in _SIMILARITY:
        similar = [result for result, theirs in described if all(theirs[name] == mine[name] for name in names)]
        if similar:
            return statistics.fmean(one["seconds"] / _epochs(one["config"]) for one in similar) * _epochs(mine)
    return None


def _described(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config with an additional "size": the name and size options of its network."""
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
