"""`zerocross pack` and `zerocross predict` on the command line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from forks import SMALL
from zerocross import data, train
from zerocross.cli import app
from zerocross.runtime.format import read

Out = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished and packed run."""
    folder = tmp_path_factory.mktemp("packed")
    assert app.run(["train", *SMALL, "--epochs", "1", "--quiet", "--out", str(folder / "run")]) == 0
    assert app.run(["pack", str(folder / "run"), "-o", str(folder / "net.zcb")]) == 0
    return folder


def test_a_packed_run_contains_all_that_prediction_needs(finished: Path):
    graph = read(finished / "net.zcb")
    assert graph.classes == tuple("0123456789")
    assert graph.preprocessing is not None
    assert graph.preprocessing.kind == "image"
    assert graph.input_size == (1, 8, 8)
    assert graph.provenance["config"] == train.read_config(finished / "run").hash
    assert graph.provenance["weights"] == "final weights"


def test_packing_reads_no_dataset(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def unreadable(*words: object, **values: object) -> None:
        raise AssertionError("a dataset was read")

    monkeypatch.setattr(data, "load", unreadable)
    assert app.run(["pack", str(finished / "run"), "-o", str(tmp_path / "net.zcb")]) == 0
    assert (tmp_path / "net.zcb").read_bytes() == (finished / "net.zcb").read_bytes()


def test_a_run_of_an_older_version_is_packed_from_its_dataset(
    finished: Path, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
):
    run = tmp_path / "run"
    shutil.copytree(finished / "run", run)
    (run / "inputs.json").unlink()
    assert app.run(["pack", str(run), "-o", str(tmp_path / "net.zcb")]) == 0
    assert f"{run} is from an older version and has no inputs.json" in capsys.readouterr().err
    assert (tmp_path / "net.zcb").read_bytes() == (finished / "net.zcb").read_bytes()

    def missing(*words: object, **values: object) -> None:
        raise FileNotFoundError("no digits in /nowhere")

    monkeypatch.setattr(data, "load", missing)
    assert app.run(["pack", str(run), "-o", str(tmp_path / "other.zcb")]) == 2
    assert f"the dataset of {run} cannot be read: set its folder with --data-dir" in capsys.readouterr().err
    assert not (tmp_path / "other.zcb").exists()


def test_unknown_preprocessing_is_refused(finished: Path, tmp_path: Path, capsys: Out):
    run = tmp_path / "run"
    shutil.copytree(finished / "run", run)
    kept = json.loads((run / "inputs.json").read_text(encoding="utf-8"))
    for values, reason in (
        ({**kept["preprocessing"], "kind": "smell"}, "kind must be one of image, logmel, wave, array"),
        ({**kept["preprocessing"], "resize": 4}, "resize = 4 must be within 8.."),
        ({**kept["preprocessing"], "colour": 1}, "must be an object with kind, mean"),
    ):
        (run / "inputs.json").write_text(json.dumps({**kept, "preprocessing": values}), encoding="utf-8")
        assert app.run(["pack", str(run), "-o", str(tmp_path / "net.zcb")]) == 2
        assert reason in capsys.readouterr().err
    assert not (tmp_path / "net.zcb").exists()


def test_the_table_is_printed_and_files_are_not_overwritten(finished: Path, tmp_path: Path, capsys: Out):
    target = tmp_path / "net.zcb"
    assert app.run(["pack", str(finished / "run"), "-o", str(target), "--real", "int8"]) == 0
    printed = capsys.readouterr()
    assert "layers: 4 binary, 0 with" in printed.out
    assert "warning: --real int8 changes predictions" in printed.err
    assert "74 to 90 %" in printed.err
    assert app.run(["pack", str(finished / "run"), "-o", str(target)]) == 2
    assert "already exists: choose another name, or use --overwrite to replace it" in capsys.readouterr().err
    before = target.stat().st_size
    assert app.run(["pack", str(finished / "run"), "-o", str(target), "--overwrite"]) == 0
    assert "warning" not in capsys.readouterr().err
    assert target.stat().st_size > before


def test_a_wrong_type_or_folder_gives_a_one_line_error(finished: Path, tmp_path: Path, capsys: Out):
    for words, message in (
        ([str(finished / "run"), "-o", str(tmp_path / "x.zcb"), "--real", "int4"], "one of float32, float16, int8"),
        ([str(tmp_path), "-o", str(tmp_path / "x.zcb")], "is not a run folder"),
    ):
        assert app.run(["pack", *words]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "x.zcb").exists()


def test_predictions_equal_those_of_the_network(finished: Path, tmp_path: Path, capsys: Out):
    dataset = data.load("digits")
    model, _ = train.load_model(finished / "run")
    x, _ = next(iter(dataset.eval_batches(8).epoch()))
    with torch.no_grad():
        shares = model.eval()(x).softmax(1)
    pixels = dataset.evaluation.inputs[:8].numpy()  # type: ignore[attr-defined]
    for index in range(8):
        Image.fromarray(pixels[index, 0]).save(tmp_path / f"{index}.png")
    np.save(tmp_path / "z.npy", pixels)
    assert app.run(["predict", str(finished / "net.zcb"), str(tmp_path), "--top", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 16, "eight images, and the array's eight samples"
    for row, line in enumerate(lines):
        result = re.findall(r"(\d) +([\d.]+) %", line)
        best = shares[row % 8].topk(2)
        assert [int(name) for name, _ in result] == best.indices.tolist()
        assert [float(share) for _, share in result] == pytest.approx([100 * s for s in best.values.tolist()], abs=0.06)


def test_invalid_inputs_give_a_one_line_error(finished: Path, tmp_path: Path, capsys: Out):
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut.zcb").write_bytes((finished / "net.zcb").read_bytes()[:-9])
    net = str(finished / "net.zcb")
    for words, message in (
        ([net, str(tmp_path / "none.png")], "none.png does not exist"),
        ([net, str(tmp_path / "empty")], "contains no file that this network can read"),
        ([net, str(finished / "run" / "config.json")], "this network takes .png"),
        ([str(tmp_path / "cut.zcb"), net], "cut.zcb is not a valid packed network"),
        ([str(tmp_path / "none.zcb"), net], "none.zcb does not exist; create it with: zerocross pack"),
    ):
        assert app.run(["predict", *words]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.strip().splitlines()) == 1


def test_a_file_that_cannot_be_read_does_not_stop_the_others(finished: Path, tmp_path: Path, capsys: Out):
    rng = np.random.default_rng(0)
    for name in ("a", "c"):
        Image.fromarray(rng.integers(0, 256, (8, 8)).astype(np.uint8)).save(tmp_path / f"{name}.png")
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes()[:40])
    batch = rng.standard_normal((3, 1, 8, 8)).astype(np.float32)
    batch[1, 0, 2, 2] = np.nan
    np.save(tmp_path / "d.npy", batch)
    assert app.run(["predict", str(finished / "net.zcb"), str(tmp_path)]) == 2
    output = capsys.readouterr()
    assert [line.split()[0] for line in output.out.splitlines()] == [
        str(tmp_path / name) for name in ("a.png", "c.png", "d.npy[0]", "d.npy[2]")
    ]
    assert "nan" not in output.out
    bad, nan = output.err.strip().splitlines()
    assert "b.png is not a readable image" in bad
    assert "d.npy[1] contains 1 numbers that are NaN or infinite" in nan

    assert app.run(["predict", str(finished / "net.zcb"), str(tmp_path), "--json", "--top", "2"]) == 2
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(Path(line["file"]).name, line.get("index"), "error" in line) for line in lines] == [
        ("a.png", None, False), ("b.png", None, True), ("c.png", None, False),
        ("d.npy", 0, False), ("d.npy", 1, True), ("d.npy", 2, False),
    ]  # fmt: skip
    assert set(lines[0]["classes"][0]) == {"class", "probability"}
    assert lines[0]["classes"][0]["class"] in set("0123456789")
    assert len(lines[0]["classes"]) == 2
    assert 0 < lines[0]["classes"][1]["probability"] <= lines[0]["classes"][0]["probability"] <= 1


def test_a_missing_folder_is_not_created(finished: Path, tmp_path: Path, capsys: Out):
    target = tmp_path / "mistyped" / "net.zcb"
    assert app.run(["pack", str(finished / "run"), "-o", str(target)]) == 2
    assert f"the folder {target.parent} does not exist" in capsys.readouterr().err
    assert not target.parent.exists()


def test_torch_is_imported_only_when_the_commands_run():
    code = "import sys, zerocross.cli.pack, zerocross.cli.predict; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
