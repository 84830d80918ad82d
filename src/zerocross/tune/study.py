"""A study: a name in a storage, with the plan it was made by; begun once, joined by any number of workers."""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import optuna
from optuna.exceptions import DuplicatedStudyError
from optuna.pruners import BasePruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler

from zerocross.tune import samplers
from zerocross.tune.samplers import STARTUP
from zerocross.tune.space import SearchSpace, from_dict
from zerocross.tune.storage import Storage

_PLAN = "plan"  # the study's attribute that holds it
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class StudyPlan:
    """What a study searches, and how; all workers of a study share it.

    Args:
        space: What is searched.
        sampler: One of zerocross.tune.samplers.SAMPLERS.
        seed: Of the sampler, at least 0.
        prune: Whether a trial that is worse than the median of the others at the same step is cut.
        about: What the objective needs, as plain JSON; kept with the study, for whoever goes on with it.
    """

    space: SearchSpace
    sampler: str = "botorch"
    seed: int = 0
    prune: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        samplers.check(self.sampler)
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it must be 0 or above")

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, fit for JSON."""
        return json.loads(json.dumps({**asdict(self), "space": self.space.to_dict()}))


@dataclass(frozen=True)
class Study:
    """A study as one process sees it; from begin(), join() or begin_or_join()."""

    storage: Storage
    name: str
    plan: StudyPlan

    def load(self, sampler: BaseSampler | None = None) -> optuna.Study:
        """Optuna's view of it; higher values are better."""
        pruner: BasePruner = NopPruner()
        if self.plan.prune:
            pruner = MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=1)
        return optuna.load_study(study_name=self.name, storage=self.storage.database, sampler=sampler, pruner=pruner)


def begin_or_join(storage: Storage, name: str, plan: StudyPlan) -> Study:
    """Make a study, or join the one of that name if it was made by the same plan; another plan is refused."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"study {name!r}: a name has letters, digits, dots, dashes and underscores, since files get it"
        )
    try:
        with quietly():
            made = optuna.create_study(study_name=name, storage=storage.database, direction="maximize")
    except DuplicatedStudyError:
        study = join(storage, name)
        _check_same(name, study.plan.to_dict(), plan.to_dict())
        return study
    made.set_user_attr(_PLAN, plan.to_dict())
    return Study(storage, name, plan)


def join(storage: Storage, name: str) -> Study:
    """A study that is there, with the plan it was made by."""
    try:
        found = optuna.load_study(study_name=name, storage=storage.database)
    except KeyError:
        there = sorted(optuna.get_all_study_names(storage.database))
        known = f"it has {', '.join(there[:20])}" if there else "it has none yet"
        raise ValueError(f"there is no study {name!r} in this storage; {known}") from None
    deadline = time.monotonic() + 10  # whoever makes it writes the plan a moment later
    while _PLAN not in found.user_attrs and time.monotonic() < deadline:
        time.sleep(0.1)
    if _PLAN not in found.user_attrs:
        raise ValueError(f"study {name!r} was not made by zerocross: it has no plan; choose another name")
    values = found.user_attrs[_PLAN]
    return Study(storage, name, StudyPlan(**{**values, "space": from_dict(values["space"])}))


@contextmanager
def quietly() -> Iterator[None]:
    """Leave the telling to us: Optuna logs each study and warns of what it calls experimental, BoTorch of its fits."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(level)


def _check_same(name: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    if old == new:
        return
    way_out = "go on with it as it is by its name alone, or choose another name for this one"
    if old["space"] != new["space"]:
        was, now = from_dict(old["space"]), from_dict(new["space"])
        raise ValueError(f"study {name!r} was made with another space ({was}), not with ({now}); {way_out}")
    before, after = dict(flat(old)), dict(flat(new))
    keys = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
    told = ", ".join(f"{key} {before.get(key)}, not {after.get(key)}" for key in sorted(keys)[:4])
    raise ValueError(f"study {name!r} was made with {told}; {way_out}")


def flat(values: Any, path: str = "") -> list[tuple[str, Any]]:
    """Nested containers by dotted path."""
    if isinstance(values, (dict, list)):
        items = values.items() if isinstance(values, dict) else enumerate(values)
        return [pair for key, value in items for pair in flat(value, f"{path}.{key}" if path else str(key))]
    return [(path, values)]
