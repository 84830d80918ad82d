"""Search for good settings: search spaces as data, Bayesian samplers on Optuna, any number of workers on one study.

It takes any callable, (settings, report) -> value, and knows nothing of networks: `search(objective, space, trials)` in
memory, or `connect`, `begin_or_join`, `extend` and `work` on a database that workers share.
"""

from zerocross.tune.history import History, Outcome
from zerocross.tune.loop import Objective, Report, extend, search, work
from zerocross.tune.samplers import SAMPLERS
from zerocross.tune.space import Parameter, Space
from zerocross.tune.spaces import SPACES
from zerocross.tune.storage import Storage, connect, in_memory
from zerocross.tune.study import Plan, Study, begin_or_join, join

__all__ = [
    "SAMPLERS",
    "SPACES",
    "History",
    "Objective",
    "Outcome",
    "Parameter",
    "Plan",
    "Report",
    "Space",
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
