"""Evaluation counts every sample once and never counts NaN as correct; batch-norm statistics can be re-estimated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from zerocross import data, train
from zerocross.cli import app
from zerocross.data.dataset import Dataset


class FixedLogits(nn.Module):
    """Returns given logits, row by row, for any input; records the sizes of its batches."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))
        self.logits, self.place, self.sizes = logits, 0, []

    def forward(self, x: Tensor) -> Tensor:
        rows = self.logits[self.place : self.place + len(x)]
        self.place += len(x)
        self.sizes.append(len(x))
        # Confident predictions for padding.
        return torch.cat([rows, torch.full((len(x) - len(rows), rows.shape[1]), 1e9)])


def of(targets: Tensor, classes: int = 10) -> Dataset:
    x = torch.zeros(len(targets), 3)
    return data.from_tensors(
        x, targets, x, targets, class_names=[str(i) for i in range(classes)], mean=(0.0,), std=(1.0,)
    )


def test_figures_equal_naive_ones_and_padding_is_not_counted() -> None:
    draw = torch.Generator().manual_seed(0)
    logits, targets = torch.randn(23, 10, generator=draw), torch.randint(0, 10, (23,), generator=draw)
    model = FixedLogits(logits)
    scores = train.evaluate(model, of(targets).eval_batches(8))
    # 23 = 8 + 8 + 7: the last batch is padded to the shape of the others, for compiled networks.
    assert model.sizes == [8, 8, 8]
    order = logits.argsort(dim=1, descending=True)
    top1 = sum(int(order[i, 0]) == int(targets[i]) for i in range(23))
    top5 = sum(int(targets[i]) in order[i, :5].tolist() for i in range(23))
    loss = sum(-float(logits[i].log_softmax(0)[targets[i]]) for i in range(23)) / 23
    assert scores["count"] == 23
    assert scores["top1"] == pytest.approx(100 * top1 / 23)
    assert scores["top5"] == pytest.approx(100 * top5 / 23)
    assert scores["loss"] == pytest.approx(loss, rel=1e-6)


def test_nan_is_not_a_correct_prediction() -> None:
    targets = torch.zeros(6, dtype=torch.long)
    logits = torch.zeros(6, 10)
    logits[:, 0] = 1.0
    logits[0] = float("nan")
    logits[1, 0] = float("nan")  # ranked first by topk, and the true class
    logits[2, 9] = float("nan")
    scores = train.evaluate(FixedLogits(logits), of(targets).eval_batches(6))
    assert scores["top1"] == scores["top5"] == pytest.approx(50)


def test_top_5_with_fewer_than_five_classes() -> None:
    scores = train.evaluate(FixedLogits(torch.eye(2)), of(torch.tensor([0, 1]), classes=2).eval_batches(2))
    assert scores["top1"] == scores["top5"] == 100


def test_mode_of_the_network_is_restored() -> None:
    for training in (True, False):
        model = FixedLogits(torch.eye(2)).train(training)
        train.evaluate(model, of(torch.tensor([0, 1]), classes=2).eval_batches(2))
        assert model.training is training


# ---- batch norm


def test_recalibrated_statistics_are_plain_means_over_batches() -> None:
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0)) * 2 + 5
    y = torch.zeros(64, dtype=torch.long)
    dataset = data.from_tensors(x, y, x, y, class_names=["a", "b"], mean=(0.0,), std=(1.0,))
    norm = nn.BatchNorm1d(3)
    model = nn.Sequential(norm, nn.Linear(3, 2)).eval()
    norm.running_mean = torch.full((3,), 100.0)
    used = train.recalibrate_batch_norm(model, dataset.train_batches(16, seed=0), 3)
    seen = [batch for batch, _ in dataset.train_batches(16, seed=0).epoch()][:3]
    assert used == 3
    assert norm.running_mean is not None
    assert norm.running_var is not None
    torch.testing.assert_close(norm.running_mean, torch.stack([b.mean(0) for b in seen]).mean(0))
    torch.testing.assert_close(norm.running_var, torch.stack([b.var(0) for b in seen]).mean(0))
    assert norm.momentum == 0.1
    assert not model.training
    assert train.recalibrate_batch_norm(model, dataset.train_batches(16, seed=0), 99) == 4  # no more than there are


def test_recalibration_refuses_invalid_arguments() -> None:
    batches = of(torch.zeros(4, dtype=torch.long)).eval_batches(2)
    with pytest.raises(ValueError, match="at least 1"):
        train.recalibrate_batch_norm(nn.Sequential(nn.BatchNorm1d(3)), batches, 0)
    with pytest.raises(ValueError, match="no batch norm"):
        train.recalibrate_batch_norm(nn.Linear(3, 2), batches, 1)


def test_command_prints_both_figures_and_does_not_change_the_run(
    unbroken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before: Any = {path: path.read_bytes() for path in unbroken.rglob("*") if path.is_file()}
    assert app.run(["evaluate", str(unbroken), "--recalibrate-bn", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{unbroken}, final weights, on 359 test samples of digits"
    final = json.loads((unbroken / "result.json").read_text(encoding="utf-8"))["final"]
    assert lines[1].split("top-1")[0].strip() == "as trained"
    assert f"top-1 {final['top1']:6.2f} %" in lines[1]
    assert lines[2].split("top-1")[0].strip() == "batch norm from 5 batches"
    assert len(lines) == 3
    assert lines[1].split("top-1")[1] != lines[2].split("top-1")[1]
    assert {path: path.read_bytes() for path in unbroken.rglob("*") if path.is_file()} == before
