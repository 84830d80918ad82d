"""The training loop: schedules per update, accumulation, stages, custom networks, and resuming."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from zerocross import data, train
from zerocross.data.dataset import Dataset
from zerocross.data.options import BatchOptions
from zerocross.nn import BinaryLinear
from zerocross.train import Config, ModelConfig, RealConfig, Stage
from zerocross.train.loop import RunError

SMALL = Config(
    model=ModelConfig("digits_net", {"width": 4}), stages=(Stage(epochs=2),), batch_size=128, log_every=1, compile="off"
)


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return data.load("digits")


def lines(fitted: train.Fitted, field: str, stage: int = 0) -> list[float]:
    return [line[field] for line in fitted.record.of("train") if line["stage"] == stage]


def same_weights(one: nn.Module, other: nn.Module) -> bool:
    state = other.state_dict()
    return all(torch.equal(tensor, state[name]) for name, tensor in one.state_dict().items())


# ---- schedules


def test_alpha_and_lr_follow_their_schedules_update_by_update(digits: Dataset) -> None:
    config = dataclasses.replace(
        SMALL, optimizer={"alpha": 2e-3, "schedule": "cosine"}, real=RealConfig(lr=0.05, schedule="linear")
    )
    fitted = train.fit(config, digits, show=False)
    total = 22  # two epochs of 1438 // 128 updates
    assert [line["update"] for line in fitted.record.of("train")] == list(range(total))
    cosine = [2e-3 * (1 + math.cos(math.pi * i / total)) / 2 for i in range(total)]
    assert lines(fitted, "alpha") == pytest.approx(cosine, rel=1e-12)
    assert lines(fitted, "lr") == pytest.approx([0.05 * (1 - i / total) for i in range(total)], rel=1e-12)


def test_warm_up_rises_to_the_full_value_before_the_decay(digits: Dataset) -> None:
    config = dataclasses.replace(SMALL, warmup_epochs=0.5, real=RealConfig(schedule="constant"))
    lr = lines(train.fit(config, digits, show=False), "lr")
    warmup = round(0.5 * 11)
    assert lr[:warmup] == pytest.approx([0.1 * (i + 1) / (warmup + 1) for i in range(warmup)], rel=1e-12)
    assert lr[warmup:] == [0.1] * (22 - warmup)


# ---- accumulation


class Plain(nn.Module):
    """Without batch norm, a batch in parts equals the whole batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 8), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x.flatten(1))))


def test_accumulated_parts_equal_the_whole_batch_up_to_rounding(digits: Dataset) -> None:
    results = []
    for accumulate in (1, 2, 4):
        torch.manual_seed(0)
        config = dataclasses.replace(SMALL, accumulate=accumulate, stages=(Stage(epochs=1, binarize="none"),))
        results.append(train.fit(config, digits, model=Plain(), show=False))
    whole = results[0]
    for parts in results[1:]:
        assert len(parts.record.of("train")) == len(whole.record.of("train")) == 11
        assert lines(parts, "loss") == pytest.approx(lines(whole, "loss"), rel=1e-4)
        for name, tensor in parts.model.state_dict().items():
            torch.testing.assert_close(tensor, whole.model.state_dict()[name], rtol=1e-3, atol=1e-5)


def test_an_update_is_one_filter_step_for_any_number_of_parts(digits: Dataset) -> None:
    """Parts that do not fill an update are left out: 1438 samples are 22 parts of 64, and 11 updates."""
    config = dataclasses.replace(SMALL, accumulate=2, stages=(Stage(epochs=1),))
    fitted = train.fit(config, digits, show=False)
    assert [line["update"] for line in fitted.record.of("train")] == list(range(11))
    assert [line["update"] for line in fitted.record.of("eval")] == [11]


# ---- stages

TWO_STEPS = dataclasses.replace(
    SMALL,
    stages=(
        Stage(epochs=2, binarize="activations"),
        Stage(epochs=1, binarize="both", init_from="previous", optimizer={"warm_start": 1.0}),
    ),
)


def test_a_warm_start_keeps_signs_across_stages(digits: Dataset) -> None:
    cold = dataclasses.replace(
        TWO_STEPS, stages=(TWO_STEPS.stages[0], dataclasses.replace(TWO_STEPS.stages[1], optimizer={}))
    )
    first = {name: lines(train.fit(config, digits, show=False), "ff_ratio", stage=1)[0]
             for name, config in (("warm", TWO_STEPS), ("cold", cold))}  # fmt: skip
    assert first["warm"] < 0.01
    assert 0.35 < first["cold"] < 0.65  # theta = -sign(gradient): half of the trained signs are lost


