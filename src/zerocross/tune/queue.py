"""The queue of trials: a study consists of slots, each filled by exactly one result even if workers die.

Slots are created in advance as waiting trials. A worker claims one and sends heartbeats for it. If they stop, the trial
is marked as failed and its slot gets another waiting trial with the same settings. Every decision is a change of one
trial's state, which the storage allows only one worker to make: a late result from a worker presumed dead is rejected,
and a slot is never filled twice.
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

ATTEMPTS = 3  # give up on a trial that has killed this many workers
_SLOT, _WORKER, _TWIN = "slot", "worker", "twin_of"  # attributes of a trial
_DONE = (TrialState.COMPLETE, TrialState.PRUNED)
_LIVE = (TrialState.WAITING, TrialState.RUNNING)


def slot(trial: FrozenTrial) -> int:
    """Return the slot of a trial; one that was queued manually (in the dashboard) has its own, negative one."""
    return trial.user_attrs.get(_SLOT, -1 - trial.number)


def slots(study: optuna.Study) -> dict[int, list[FrozenTrial]]:
    """Return all trials by slot, ordered by number, without withdrawn duplicates."""
    by_slot: dict[int, list[FrozenTrial]] = defaultdict(list)
    for trial in study.get_trials(deepcopy=False):
        if _TWIN not in trial.user_attrs:
            by_slot[slot(trial)].append(trial)
    return by_slot


def extend(study: optuna.Study, trials: int) -> None:
    """Make sure that a study has slots 0..trials-1."""
    existing = slots(study)
    for number in range(trials):
        if number not in existing:
            study.enqueue_trial({}, user_attrs={_SLOT: number})


def requeue(study: optuna.Study, trial: FrozenTrial) -> None:
    """Queue another trial with the settings of a failed one, unless its slot was tried ATTEMPTS times."""
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
    """Fail and requeue the trials of workers without a heartbeat for `grace` seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        fail_stale_trials(study)  # requeues them, by the storage's on_stale
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        # A worker that died between its claim and its first heartbeat. Clocks may differ: if it is alive after all, its
        # result is rejected like any other late one.
        now = dt.datetime.now()  # noqa: DTZ005 - naive, as in Optuna
        overdue = now - (trial.datetime_start or now) > dt.timedelta(seconds=grace)
        if _WORKER not in trial.user_attrs and overdue and _set_state(storage, trial, TrialState.FAIL):
            requeue(study, trial)


def reopen(study: optuna.Study) -> bool:
    """Requeue slots that have neither a result nor an open trial; return True if there were any."""
    reopened = False
    for attempts in slots(study).values():
        if all(trial.state == TrialState.FAIL for trial in attempts) and len(attempts) < ATTEMPTS:
            requeue(study, attempts[-1])
            reopened = True
    return reopened


def claim(study: optuna.Study, storage: BaseStorage) -> FrozenTrial | None:
    """Claim the next waiting trial for this process; return None if none is waiting."""
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
    """Return a claimed trial to the queue, with its settings, for another worker."""
    _set_state(storage, trial, TrialState.WAITING)


def fail(storage: BaseStorage, trial: FrozenTrial) -> None:
    """Mark a claimed trial as failed; its slot has one attempt less."""
    _set_state(storage, trial, TrialState.FAIL)


@contextmanager
def alive(storage: Any, trial: FrozenTrial, beat: int | None) -> Iterator[None]:
    """Send heartbeats for a claimed trial, now and then every `beat` seconds; None: send none."""
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
                continue  # the database is unavailable; try again at the next heartbeat
        storage.remove_session()

    thread = threading.Thread(target=beats, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _twin(study: optuna.Study, trial: FrozenTrial) -> FrozenTrial | None:
    """Return another trial for the same slot that is complete or was queued earlier."""
    for other in slots(study)[slot(trial)]:
        if other.state in _DONE or (other.state in _LIVE and other.number < trial.number):
            return other
    return None


def _set_state(storage: BaseStorage, trial: FrozenTrial, state: TrialState) -> bool:
    """Change a trial's state; return False if another worker was faster."""
    try:
        return storage.set_trial_state_values(trial._trial_id, state=state)
    except UpdateFinishedTrialError:
        return False
