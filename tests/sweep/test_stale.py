"""Results of other revisions: listed, never used, and renamed if only the form of the config has changed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from zerocross import methods
from zerocross.cli.app import run
from zerocross.suite.compare import summarise
from zerocross.sweep.cache import RunCache
from zerocross.sweep.stale import check_revisions, migrate, missing_runs, present_runs, stale
from zerocross.sweep.trainings import training
from zerocross.train import Config, Placement, to_dict
from zerocross.train.config import resolved

RESULTS = Path(__file__).parents[2] / "results"


def write(folder: Path, config: Config, /, **more: Any) -> dict[str, Any]:
    """Write the result of a run as a training does."""
    result = {
        "hash": config.hash, "config": to_dict(resolved(config)), "revision": config.revision, "evaluated_on": "test",
        "data": "digits", "final": {"top1": 90.0}, "history": [], "ff_ratio": [], "seconds": 1.0, "provenance": {},
        **more,
    }  # fmt: skip
    (folder / f"{result['hash']}.json").write_text(json.dumps(result))
    return result


@pytest.fixture
def new_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a change of the filter's arithmetic."""
    row = dataclasses.replace(methods.METHODS["filter"], revision=7)
    monkeypatch.setattr("zerocross.methods.values.METHODS", {**methods.METHODS, "filter": row})


def test_a_result_of_another_revision_is_listed_and_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Config()
    result = write(tmp_path, config)
    other = write(tmp_path, Config(method="bop"))
    cache = RunCache(tmp_path, tmp_path / "work")
    assert stale(tmp_path) == []
    assert cache.find(training(config, Placement())) == result
    row = dataclasses.replace(methods.METHODS["filter"], revision=7)
    monkeypatch.setattr("zerocross.methods.values.METHODS", {**methods.METHODS, "filter": row})
    assert cache.find(training(config, Placement())) is None
    (actual,) = stale(tmp_path)
    assert (actual.method, actual.reason, actual.migratable) == ("filter", "method revision 1, now 7", False)
    monkeypatch.setattr("sys.argv", ["zerocross", "runs", str(tmp_path), "--stale"])
    assert run() == 0
    output = capsys.readouterr().out
    assert "method revision 1, now 7" in output
    assert "1 of 2 results" in output
    with pytest.raises(ValueError, match=r"1 results have another revision: filter, seed 0"):
        check_revisions([result, other])
    with pytest.raises(ValueError, match="zerocross runs --stale"):
        summarise([other, result])


def test_new_fields_rename_a_result_and_keep_its_content(tmp_path: Path) -> None:
    config = Config(seed=3)
    written = to_dict(config)
    del written["processes"]  # as an older version wrote it
    result = write(tmp_path, config, hash="0" * 16, config=written)
    (actual,) = stale(tmp_path)
    assert actual.migratable
    assert [(old.stem, new.stem) for old, new in migrate(tmp_path)] == [("0" * 16, config.hash)]
    kept = json.loads((tmp_path / f"{config.hash}.json").read_text())
    assert kept["final"] == result["final"]
    assert kept["config"]["model"]["options"]["weights"] == "theta"  # written explicitly
    assert stale(tmp_path) == []
    assert RunCache(tmp_path, tmp_path / "work").find(training(config, Placement())) == kept


def test_migration_overwrites_nothing(tmp_path: Path) -> None:
    config = Config()
    write(tmp_path, config)
    write(tmp_path, config, hash="0" * 16)
    with pytest.raises(FileExistsError, match="remove one of them"):
        list(migrate(tmp_path))
    assert len(list(tmp_path.glob("*.json"))) == 2


@pytest.mark.usefixtures("new_revision")
def test_a_result_of_another_revision_is_not_renamed(tmp_path: Path) -> None:
    config = Config()
    write(tmp_path, config, hash="0" * 16, revision={"engine": 1, "method": 1})
    assert list(migrate(tmp_path)) == []
    assert (tmp_path / f"{'0' * 16}.json").exists()


def test_a_file_that_cannot_be_read_is_listed(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"config": {"no_such_field": 1}, "hash": "a"}')
    (result,) = stale(tmp_path)
    assert "cannot be read" in result.reason


def test_committed_results_are_of_the_current_revision() -> None:
    assert stale(RESULTS / "runs") == []


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*-reduced.json")), ids=lambda path: path.stem)
def test_committed_artefacts_are_based_on_committed_runs(path: Path) -> None:
    assert missing_runs(json.loads(path.read_text()), present_runs(RESULTS / "runs")) == []


def test_missing_and_stale_runs_of_an_artefact_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = write(tmp_path, Config())
    run = {"label": "filter", "seed": 0, "hash": result["hash"], "evaluated_on": "test"}
    document = {"data": {"runs": [run, {**run, "hash": "gone"}]}}
    assert missing_runs(document, present_runs(tmp_path)) == ["filter, seed 0 (gone)"]
    row = dataclasses.replace(methods.METHODS["filter"], revision=7)
    monkeypatch.setattr("zerocross.methods.values.METHODS", {**methods.METHODS, "filter": row})
    assert len(missing_runs(document, present_runs(tmp_path))) == 2
