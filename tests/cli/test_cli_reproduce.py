"""`zerocross reproduce` on the command line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from zerocross import train
from zerocross.cli import app
from zerocross.paper import registry
from zerocross.paper.artefact import Claim, NotReady, Verdict

Out = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run every command in its own folder, without data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ZEROCROSS_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fig33"], "did you mean 'fig3'?"),
        (["fig3", "--scale", "huge"], "it must be one of smoke, reduced, paper"),
        ([], "name an artefact, or all: table1, fig2, "),
        (["fig3", "--jobs", "0"], "greater than or equal to 1"),
        (["fig8", "--scale", "reduced", "--data-dir", "nowhere"], "nowhere"),
        (["fig5", "--scale", "reduced", "--data-dir", "nowhere"], "nowhere"),
        (["table3", "--scale", "paper"], "torchrun --nproc-per-node 3"),
    ],
)
def test_invalid_arguments_give_a_one_line_error(
    words: list[str], message: str, capsys: Out, in_a_folder: Path
) -> None:
    assert app.run(["reproduce", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(in_a_folder.rglob("*.json"))


def test_list_names_every_artefact_and_claim(capsys: Out) -> None:
    assert app.run(["reproduce", "--list"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for artefact in registry.ARTEFACTS.values():
        assert artefact.title in text
        assert all(claim.sentence in text for claim in artefact.claims)


def test_an_artefact_is_written_and_replaced(capsys: Out, in_a_folder: Path) -> None:
    assert app.run(["reproduce", "table1"]) == 0
    text = capsys.readouterr().out
    assert "table1 at scale smoke" in text
    assert "holds       The filter has 3 hyperparameters" in text
    assert "written: results/table1-smoke.json, results/table1-smoke.svg, results/table1-smoke.png" in text
    assert app.run(["reproduce", "table1", "--quiet"]) == 0
    document = json.loads((in_a_folder / "results/table1-smoke.json").read_text())
    assert document["command"] == "zerocross reproduce table1 --scale smoke"


def test_other_files_stop_the_command_before_anything_runs(in_a_folder: Path, capsys: Out) -> None:
    (in_a_folder / "results").mkdir()
    (in_a_folder / "results/table1-smoke.json").write_text("[]")
    assert app.run(["reproduce", "all"]) == 2
    assert "is not from an earlier call" in capsys.readouterr().err
    assert [path.name for path in (in_a_folder / "results").iterdir()] == ["table1-smoke.json"]


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Define four artefacts: a claim fails, a run fails, one waits for another command, and one succeeds."""
    table1 = registry.ARTEFACTS["table1"]

    def diverge(scale: str, session: Any) -> dict[str, Any]:
        raise train.RunError("2 of 3 runs failed: alpha 1: training has diverged")

    def wait(scale: str, session: Any) -> dict[str, Any]:
        raise NotReady("it comes from another command; run: zerocross tune")

    def look(data: dict[str, Any]) -> Verdict:
        return Verdict(holds=False, figures="0 of 3 pigs flew")

    wrong = Claim("Pigs [can] fly", look)
    monkeypatch.setattr(
        registry,
        "ARTEFACTS",
        {
            "pigs": dataclasses.replace(table1, name="pigs", claims=(wrong,)),
            "broken": dataclasses.replace(table1, name="broken", run=diverge),
            "waiting": dataclasses.replace(table1, name="waiting", run=wait),
            "table1": table1,
        },
    )


@pytest.mark.usefixtures("four")
def test_a_failed_claim_is_shown_and_is_not_an_error(capsys: Out) -> None:
    assert app.run(["reproduce", "pigs"]) == 0
    text = capsys.readouterr().out
    assert "FAILS       Pigs [can] fly" in text
    assert "0 of 3 pigs flew" in text


@pytest.mark.usefixtures("four")
def test_a_failed_artefact_does_not_stop_the_others(capsys: Out, in_a_folder: Path) -> None:
    assert app.run(["reproduce", "all"]) == 1
    captured = capsys.readouterr()
    assert "no result  2 of 3 runs failed" in captured.out
    assert "left out  it comes from another command" in captured.out
    assert "1 of 4 artefacts have no result" in captured.err
    assert {path.name for path in (in_a_folder / "results").glob("*.json")} == {"pigs-smoke.json", "table1-smoke.json"}


@pytest.mark.slow
def test_all_at_smoke_scale_side_by_side(capsys: Out, in_a_folder: Path) -> None:
    assert app.run(["reproduce", "all", "--jobs", "2", "--out", "made"]) == 0
    text = capsys.readouterr().out
    assert "FAILS" not in text
    assert len(list((in_a_folder / "made").glob("*-smoke.json"))) == len(registry.ARTEFACTS)
