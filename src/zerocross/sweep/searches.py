"""Searches as jobs: the settings that determine a search, and a study in the job's folder, from which it resumes."""

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

if TYPE_CHECKING:  # Optuna is an extra: functions that need it import it
    from zerocross.tune import StudyPlan


@dataclass(frozen=True)
class Search:
    """One search: all settings that determine its result.

    Args:
        space: A name in zerocross.tune.SPACES, or a JSON file.
        sampler: A name in zerocross.tune.SAMPLERS.
        seed: Seed of the sampler and of every training, so that searches with different seeds are independent.
        trials: Number of trials, at least 1.
        base: The config that the settings of a trial change; its own seed is not used.
    """

    space: str
    sampler: str
    seed: int
    trials: int
    base: Config

    @property
    def label(self) -> str:
        """The name that searches share that differ only in their seed."""
        return f"{self.space}, {self.sampler}"

    @property
    def config(self) -> Config:
        """The config that the settings of a trial change, with the seed of this search."""
        return dataclasses.replace(self.base, seed=self.seed)

    @property
    def plan(self) -> StudyPlan:
        """The plan of the study that runs this search."""
        from zerocross.tune import StudyPlan, spaces

        return StudyPlan(spaces.get(self.space), self.sampler, self.seed, about={"config": to_dict(self.config)})

    @property
    def hash(self) -> str:
        """Sixteen hex digits over all settings that determine the result; they name its file."""
        settings = {
            "space": _space(self.space),
            "sampler": self.sampler,
            "seed": self.seed,
            "trials": self.trials,
            "config": self.config.hash,
        }
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Return plain containers for JSON."""
        return {**vars(self), "base": to_dict(self.base)}


def search_from(values: Mapping[str, Any]) -> Search:
    """Return the Search of a dict from Search.to_dict()."""
    return Search(**{**values, "base": from_dict(values["base"])})


def run_searches(
    searches: Sequence[Search],
    place: train.Placement,
    cache: RunCache,
    execution: Execution | None = None,
    *,
    show: bool = True,
) -> list[Result]:
    """Return the results of all searches, in their order; finished searches are read from the cache.

    Args:
        searches: Independent searches.
        place: Where the data are.
        cache: The cache of results.
        execution: How many searches run at a time, and where; by default one, in this process. A search computes on one
            thread, so that this does not change its result.
        show: Show progress on the terminal.

    Raises:
        train.RunError: if a search failed; raised after all other searches have finished.
        Interrupted: on SIGINT or SIGTERM; finished trials are kept.
    """
    check_precision((search.base for search in searches), execution)
    jobs = [_job(search, place) for search in searches]
    check_all([search for search, job in zip(searches, jobs, strict=True) if cache.find(job) is None], place)
    results = run_jobs(jobs, cache, execution, show=show)
    if failed := [
        f"{job.label}: {result['failed']}" for job, result in zip(jobs, results, strict=True) if "failed" in result
    ]:
        raise train.RunError(f"{len(failed)} of {len(jobs)} searches failed: {'; '.join(failed)}")
    return results


def check_all(searches: Sequence[Search], place: train.Placement) -> None:
    """Raise, before the first search starts, the errors that any of them would raise later, such as missing data."""
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
    """Run a search with the study in a file of the folder, keeping trials that are finished there."""
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
        if trial.state.name == "RUNNING":  # left by a killed process: no other process works on this study
            queue.give_back(study.storage.database, trial)
    with one_thread():
        tune.work(study, Training(search.config, read))
    outcomes = history.read(study.load()).outcomes
    if len(outcomes) < search.trials:
        raise train.RunError(f"{search.trials - len(outcomes)} of {search.trials} trials failed")
    origin = provenance()
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
        "provenance": {**origin, "versions": origin["versions"] | {name: version(name) for name in packages}},
    }


_last_reader: list[Reader] = []  # consecutive searches on the same data read it once


def _reader(place: train.Placement) -> Reader:
    if not _last_reader or _last_reader[0].place != place:
        _last_reader[:] = [Reader(place)]
    return _last_reader[0]


def _score(result: Result) -> str:
    return f"best {max(one['value'] for one in result['outcomes']):.2f} % of {len(result['outcomes'])} trials"


def _guess(job: Job, known: Known) -> float | None:
    """Estimate the seconds of a search from finished ones with the same space and sampler, or else from all."""

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
