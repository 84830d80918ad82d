"""`zerocross train`, `runs`, `recipes`, `evaluate` and `demo` on the command line."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

from forks import SMALL
from zerocross import data, train
from zerocross.cli import app, main
from zerocross.cli.recipes import flat, source
from zerocross.train.checkpoint import Position
from zerocross.train.config import to_dict
from zerocross.train.display import Display

Out = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run every command in its own folder, without data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ZEROCROSS_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished run."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    assert app.run(["train", *SMALL, "--epochs", "1", "--quiet", "--out", str(folder)]) == 0
    return folder


# ---- invalid arguments


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["digit"], "did you mean 'digits'?"),
        (["--method", "filtre"], "did you mean 'filter'?"),
        (["--set", "optimizer.alpa=1"], "did you mean 'alpha'?"),
        (["--set", "optimizer.alpha"], "is not FIELD=VALUE; example: --set optimizer.alpha=1e-4"),
        (["--set", "=1"], "is not FIELD=VALUE"),
        (["--set", "real.lr=fast"], "real.lr is 'fast'; it must be a number"),
        (["--set", "optimizer.alpha=2"], "alpha is 2"),
        (["--set", "optimizer.gamma=0"], "gamma is 0"),
        (["--set", "model.options.widht=8"], "did you mean 'width'?"),
        (["--set", "model.name=digit_net"], "did you mean 'digits_net'?"),
        (["--set", "model.name=birealnet20"], "model birealnet20 does not accept the inputs of digits, (1, 8, 8)"),
        (["--set", "model.options.classes=5"], "returns (5,) outputs per sample; digits has 10 classes"),
        (["--set", "data.name=digit"], "dataset 'digit' is unknown"),
        (["--set", "data.options.fold=1"], "digits has no option 'fold'"),
        (["--set", "batch_size=100000"], "batch_size 100000 exceeds the 1438 training samples"),
        (["--set", "accumulate=5"], "is not divisible by accumulate = 5"),
        (["--precision", "16"], "precision is '16'; it must be 'auto', '32', 'bf16'"),
        (["--compile", "maybe"], "compile is 'maybe'"),
        (["--accelerator", "cdua"], "did you mean 'cuda'?"),
        (["--set", "batch_size=1"], "batch_size leaves 1 sample per forward pass and device"),
        (["--set", "batch_size=4", "--set", "accumulate=2", "--devices", "2"], "at least 2 x accumulate x devices"),
        (["--set", "warmup_epochs=9", "--epochs", "3"], "it must be less than the shortest stage, 3 epochs"),
        (["--sync-bn"], "--sync-bn requires CUDA"),
        (["--set", "task.name=distillation"], "distillation needs a teacher"),
        (["--set", "task.name=distillation", "--set", "task.teacher=runs/none"], "runs/none is not a run folder"),
        (["imagenet-reactnet-a"], "imagenet"),
        (["cifar10-birealnet20", "--data-dir", "nowhere"], "nowhere"),
        (["audiomnist-mlp"], "audiomnist"),
        (["--resume", "nowhere"], "nowhere is not a run folder: it has no config.json"),
        (["--resume", "run", "--epochs", "9"], "remove --epochs"),
        (["--resume", "run", "digits", "--set", "seed=1", "--devices", "2"], "remove recipe, --set, --devices"),
    ],
)
def test_invalid_settings_give_one_line_and_leave_no_folder(
    words: list[str], message: str, capsys: Out, in_a_folder: Path
) -> None:
    assert app.run(["train", *words, *([] if "--resume" in words else ["--out", "run"])]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("zerocross: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert captured.out == ""
    assert not list(in_a_folder.iterdir())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_unavailable_device_gives_a_one_line_error(in_a_folder: Path, capsys: Out) -> None:
    assert app.run(["train", "--accelerator", "cuda", "--out", "run"]) == 2
    output = capsys.readouterr().err
    assert output.startswith("zerocross: 1 cuda device(s) requested, but not available: ")
    assert output.count("\n") == 1
    assert not Path("run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_gpu_is_an_alias_of_cuda(in_a_folder: Path, capsys: Out) -> None:
    assert app.run(["train", "--accelerator", "gpu", "--out", "run"]) == 2
    assert "cuda device(s) requested, but not available" in capsys.readouterr().err


def test_data_are_read_from_the_folder_of_fetch(
    in_a_folder: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZEROCROSS_DATA", raising=False)
    assert app.run(["train", "cifar10-birealnet20", "--out", "run"]) == 2
    assert "./data, where `zerocross data fetch cifar10` stores it" in capsys.readouterr().err
    Path("data").mkdir()
    assert app.run(["train", "cifar10-birealnet20", "--out", "run"]) == 2
    assert f"no cifar10 in {in_a_folder / 'data'}" in capsys.readouterr().err
    monkeypatch.setenv("ZEROCROSS_DATA", "elsewhere")
    assert app.run(["train", "cifar10-birealnet20", "--out", "run"]) == 2
    assert f"no cifar10 in {in_a_folder / 'elsewhere'}" in capsys.readouterr().err


def test_folder_with_a_run_is_refused_with_a_hint_to_resume(finished: Path, capsys: Out) -> None:
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    assert app.run(["train", "--out", str(finished)]) == 2
    output = capsys.readouterr().err
    assert f"already contains a run; continue it with --resume {finished}" in output
    assert {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()} == before


def test_existing_file_gives_a_one_line_error(in_a_folder: Path, capsys: Out) -> None:
    (in_a_folder / "file").write_text("", encoding="utf-8")
    for out in ("file", "file/run"):
        assert app.run(["train", *SMALL, "--quiet", "--out", out]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_existing_result_is_not_overwritten(in_a_folder: Path, capsys: Out) -> None:
    words = ["train", *SMALL, "--epochs", "1", "--quiet", "--results", "results"]
    assert app.run([*words, "--out", "one"]) == 0
    written = list((in_a_folder / "results").iterdir())
    assert [path.name for path in written] == [f"{train.read_config(Path('one')).hash}.json"]
    assert app.run([*words, "--out", "two"]) == 2
    assert "already contains the result of this config" in capsys.readouterr().err
    assert not Path("two").exists()


def test_damaged_config_is_named(finished: Path, in_a_folder: Path, capsys: Out) -> None:
    shutil.copytree(finished, "run")
    for text in ("{", "[1]", '{"colour": "blue"}', '{"batch_size": "many"}'):
        Path("run/config.json").write_text(text, encoding="utf-8")
        assert app.run(["train", "--resume", "run"]) == 2
        assert capsys.readouterr().err.count("\n") == 1


# ---- files and output of a run


def test_run_folder_contains_the_files_listed_in_the_help(finished: Path) -> None:
    assert {path.name for path in finished.iterdir()} == {
        ".lock", "checkpoints", "config.json", "curves.png", "inputs.json", "metrics.jsonl", "model.safetensors",
        "place.json", "result.json",
    }  # fmt: skip
    result = json.loads((finished / "result.json").read_text(encoding="utf-8"))
    assert result["hash"] == train.read_config(finished).hash
    assert result["evaluated_on"] == "test"
    assert result["final"]["top1"] == result["history"][-1]["top1"]
    assert set(result["provenance"]) == {"commit", "versions", "machine", "date"}
    assert (finished / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_output_without_a_terminal(capsys: Out) -> None:
    assert app.run(["train", *SMALL, "--epochs", "2", "--out", "run", "--seed", "3", "--validate"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("epoch 1 of 2  validation ")
    assert lines[1].startswith("epoch 2 of 2  validation ")
    assert lines[2].startswith("run finished: validation accuracy ")
    config = train.read_config(Path("run"))
    assert config.seed == 3
    assert config.data.validate


def test_quiet_prints_only_the_result(capsys: Out) -> None:
    assert app.run(["train", *SMALL, "--epochs", "1", "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("runs/digits-filter-seed0 finished: test accuracy ")
    assert captured.out.count("\n") == 1
    assert captured.err == ""


def test_finished_run_is_reported(finished: Path, capsys: Out) -> None:
    assert app.run(["train", "--resume", str(finished)]) == 0
    assert f"{finished} was already finished: test accuracy " in capsys.readouterr().out


def test_resume_without_a_checkpoint_starts_from_the_config(finished: Path, capsys: Out) -> None:
    Path("run").mkdir()
    for name in ("config.json", "place.json"):
        shutil.copy(finished / name, "run")
    assert app.run(["train", "--resume", "run", "--quiet"]) == 0
    assert (Path("run") / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()


def test_moved_data_are_found_with_data_dir(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--data-dir may be given again; the environment variable does not replace the data folder of a run."""
    seen = []

    def load(name: str, data_dir: str | None, **options: object) -> object:
        seen.append(data_dir)
        raise ValueError("enough")

    monkeypatch.setattr(data, "load", load)
    Path("run").mkdir()
    shutil.copy(finished / "config.json", "run")
    Path("run/place.json").write_text(json.dumps({"data_dir": "/old"}), encoding="utf-8")
    assert app.run(["train", "--resume", "run", "--data-dir", "/new"]) == 2
    monkeypatch.setenv("ZEROCROSS_DATA", "/elsewhere")
    assert app.run(["train", "--resume", "run"]) == 2
    assert app.run(["evaluate", "run", "--data-dir", "/new"]) == 2
    assert seen == ["/new", "/old", "/new"]


