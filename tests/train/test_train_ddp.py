"""Two processes equal one that averages the gradients of two half-batches, and evaluate every sample once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor, nn

from forks import SMALL, Forks, bits, free_port, metrics
from reference.two_ranks import train_as_two_ranks
from zerocross import data, train
from zerocross.cli import app
from zerocross.train.folder import read_config


def test_two_processes_equal_one_with_averaged_half_batches(unbroken_two: Path) -> None:
    config = read_config(unbroken_two)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model, losses = train_as_two_ranks(config, data.load("digits"), updates=33)
    finally:
        torch.set_num_threads(before)
    assert [line["loss"] for line in metrics(unbroken_two) if line["kind"] == "train"] == losses
    weights = load_file(unbroken_two / "model.safetensors")
    for name, tensor in model.state_dict().items():
        assert torch.equal(weights[name], tensor), name


def test_two_processes_evaluate_every_sample_once(unbroken_two: Path) -> None:
    last = metrics(unbroken_two)[-1]
    dataset = data.load("digits")
    model, _ = train.load_model(unbroken_two)
    alone = train.evaluate(model, dataset.eval_batches(359))
    assert last["count"] == alone["count"] == 359  # 359 = 2 * 128 + 103: divisible neither by batches nor by ranks
    assert last["top1"] == alone["top1"]
    assert last["loss"] == pytest.approx(alone["loss"], rel=1e-5)


class Echo(nn.Module):
    """Predicts the class given by the first feature of a sample; for padding, class 0."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.one_hot(x[:, 0].round().long().clamp(0), self.classes).float()


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**31))
def test_evaluation_over_ranks_counts_every_sample_once(count: int, world: int, each: int, seed: int) -> None:
    """The sums over all ranks count each sample exactly once, for any sizes; padding is not counted."""
    draw = torch.Generator().manual_seed(seed)
    answers, truth = torch.randint(0, 7, (2, count), generator=draw)
    x = answers.float()[:, None]
    dataset = data.from_tensors(x, truth, x, truth, class_names=[*"abcdefg"], mean=(0.0,), std=(1.0,))
    sums: list[Tensor] = []

    def note(mine: Tensor) -> Tensor:
        sums.append(mine.clone())
        return torch.ones(4)

    for rank in range(world):
        train.evaluate(Echo(7), dataset.eval_batches(each * world, rank=rank, world_size=world), total=note)
    _, right, _, counted = torch.stack(sums).sum(0).tolist()
    assert counted == count
    assert right == int((answers == truth).sum())


def test_sync_bn_is_refused_on_the_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for devices in ([], ["--devices", "2"]):
        code = app.run(["train", "--sync-bn", "--accelerator", "cpu", *devices, "--out", str(tmp_path / "run")])
        assert code == 2
        output = capsys.readouterr().err
        assert (
            output
            == "zerocross: --sync-bn requires CUDA: torch's SyncBatchNorm does not run on the CPU; remove the option\n"
        )
        assert not (tmp_path / "run").exists()


def test_batch_size_must_be_divisible_by_the_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "--devices", "2", "--set", "batch_size=63", "--out", str(tmp_path / "run")]
    assert app.run(arguments) == 2
    assert "multiple of world_size 2" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def real(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment: Any = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )


@pytest.mark.slow
def test_devices_2_and_torchrun_are_bit_identical(tmp_path: Path, unbroken_two: Path) -> None:
    script = str(Path(sys.executable).with_name("zerocross"))
    done = real(tmp_path, script, "train", *SMALL, "--devices", "2", "--out", "devices")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        str(free_port()),
    ]
    done = real(tmp_path, *torchrun, script, "train", *SMALL, "--out", "torchrun")
    assert done.returncode == 0, done.stderr
    assert bits(tmp_path / "devices") == bits(tmp_path / "torchrun") == bits(unbroken_two)


@pytest.mark.slow
def test_processes_of_one_machine_share_its_threads(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    script = str(Path(sys.executable).with_name("zerocross"))
    command = [script, "train", *SMALL, "--epochs", "1", "--devices", "2", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert result["provenance"]["machine"]["threads"] == max(1, len(os.sched_getaffinity(0)) // 2)


@pytest.mark.slow
def test_resuming_with_another_number_of_processes_is_refused(forks: Forks, tmp_path: Path, unbroken: Path) -> None:
    for command in forks.start_two(tmp_path, "train", "--resume", unbroken):
        assert command.wait() == 2
        assert "was started with 1 processes on 1 machines; torchrun started 2 on 1" in command.output()
