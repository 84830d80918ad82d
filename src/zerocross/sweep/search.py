"""One search: all that decides its result, and where it is kept, finished (a JSON file) or not (a study)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from zerocross import train
from zerocross.files import write_json
from zerocross.provenance import provenance
from zerocross.sweep.cache import read_result
from zerocross.sweep.objective import Reader, Training
from zerocross.train.config import Config, from_dict, to_dict

if TYPE_CHECKING:  # Optuna is an extra: what needs it imports it
    from zerocross.tune import StudyPlan

Result = dict[str, Any]
_PARTS = ("hash", "search", "outcomes", "seconds", "provenance")


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


@dataclass(frozen=True)
class SearchShelf:
    """Where searches are kept.

    Args:
        results: results/HASH.json: finished searches.
        work: work/HASH.db: studies of unfinished ones.
    """

    results: Path
    work: Path

    def find(self, search: Search) -> Result | None:
        """The result of a search, or None where it is not finished; a damaged file is an error."""

        def check(result: Result) -> None:
            if result["hash"] != search.hash or search_from(result["search"]).hash != search.hash:
                raise ValueError("it holds the result of another search")
            values = [float(one["value"]) for one in result["outcomes"]]
            if len(values) != search.trials:
                raise ValueError(f"it holds {len(values)} of {search.trials} trials")

        return read_result(self.results / f"{search.hash}.json", "search", _PARTS, check)

    def finish(self, search: Search, read: Reader, begin: Callable[[], None]) -> Result:
        """Search, from where an earlier attempt was cut, and put the result on the shelf.

        Args:
            search: Which.
            read: Gives the data.
            begin: Called before there is work to do.

        Raises:
            Timeout: where another process is at it; the lock of one that was killed is free.
        """
        self.work.mkdir(parents=True, exist_ok=True)
        study, lock = (self.work / f"{search.hash}.{kind}" for kind in ("db", "lock"))
        with FileLock(lock).acquire(timeout=0):
            if (result := self.find(search)) is None:
                begin()
                result = _searched(search, read, study)
                write_json(self.results / f"{search.hash}.json", result)
            study.unlink(missing_ok=True)
        lock.unlink(missing_ok=True)  # whoever comes now finds the result
        return result


def _searched(search: Search, read: Reader, file: Path) -> Result:
    """Make a search whose study is in a file; what was finished of it stays."""
    from zerocross import tune
    from zerocross.tune import history, queue
    from zerocross.tune.study import Study

    study: Study = tune.begin_or_join(tune.connect(f"sqlite:///{file}"), search.hash, search.plan)
    tune.extend(study, search.trials)
    for trial in study.load().get_trials(deepcopy=False):
        if trial.state.name == "RUNNING":  # of a process that was killed: nobody else is at this study
            queue.give_back(study.storage.database, trial)
    tune.work(study, Training(search.config, read))
    outcomes = history.read(study.load()).outcomes
    if len(outcomes) < search.trials:
        raise train.RunError(f"{search.label}, seed {search.seed}: {search.trials - len(outcomes)} trials failed")
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


def _space(name: str) -> dict[str, Any]:
    from zerocross.tune import spaces

    return spaces.get(name).to_dict()
