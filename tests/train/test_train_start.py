"""Starting from trained weights: the warm start follows from alpha unless given, and a cold start warns."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from forks import SMALL, Forks
from zerocross import data, models, train
from zerocross.cli import app
from zerocross.train.folder import read_config
from zerocross.train.variants import two_step

DIGITS = train.RECIPES["digits"].config


@pytest.mark.parametrize("alpha", [1e-5, 1e-3, 0.02])
def test_warm_start_follows_from_alpha(alpha: float) -> None:
    config = train.changed(DIGITS, {"optimizer.alpha": str(alpha)}, in_two_steps=True)
    assert config.optimizer_of(config.stages[1])["warm_start"] == pytest.approx(3 * math.sqrt(alpha / 2))
    assert "warm_start" not in config.stages[0].optimizer


def test_warm_start_follows_from_the_alpha_of_its_stage() -> None:
    config = train.changed(DIGITS, {"stages.1.optimizer.alpha": "1e-5"}, in_two_steps=True)
    assert config.optimizer_of(config.stages[1])["warm_start"] == pytest.approx(3 * math.sqrt(1e-5 / 2))


@pytest.mark.parametrize("field", ["optimizer.warm_start", "stages.1.optimizer.warm_start"])
@pytest.mark.parametrize("value", [0.0, 0.25])
def test_an_explicit_warm_start_is_used(field: str, value: float) -> None:
    config = train.changed(DIGITS, {field: str(value), "optimizer.alpha": "1e-5"}, in_two_steps=True)
    assert config.optimizer_of(config.stages[1])["warm_start"] == value


def test_two_steps_without_changes() -> None:
    assert train.changed(DIGITS, {}, in_two_steps=True) == two_step(DIGITS)
    assert train.changed(DIGITS, {"method": "torch-sgd"}, in_two_steps=True) == two_step(
        train.with_method(DIGITS, "torch-sgd")
    )


def test_two_steps_keep_the_warm_start_of_the_config() -> None:
    messages = train.changed(DIGITS, {"optimizer.warm_start": "0.5"})
    assert two_step(messages).optimizer_of(two_step(messages).stages[1])["warm_start"] == 0.5


def test_the_command_line_derives_the_warm_start_last(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["train", *SMALL, "--epochs", "2", "--two-step", "--set", "optimizer.alpha=1e-5", "--out", str(run), "-q"]
    assert app.run(words) == 0
    assert read_config(run).stages[1].optimizer["warm_start"] == pytest.approx(3 * math.sqrt(1e-5 / 2))


def first_flips(run: Path) -> float:
    return json.loads((run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[0])["ff_ratio"]


def test_init_from_starts_from_the_weights_of_a_run_and_keeps_them(unbroken: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert app.run(["train", *SMALL, "--epochs", "1", "--init-from", str(unbroken), "--out", str(run), "-q"]) == 0
    config = read_config(run)
    assert config.stages[0].init_from is not None
    assert config.stages[0].init_from.startswith(f"{unbroken}#")
    assert first_flips(run) < 0.05
    assert first_flips(unbroken) > 0.3
    before, after = (load_file(each / "model.safetensors") for each in (unbroken, run))
    same = torch.cat([(before[name] == after[name]).flatten() for name in before if "conv.weight" in name])
    assert same.float().mean() > 0.8


def test_two_processes_start_from_the_same_weights(forks: Forks, unbroken: Path, tmp_path: Path) -> None:
    words = ("train", *SMALL, "--epochs", "1", "--init-from", unbroken, "--out", "run")
    for command in forks.start_two(tmp_path, *words):
        assert command.wait() == 0, command.output()
    assert first_flips(tmp_path / "run") < 0.05


def test_init_from_detects_changed_weights(unbroken: Path, tmp_path: Path) -> None:
    config = train.changed(DIGITS, {"stages.0.epochs": "1"}, init_from=f"{unbroken}#{'0' * 16}")
    with pytest.raises(ValueError, match="has changed since this run was configured"):
        train.begin(config, tmp_path / "run", show=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--init-from", "nowhere"], "has no final weights (model.safetensors): use the folder of a finished run"),
        (
            ["--init-from", "RUN", "--method", "bop"],
            "method 'bop' cannot start from trained weights: two-step training and",
        ),
        (["--init-from", "RUN", "--set", "model.options.width=8"], "the initial weights do not match this network"),
        (["--resume", "RUN", "--init-from", "RUN"], "remove --init-from"),
    ],
)
def test_incompatible_initial_weights_are_refused(
    unbroken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    words = [word.replace("RUN", str(unbroken)) for word in words]
    extra = [] if "--resume" in words else [*SMALL[:-2], "--out", str(tmp_path / "run")]
    assert app.run(["train", *extra, *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def small(**values: Any) -> train.Config:
    config = train.changed(
        DIGITS, {"stages.0.epochs": "1", "compile": "off", "model.options.width": "4", "batch_size": "128"}
    )
    return dataclasses.replace(config, **values)


def test_a_trained_network_that_loses_its_signs_warns() -> None:
    digits = data.load("digits")
    trained = train.fit(small(), digits, show=False).model
    with pytest.warns(UserWarning, match="the first update flipped [45].% of binary weights that were trained"):
        train.fit(small(), digits, model=trained, show=False)
    warm = small(optimizer={"warm_start": 3 * math.sqrt(1e-3 / 2)})
    for config, network in ((warm, trained), (small(), models.create("digits_net", weights="theta", width=4))):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            train.fit(config, digits, model=network, show=False)
