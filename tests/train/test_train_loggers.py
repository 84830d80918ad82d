"""Loggers: one interface for TensorBoard, Weights & Biases, MLflow and objects of one's own, offline."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import nn

from zerocross import data, train
from zerocross.cli import app
from zerocross.extras import MissingExtraError
from zerocross.nn import BinaryLinear
from zerocross.train.loggers import LOGGERS, MetricLogger, open_loggers

LINES = [({"train/loss": 1.0, "train/ff_ratio": 0.5}, 0), ({"train/loss": 0.5, "train/ff_ratio": 0.25}, 1)]


class Memory:
    """A logger that keeps what it is given."""

    def __init__(self) -> None:
        self.lines: list[tuple[dict[str, float], int]] = []
        self.closed = 0

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self.lines.append((dict(metrics), step))

    def close(self) -> None:
        self.closed += 1


def needs(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: pip install 'zerocross[{module}]'")


def small() -> tuple[train.Config, data.Dataset, nn.Module]:
    torch.manual_seed(0)
    x = torch.randn(96, 6)
    y = (x[:, 0] > 0).long()
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), BinaryLinear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    config = train.Config(stages=(train.Stage(epochs=2),), batch_size=32, log_every=1, compile="off")
    return config, data.from_tensors(x[:64], y[:64], x[64:], y[64:]), model


def test_fit_passes_its_numbers_on_and_closes():
    config, dataset, model = small()
    logger = Memory()
    fitted = train.fit(config, dataset, model=model, show=False, log=[logger])
    assert isinstance(logger, MetricLogger)
    recorded = [
        ({f"{line['kind']}/{name}": value for name, value in line.items() if isinstance(value, float)}, line["update"])
        for line in fitted.record.lines
    ]
    assert logger.lines == recorded
    assert {"train/loss", "train/ff_ratio", "train/alpha"} <= set(logger.lines[0][0])
    assert {"eval/top1", "eval/loss"} <= set(logger.lines[-1][0])
    assert logger.closed == 1


def test_a_logger_is_closed_when_training_fails():
    config, dataset, model = small()
    logger = Memory()

    def stop(epoch: int, scores: dict[str, float]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train.fit(config, dataset, model=model, show=False, log=[logger], on_epoch=stop)
    assert logger.closed == 1


def test_logging_is_no_part_of_the_config():
    config, dataset, model = small()
    before = config.hash
    plain = train.fit(config, dataset, model=small()[2], show=False)
    logged = train.fit(config, dataset, model=model, show=False, log=[Memory()])
    assert config.hash == before
    assert plain.scores == logged.scores


def test_weights_and_biases_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    needs("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    (logger,) = open_loggers(["wandb"], tmp_path)
    for metrics, step in LINES:
        logger.log(metrics, step)
    logger.log({}, 2)  # wandb takes in a step when the next one begins
    first, summary = logger._run.id, dict(logger._run.summary)  # type: ignore[attr-defined]
    logger.close()
    assert {name: summary[name] for name in LINES[1][0]} == LINES[1][0]
    assert len(list(tmp_path.glob("wandb/offline-run-*/*.wandb"))) == 1
    (again,) = open_loggers(["wandb"], tmp_path, first=2)
    assert again._run.id == first  # type: ignore[attr-defined]
    again.close()


def test_mlflow_in_the_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    needs("mlflow")
    import mlflow

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for lines in (LINES[:1], LINES[1:]):  # the second time, the run is continued
        (logger,) = open_loggers(["mlflow"], tmp_path)
        for metrics, step in lines:
            logger.log(metrics, step)
        logger.close()
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("zerocross")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(entry.step, entry.value) for entry in history] == [(0, 1.0), (1, 0.5)]
    assert (run.info.run_name, run.info.status) == (tmp_path.name, "FINISHED")


def test_what_cannot_log_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="comet"):
        open_loggers(["comet"], tmp_path)
    with pytest.raises(ValueError, match="log='wandb' writes to the run folder: pass folder="):
        open_loggers(["wandb"], None)
    with pytest.raises(ValueError, match=r"which has no log\(metrics, step\) and close\(\)"):
        open_loggers([print], tmp_path)  # type: ignore[list-item]


@pytest.mark.parametrize("name", LOGGERS)
def test_a_missing_package_names_its_extra(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard" if name == "tensorboard" else name, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'zerocross\[{name}\]'"):
        open_loggers([name], tmp_path)


def test_the_command_logs_to_several_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    needs("tensorboard")
    needs("wandb")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    words = ["train", "digits", "--epochs", "1", "--quiet", "--compile", "off", "--out", "run"]
    assert app.run([*words, "--log", "tensorboard", "--log", "wandb"]) == 0
    assert list(Path("run/tensorboard").glob("events.*"))
    assert list(Path("run/wandb").glob("offline-run-*"))
    assert train.read_placement(Path("run")).log == ["tensorboard", "wandb"]
    assert app.run([*words, "--log", "comet"]) == 2
    assert "comet" in capsys.readouterr().err