def test_a_stage_starts_from_the_signs_of_the_previous_one(digits: Dataset) -> None:
    real = train.fit(dataclasses.replace(TWO_STEPS, stages=TWO_STEPS.stages[:1]), digits, show=False)
    frozen = dataclasses.replace(
        TWO_STEPS.stages[1], optimizer={"warm_start": 1e9}, real={"lr": 1e-30, "weight_decay": 0.0}
    )
    both = train.fit(dataclasses.replace(TWO_STEPS, stages=(TWO_STEPS.stages[0], frozen)), digits, show=False)
    before, after = real.model.state_dict(), both.model.state_dict()
    for name, tensor in after.items():
        if name.startswith("blocks") and "conv" in name:
            assert set(tensor.unique().tolist()) <= {-1.0, 1.0}
            assert torch.equal(tensor, torch.where(before[name] < 0, -1.0, 1.0))
        elif name == "head.weight":
            torch.testing.assert_close(tensor, before[name])


def test_a_stage_without_init_from_starts_from_scratch(digits: Dataset) -> None:
    again = dataclasses.replace(SMALL, stages=(Stage(epochs=1), Stage(epochs=1)))
    fitted = train.fit(again, digits, show=False)
    assert lines(fitted, "ff_ratio", 1)[0] > 0.35
    assert lines(fitted, "loss", 1)[0] > lines(fitted, "loss", 0)[-1]


# ---- resuming


