"""The runs of the tables, the tuned spaces, and the command."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from zerocross.cli.app import run
from zerocross.methods import METHODS
from zerocross.suite import table
from zerocross.suite.space import Range, space_of
from zerocross.suite.tasks import TASKS, Task, get
from zerocross.sweep import lines

METHOD_NAMES = ["real", *METHODS]


@pytest.fixture
def short_digits(monkeypatch: pytest.MonkeyPatch) -> Task:
    """Return the task digits with one epoch and a tiny network."""
    task = Task("digits", "digits", "digits_net", 1, 256, network_options={"width": 4})
    monkeypatch.setattr("zerocross.suite.tasks.TASKS", {"digits": task})
    return task


# ---- runs


def test_published_runs_use_test_data_and_all_differ() -> None:
    runs = table.published([get("digits"), get("Wafer")], METHOD_NAMES, 2)
    assert len({each.config.hash for each in runs}) == 2 * 2 * len(METHOD_NAMES)
    assert not any(each.config.data.validate for each in runs)
    assert not any(each.settings for each in runs if each.method != "filter")
    alphas = {each.config.optimizer["alpha"] for each in runs if each.method == "filter"}
    assert alphas == {1e-3}  # the paper's, not that of the task
    assert [each.task.name for each in runs] == ["digits"] * (len(runs) // 2) + ["Wafer"] * (len(runs) // 2)


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_every_method_has_a_space_around_its_settings(method: str) -> None:
    """Trials are valid configs, the first has the published settings, and more trials keep the earlier ones."""
    task = get("digits")
    space = space_of(task.config(method), twin=method == "real")
    assert space.ranges
    assert any("lr" in path or "alpha" in path or "gamma" in path for each in space.ranges for path in each.paths)
    runs = table.search(task, method, 12)
    assert runs[0].settings == {**table.published_settings(method), **table.COMPILED}
    assert all(each.config.data.validate and each.config.seed == table.SEARCH_SEED for each in runs)
    assert len({each.config.hash for each in runs}) == 12
    assert [each.config.hash for each in table.search(task, method, 5)] == [each.config.hash for each in runs[:5]]
    assert max(len(json.dumps(each.settings)) for each in runs) < 400


def test_spaces_extend_a_decade_to_each_side() -> None:
    ranges = {str(each) for each in space_of(get("Wafer").config("filter")).ranges}
    assert ranges == {"optimizer.alpha 0.0003..0.03", "optimizer.gamma 0.01..1", "real.lr 0.001..0.1"}
    xnor = space_of(get("Wafer").config("xnor-net")).ranges
    assert xnor[0].paths == ("optimizer.lr", "real.lr")  # one optimizer for all parameters
    assert Range(("x",), 1e-3, 10.0).at(0.5) == pytest.approx(0.1)
    assert Range(("x",), 0.5, 2.0, ramp="1e-2->1e-4").at(0.0) == "0.005->5e-05"
    assert [Range(("x",), choices=(None, 1.0)).at(share) for share in (0.0, 0.99)] == [None, 1.0]


def test_the_winner_is_the_best_trial_once_all_have_finished() -> None:
    task, trials = get("digits"), table.search(get("digits"), "filter", 4)
    scores = dict(zip([each.config.hash for each in trials], (50.0, 70.0, 90.0, 90.0), strict=True))

    def find(each: table.SuiteRun) -> dict[str, Any] | None:
        score = scores.get(each.config.hash)
        return None if score is None else {"score": score}

    (only,) = table.tuned([task], ["filter", "real"], 1, 4, find)  # no trial of the twin has finished
    assert only.settings == trials[2].settings
    assert (only.config.data.validate, only.config.seed) == (False, 0)
    assert table.tuned([task], ["filter"], 1, 5, find) == []


def test_a_winner_with_published_settings_differs_from_the_published_run_only_by_compilation() -> None:
    task = get("digits")

    def first_is_best(each: table.SuiteRun) -> dict[str, Any]:
        return {"score": 90.0 - len(each.settings)}

    (won,) = table.tuned([task], ["filter"], 1, 3, first_is_best)
    eager = dataclasses.replace(won.config, compile="off")
    assert won.config.compile == "on"
    assert eager.hash == table.published([task], ["filter"], 1)[0].config.hash


def test_names() -> None:
    assert table.method_names("all") == METHOD_NAMES
    assert [task.name for task in table.task_names("digits, Wafer,digits")] == ["digits", "Wafer"]
    assert len(table.task_names("series")) == 11
    assert len(table.task_names("all")) == len(TASKS)
    for text, message in (("filtre", "did you mean"), ("rael", "did you mean|must be one of")):
        with pytest.raises(ValueError, match=message):
            table.method_names(text)


# ---- the command


def command(tmp_path: Path, *words: str) -> list[str]:
    return [
        "suite",
        "run",
        "--tasks",
        "digits",
        "--results",
        str(tmp_path / "r"),
        "--work",
        str(tmp_path / "w"),
        *words,
    ]


def test_a_table_is_filled_once(short_digits: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = command(tmp_path, "--methods", "real,filter", "--seeds", "2")
    assert run(words) == 0
    path = tmp_path / "r" / "digits.jsonl"
    text = path.read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert [(each["method"], each["seed"]) for each in rows] == [
        ("filter", 0),
        ("filter", 1),
        ("real", 0),
        ("real", 1),
    ]
    assert all(each["on"] == "test" and each["table"] == "published" and 5 < each["score"] < 100 for each in rows)
    assert all(len(line) < lines.LIMIT for line in text.splitlines())
    assert sorted(each["hash"] for each in rows) == sorted(
        each.config.hash for each in table.published([short_digits], ["real", "filter"], 2)
    )
    assert "4 runs to do" in capsys.readouterr().out
    assert run(words) == 0
    assert "0 to do" in capsys.readouterr().out
    assert path.read_text() == text


def test_tuning_is_trials_on_held_out_data_and_the_best_on_test_data(short_digits: Task, tmp_path: Path) -> None:
    assert run(command(tmp_path, "--methods", "filter", "--seeds", "1", "--table", "tuned", "--trials", "3", "-q")) == 0
    rows = list(lines.read(tmp_path / "r" / "digits.jsonl").values())
    trials = [each for each in rows if each["on"] == "validation"]
    (final,) = [each for each in rows if each["on"] == "test"]
    assert len(trials) == 3
    assert final["settings"] == max(trials, key=lambda each: each["score"])["settings"]


def test_a_diverged_training_counts_as_zero_and_stops_nothing(
    short_digits: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from zerocross import train

    honest = train.fit

    def fit(config: Any, *args: Any, **more: Any) -> Any:
        if config.seed == 0:
            raise train.RunError("training diverged at update 3: the loss is nan")
        return honest(config, *args, **more)

    monkeypatch.setattr(train, "fit", fit)
    assert run(command(tmp_path, "--methods", "filter", "--seeds", "2")) == 0
    rows = {each["seed"]: each for each in lines.read(tmp_path / "r" / "digits.jsonl").values()}
    assert (rows[0]["score"], "loss is nan" in rows[0]["diverged"]) == (0.0, True)
    assert rows[1]["score"] > 5
    assert "1 of 2 runs diverged" in capsys.readouterr().out


def test_invalid_names_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command(tmp_path, "--table", "tunde")) == 2
    assert "did you mean 'tuned'" in capsys.readouterr().err
    assert run(command(tmp_path, "--methods", "filtre")) == 2


def test_sigterm_keeps_finished_runs(tmp_path: Path) -> None:
    """The process ends with 143 within a training; lines are complete, and the same command runs the rest."""
    words = [sys.executable, "-m", "zerocross", *command(tmp_path, "--methods", "filter", "--seeds", "3")]
    path = tmp_path / "r" / "digits.jsonl"
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 240
    while not path.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGTERM)
    _, output = process.communicate(timeout=120)
    assert process.returncode == 143
    assert "run the same command again to continue" in output
    assert 1 <= len(lines.read(path)) < 3


@pytest.mark.slow
def test_workers_write_the_same_lines(tmp_path: Path) -> None:
    words = command(tmp_path, "--methods", "filter,real", "--seeds", "2")
    assert run(words) == 0
    alone = lines.read(tmp_path / "r" / "digits.jsonl")
    words[words.index("--results") + 1] = str(tmp_path / "r2")
    assert run([*words, "--jobs", "2"]) == 0
    together = lines.read(tmp_path / "r2" / "digits.jsonl")
    assert {key: each["score"] for key, each in alone.items()} == {key: each["score"] for key, each in together.items()}
