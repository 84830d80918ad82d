"""`zerocross compare` and `zerocross methods` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zerocross import train
from zerocross.cli import app
from zerocross.cli.compare import method_seeds
from zerocross.methods import METHODS

Out = pytest.CaptureFixture[str]
SMALL = (
    "compare", "--epochs", "1", "--set", "model.options.width=4", "--set", "batch_size=128", "--set", "compile=off",
    "--set", "log_every=1",
)  # fmt: skip
FILES = [f"results/compare-digits-1epochs.{kind}" for kind in ("json", "md", "png")]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run every command in its own folder, without data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ZEROCROSS_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def never(*words: object, **values: object) -> None:
    raise AssertionError("a run was begun")


# ---- invalid arguments


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--methods", "filter,filtre"], "did you mean 'filter'?"),
        (["--methods", "filter,nonsense"], "it must be one of filter, "),
        (["--methods", "filter:many"], "the number of seeds after the colon must be at least 1"),
        (["--methods", "filter:0"], "at least 1"),
        (["--methods", "filter,filter:2"], "names 'filter' twice"),
        (["--methods", ","], "names no method"),
        (["--recipe", "digit"], "did you mean 'digits'?"),
        (["--set", "optimizer.alpha=1e-4", "--methods", "filter,bop"], "bop: --set optimizer.alpha: unknown field"),
        (["--set", "method=bop"], "use --methods"),
        (["--set", "seed"], "is not FIELD=VALUE"),
        (["--two-step", "--methods", "bop", "--epochs", "2"], "two-step training"),
        (["--jobs", "0"], "greater than or equal to 1"),
        (["--recipe", "cifar10-birealnet20", "--data-dir", "nowhere", "--methods", "filter"], "nowhere"),
    ],
)  # fmt: skip
def test_invalid_arguments_give_one_line_and_nothing_runs(
    words: list[str], message: str, capsys: Out, in_a_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "begin", never)
    assert app.run(["compare", *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert list(in_a_folder.iterdir()) == []


def test_seeds_of_one_method_override_those_of_all() -> None:
    assert method_seeds("filter:3,bop", 2, "digits") == {"filter": 3, "bop": 2}
    everything = method_seeds("bop:5,all:2,filter:3", 1, "digits")
    assert set(everything) == set(METHODS)
    assert (everything["bop"], everything["filter"], everything["recu"]) == (5, 3, 2)
    assert "bop" not in method_seeds("all", 1, "digits", in_two_steps=True)


# ---- output files


def test_comparison_is_written_cached_and_extended(
    capsys: Out, in_a_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert app.run([*SMALL, "--methods", "filter"]) == 0
    assert all(Path(path).stat().st_size for path in FILES)
    capsys.readouterr()

    assert app.run([*SMALL, "--methods", "filter:2,bop"]) == 0
    output = capsys.readouterr().out
    assert output.startswith(
        f"replacing the earlier comparison {', '.join(FILES)}\n3 runs: 1 finished in results/runs,"
    )
    assert "run 1 of 2: bop, seed 0" in output
    assert "run 2 of 2: filter, seed 1 (about " in output
    summary = json.loads(Path(FILES[0]).read_text(encoding="utf-8"))
    assert {name: row["n"] for name, row in summary["methods"].items()} == {"filter": 2, "bop": 1}
    assert "--methods filter:2,bop --epochs 1" in summary["command"]
    assert f"± {summary['methods']['filter']['sd']:.2f} (2)" in output

    monkeypatch.setattr(train, "begin", never)
    for path in FILES:
        Path(path).unlink()
    assert app.run([*SMALL, "--methods", "filter:2,bop", "--quiet", "--out", "mine.v2"]) == 0
    assert "run 1" not in capsys.readouterr().out
    again = json.loads(Path("mine.v2.json").read_text(encoding="utf-8"))
    assert again["methods"] == summary["methods"]
    assert sorted(path.name for path in in_a_folder.iterdir()) == [
        "mine.v2.json", "mine.v2.md", "mine.v2.png", "results", "runs",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "text"), [(FILES[0], '{"kind": "another"}'), (FILES[0], "{"), (FILES[1], "# My notes"), (FILES[2], "")]
)
def test_other_files_are_never_replaced(path: str, text: str, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "begin", never)
    Path(path).parent.mkdir()
    Path(path).write_text(text, encoding="utf-8")
    assert app.run([*SMALL, "--methods", "filter"]) == 2
    assert f"{path}: exists, and is not from an earlier comparison" in capsys.readouterr().err
    assert Path(path).read_text(encoding="utf-8") == text


def test_failed_runs_are_reported_and_the_others_written(capsys: Out) -> None:
    wild = ["--set", "real.lr=1e30", "--methods", "filter"]
    assert app.run([*SMALL, *wild, "--quiet"]) == 1
    captured = capsys.readouterr()
    assert captured.err == "zerocross: 1 of 1 runs failed\n"
    assert "filter, seed 0 failed: training diverged" in captured.out
    assert not Path(FILES[0]).exists()  # no result, so no file


def test_validation_and_two_steps_have_their_own_file_names(capsys: Out) -> None:
    assert app.run([*SMALL, "--methods", "filter", "--epochs", "2", "--two-step", "--validate", "--quiet"]) == 0
    path = Path("results/compare-digits-2epochs-two-step-validation.json")
    summary = json.loads(path.read_text(encoding="utf-8"))
    assert summary["evaluated_on"] == "validation"
    assert summary["methods"]["filter"]["accuracy"]["binary"] == [False, True]
    assert "validation accuracy %" in capsys.readouterr().out


# ---- zerocross methods


def test_every_method_is_listed_with_its_settings_and_the_number_to_tune(capsys: Out) -> None:
    assert app.run(["methods"]) == 0
    output = capsys.readouterr().out
    lines = {line.split()[0]: line for line in output.splitlines() if line and not line.startswith(" ")}
    for name, method in METHODS.items():
        assert lines[name].rstrip().endswith(f" {len(method.tuned)}")
    assert "alpha=0.001" in lines["filter"]


@pytest.mark.parametrize("name", METHODS)
def test_one_method_is_shown_in_full(name: str, capsys: Out) -> None:
    assert app.run(["methods", name]) == 0
    output = capsys.readouterr().out
    method = METHODS[name]
    for text in (method.summary, method.source, method.settings, ", ".join(method.tuned)):
        assert text in output
    assert all(f"{key}=" in output for key in (*method.hyperparameters, *method.model_options, *method.real))
    assert output.count("of the epochs, binarize =") == len(method.parts)


def test_misspelt_method_gives_a_one_line_error(capsys: Out) -> None:
    assert app.run(["methods", "bopp"]) == 2
    assert "did you mean 'bop'?" in capsys.readouterr().err
