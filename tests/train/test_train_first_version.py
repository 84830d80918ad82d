"""Run folders of the first version: evaluated and packed as before; its checkpoints are refused by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from zerocross import deploy, train

FOLDER = Path(__file__).parents[1] / "reference" / "first_version" / "run"


def test_a_finished_run_has_the_accuracy_that_it_had() -> None:
    config, place = train.read_config(FOLDER), train.read_placement(FOLDER)
    final = json.loads((FOLDER / "result.json").read_text(encoding="utf-8"))["final"]
    dataset = train.load_data(config, place)
    model, _ = train.load_model(FOLDER, place, dataset)
    result = train.evaluate(model, dataset.eval_batches(256))
    assert result["top1"] == final["top1"]
    assert result["loss"] == pytest.approx(final["loss"], rel=1e-5)


def test_it_packs() -> None:
    model, _ = train.load_model(FOLDER)
    assert {layer.kind for layer in deploy.pack(model, (1, 8, 8)).layers} >= {"binary"}


def test_its_checkpoints_are_refused_and_left_as_they_are(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(FOLDER, run)
    (run / "result.json").unlink()
    [checkpoint] = (run / "checkpoints").iterdir()
    before = checkpoint.read_bytes()
    with pytest.raises(ValueError, match=r"another revision of this package.* resume with the version that started it"):
        train.resume(run, show=False)
    assert checkpoint.read_bytes() == before
