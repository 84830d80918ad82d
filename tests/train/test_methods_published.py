"""Settings of a method besides its arithmetic: ramps, warm-up, weight decay, its own network, its old name."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from zerocross import data, methods, train
from zerocross.nn import BinaryConv2d
from zerocross.optim import HybridOptimizer, Schedule, project_after_step
from zerocross.train import assign, recipes
from zerocross.train.build import build_model, build_optimizer, build_schedules
from zerocross.train.config import Config, RealConfig
from zerocross.train.variants import with_epochs, with_method, with_network

CIFAR = recipes.get("cifar10-birealnet20").config


def test_ramps_reach_the_param_groups_at_every_update() -> None:
    config = with_method(recipes.get("digits").config, "bop2ndorder")
    stage = config.stages[0]
    optimizer = build_optimizer(build_model(config, stage, data.load("digits")), config, stage)
    schedules = build_schedules(config, stage, updates_per_epoch=5)
    total = 5 * stage.epochs
    assert isinstance(optimizer, HybridOptimizer)
    for step in (0, 1, total // 2, total - 1):
        schedules.apply(optimizer, step)
        (group,) = optimizer.binary.param_groups
        left = 1 - step / total
        assert group["lr"] == pytest.approx(1e-5 + (1e-2 - 1e-5) * left)
        assert group["sigma"] == pytest.approx(1e-2 + (1e-7 - 1e-2) * left)
        assert group["tau"] == pytest.approx(1e-8 + (1e-5 - 1e-8) * left)
        assert optimizer.real.param_groups[0]["lr"] == pytest.approx(0.01 * (0.1 + 0.9 * left))


def test_numbers_and_ramps_are_interchangeable() -> None:
    config = assign.changed(Config(), {"optimizer.gamma": "0.2->0.1"})
    assert config.optimizer["gamma"] == "0.2->0.1"
    assert methods.ramps("filter", config.optimizer)["gamma"].value(1, 2) == pytest.approx(0.15)
    second = assign.changed(with_method(Config(), "bop2ndorder"), {"optimizer.sigma": "1e-2"})
    assert second.optimizer["sigma"] == 1e-2
    fitted = train.fit(
        assign.changed(config, {"stages.0.epochs": "1", "compile": "off"}), data.load("digits"), show=False
    )
    assert math.isfinite(fitted.scores["loss"])


@pytest.mark.parametrize(
    ("method", "changes", "words"),
    [
        ("filter", {"optimizer.gamma": "0.2->"}, "not a ramp; write two numbers"),
        ("filter", {"optimizer.gamma": "0.2->1.5"}, r"gamma is 1.5; it must lie in \(0, 1\]"),
        ("filter", {"optimizer.alpha": "1e-3->1e-4"}, "optimizer.schedule to constant"),
        ("filter", {"optimizer.warm_start": "0->1"}, "reads it only once, at the start: use a number"),
        ("bop2ndorder", {"optimizer.tau": "small"}, "it must be a number, or a ramp"),
        ("filter", {"optimizer.schedule": "linear:2"}, "linear.*can end at a factor from 0 to 1"),
        ("filter", {"optimizer.schedule": "step:half"}, "'step:0.4,0.8"),
        ("filter", {"real.decay": "some"}, "'matrices', 'all'"),
    ],
)
def test_invalid_settings_are_refused_by_the_config(method: str, changes: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        assign.changed(with_method(Config(), method), changes)


def test_schedules_as_text() -> None:
    assert [Schedule.parse("linear:0.1", 10).factor(step) for step in (0, 5, 10)] == pytest.approx([1, 0.55, 0.1])
    assert Schedule.parse("cosine:0.2", 10).factor(10) == pytest.approx(0.2)
    assert Schedule.parse("exponential:3e-4", 10).factor(10) == pytest.approx(3e-4)
    steps = Schedule.parse("step:0.375,0.625*0.5", 8)
    assert [steps.factor(step) for step in range(8)] == [1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25]
    assert Schedule.parse("step", 10) == Schedule("step", 10)


def test_weight_decay_applies_to_all_parameters_if_the_method_says_so() -> None:
    for name, decays in (("filter", {1e-4, 0.0}), ("ir-net", {1e-4}), ("recu", {5e-4})):
        config = with_method(CIFAR, name)
        model = build_model(config, config.stages[0], data.load("digits"))
        optimizer = build_optimizer(model, config, config.stages[0])
        assert isinstance(optimizer, HybridOptimizer)
        assert {group["weight_decay"] for group in optimizer.real.param_groups} == decays
    assert RealConfig().decay == "matrices"


def test_warm_up_is_a_share_of_the_run_and_the_batch_size_that_of_the_run() -> None:
    config = with_method(CIFAR, "recu")
    assert config.warmup_epochs == pytest.approx(400 * 5 / 600)
    assert with_epochs(config, 60).warmup_epochs == pytest.approx(0.5)
    assert with_method(with_epochs(CIFAR, 60), "recu").warmup_epochs == pytest.approx(0.5)
    assert with_method(CIFAR, "bop").batch_size == CIFAR.batch_size
    assert with_epochs(CIFAR, 3).warmup_epochs == 0


def test_published_network_has_the_authors_architecture_and_batch_size() -> None:
    config = with_network(with_method(CIFAR, "ir-net"), "published")
    assert config.model.options == {"activation": "hardtanh", "shortcut": "subsample"}
    assert config.batch_size == 128
    assert with_network(config, "common") == config
    assert with_network(CIFAR, "published") == CIFAR  # the filter uses the common network
    with pytest.raises(ValueError, match="published networks are variants of birealnet20"):
        with_network(Config(), "published")
    with pytest.raises(ValueError, match="network = 'own'"):
        with_network(CIFAR, "own")


def test_old_name_of_a_method_is_accepted_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="'binaryconnect' is deprecated, use 'binarynet' instead"):
        config = with_method(Config(), "binaryconnect")
    assert config.method == "binarynet"
    with pytest.warns(DeprecationWarning, match="binarynet"):
        assert Config(method="binaryconnect").method == "binarynet"


@pytest.mark.parametrize(
    ("options", "spread"),
    [
        ({"init_scale": 0.1}, 0.1 / math.sqrt(3)),
        ({"init": "normal", "init_scale": 0.05}, 0.05),
        ({"init": "kaiming_normal"}, math.sqrt(2 / (64 * 9))),
        ({"init": "kaiming_fan_out"}, math.sqrt(2 / (128 * 9))),
    ],
)
def test_initial_latent_weights_follow_the_options(options: dict[str, float], spread: float) -> None:
    torch.manual_seed(0)
    layer = BinaryConv2d(64, 128, 3, weights="latent", **options)  # type: ignore[arg-type]
    assert layer.weight.std().item() == pytest.approx(spread, rel=0.02)
    with pytest.raises(ValueError, match=r"init = 'he'.*kaiming_normal"):
        BinaryConv2d(4, 4, 3, weights="latent", init="he")


def test_projection_is_applied_at_construction_and_after_every_step() -> None:
    param = nn.Parameter(torch.tensor([[3.0, 1.0]]))

    def centre(params: list[torch.Tensor]) -> None:
        for each in params:
            each.sub_(each.mean())

    optimizer = project_after_step(torch.optim.SGD([param], lr=1.0), centre)
    assert param.tolist() == [[1.0, -1.0]]
    param.grad = torch.tensor([[-2.0, 0.0]])
    optimizer.step()
    assert param.tolist() == [[2.0, -2.0]]
