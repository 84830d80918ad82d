"""Unreachable storages, studies of another plan, and databases that are briefly unavailable."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from optuna.exceptions import StorageInternalError

from tune.objectives import TWO, hill
from zerocross import tune
from zerocross.tune import Parameter, SearchSpace, StudyPlan, storage


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "storage 'nonsense' is not a URL; for instance sqlite:///runs/tune.db"),
        ("postgresql://me:secret@127.0.0.1:1/tune", "postgresql://me:***@127.0.0.1:1/tune cannot be reached"),
        ("postgresql://me@nowhere.invalid/tune", "nowhere.invalid"),
        ("nosql://me:secret@host/x", "cannot be reached"),
        ("postgresql//me:secret@host/x", "the storage (not shown, since it may hold a password) is not a URL"),
        ("postgresql://me:secret@host:port/x", "the storage (not shown, since it may hold a password) is not a URL"),
        ("postgresql://me:se/secret@host/x", "write special characters of a password percent-encoded"),
        ("postgresql://me:p@secret@host/x", "write special characters of a password percent-encoded"),
        ("postgresql+psycopg://me@127.0.0.1:1/x?password=secret", "127.0.0.1:1/x?password=hidden cannot be reached"),
        ("sqlite://", "would be in memory, where other processes cannot access it"),
        ("sqlite:///:memory:", "would be in memory"),
        ("sqlite:///text.db", "text.db is not a SQLite file"),
        ("sqlite:///.", "cannot be reached"),
        ("sqlite:///none.db", "there is no file none.db"),
    ],
)
def test_unreachable_storage_gives_a_one_line_error(
    url: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.db").write_text("a file of mine, not a database", encoding="utf-8")
    with pytest.raises((ValueError, FileNotFoundError)) as wrong:
        tune.connect(url, create=False)
    assert message in str(wrong.value)
    assert "secret" not in str(wrong.value)
    assert "\n" not in str(wrong.value)
    assert [path.name for path in tmp_path.iterdir()] == ["text.db"]
    assert Path("text.db").read_text(encoding="utf-8") == "a file of mine, not a database"


@pytest.mark.skipif(importlib.util.find_spec("pymysql") is not None, reason="the driver is there")
def test_missing_driver_is_named() -> None:
    with pytest.raises(ValueError, match=r"needs a driver .*pymysql"):
        tune.connect("mysql+pymysql://me@127.0.0.1:1/tune")


def test_heartbeats_are_more_frequent_than_their_timeout() -> None:
    with pytest.raises(ValueError, match="grace greater than beat"):
        tune.connect("sqlite:///x.db", beat=60, grace=60)


def test_study_of_another_plan_is_refused_and_does_not_change(tmp_path: Path) -> None:
    where = tune.connect(f"sqlite:///{tmp_path / 'tune.db'}")
    plan = StudyPlan(TWO, "random", 0, about={"config": {"batch_size": 64, "stages": [{"epochs": 3}]}})
    study = tune.begin_or_join(where, "mine", plan)
    tune.extend(study, 2)
    tune.work(study, hill)
    before = [trial.params for trial in study.load().get_trials()]
    wider = SearchSpace((Parameter("a", 1e-6, 1e-1, log=True), Parameter("b", -1.0, 1.0)))
    others = {
        "was created with another space (a 1e-05..0.1 log, b -1..1), not with (a 1e-06..0.1 log, b -1..1)": StudyPlan(
            wider, "random", 0, about=plan.about
        ),
        "sampler random, not tpe": StudyPlan(TWO, "tpe", 0, about=plan.about),
        "seed 0, not 1": StudyPlan(TWO, "random", 1, about=plan.about),
        "about.config.stages.0.epochs 3, not 4": StudyPlan(
            TWO, "random", 0, about={"config": {"batch_size": 64, "stages": [{"epochs": 4}]}}
        ),
    }
    for message, other in others.items():
        with pytest.raises(ValueError, match=re.escape(message)) as wrong:
            tune.begin_or_join(where, "mine", other)
        assert "\n" not in str(wrong.value)
    again = tune.begin_or_join(where, "mine", plan)
    assert again.plan == plan
    assert [trial.params for trial in again.load().get_trials()] == before


def test_missing_study_and_study_of_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = tune.connect(f"sqlite:///{tmp_path / 'tune.db'}")
    with pytest.raises(ValueError, match="study 'mine' does not exist in this storage; it has none yet"):
        tune.join(where, "mine")
    tune.begin_or_join(where, "yours", StudyPlan(TWO, "random"))
    with pytest.raises(ValueError, match="study 'mine' does not exist in this storage; it has yours"):
        tune.join(where, "mine")
    with pytest.raises(ValueError, match=r"study 'a/b': use letters"):
        tune.begin_or_join(where, "a/b", StudyPlan(TWO, "random"))
    import optuna

    optuna.create_study(study_name="foreign", storage=where.database)
    clock = iter(range(0, 1000, 5))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(ValueError, match="study 'foreign' was not created by zerocross"):
        tune.join(where, "foreign")


def test_a_briefly_unavailable_database_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    tries: list[int] = []

    def call() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise StorageInternalError("restarting")
        return "told"

    assert storage.patiently(call) == "told"
    assert len(waited) == 2
    tries.clear()

    def never() -> str:
        tries.append(1)
        raise StorageInternalError("gone")

    with pytest.raises(StorageInternalError):
        storage.patiently(never)
    assert len(tries) == 5
