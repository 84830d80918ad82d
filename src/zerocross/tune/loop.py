"""The search loop: claim a trial, get settings from the sampler, call the objective, store the result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import optuna
from optuna.exceptions import TrialPruned, UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from zerocross.tune import history, queue, samplers
from zerocross.tune.history import History, Outcome
from zerocross.tune.space import SearchSpace, Settings
from zerocross.tune.storage import in_memory, patiently
from zerocross.tune.study import Study, StudyPlan, begin_or_join, quietly

Report = Callable[[int, float], None]
"""The type of `report`: called with a step and an intermediate value.

Examples:
    >>> from zerocross import tune
    >>> space = tune.SearchSpace((tune.Parameter("x", 0.0, 1.0),))
    >>> def objective(settings, report: tune.Report):
    ...     report(1, 0.5)
    ...     return 1.0
    ...
    >>> tune.search(objective, space, trials=1, sampler="random").best.value
    1.0
"""
Objective = Callable[[Settings, Report], float]
"""The type of an objective: (settings, report) -> a number to maximize.

Examples:
    >>> from zerocross import tune
    >>> def objective(settings, report):
    ...     report(1, settings["x"] / 2)  # an intermediate value, for pruning
    ...     return settings["x"]
    ...
    >>> space = tune.SearchSpace((tune.Parameter("x", 0.0, 1.0),))
    >>> len(tune.search(objective, space, trials=2, sampler="random").outcomes)
    2
"""
_POLL = 1.0  # seconds between polls of a study whose last trials run elsewhere


def search(
    objective: Objective,
    space: SearchSpace,
    trials: int,
    sampler: str = "botorch",
    seed: int = 0,
    *,
    prune: bool = False,
) -> History:
    """Search for the settings with the highest value, in memory, in this process.

    Args:
        objective: (settings, report) -> a finite number to maximize. It may call `report(step, value)` with
            intermediate values, by which unpromising trials are pruned if `prune` is True.
        space: The search space.
        trials: Number of trials, at least 1.
        sampler: "botorch", "gp", "tpe" or "random".
        seed: Seed of the sampler; the same seed and objective give the same history.
        prune: Prune trials that are worse than the median of the others at the same step.

    Examples:
        >>> from zerocross import tune
        >>> space = tune.SearchSpace((tune.Parameter("x", 1e-3, 1e3, log=True),))
        >>> history = tune.search(lambda settings, report: -abs(settings["x"] - 1), space, trials=12, sampler="tpe")
        >>> len(history.outcomes)
        12
    """
    study = begin_or_join(in_memory(), "search", StudyPlan(space, sampler, seed, prune))
    extend(study, trials)
    work(study, objective)
    return history.read(study.load())


def extend(study: Study, trials: int) -> None:
    """Add trials to a study until it has at least this many.

    Examples:
        >>> from zerocross import tune
        >>> plan = tune.StudyPlan(tune.SPACES["filter"], sampler="random")
        >>> study = tune.begin_or_join(tune.in_memory(), "mine", plan)
        >>> tune.extend(study, trials=3)
        >>> len(study.load().trials)
        3
    """
    if trials < 1:
        raise ValueError(f"trials is {trials}; it must be at least 1")
    queue.extend(study.load(), trials)


def work(study: Study, objective: Objective, on_outcome: Callable[[Outcome], None] | None = None) -> None:
    """Run trials of a study until all are complete; trials of workers that die are taken over.

    Args:
        study: A study with trials (see extend).
        objective: See search().
        on_outcome: Called with each result produced by this process.

    Examples:
        >>> from zerocross import tune
        >>> space = tune.SearchSpace((tune.Parameter("x", 0.0, 1.0),))
        >>> study = tune.begin_or_join(tune.in_memory(), "mine", tune.StudyPlan(space, sampler="random"))
        >>> tune.extend(study, trials=2)
        >>> tune.work(study, lambda settings, report: settings["x"], on_outcome=lambda one: print(one.number))
        0
        1
    """
    while True:
        claimed, finished = patiently(lambda: _next(study))
        if claimed is not None:
            if (result := _run(study, claimed, objective)) is not None and on_outcome is not None:
                on_outcome(result)
        elif finished:
            return
        else:
            time.sleep(_POLL)


def _next(study: Study) -> tuple[FrozenTrial | None, bool]:
    """Claim a trial, if one is waiting; also return True if the study is finished."""
    view, storage = study.load(), study.storage
    queue.take_over(view, storage.database, storage.grace)
    claimed = queue.claim(view, storage.database)
    if claimed is None and queue.reopen(view):
        claimed = queue.claim(view, storage.database)
    return claimed, not view.get_trials(deepcopy=False, states=(TrialState.RUNNING, TrialState.WAITING))


def _run(study: Study, claimed: FrozenTrial, objective: Objective) -> Outcome | None:
    """Run one trial; return None if another worker has taken it over in the meantime."""
    database = study.storage.database
    try:
        with queue.alive(database, claimed, study.storage.beat):
            with quietly():
                sampler = samplers.TimedSampler(_sampler(study, claimed))
                view = study.load(sampler)
                trial = optuna.trial.Trial(view, claimed._trial_id)
                settings = study.plan.space.suggest(trial)
            trial.set_user_attr(history.SAMPLER_SECONDS, sampler.seconds)
            value, state = _value(objective, settings, trial)
            stored = patiently(lambda: view.tell(trial, value, state, skip_if_finished=True))
    except UpdateFinishedTrialError:
        return None
    except Exception:
        queue.fail(database, claimed)
        raise
    except BaseException:  # an interrupt is not a failure of the trial
        queue.give_back(database, claimed)
        raise
    return None if stored.state == TrialState.FAIL else history.outcome(stored)


def _sampler(study: Study, claimed: FrozenTrial) -> optuna.samplers.BaseSampler:
    others = study.load().get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    pending = any(other.params for other in others if other.number != claimed.number)
    number = queue.slot(claimed)
    return samplers.build(
        study.plan.sampler, study.plan.seed, number if number >= 0 else 2**32 + number, pending=pending
    )


def _value(objective: Objective, settings: Settings, trial: optuna.Trial) -> tuple[float | None, TrialState]:
    def report(step: int, value: float) -> None:
        patiently(lambda: trial.report(value, step))
        if trial.should_prune():
            raise TrialPruned

    try:
        returned = objective(settings, report)
    except TrialPruned:
        return None, TrialState.PRUNED  # its value is the last one reported
    try:
        value = float(returned)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(
            f"the objective returned {returned!r} for {dict(settings)}; it must be a finite number (a low one, for "
            "settings that did not work)"
        )
    return value, TrialState.COMPLETE
