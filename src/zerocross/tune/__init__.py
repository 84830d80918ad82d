"""Search for good settings: search spaces as data, Bayesian samplers on Optuna, any number of workers on one study.

It takes any callable, (settings, report) -> value, and knows nothing of networks: `search(objective, space, trials)` in
memory, or `connect`, `begin_or_join`, `extend` and `work` on a database that workers share.
"""

from __future__ import annotations

import warnings
from typing import Any

from zerocross.tune.history import History, Outcome
from zerocross.tune.loop import Objective, Report, extend, search, work
from zerocross.tune.samplers import SAMPLERS
from zerocross.tune.space import Parameter, SearchSpace
from zerocross.tune.spaces import SPACES
from zerocross.tune.storage import Storage, connect, in_memory
from zerocross.tune.study import Study, StudyPlan, begin_or_join, join

__all__ = [
    "SAMPLERS",
    "SPACES",
    "History",
    "Objective",
    "Outcome",
    "Parameter",
    "StudyPlan",
    "Report",
    "SearchSpace",
    "Storage",
    "Study",
    "begin_or_join",
    "connect",
    "extend",
    "in_memory",
    "join",
    "search",
    "work",
]

_RENAMED = {"Plan": "StudyPlan", "Space": "SearchSpace"}


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        message = f"zerocross.tune.{name} is deprecated, use zerocross.tune.{_RENAMED[name]} instead"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return globals()[_RENAMED[name]]
    raise AttributeError(f"module 'zerocross.tune' has no attribute {name!r}; it has {', '.join(__all__)}")
