"""Every slot is filled exactly once, whatever happens to workers; on a SQLite file, with times set back manually."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy
from optuna.trial import TrialState

from tune.objectives import TWO, hill, notes, work
from zerocross import tune
from zerocross.tune import StudyPlan, history, queue


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'tune.db'}"


def begin(url: str, trials: int) -> tune.Study:
    study = tune.begin_or_join(tune.connect(url), "study", StudyPlan(TWO, "random"))
    tune.extend(study, trials)
    return study


def states(study: tune.Study) -> list[str]:
    return [trial.state.name for trial in study.load().get_trials()]


def claim(study: tune.Study) -> Any:
    trial = queue.claim(study.load(), study.storage.database)
    assert trial is not None
    return trial


def take_over(study: tune.Study) -> None:
    queue.take_over(study.load(), study.storage.database, study.storage.grace)


def set_back(url: str, sql: str) -> None:
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(sql))
    engine.dispose()


LONG_SILENT = "UPDATE trial_heartbeats SET heartbeat = '2020-01-01 00:00:00.000000'"
LONG_BEGUN = "UPDATE trials SET datetime_start = '2020-01-01 00:00:00.000000' WHERE state = 'RUNNING'"


def test_dead_workers_trial_is_run_again_with_its_settings(url: str) -> None:
    study = begin(url, 2)
    dead = claim(study)
    database = study.storage.database
    with queue.alive(database, dead, 15):
        settings = TWO.suggest(optuna.trial.Trial(study.load(), dead._trial_id))
    take_over(study)
    assert states(study) == ["RUNNING", "WAITING"]  # its last heartbeat was a moment ago
    set_back(url, LONG_SILENT)
    take_over(study)
    take_over(study)  # another worker, at the same time
    assert states(study) == ["FAIL", "WAITING", "WAITING"]
    tune.work(study, hill)
    result = history.read(study.load())
    assert sorted(one.number for one in result.outcomes) == [0, 1]
    assert next(one for one in result.outcomes if one.number == 0).settings == settings
    assert (result.failed, result.open) == (0, 0)


def test_worker_that_died_before_its_first_heartbeat(url: str) -> None:
    study = begin(url, 1)
    claim(study)
    take_over(study)
    assert states(study) == ["RUNNING"]
    set_back(url, LONG_BEGUN)
    take_over(study)
    assert states(study) == ["FAIL", "WAITING"]
    tune.work(study, hill)
    assert len(history.read(study.load()).outcomes) == 1


def test_worker_that_died_while_taking_over_a_trial(url: str) -> None:
    """The trial has failed but is not yet requeued: the next idle worker finds the slot open."""
    study = begin(url, 1)
    queue.fail(study.storage.database, claim(study))
    assert states(study) == ["FAIL"]
    tune.work(study, hill)
    assert states(study) == ["FAIL", "COMPLETE"]
    assert len(history.read(study.load()).outcomes) == 1


def test_result_of_a_worker_presumed_dead_is_refused(url: str) -> None:
    study, calls = begin(url, 1), []

    def objective(settings: Any, report: Any) -> float:
        calls.append(settings["a"])
        if len(calls) == 1:  # it slept so long that another worker did its trial
            set_back(url, LONG_SILENT)
            take_over(study)
            tune.work(study, hill)
            return 1e9
        return hill(settings, report)

    tune.work(study, objective)
    result = history.read(study.load())
    assert len(result.outcomes) == 1
    assert result.outcomes[0].value < 0
    assert states(study) == ["FAIL", "COMPLETE"]


def test_report_of_a_worker_presumed_dead_ends_its_trial(url: str) -> None:
    study, reached = begin(url, 1), []

    def objective(settings: Any, report: Any) -> float:
        set_back(url, LONG_SILENT)
        take_over(study)
        report(1, 0.5)
        reached.append(settings)
        return 1e9

    tune.work(study, objective)  # which takes it up again, each time too slowly
    assert not reached
    assert states(study) == ["FAIL"] * queue.ATTEMPTS


def test_trial_that_kills_its_workers_is_given_up(url: str) -> None:
    study = begin(url, 2)
    for attempt in range(queue.ATTEMPTS):
        trial = claim(study)
        while queue.slot(trial) != 0:  # the other slot belongs to another worker
            queue.give_back(study.storage.database, trial)
            set_back(url, f"UPDATE trials SET state = 'PRUNED' WHERE number = {trial.number}")
            trial = claim(study)
        set_back(url, LONG_BEGUN)
        take_over(study)
        assert states(study).count("FAIL") == attempt + 1
    assert "WAITING" not in states(study)[2:]
    tune.work(study, hill)
    result = history.read(study.load())
    assert (len(result.outcomes), result.failed, result.open) == (1, 1, 0)


def test_of_duplicate_trials_added_at_once_only_one_runs(url: str) -> None:
    study = begin(url, 2)
    view = study.load()
    for number in (0, 1):  # a second machine that read before the first had written
        view.enqueue_trial({}, user_attrs={"slot": number})
    ran: list[Any] = []

    def objective(settings: Any, report: Any) -> float:
        ran.append(settings)
        return hill(settings, report)

    tune.work(study, objective)
    assert len(ran) == 2
    assert states(study) == ["COMPLETE", "COMPLETE", "FAIL", "FAIL"]
    result = history.read(study.load())
    assert sorted(one.number for one in result.outcomes) == [0, 1]
    assert result.failed == 0


def test_manually_queued_trial_is_run(url: str) -> None:
    study = begin(url, 1)
    study.load().enqueue_trial({"a": 1e-3, "b": 0.25})
    tune.work(study, hill)
    result = history.read(study.load())
    assert len(result.outcomes) == 2
    assert result.best is not None
    assert result.best.value == pytest.approx(0)


def test_extending_again_adds_only_missing_trials(url: str) -> None:
    study = begin(url, 3)
    tune.extend(study, 2)
    tune.extend(study, 3)
    assert states(study) == ["WAITING"] * 3
    tune.extend(study, 5)
    assert states(study) == ["WAITING"] * 5


def test_four_processes_on_a_sqlite_file_claim_each_trial_once(url: str, tmp_path: Path) -> None:
    study, log = begin(url, 24), tmp_path / "log"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(url, "study", str(log), 0.0)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    begun = [a for what, a, _ in notes(log) if what == "begin"]
    assert len(begun) == len(set(begun)) == 24
    assert states(study) == [TrialState.COMPLETE.name] * 24
    numbers = [one.number for one in history.read(study.load()).outcomes]
    assert sorted(numbers) == list(range(24))
    expected = tune.search(hill, TWO, 24, "random")  # a random suggestion does not depend on which worker requested it
    assert sorted(begun) == sorted(repr(one.settings["a"]) for one in expected.outcomes)
