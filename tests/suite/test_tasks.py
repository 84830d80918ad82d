"""The suite's tasks: each is a valid training of its data, network and budget."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
import torch

from zerocross import data, models, train
from zerocross.cli.app import run
from zerocross.data.ucr import SETS
from zerocross.suite.tasks import TASKS, get
from zerocross.train.build import build_model


def test_the_tasks_are_those_of_the_suite() -> None:
    assert len(TASKS) == 17
    assert {"digits", "mnist", "fashion-mnist", "audiomnist", "hapt", "imdb"} <= set(TASKS)
    assert sum(task.data == "ucr" for task in TASKS.values()) == 11
    with pytest.raises(ValueError, match="did you mean 'ECG5000'"):
        get("ECG500")


@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_a_valid_training_of_every_kind(name: str) -> None:
    task = TASKS[name]
    assert task.data in data.NAMES
    unknown = set(task.network_options) - set(models.options(task.network))
    assert not unknown
    hashes = set()
    for method in ("filter", "real", "latent-sgd", "adambnn"):
        config = task.config(method, seed=1)
        assert (config.seed, config.batch_size, config.data.validate) == (1, task.batch_size, False)
        assert sum(stage.epochs for stage in config.stages) == task.epochs
        assert ({stage.binarize for stage in config.stages} == {"none"}) == (method == "real")
        hashes.add(config.hash)
    assert len(hashes) == 4
    assert task.config(validate=True).data.validate
    assert task.config("filter", epochs=2 * task.epochs).stages[0].epochs == 2 * task.epochs


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.data == "ucr"])
def test_networks_accept_the_series_of_their_dataset(name: str) -> None:
    task, series = TASKS[name], SETS[name]
    x, y = torch.randn(4, 1, series.length), torch.arange(4) % series.classes
    dataset = data.from_tensors(x, y, x, y, class_names=[str(label) for label in range(series.classes)])
    config = task.config()
    model = build_model(config, config.stages[0], dataset)
    assert model(x).shape == (4, series.classes)


def test_a_training_of_a_task() -> None:
    """digits needs no files; the twin has no binary weights, the filter's network has."""
    task = dataclasses.replace(TASKS["digits"], epochs=1)
    dataset = data.load("digits", validate=True)
    for method in ("filter", "real"):
        fitted = train.fit(task.config(method, validate=True), dataset, show=False)
        assert fitted.scores[task.metric] > 30
        assert any(hasattr(module, "binary_kinds") for module in fitted.model.modules()) == (method == "filter")


def test_the_list_of_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["suite", "tasks", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in TASKS)
    assert "2,000 training samples" in out
    assert "17 tasks" in out
    assert out.count("not measured") == 17
    assert run(["suite", "converge", "--tasks", "mnst"]) == 2
    assert "did you mean 'mnist'?" in capsys.readouterr().err


@pytest.mark.data
@pytest.mark.parametrize("name", ["ECG5000", "hapt"])
def test_tasks_on_real_data(real_data: Path, name: str) -> None:
    """A few epochs; far better than chance."""
    task = dataclasses.replace(TASKS[name], epochs=3)
    if not (real_data / task.data).is_dir():
        pytest.skip(f"no {task.data} in {real_data}")
    config = task.config(validate=True)
    dataset = train.load_data(config, train.Placement(data_dir=os.fspath(real_data)))
    assert train.fit(config, dataset, show=False).scores["top1"] > 50
