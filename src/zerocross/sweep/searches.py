"""Searches as jobs: all that decides one, and a study in the job's folder, from which a search that was cut goes on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zerocross import train
from zerocross.provenance import provenance
from zerocross.sweep.cache import RunCache
from zerocross.sweep.execute import run_jobs
from zerocross.sweep.execution import Execution
from zerocross.sweep.job import Job, Kind, Known, Result
from zerocross.sweep.objective import Reader, Training
from zerocross.sweep.trainings import check_precision
from zerocross.train.config import Config, build_part, from_dict, to_dict

if TYPE_CHECKING:  # Optuna is an extra: what needs it imports it
    from zerocross.tune import StudyPlan


@dataclass(frozen=True)
class Search:
    """One search: all that decides its result.

    Args:
        space: A name in zerocross.tune.SPACES, or a JSON file.
        sampler: A name in zerocross.tune.SAMPLERS.
        seed: Of the sampler and of every training, so that searches with other seeds are independent of it.
        trials: At least 1.
        base: What the trials' settings change; its own seed does not matter.
    """

    space: str
    sampler: str
    seed: int
    trials: int
    base: Config

    @property
    def label(self) -> str:
        """What searches share that differ in their seed alone."""
        return f"{self.space}, {self.sampler}"

    @property
    def config(self) -> Config:
        """The config that the trials' settings change."""
        return dataclasses.replace(self.base, seed=self.seed)

    @property
    def plan(self) -> StudyPlan:
        """As a study has it."""
        from zerocross.tune import StudyPlan, spaces

        return StudyPlan(spaces.get(self.space), self.sampler, self.seed, about={"config": to_dict(self.config)})

    @property
    def hash(self) -> str:
        """Sixteen hex digits of what decides the result: the name of its file."""
        decides = {
            "space": _space(self.space),
            "sampler": self.sampler,
            "seed": self.seed,
            "trials": self.trials,
            "config": self.config.hash,
        }
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, fit for JSON."""
        return {**vars(self), "base": to_dict(self.base)}


def search_from(values: Mapping[str, Any]) -> Search:
    """The Search of such a dict."""
    return Search(**{**values, "base": from_dict(values["base"])})


def run_searches(
    searches: Sequence[Search],
    place: train.Placement,
    cache: RunCache,
    execution: Execution | None = None,
    *,
    show: bool = True,
) -> list[Result]:
    """The results of all searches, in their order; what the cache holds is not searched again.

    Args:
        searches: Independent of each other.
        place: Where the data are.
        cache: Where results are kept.
        execution: How many at a time, and where; by default one, here. Each computes on one thread, so that this
            changes no result.
        show: Progress on the terminal.

    Raises:
        train.RunError: after all others have been made, if one failed.
        Interrupted: on SIGINT or SIGTERM; finished trials are kept.
    """
    check_precision((search.base for search in searches), execution)
    jobs = [_job(search, place) for search in searches]
    check_all([search for search, job in zip(searches, jobs, strict=True) if cache.find(job) is None], place)
    results = run_jobs(jobs, cache, execution, show=show)
    if failed := [
        f"{job.label}: {each['failed']}" for job, each in zip(jobs, results, strict=True) if "failed" in each
    ]:
        raise train.RunError(f"{len(failed)} of {len(jobs)} searches failed: {'; '.join(failed)}")
    return results


def check_all(searches: Sequence[Search], place: train.Placement) -> None:
    """Refuse, before the first search, what one of them would refuse later; data that are missing, too."""
    read = Reader(place)
    kinds = {(search.label, dataclasses.replace(search.base, seed=0).hash): search for search in searches}
    for search in kinds.values():
        Training(search.config, read).check(search.plan.space)


def _job(search: Search, place: train.Placement) -> Job:
    payload = {"search": search.to_dict(), "place": dataclasses.asdict(place)}
    return Job(search.hash, KIND, f"{search.label}, seed {search.seed}", payload)


def _check(job: Job, result: Result) -> None:
    if result["hash"] != job.key or search_from(result["search"]).hash != job.key:
        raise ValueError("it holds the result of another search")
    values, trials = [float(one["value"]) for one in result["outcomes"]], job.payload["search"]["trials"]
    if len(values) != trials:
        raise ValueError(f"it holds {len(values)} of {trials} trials")


def _work(job: Job, folder: Path, show: bool) -> Result:
    """Search, with the study in a file of the folder; the trials that are finished there stay."""
    del show
    from zerocross import tune
    from zerocross.tune import history, queue
    from zerocross.tune.study import Study
    from zerocross.tune.workers import one_thread

    search = search_from(job.payload["search"])
    read = _reader(build_part(train.Placement, job.payload["place"], "place."))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "study.db"
    study: Study = tune.begin_or_join(tune.connect(f"sqlite:///{file}"), search.hash, search.plan)
    tune.extend(study, search.trials)
    for trial in study.load().get_trials(deepcopy=False):
        if trial.state.name == "RUNNING":  # of a process that was killed: nobody else is at this study
            queue.give_back(study.storage.database, trial)
    with one_thread():
        tune.work(study, Training(search.config, read))
    outcomes = history.read(study.load()).outcomes
    if len(outcomes) < search.trials:
        raise train.RunError(f"{search.trials - len(outcomes)} of {search.trials} trials failed")
    made = provenance()
    packages = ("optuna", "botorch") if search.sampler == "botorch" else ("optuna",)
    return {
        "hash": search.hash,
        "search": search.to_dict(),
        "space": _space(search.space),
        "outcomes": [
            {
                "number": one.number,
                "settings": dict(one.settings),
                "value": one.value,
                "seconds": round(one.seconds, 3),
                "sampler_seconds": round(one.sampler_seconds, 4),
            }
            for one in outcomes
        ],
        "seconds": round(sum(one.seconds for one in outcomes), 2),
        "provenance": {**made, "versions": made["versions"] | {name: version(name) for name in packages}},
    }


_last_reader: list[Reader] = []  # searches in a row on the same data read them once


def _reader(place: train.Placement) -> Reader:
    if not _last_reader or _last_reader[0].place != place:
        _last_reader[:] = [Reader(place)]
    return _last_reader[0]


def _score(result: Result) -> str:
    return f"best {max(one['value'] for one in result['outcomes']):.2f} % of {len(result['outcomes'])} trials"


def _guess(job: Job, known: Known) -> float | None:
    """By the pace of searches with the same space and sampler, or else of all."""

    def pace(alike: bool) -> list[float]:
        kind = [job.payload["search"][name] for name in ("space", "sampler")]
        return [
            result["seconds"] / other.payload["search"]["trials"]
            for other, result in known
            if not alike or [other.payload["search"][name] for name in ("space", "sampler")] == kind
        ]

    paces = pace(alike=True) or pace(alike=False)
    return statistics.fmean(paces) * job.payload["search"]["trials"] if paces else None


def _space(name: str) -> dict[str, Any]:
    from zerocross.tune import spaces

    return spaces.get(name).to_dict()


KIND = Kind(
    "search",
    noun="search",
    parts=("hash", "search", "outcomes", "seconds", "provenance"),
    check=_check,
    work=_work,
    score=_score,
    guess=_guess,
)
