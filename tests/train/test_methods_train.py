"""Every method trains: digits to 93 %, resumed bit-exactly, compiled, in bf16, by two processes; all if slow."""

from __future__ import annotations

import math
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from forks import SMALL, UNHURRIED, Forks, bits, metrics, until, updates
from reference.two_ranks import train_as_two_ranks
from zerocross import data, train
from zerocross.methods import METHODS
from zerocross.train import assign, recipes
from zerocross.train.config import Config
from zerocross.train.folder import read_config
from zerocross.train.variants import with_method


def sampled(*names: str) -> Any:
    """Return all methods; `make test` runs only the given ones."""
    return pytest.mark.parametrize(
        "name", [name if name in names else pytest.param(name, marks=pytest.mark.slow) for name in METHODS]
    )


def digits(name: str, **changes: str) -> Config:
    return assign.changed(with_method(recipes.get("digits").config, name), {"compile": "off", **changes})


@sampled("bop2ndorder", "recu")
def test_digits_are_learned(name: str) -> None:
    fitted = train.fit(digits(name), data.load("digits"), show=False)
    assert fitted.scores["top1"] >= 93


@sampled("adambnn", "rbnn")
def test_killed_run_resumes_bit_exactly(name: str, forks: Forks, tmp_path: Path) -> None:
    words = ("train", *SMALL, "--method", name)
    whole = forks.start(tmp_path, *words, "--out", "whole")
    assert whole.wait() == 0, whole.output()
    cut = forks.start(tmp_path, *words, "--out", "cut", patch=UNHURRIED)
    until(lambda: updates(tmp_path / "cut") >= 12)
    cut.kill(signal.SIGKILL)
    assert cut.wait() == -signal.SIGKILL
    again = forks.start(tmp_path, "train", "--resume", "cut")
    assert again.wait() == 0, again.output()
    assert bits(tmp_path / "cut") == bits(tmp_path / "whole")


@sampled("binarynet")
def test_bf16_trains(name: str) -> None:
    """The filter's state and latent weights stay float32, and the loss decreases."""
    fitted = train.fit(digits(name, precision="bf16", **{"stages.0.epochs": "4"}), data.load("digits"), show=False)
    losses = [line["loss"] for line in fitted.record.of("train")]
    assert all(math.isfinite(loss) for loss in losses)
    assert fitted.scores["top1"] > 30
    assert all(param.dtype == torch.float32 for param in fitted.model.parameters())


@sampled("dsq")
def test_two_processes_equal_one_with_averaged_half_batches(name: str, forks: Forks, tmp_path: Path) -> None:
    commands = forks.start_two(tmp_path, "train", *SMALL, "--method", name, "--out", "run")
    assert [command.wait() for command in commands] == [0, 0], commands[0].output() + commands[1].output()
    run = tmp_path / "run"
    losses = [line["loss"] for line in metrics(run) if line["kind"] == "train"]
    assert all(math.isfinite(loss) for loss in losses)
    if METHODS[name].parts:
        return  # the naive twin supports only one stage
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model, expected = train_as_two_ranks(read_config(run), data.load("digits"), updates=10**6)
    finally:
        torch.set_num_threads(before)
    assert losses == expected
    weights = load_file(run / "model.safetensors")
    for key, tensor in model.state_dict().items():
        assert torch.equal(weights[key], tensor), key


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_compiled_training_compiles_once(name: str) -> None:
    """Values that change during training (alpha, t, tau) do not recompile."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    config = digits(name, compile="on", **{"stages.0.epochs": "2"})
    fitted = train.fit(config, data.load("digits"), show=False)
    losses = [line["loss"] for line in fitted.record.of("train")]
    assert all(math.isfinite(loss) for loss in losses)
    assert losses[-1] < losses[0]
    # once for training and once for evaluation, per stage
    assert counters["stats"]["unique_graphs"] <= 2 * len(config.stages)
