"""Short trainings as jobs, for thousands of runs of seconds: one line in a shared file each, no folder, no history.

A stopped training is repeated, since it takes seconds. Other processes run batches of trainings, so that a process
starts and reads its data once per batch.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from zerocross import train
from zerocross.provenance import provenance
from zerocross.sweep.cache import RunCache
from zerocross.sweep.execute import run_jobs
from zerocross.sweep.execution import Execution
from zerocross.sweep.job import Job, Kind, Known, Result, failure
from zerocross.sweep.objective import Reader
from zerocross.train.config import Config, build_part, from_dict, to_dict

_RECENT = 100  # finished jobs from which the time of others is estimated
_REASON = 160  # maximum length of the reason why a training diverged


def short_training(
    config: Config, place: train.Placement, *, file: str, about: Mapping[str, Any], metric: str, seconds: float
) -> Job:
    """Return the job of a config.

    Args:
        config: The config to train.
        place: Where the data are.
        file: The name of the file, in the cache's results, that receives the line of this run.
        about: The first values of the line: names and settings.
        metric: The score to store.
        seconds: The usual time of such a run.
    """
    label = ", ".join(str(value) for value in about.values() if isinstance(value, str | int)) + f", seed {config.seed}"
    payload = {
        "config": to_dict(config),
        "place": dataclasses.asdict(place),
        "file": file,
        "about": dict(about),
        "metric": metric,
        "seconds": seconds,
    }
    return Job(config.hash, KIND, label, payload)


def run_short(
    jobs: Sequence[Job], cache: RunCache, execution: Execution | None = None, *, show: bool = True
) -> list[Result]:
    """Return the results of short trainings, in their order; other processes run them in batches.

    In place of a result, a failed job returns a dict with the reason under "failed".

    Raises:
        Interrupted: on SIGINT or SIGTERM; see run_jobs.
    """
    execution = execution or Execution()
    networks = list(dict.fromkeys(map(_compiled_network, jobs)))
    ordered = sorted(jobs, key=lambda job: networks.index(_compiled_network(job)))  # so that each is compiled once
    if execution.parallel == 1:
        outcomes = run_jobs(ordered, cache, execution, show=show)
        results = {job.key: outcome for job, outcome in zip(ordered, outcomes, strict=True)}
        return [results[job.key] for job in jobs]
    todo = list({job.key: job for job in ordered if cache.find(job) is None}.values())
    ended = run_jobs(_batches(todo, execution.parallel), cache, execution, show=show)
    reasons = {job.key: batch["failed"] for batch in ended if "failed" in batch for job in _members_of(batch["jobs"])}
    return [cache.find(job) or failure(job, reasons.get(job.key, "not run")) for job in jobs]


def _compiled_network(job: Job) -> str:
    """Return all that the compiled code of a run depends on; empty if it is not compiled."""
    config = job.payload["config"]
    parts = ("data", "model", "method", "batch_size", "stages", "precision")
    return "" if config["compile"] == "off" else json.dumps([config[part] for part in parts])


def _batches(jobs: Sequence[Job], parallel: int) -> list[Job]:
    """Split jobs into batches with the same data, short enough for all processes to end at about the same time."""
    total = sum(job.payload["seconds"] for job in jobs)
    limit = max(30.0, min(600.0, total / (8 * parallel)))
    batches: list[list[Job]] = []
    spent = 0.0
    for job in jobs:
        new_data = not batches or batches[-1][-1].payload["config"]["data"] != job.payload["config"]["data"]
        if new_data or spent + job.payload["seconds"] > limit:
            batches.append([])
            spent = 0.0
        batches[-1].append(job)
        spent += job.payload["seconds"]
    return [_batch(members) for members in batches]


def _batch(members: Sequence[Job]) -> Job:
    key = hashlib.sha256(json.dumps([job.key for job in members]).encode()).hexdigest()[:16]
    label = members[0].label if len(members) == 1 else f"{members[0].label} to {members[-1].label}"
    return Job(key, BATCH, label, {"jobs": [job.to_dict() for job in members]})


def _members_of(jobs: Iterable[Mapping[str, Any]]) -> list[Job]:
    return [Job(job["key"], KIND, job["label"], job["payload"]) for job in jobs]


def _work(job: Job, folder: Path, show: bool) -> Result:
    """Train on one thread, so that neither the machine nor --jobs changes the result."""
    del folder, show
    from zerocross.tune.workers import one_thread

    config = from_dict(job.payload["config"])
    place = build_part(train.Placement, job.payload["place"], "place.")
    dataset = _reader(place)(config)
    _forget_compiled(_compiled_network(job))
    start = time.process_time()
    outcome: dict[str, Any]
    with one_thread():
        try:
            fabric = train.make_fabric(config, accelerator=place.accelerator)
            scores = train.fit(config, dataset, fabric=fabric, show=False).scores
            score, loss = round(scores[job.payload["metric"]], 4), round(scores["loss"], 5)
            outcome = {"score": score, "loss": loss, "updates": int(scores["update"])}
        except train.Stopped as stopped:
            raise SystemExit(stopped.exit_code) from stopped
        except train.RunError as error:  # a single process has no peers to lose: training diverged
            outcome = {"score": 0.0, "diverged": " ".join(str(error).split())[:_REASON]}
    return {
        **job.payload["about"],
        "seed": config.seed,
        **outcome,
        "on": dataset.evaluated_on,
        "seconds": round(time.process_time() - start, 2),
        "hash": config.hash,
        "revision": config.revision,
        "commit": _commit(),
    }


@functools.cache
def _commit() -> str | None:
    return provenance()["commit"]


@functools.lru_cache(maxsize=1)
def _reader(place: train.Placement) -> Reader:
    return Reader(place)


@functools.lru_cache(maxsize=1)
def _forget_compiled(network: str) -> None:
    """Forget compiled code whenever the network or the shape of its inputs changes.

    Otherwise torch would compile the next network for variable shapes, so that its rounding would depend on the runs
    before it, and after a few networks it would stop compiling.
    """
    del network
    torch.compiler.reset()


def _check(job: Job, result: Result) -> None:
    about = {name: result.get(name) for name in ("task", "method") if name in job.payload["about"]}
    if any(job.payload["about"][name] != value for name, value in about.items()):
        raise ValueError(f"the line of {job.key} belongs to {about}, not to {job.label}")
    float(result["score"])


def _guess(job: Job, known: Known) -> float:
    file = job.payload["file"]
    recent = [result["seconds"] for other, result in known[-_RECENT:] if other.payload["file"] == file]
    return statistics.fmean(recent) if recent else job.payload["seconds"]


def _score(result: Result) -> str:
    return "diverged" if "diverged" in result else f"{result['on']} {result['score']:.2f} %"


def _guess_batch(job: Job, known: Known) -> float:
    del known
    return sum(each["payload"]["seconds"] for each in job.payload["jobs"])


def _no_check(job: Job, result: Result) -> None:
    del job, result  # the members of a batch are checked


def _no_work(job: Job, folder: Path, show: bool) -> Result:
    raise AssertionError(f"{job.label}: a batch runs member by member ({folder}, {show})")


KIND = Kind(
    "short training",
    noun="run",
    parts=("seed", "score", "on", "seconds", "hash", "revision"),
    check=_check,
    work=_work,
    score=_score,
    guess=_guess,
    file=lambda job: job.payload["file"],
)

BATCH = Kind(
    "batch",
    noun="batch",
    parts=(),
    check=_no_check,
    work=_no_work,
    score=lambda result: f"{len(result['members'])} runs",
    guess=_guess_batch,
    members=lambda job: _members_of(job.payload["jobs"]),
)
