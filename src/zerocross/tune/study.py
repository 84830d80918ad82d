"""Studies: created once by name in a storage, with a plan, and joined by any number of workers."""

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

_PLAN = "plan"  # attribute of the study
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class StudyPlan:
    """The search space and sampler of a study, shared by all its workers.

    Args:
        space: The search space.
        sampler: One of zerocross.tune.samplers.SAMPLERS.
        seed: Seed of the sampler, at least 0.
        prune: Prune trials that are worse than the median of the others at the same step.
        about: Data that the objective needs, as plain JSON; stored with the study for workers that join or resume it.

    Examples:
        >>> from zerocross import tune
        >>> tune.StudyPlan(tune.SPACES["filter"], sampler="tpe", seed=1).to_dict()["sampler"]
        'tpe'
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
        """Convert to plain containers, ready for JSON."""
        return json.loads(json.dumps({**asdict(self), "space": self.space.to_dict()}))


@dataclass(frozen=True)
class Study:
    """A study as one process sees it; from begin(), join() or begin_or_join().

    Examples:
        >>> from zerocross import tune
        >>> plan = tune.StudyPlan(tune.SPACES["filter"], sampler="tpe")
        >>> study = tune.begin_or_join(tune.in_memory(), "mine", plan)
        >>> study.name, study.plan.sampler
        ('mine', 'tpe')
    """

    storage: Storage
    name: str
    plan: StudyPlan

    def load(self, sampler: BaseSampler | None = None) -> optuna.Study:
        """Return Optuna's view of the study; values are maximized."""
        pruner: BasePruner = NopPruner()
        if self.plan.prune:
            pruner = MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=1)
        return optuna.load_study(study_name=self.name, storage=self.storage.database, sampler=sampler, pruner=pruner)


def begin_or_join(storage: Storage, name: str, plan: StudyPlan) -> Study:
    """Create a study, or join the existing one of that name; raise ValueError if it has another plan.

    Examples:
        >>> from zerocross import tune
        >>> storage, plan = tune.in_memory(), tune.StudyPlan(tune.SPACES["filter"], sampler="tpe")
        >>> first, second = (tune.begin_or_join(storage, "mine", plan) for _ in range(2))
        >>> first.name == second.name
        True
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"study {name!r}: use letters, digits, dots, dashes and underscores only, since files are named after it"
        )
    try:
        with quietly():
            created = optuna.create_study(study_name=name, storage=storage.database, direction="maximize")
    except DuplicatedStudyError:
        study = join(storage, name)
        _check_same(name, study.plan.to_dict(), plan.to_dict())
        return study
    created.set_user_attr(_PLAN, plan.to_dict())
    return Study(storage, name, plan)


def join(storage: Storage, name: str) -> Study:
    """Open an existing study.

    Examples:
        >>> from zerocross import tune
        >>> storage = tune.in_memory()
        >>> study = tune.begin_or_join(storage, "mine", tune.StudyPlan(tune.SPACES["filter"], sampler="tpe"))
        >>> tune.join(storage, "mine").plan.sampler
        'tpe'
    """
    try:
        study = optuna.load_study(study_name=name, storage=storage.database)
    except KeyError:
        names = sorted(optuna.get_all_study_names(storage.database))
        known = f"it has {', '.join(names[:20])}" if names else "it has none yet"
        raise ValueError(f"study {name!r} does not exist in this storage; {known}") from None
    deadline = time.monotonic() + 10  # its creator writes the plan a moment later
    while _PLAN not in study.user_attrs and time.monotonic() < deadline:
        time.sleep(0.1)
    if _PLAN not in study.user_attrs:
        raise ValueError(f"study {name!r} was not created by zerocross (it has no plan); choose another name")
    values = study.user_attrs[_PLAN]
    return Study(storage, name, StudyPlan(**{**values, "space": from_dict(values["space"])}))


@contextmanager
def quietly() -> Iterator[None]:
    """Silence Optuna's log messages and the warnings of Optuna and BoTorch."""
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
    way_out = "resume it by its name alone, or choose another name for the new one"
    if old["space"] != new["space"]:
        was, now = from_dict(old["space"]), from_dict(new["space"])
        raise ValueError(f"study {name!r} was created with another space ({was}), not with ({now}); {way_out}")
    before, after = dict(flat(old)), dict(flat(new))
    keys = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
    differences = ", ".join(f"{key} {before.get(key)}, not {after.get(key)}" for key in sorted(keys)[:4])
    raise ValueError(f"study {name!r} was created with {differences}; {way_out}")


def flat(values: Any, path: str = "") -> list[tuple[str, Any]]:
    """Flatten nested containers to (dotted path, value) pairs."""
    if isinstance(values, (dict, list)):
        items = values.items() if isinstance(values, dict) else enumerate(values)
        return [pair for key, value in items for pair in flat(value, f"{path}.{key}" if path else str(key))]
    return [(path, values)]