def test_data_dir_is_stored_as_an_absolute_path(in_a_folder: Path) -> None:
    assert app.run(["train", *SMALL, "--epochs", "1", "--quiet", "--data-dir", "here", "--out", "run"]) == 0
    assert train.read_placement(Path("run")).data_dir == str(in_a_folder / "here")


def test_tensorboard_on_request(in_a_folder: Path) -> None:
    pytest.importorskip("tensorboard")
    assert app.run(["train", *SMALL, "--epochs", "1", "--quiet", "--tensorboard", "--out", "run"]) == 0
    assert list(Path("run/tensorboard").glob("events.*"))


def test_missing_tensorboard_gives_a_one_line_error(monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    words = ["zerocross", "train", *SMALL, "--epochs", "1", "--quiet", "--tensorboard", "--out", "run"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("which is not installed: pip install 'zerocross[tensorboard]'")


# ---- the live display


def test_progress_bar_on_a_terminal() -> None:
    screen = io.StringIO()
    display = Display(train.Config(stages=(train.Stage(epochs=2),)), data.load("digits"), show=True)
    display.console, display.live = Console(file=screen, force_terminal=True, width=80, highlight=False), True
    position = Position()
    display.stage(position, train.Stage(epochs=2), 10)
    display.update(position, 2.5, {"ff_ratio": 0.25, "images_per_second": 100.0})
    position.step = 10
    display.advance(position)
    display.epoch(position, {"top1": 75.0, "top5": 99.0, "loss": 0.5})
    display.close()
    frames = screen.getvalue()
    assert "10/20" in frames
    assert "loss 2.500  FF 2.5e-01  test 75.00 %" in frames
    assert "epoch 1 of 2  test 75.00 %, loss 0.500  training loss 2.500" in frames
    assert "left" in frames


# ---- runs, recipes, demo


def test_runs_lists_existing_runs(finished: Path, in_a_folder: Path, capsys: Out) -> None:
    shutil.copytree(finished, "runs/a")
    shutil.copytree(finished, "runs/deep/b", ignore=shutil.ignore_patterns("result.json", "metrics.jsonl"))
    Path("runs/c").mkdir()
    Path("runs/c/config.json").write_text("{", encoding="utf-8")
    assert app.run(["runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    accuracy = json.loads((finished / "result.json").read_text(encoding="utf-8"))["final"]["top1"]
    assert lines[0].split() == [
        "run",
        "data",
        "model",
        "method",
        "state",
        "seed",
        "epochs",
        "accuracy",
        "%",
        "FF",
        "ratio",
    ]
    assert lines[2].split()[:8] == ["a", "digits", "digits_net", "filter", "finished", "0", "1/1", f"{accuracy:.2f}"]
    assert lines[3].split() == ["c", "unreadable"]
    assert lines[4].split() == ["deep/b", "digits", "digits_net", "filter", "unfinished", "0", "0/1", "-", "-"]
    assert len(lines) == 5


def test_runs_without_runs_gives_a_one_line_error(in_a_folder: Path, capsys: Out) -> None:
    assert app.run(["runs", "nowhere"]) == 2
    assert "there is no folder nowhere" in capsys.readouterr().err
    assert app.run(["runs", "."]) == 2
    assert ". contains no runs; create one with: zerocross train" in capsys.readouterr().err


def test_recipes_lists_all_and_shows_one(capsys: Out) -> None:
    assert app.run(["recipes"]) == 0
    listed = capsys.readouterr().out
    for name in train.RECIPES:
        assert name in listed
        assert app.run(["recipes", name]) == 0
        shown = capsys.readouterr().out
        assert "Stated by the paper" in shown
        assert f"zerocross train {name} --set SETTING=VALUE" in shown
    assert app.run(["recipes", "digts"]) == 2
    assert "did you mean 'digits'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(train.RECIPES))
def test_every_note_of_a_recipe_refers_to_a_setting(name: str) -> None:
    recipe = train.RECIPES[name]
    paths = [path for path, _ in flat(to_dict(recipe.config))]
    marked = {path for path in paths if source(recipe, path) != "our default"}
    assert {"data.name", "model.name"} <= marked
    alpha = source(recipe, "optimizer.alpha")
    assert alpha == ("stated" if name in {"cifar10-birealnet20", "imagenet-reactnet-a"} else "assumed")
    assert not set(recipe.stated) & set(recipe.assumed)


def test_demo_trains_and_ends_with_five_lines(in_a_folder: Path, capsys: Out) -> None:
    assert app.run(["demo", "--seeds", "2", "--epochs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    begin = ["Accuracy: ", "Binary: ", "Flips: ", "Files: ", "Try next: "]
    for line, words in zip(lines[-5:], begin, strict=True):
        assert line.startswith(words)
        assert len(line) < 160
    assert Path("runs/demo-1/seed1/curves.png").exists()
    assert app.run(["demo", "--seeds", "1", "--epochs", "1"]) == 0
    assert Path("runs/demo-2/seed0/result.json").exists()  # the first demo is not overwritten


def test_evaluate_refuses_a_run_without_weights(finished: Path, capsys: Out) -> None:
    shutil.copytree(finished, "run", ignore=shutil.ignore_patterns("checkpoints", "*.safetensors"))
    assert app.run(["evaluate", "run"]) == 2
    assert "run has no weights yet; train it first: zerocross train --resume run" in capsys.readouterr().err
    assert app.run(["evaluate", "nowhere"]) == 2
    assert "nowhere is not a run folder" in capsys.readouterr().err


def test_evaluate_of_an_unfinished_run_uses_its_newest_checkpoint(finished: Path, capsys: Out) -> None:
    shutil.copytree(finished, "run", ignore=shutil.ignore_patterns("*.safetensors", "result.json", "01-*"))
    assert app.run(["evaluate", "run"]) == 0
    assert capsys.readouterr().out.startswith("run, checkpoint after 8 updates, on 359 test samples of digits\n")
