"""`zerocross tune` on the command line: search, show, resume, bad input, and the recipe file for train."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forks import Forks, until
from zerocross import data, train, tune
from zerocross.cli import app
from zerocross.sweep.objective import Reader, Training

Out = pytest.CaptureFixture[str]
SMALL = ("digits", "--epochs", "1", "--set", "model.options.width=4", "--set", "batch_size=128", "--sampler", "random")
NAME = "digits-filter-random-seed0"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run every command in its own folder, without data."""
    monkeypatch.chdir(tmp_path)
    for name in ("ZEROCROSS_DATA", "ZEROCROSS_STORAGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    started = Forks()
    yield started
    started.close()


def space_file(*parameters: dict[str, Any], **fixed: Any) -> str:
    Path("space.json").write_text(json.dumps({"fixed": fixed, "parameters": parameters}), encoding="utf-8")
    return "space.json"


# ---- invalid arguments


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a recipe is required; example: zerocross tune audiomnist-mlp"),
        (["digts"], "did you mean 'digits'?"),
        (["mine.json"], "No such recipe file: mine.json"),
        (["digits", "--space", "fliter"], "space 'fliter' is neither one of filter, flip, latent, latent-"),
        (["digits", "--sampler", "botorsh"], "sampler 'botorsh' is unknown; choose one of botorch, gp, tpe, random"),
        (["digits", "--trials", "0"], "greater than or equal to 1"),
        (["digits", "--set", "real.lr=fast"], "real.lr is 'fast'; it must be a number"),
        (["digits", "--study", "a/b", "--sampler", "random"], "study 'a/b': use letters"),
        (["digits", "--storage", "tune.db", "--sampler", "random"], "storage 'tune.db' is not a URL"),
        (
            ["digits", "--sampler", "random", "--storage", "postgresql://me:secret@127.0.0.1:1/x"],
            "the storage postgresql://me:***@127.0.0.1:1/x cannot be reached",
        ),
        (["--show", "mine"], "there is no file runs/tune.db"),
        (["--resume", "mine"], "there is no file runs/tune.db"),
        (["--resume", "mine", "--seed", "0", "--set", "seed=1"], "remove --seed, --set"),
        (["digits", "--show", "mine"], "--show uses the settings of an existing study: remove RECIPE"),
        (["--show", "mine", "--resume", "mine"], "--show and --resume cannot be combined"),
        (["--show", "mine", "--trials", "3"], "--show does not run trials: remove --trials"),
    ],
)
def test_invalid_arguments_give_one_line_and_leave_no_files(
    words: list[str], message: str, capsys: Out, in_a_folder: Path
) -> None:
    assert app.run(["tune", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("zerocross: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert "secret" not in captured.err
    assert captured.out == ""
    assert not [path for path in in_a_folder.rglob("*") if path.is_file() and path.stat().st_size == 0]
    assert not list(in_a_folder.rglob("*.json"))


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ({"name": "optimizer.alpha", "low": 1e-2, "high": 1e-3}, "the range 0.01..0.001 is inverted"),
        ({"name": "optimizer.alpha", "low": 1e-2, "high": 1e-2}, "the range 0.01..0.01 is empty"),
        ({"name": "optimizer.alpa", "low": 1e-3, "high": 1e-2}, "did you mean 'alpha'?"),
        ({"name": "optimiser.alpha", "low": 1e-3, "high": 1e-2}, "did you mean 'optimizer'?"),
        ({"name": "optimizer", "low": 1e-3, "high": 1e-2}, "optimizer names a section"),
        ({"name": "optimizer.alpha", "low": 1e-3, "high": 3}, "alpha is 1.5005; it must lie in (0, 1]"),
        ({"name": "model.options.widht", "choices": [4, 8]}, "did you mean 'width'?"),
        ({"name": "optimizer.schedule", "choices": ["cosine", "cosinus"]}, "cosinus"),
        ({"name": "batch_size", "choices": [64, 100000]}, "batch_size 100000 exceeds"),
    ],
)
def test_invalid_spaces_give_one_line_and_create_no_study(parameter: dict[str, Any], message: str, capsys: Out) -> None:
    file = space_file(parameter)
    assert app.run(["tune", *SMALL, "--space", file]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert not Path("runs").exists()


# ---- searching


def test_search_show_resume_and_train_with_the_best(capsys: Out) -> None:
    assert app.run(["tune", *SMALL, "--trials", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["1 of 3", "2 of 3", "3 of 3"]
    assert all("sampler 0." in line for line in lines[:3])
    assert lines[3].startswith("3 trials by 1 worker in ")
    assert lines[4] == f"study {NAME}: 3 of 3 trials done; sampler random, seed 0"
    result = {line.partition(": ")[0]: line.partition(": ")[2] for line in lines[5:]}
    assert result["history"] == f"runs/{NAME}.png"
    assert Path(result["history"]).read_bytes().startswith(b"\x89PNG")
    assert "s per suggestion (mean of 3; maximum 0." in result["sampler's own time"]
    recipe = result["train with the best"].removeprefix("zerocross train ")
    value = float(result["best validation accuracy"].split()[0])

    # The same command again finds the search finished, and changes nothing.
    before = Path(recipe).read_bytes()
    assert app.run(["tune", *SMALL, "--trials", "3"]) == 0
    assert capsys.readouterr().out.splitlines() == lines[4:]
    assert Path(recipe).read_bytes() == before

    # The recipe contains the settings of the best trial, and reproduces its value on validation data.
    config = train.recipes.get(recipe).config
    assert not config.data.validate
    assert config.batch_size == 128
    assert app.run(["train", recipe, "--validate", "--quiet"]) == 0
    assert f"validation accuracy {value:.2f} %" in capsys.readouterr().out
    assert app.run(["train", recipe, "--quiet", "--out", "final"]) == 0
    assert "test accuracy" in capsys.readouterr().out
    assert app.run(["recipes", recipe]) == 0
    assert "optimizer.alpha" in capsys.readouterr().out

    # More trials; the name of the study suffices.
    assert app.run(["tune", "--resume", NAME, "--trials", "5"]) == 0
    more = capsys.readouterr().out.splitlines()
    assert more[0] == f"study {NAME}: 3 of 5 trials are already complete"
    assert [line.partition(":")[0] for line in more[1:3]] == ["4 of 5", "5 of 5"]
    assert app.run(["tune", "--show", NAME]) == 0
    assert capsys.readouterr().out.splitlines() == more[4:]
    assert app.run(["tune", "--show", "another"]) == 2
    assert f"study 'another' does not exist in this storage; it has {NAME}" in capsys.readouterr().err


def test_another_space_under_the_same_name_is_refused(capsys: Out) -> None:
    assert app.run(["tune", *SMALL, "--trials", "1", "--study", "mine", "--quiet"]) == 0
    stored = Path("runs/tune.db").read_bytes()
    capsys.readouterr()
    for words, message in (
        (["--space", "latent"], "study 'mine' was created with another space (optimizer.alpha 1e-05..0.1 log"),
        (["--seed", "1"], "seed 0, not 1"),
        (["--set", "real.lr=0.5"], "about.config.real.lr 0.05, not 0.5"),
    ):
        assert app.run(["tune", *SMALL, "--trials", "1", "--study", "mine", *words]) == 2
        captured = capsys.readouterr()
        assert message in captured.err
        assert captured.err.count("\n") == 1
    assert Path("runs/tune.db").read_bytes() == stored


def test_another_recipe_is_not_overwritten(capsys: Out) -> None:
    assert app.run(["tune", *SMALL, "--trials", "1", "--quiet"]) == 0
    best = Path(f"runs/{NAME}-trial0.json")
    best.write_text("mine", encoding="utf-8")
    assert app.run(["tune", "--show", NAME]) == 2
    assert f"{best} contains another recipe" in capsys.readouterr().err
    assert best.read_text(encoding="utf-8") == "mine"
    assert app.run(["tune", "--show", NAME, "--out", "elsewhere"]) == 0
    assert Path(f"elsewhere/{NAME}-trial0.json").exists()


def test_latent_space_reaches_the_run(capsys: Out) -> None:
    assert app.run(["tune", *SMALL, "--space", "latent", "--trials", "2", "--quiet"]) == 0
    recipe = capsys.readouterr().out.splitlines()[-1].rpartition(" ")[2]
    config = train.recipes.get(recipe).config
    study = tune.join(tune.connect("sqlite:///runs/tune.db"), "digits-latent-random-seed0")
    best = study.load().best_trial.params
    assert config.method == "latent-sgd"
    for name in ("lr", "start", "gamma", "weight_decay", "clip"):
        assert config.optimizer[name] == best[f"optimizer.{name}"]
    assert config.model.options["scale"] == best["model.options.scale"]


def test_only_validation_data_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    load, requests = data.load, []

    def watched(*args: Any, **options: Any) -> Any:
        requests.append(options["validate"])
        return load(*args, **options)

    monkeypatch.setattr(data, "load", watched)
    assert app.run(["tune", *SMALL, "--trials", "2", "--quiet"]) == 0
    assert requests == [True]  # and only once for all trials


def test_diverged_training_counts_as_accuracy_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    def diverged(*args: Any, **options: Any) -> Any:
        raise train.RunError("training has diverged")

    config = train.changed(train.RECIPES["digits"].config, {"model.options.width": "4"})
    objective = Training(config, Reader(train.Placement()))
    monkeypatch.setattr(train, "fit", diverged)
    assert objective({"optimizer.alpha": 1e-3}, lambda *_: None) == 0.0


def test_pruning_cuts_epochs(capsys: Out) -> None:
    words = ["digits", *SMALL[3:], "--epochs", "4", "--trials", "9", "--prune", "--seed", "3"]
    assert app.run(["tune", *words]) == 0
    output = capsys.readouterr().out
    assert " when pruned" in output
    assert " pruned; sampler random, seed 3" in output
    study = tune.join(tune.connect("sqlite:///runs/tune.db"), "digits-filter-random-seed3")
    for trial in study.load().get_trials():
        reported = list(trial.intermediate_values)
        assert reported == [1, 2, 3] if trial.state.name == "COMPLETE" else len(reported) < 4
        assert trial.state.name in {"COMPLETE", "PRUNED"}


def test_missing_optuna_is_reported_with_the_package_to_install(monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    assert app.run(["tune", "digits"]) == 2
    assert (
        capsys.readouterr().err
        == "zerocross: zerocross tune requires additional packages: pip install 'zerocross[tune]'\n"
    )


@pytest.mark.parametrize("file", ["[1]", "{", '{"colour": "blue"}', '{"data": 3}', '{"batch_size": "many"}'])
def test_file_that_is_not_a_recipe_gives_a_one_line_error(file: str, capsys: Out) -> None:
    Path("mine.json").write_text(file, encoding="utf-8")
    for words in (["train", "mine.json"], ["tune", "mine.json"]):
        assert app.run(words) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith("zerocross: mine.json is not a recipe: ")
        assert captured.err.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["mine.json"]


# ---- processes


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_stopped_search_returns_its_trial_to_the_queue(number: int, forks: Forks, in_a_folder: Path) -> None:
    running = forks.start(in_a_folder, "tune", *SMALL, "--trials", "40")
    until(lambda: running.log.exists() and running.output().count("\n") >= 2)
    running.kill(number)
    assert running.wait() == 128 + number
    assert (
        f"stopped; running trials were returned to the queue; resume with: zerocross tune --resume {NAME}"
        in running.output()
    )
    study = tune.join(tune.connect("sqlite:///runs/tune.db"), NAME)
    states = [trial.state.name for trial in study.load().get_trials()]
    assert set(states) == {"COMPLETE", "WAITING"}
    assert len(states) == 40


@pytest.mark.slow
def test_two_workers_share_a_study(in_a_folder: Path, forks: Forks) -> None:
    words = ("tune", *SMALL, "--trials", "8", "--workers", "2")
    running = forks.start(in_a_folder, *words)
    assert running.wait() == 0
    message = running.output()
    assert message.count(": trial ") == 8
    assert "8 trials by 2 workers in " in message
    study = tune.join(tune.connect("sqlite:///runs/tune.db"), NAME)
    by = {trial.user_attrs["worker"] for trial in study.load().get_trials()}
    assert len(by) == 2