class Noisy(nn.Module):
    """Draws from every random generator that a training loop may use."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Dropout(0.3)
        self.binary, self.last = BinaryLinear(16, 16, sign_input="clip"), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = x + 0.1 * random.random() + 0.1 * float(np.random.rand())  # noqa: NPY002
        return self.last(self.binary(self.drop(self.norm(self.first(x.flatten(1))))))


class Interrupted(Exception):  # noqa: N818
    """Simulates a kill."""


def interrupted_after(updates: int) -> Any:
    """Return a replacement for Display.advance that ends the run after some updates."""

    def advance(self: object, position: Any) -> None:
        if position.updates == updates:
            raise Interrupted

    return advance


def assert_resumes_bit_exactly(
    config: Config, dataset: Dataset, folder: Path, cuts: list[int], model: Any = None
) -> None:
    """Interrupt a run at each of these updates, resume it, and compare it with an uninterrupted run."""

    def own() -> nn.Module | None:
        torch.manual_seed(1)
        return model() if model is not None else None

    whole = train.fit(config, dataset, model=own(), folder=folder / "whole", show=False)
    for cut in cuts:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("zerocross.train.display.Display.advance", interrupted_after(cut))
            with pytest.raises(Interrupted):
                train.fit(config, dataset, model=own(), folder=folder / "cut", show=False)
    parts = train.fit(config, dataset, model=own(), folder=folder / "cut", show=False)
    assert same_weights(parts.model, whole.model)
    for kind in ("train", "eval"):
        mine, theirs = ([{k: v for k, v in line.items() if k != "images_per_second"} for line in run.record.of(kind)]
                        for run in (parts, whole))  # fmt: skip
        assert mine == theirs


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("filter", {"optimizer.warm_start": "1"}),
        ("filter", {"real.name": "adam", "real.lr": "0.01", "accumulate": "2", "log_every": "3"}),
        ("latent-sgd", {"optimizer.start": "0.5", "optimizer.clip": "1"}),
        ("latent-sgd", {"optimizer.start": "0", "optimizer.clip_gradient": "1"}),
        ("torch-sgd", {"task.label_smoothing": "0.1"}),
    ],
)
def test_every_method_resumes_bit_exactly(
    method: str, changes: dict[str, str], digits: Dataset, tmp_path: Path
) -> None:
    config = train.changed(train.with_method(SMALL, method), {"checkpoint_every": "3", **changes})
    assert_resumes_bit_exactly(config, digits, tmp_path, [5, 13])


def test_random_generators_resume_bit_exactly(digits: Dataset, tmp_path: Path) -> None:
    config = dataclasses.replace(SMALL, checkpoint_every=3)
    assert_resumes_bit_exactly(config, digits, tmp_path, [2, 7, 13], Noisy)


def test_stages_resume_bit_exactly_across_their_border(digits: Dataset, tmp_path: Path) -> None:
    config = dataclasses.replace(TWO_STEPS, checkpoint_every=4)
    assert_resumes_bit_exactly(config, digits, tmp_path, [21, 23, 24, 30])  # the first stage has 22 updates


class EntersAtTheStart:
    """A stream like DALI's: an epoch can be repeated, but not entered in the middle."""

    resumable = False

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __len__(self) -> int:
        return len(self.stream)

    def epoch(self, number: int = 0, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        assert start == 0
        return self.stream.epoch(number)


class EntersAtTheStartPart:
    """A part of a dataset that is read by such streams."""

    def __init__(self, part: Any) -> None:
        self.part, self.targets = part, part.targets

    def __len__(self) -> int:
        return len(self.part)

    def batches(self, options: BatchOptions) -> EntersAtTheStart:
        return EntersAtTheStart(self.part.batches(options))


def test_stream_that_cannot_be_entered_in_the_middle_resumes_at_the_epochs_start(
    digits: Dataset, tmp_path: Path
) -> None:
    dataset = dataclasses.replace(digits, train=EntersAtTheStartPart(digits.train))
    config = dataclasses.replace(SMALL, checkpoint_every=3)
    assert_resumes_bit_exactly(config, dataset, tmp_path, [5, 16])
    names = [path.name for path in sorted((tmp_path / "cut" / "checkpoints").glob("*"))]
    assert names == ["00-00001-0000000.pt", "01-00000-0000000.pt"]


def test_an_uninterrupted_run_leaves_two_checkpoints(digits: Dataset, tmp_path: Path) -> None:
    train.fit(dataclasses.replace(SMALL, checkpoint_every=3), digits, folder=tmp_path, show=False)
    names = [path.name for path in sorted((tmp_path / "checkpoints").iterdir())]
    assert names == ["00-00001-0000010.pt", "01-00000-0000000.pt"]


def test_checkpoints_of_other_settings_are_refused(digits: Dataset, tmp_path: Path) -> None:
    train.fit(SMALL, digits, folder=tmp_path, show=False)
    with pytest.raises(ValueError, match="contains checkpoints of a run with other settings"):
        train.fit(dataclasses.replace(SMALL, seed=1), digits, folder=tmp_path, show=False)


# ---- errors


def test_a_custom_network_has_one_stage(digits: Dataset) -> None:
    with pytest.raises(ValueError, match="works with a single stage only"):
        train.fit(TWO_STEPS, digits, model=Plain(), show=False)


class Steep(nn.Module):
    """A small loss with a large gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 10)
        nn.init.zeros_(self.linear.weight)

    def forward(self, x: Tensor) -> Tensor:
        return 1e3 * self.linear(x.flatten(1)) - 1e3 * self.linear.bias


def test_non_finite_weights_are_not_saved(digits: Dataset, tmp_path: Path) -> None:
    """The loss of the update is finite, but the resulting weights are not."""
    real, stages = RealConfig(lr=3e38, momentum=0.0, weight_decay=0.0), (Stage(epochs=1, binarize="none"),)
    config = dataclasses.replace(SMALL, real=real, stages=stages, checkpoint_every=1)
    with pytest.raises(RunError, match="training diverged at update 1, epoch 1: the weights are not finite"):
        train.fit(config, digits, model=Steep(), folder=tmp_path, show=False)
    assert not list(tmp_path.glob("checkpoints/*"))


def test_the_seed_determines_the_run(digits: Dataset) -> None:
    once, again = (train.fit(SMALL, digits, show=False) for _ in range(2))
    assert same_weights(once.model, again.model)
    other = train.fit(dataclasses.replace(SMALL, seed=1), digits, show=False)
    assert not same_weights(once.model, other.model)


# ---- precision and compilation


def test_bf16_trains_and_keeps_state_in_float32(digits: Dataset, tmp_path: Path) -> None:
    fitted = train.fit(dataclasses.replace(SMALL, precision="bf16"), digits, folder=tmp_path, show=False)
    assert lines(fitted, "loss")[-1] < lines(fitted, "loss")[0]
    assert {parameter.dtype for parameter in fitted.model.parameters()} == {torch.float32}
    assert lines(fitted, "loss") != lines(train.fit(SMALL, digits, show=False), "loss")  # bf16 was really used


@pytest.mark.slow
def test_compiled_training_resumes_bit_exactly(digits: Dataset, tmp_path: Path) -> None:
    config = dataclasses.replace(SMALL, compile="on", checkpoint_every=3)
    assert_resumes_bit_exactly(config, digits, tmp_path, [5])
    compiled = train.fit(config, digits, folder=tmp_path / "whole", show=False)
    eager = train.fit(SMALL, digits, show=False)
    assert compiled.scores["top1"] == pytest.approx(eager.scores["top1"], abs=5)


def test_auto_compiles_only_long_runs(digits: Dataset) -> None:
    from zerocross import compiler, models
    from zerocross.train.build import should_compile

    cpu, small = torch.device("cpu"), models.create("digits_net", width=4)
    config = dataclasses.replace(SMALL, compile="auto")
    assert not should_compile(config, small, digits, 100, cpu)
    assert should_compile(config, small, digits, 10**9, cpu) == compiler.available()
    assert should_compile(dataclasses.replace(SMALL, compile="on"), small, digits, 1, cpu)
    assert not should_compile(SMALL, small, digits, 10**9, cpu)


def test_the_evaluation_interval_does_not_affect_training(digits: Dataset) -> None:
    """The last epoch of each stage is always evaluated."""
    config = train.changed(TWO_STEPS, {"stages.0.epochs": "3", "stages.1.epochs": "2"})
    often = train.fit(config, digits, show=False)
    seldom = train.fit(dataclasses.replace(config, evaluate_every=2), digits, show=False)
    assert [(line["stage"], line["epoch"]) for line in often.record.of("eval")] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
    ]
    assert [(line["stage"], line["epoch"]) for line in seldom.record.of("eval")] == [(0, 1), (0, 2), (1, 1)]
    assert seldom.scores["top1"] == often.scores["top1"]
