"""`zerocross zoo` and `zoo:NAME` on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from forks import SMALL
from zerocross import data, zoo
from zerocross.cli import app
from zerocross.zoo.card import read_card

Out = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo") / "run"
    assert app.run(["train", *SMALL, "--epochs", "1", "--quiet", "--out", str(folder)]) == 0
    return folder


def test_list_and_card(capsys: Out):
    assert app.run(["zoo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in zoo.names():
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert f"{zoo.card(name).top1:.2f} %" in line
    assert app.run(["zoo", "show", "digits"]) == 0
    assert capsys.readouterr().out.rstrip() == zoo.card("digits").markdown().rstrip()
    assert app.run(["zoo", "show", "digits", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == vars(zoo.card("digits"))


def test_unknown_names_are_one_line(capsys: Out, tmp_path: Path):
    for words in (["zoo", "show", "digit"], ["predict", "zoo:digit", str(tmp_path)]):
        assert app.run(words) == 2
        error = capsys.readouterr().err
        assert "the zoo has no network 'digit'; it has " in error
        assert "did you mean 'digits'?" in error
        assert len(error.strip().splitlines()) == 1


def test_predict_accepts_a_network_of_the_zoo(capsys: Out, tmp_path: Path):
    dataset = data.load("digits")
    pixels = dataset.evaluation.inputs[:20].numpy()  # type: ignore[attr-defined]
    for index, image in enumerate(pixels):
        Image.fromarray(image[0]).save(tmp_path / f"{index:02}.png")
    assert app.run(["predict", "zoo:digits", str(tmp_path), "--json", "--top", "1"]) == 0
    result = [json.loads(line)["classes"][0]["class"] for line in capsys.readouterr().out.splitlines()]
    right = np.array(result) == dataset.evaluation.targets[:20].numpy().astype(str)
    assert right.sum() >= 19


def test_a_run_is_added(run: Path, tmp_path: Path, capsys: Out):
    page = tmp_path / "zoo.md"
    page.write_text("before\n<!-- zoo: begin -->\nold\n<!-- zoo: end -->\nafter\n", encoding="utf-8")
    results = tmp_path / "results"
    words = ["zoo", "add", str(run), "--name", "small-one", "--to", str(tmp_path / "files"), "--results", str(results),
             "--page", str(page)]  # fmt: skip
    assert app.run(words) == 0
    card = read_card(tmp_path / "files" / "small-one.json")
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    assert json.loads((results / f"{card.config}.json").read_text(encoding="utf-8")) == result
    assert card.samples == 359
    assert card.top1 == pytest.approx(result["final"]["top1"], abs=0.6)
    assert card.markdown() in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- zoo: begin -->\n| name |")
    assert text.endswith("<!-- zoo: end -->\nafter\n")
    assert f"| `small-one` | {card.title} |" in text
    assert "old" not in text

    assert app.run(words) == 2
    assert "small-one.json already exists: choose another name, or use --overwrite" in capsys.readouterr().err
    assert app.run([*words, "--overwrite", "--real", "int8"]) == 0
    assert read_card(tmp_path / "files" / "small-one.json").packed_bytes < card.packed_bytes


def test_only_finished_runs_on_test_data_are_added(run: Path, tmp_path: Path, capsys: Out):
    unfinished = tmp_path / "unfinished"
    shutil.copytree(run, unfinished)
    (unfinished / "result.json").unlink()
    held_out = tmp_path / "held_out"
    shutil.copytree(run, held_out)
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    config["data"]["validate"] = True
    (held_out / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for folder, name, message in (
        (unfinished, "x", "is not a finished run"),
        (held_out, "x", "cards report test accuracy"),
        (run, "A b", "use only lower-case letters, digits, - and _"),
        (tmp_path, "x", "is not a run folder"),
    ):
        words = ["zoo", "add", str(folder), "--name", name, "--to", str(tmp_path / "files"), "--results",
                 str(tmp_path / "results")]  # fmt: skip
        assert app.run(words) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "files").exists()


def test_a_different_result_of_the_same_config_is_not_replaced(run: Path, tmp_path: Path, capsys: Out):
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    result["final"]["top1"] = 12.5
    (tmp_path / f"{result['hash']}.json").write_text(json.dumps(result), encoding="utf-8")
    words = ["zoo", "add", str(run), "--name", "x", "--to", str(tmp_path / "files"), "--results", str(tmp_path)]
    assert app.run(words) == 2
    assert "contains a different result of this config (12.50 %, this run has" in capsys.readouterr().err
