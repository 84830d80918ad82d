"""Which trial comes next: every trial of a study is a slot that exactly one result fills, whatever befalls workers.

Slots are made beforehand, as waiting trials. A worker claims one, and gives signs of life for it. The trial of a worker
that falls silent is failed, and its slot gets another waiting trial with the same settings. All that decides is a
change of one trial's state, which the storage lets only one worker make: so a result that comes late, from a worker
thought dead, is refused, and a slot is never filled twice.
"""

from __future__ import annotations

import datetime as dt
import os
import platform
import threading
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError, UpdateFinishedTrialError
from optuna.storages import BaseStorage, fail_stale_trials
from optuna.trial import FrozenTrial, TrialState

ATTEMPTS = 3  # a trial that kills its worker so many times is given up, before it has killed them all
_SLOT, _WORKER, _TWIN = "slot", "worker", "twin_of"  # attributes of a trial
_DONE = (TrialState.COMPLETE, TrialState.PRUNED)
_LIVE = (TrialState.WAITING, TrialState.RUNNING)


def slot(trial: FrozenTrial) -> int:
    """The slot that a trial is to fill; one that someone queued by hand (in the dashboard) has its own, below 0."""
    return trial.user_attrs.get(_SLOT, -1 - trial.number)


def slots(study: optuna.Study) -> dict[int, list[FrozenTrial]]:
    """All trials by slot, in the order of their numbers; twins that were withdrawn are left out."""
    found: dict[int, list[FrozenTrial]] = defaultdict(list)
    for trial in study.get_trials(deepcopy=False):
        if _TWIN not in trial.user_attrs:
            found[slot(trial)].append(trial)
    return found


def extend(study: optuna.Study, trials: int) -> None:
    """Make sure that a study has slots 0..trials-1."""
    there = slots(study)
    for number in range(trials):
        if number not in there:
            study.enqueue_trial({}, user_attrs={_SLOT: number})


def requeue(study: optuna.Study, trial: FrozenTrial) -> None:
    """A waiting trial with the settings of one that has failed, unless its slot was tried ATTEMPTS times."""
    failed = [other for other in slots(study)[slot(trial)] if other.state == TrialState.FAIL]
    if len(failed) < ATTEMPTS:
        again = optuna.create_trial(
            state=TrialState.WAITING,
            params=trial.params,
            distributions=trial.distributions,
            user_attrs={_SLOT: slot(trial)},
        )
        study.add_trial(again)


def take_over(study: optuna.Study, storage: BaseStorage, grace: int) -> None:
    """Fail and requeue the trials of workers that gave no sign of life for `grace` seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        fail_stale_trials(study)  # requeues them, by the storage's on_stale
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        # A worker that died between its claim and its first sign of life. Clocks may differ: should it live after all,
        # its result is refused like any other that comes late.
        now = dt.datetime.now()  # noqa: DTZ005 - as Optuna's times are
        overdue = now - (trial.datetime_start or now) > dt.timedelta(seconds=grace)
        if _WORKER not in trial.user_attrs and overdue and _set_state(storage, trial, TrialState.FAIL):
            requeue(study, trial)


def reopen(study: optuna.Study) -> bool:
    """Requeue slots that neither have a result nor wait for one; whether there were any."""
    found = False
    for attempts in slots(study).values():
        if all(trial.state == TrialState.FAIL for trial in attempts) and len(attempts) < ATTEMPTS:
            requeue(study, attempts[-1])
            found = True
    return found


def claim(study: optuna.Study, storage: BaseStorage) -> FrozenTrial | None:
    """The next waiting trial, now running in this process; None where none waits."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
        if not _set_state(storage, trial, TrialState.RUNNING):
            continue
        if (twin := _twin(study, trial)) is not None:  # two workers requeued one slot at the same time
            storage.set_trial_user_attr(trial._trial_id, _TWIN, twin.number)
            _set_state(storage, trial, TrialState.FAIL)
            continue
        return trial
    return None


def give_back(storage: BaseStorage, trial: FrozenTrial) -> None:
    """Let someone else run a claimed trial, with the settings it has got."""
    _set_state(storage, trial, TrialState.WAITING)


def fail(storage: BaseStorage, trial: FrozenTrial) -> None:
    """Have a claimed trial be one attempt less for its slot."""
    _set_state(storage, trial, TrialState.FAIL)


@contextmanager
def alive(storage: Any, trial: FrozenTrial, beat: int | None) -> Iterator[None]:
    """Give signs of life for a claimed trial, at once and then every `beat` seconds; None: nobody looks for them."""
    if beat is None:
        yield
        return
    storage.record_heartbeat(trial._trial_id)
    storage.set_trial_user_attr(trial._trial_id, _WORKER, f"{platform.node()}:{os.getpid()}")
    ended = threading.Event()

    def beats() -> None:
        while not ended.wait(beat):
            try:
                storage.record_heartbeat(trial._trial_id)
            except StorageInternalError:
                continue  # the database is away; perhaps it is back at the next beat
        storage.remove_session()

    thread = threading.Thread(target=beats, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _twin(study: optuna.Study, trial: FrozenTrial) -> FrozenTrial | None:
    """Another trial for the same slot that is done, or was there first."""
    for other in slots(study)[slot(trial)]:
        if other.state in _DONE or (other.state in _LIVE and other.number < trial.number):
            return other
    return None


def _set_state(storage: BaseStorage, trial: FrozenTrial, state: TrialState) -> bool:
    """Change a trial's state; False where another worker came first."""
    try:
        return storage.set_trial_state_values(trial._trial_id, state=state)
    except UpdateFinishedTrialError:
        return False
