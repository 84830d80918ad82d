"""What binarisers keep besides weights: RBNN's rotations, fitted each epoch, and EWGS' bounds, started from a batch."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import multiprocessing, nn

from reference import bounds
from zerocross import models
from zerocross.nn import BinaryConv1d, BinaryConv2d, BinaryLinear, Sign, sign, start_epoch, start_from_batch
from zerocross.nn.binarizers.ewgs import EWGSActivation
from zerocross.optim import HybridOptimizer
from zerocross.train import recipes
from zerocross.train.build import build_optimizer, start_from
from zerocross.train.variants import with_method

LAYERS = {
    "linear": lambda: BinaryLinear(30, 7, weights="latent", binarizer="rbnn", init_scale=0.1),
    "prime": lambda: BinaryLinear(13, 7, weights="latent", binarizer="rbnn", init_scale=0.1),
    "conv1d": lambda: BinaryConv1d(6, 5, 5, weights="latent", binarizer="rbnn", init_scale=0.1),
    "conv2d": lambda: BinaryConv2d(4, 5, 3, weights="latent", binarizer="rbnn", init_scale=0.1),
}


def rotated_error(layer: Any) -> float:
    """The squared distance of a layer's standardised weights, wholly rotated, from their signs."""
    with torch.no_grad():
        layer.binarizer.angle.fill_(math.pi / 2)
        v = layer.before_sign()
    return float((v - sign(v)).square().sum())


@pytest.mark.parametrize("kind", LAYERS)
def test_rotations_are_fitted_to_the_weights_and_stay_rotations(kind: str) -> None:
    torch.manual_seed(0)
    layer: Any = LAYERS[kind]()
    own = layer.binarizer
    assert len(own.left) * len(own.right) == layer.weight[0].numel()
    assert len(own.left) == {"linear": 5, "prime": 1, "conv1d": 5, "conv2d": 6}[kind]
    before = rotated_error(layer)
    for epoch in range(3):
        start_epoch(nn.Sequential(layer))
        after = rotated_error(layer)
        assert after < before if epoch == 0 else after <= before * (1 + 1e-5)  # which may have converged
        before = after
    for rotation in (own.left, own.right):
        torch.testing.assert_close(rotation @ rotation.T, torch.eye(len(rotation)), atol=1e-5, rtol=0)


def test_rotations_are_saved_and_left_alone_by_weights_that_are_not_finite() -> None:
    torch.manual_seed(0)
    layer, other = LAYERS["linear"](), LAYERS["linear"]()
    start_epoch(layer)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.before_sign(), layer.before_sign())
    rotations = copy.deepcopy(dict(layer.named_buffers()))
    with torch.no_grad():
        layer.weight[0, 0] = math.nan
    start_epoch(layer)
    assert all(torch.equal(value, rotations[name]) for name, value in layer.named_buffers())


def test_signs_of_rotated_weights_are_the_same_under_autocast() -> None:
    torch.manual_seed(0)
    layer = LAYERS["conv2d"]()
    with torch.autocast("cpu", torch.bfloat16):
        under = layer.binary_weight()
    assert torch.equal(under, layer.binary_weight())


@pytest.mark.parametrize("rectified", [True, False])
def test_bounds_of_activations_start_from_the_first_batch_in_training(rectified: bool) -> None:
    x = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
    x = x.relu() + 0.125 if rectified else x
    layer = EWGSActivation()
    layer.eval()(x)
    assert (layer.low.item(), layer.high.item()) == (-1, 1)
    out = layer.train()(x)
    spread = 3 * x.std().item()
    expected = (0.125, spread / math.sqrt(1 - 2 / math.pi)) if rectified else (-spread, spread)
    assert (layer.low.item(), layer.high.item()) == pytest.approx(expected)
    assert torch.equal(out, (x >= sum(expected) / 2).float())
    again = EWGSActivation()
    again.load_state_dict(layer.state_dict())
    for each in (layer, again):  # neither starts anew
        each.train()(5 * x)
        assert each.high.item() == pytest.approx(expected[1])


def test_bounds_start_before_training_and_once() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), EWGSActivation(), nn.Linear(6, 2))
    norm: Any = model[1]
    for _ in range(2):
        start_from_batch(model, torch.randn(32, 4))
        assert int(norm.num_batches_tracked) == 1
    plain = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), Sign(), nn.Linear(6, 2))
    start_from_batch(plain, torch.randn(32, 4))
    assert int(plain[1].num_batches_tracked) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("begin", ["in training", "before it"])
def test_two_processes_keep_equal_bounds(begin: str, tmp_path: Path) -> None:
    multiprocessing.spawn(bounds.work, (str(tmp_path), 2, begin), nprocs=2)  # type: ignore[attr-defined]
    one, other = (torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in range(2))
    assert one["own"] < 0.7 * other["own"]  # on its own data, each would have started at other bounds
    mean = (one["own"] + other["own"]) / 2
    assert one["bounds"][0, :2].tolist() == pytest.approx([-3 * mean.item(), 3 * mean.item()], rel=1e-5)
    assert torch.equal(one["bounds"], other["bounds"])
    assert (one["bounds"][-1] != one["bounds"][0]).all()  # all six have learned
    for name, value in one["model"].items():
        assert torch.equal(value, other["model"][name]), name


def test_real_network_starts_one_with_bounds() -> None:
    options: Any = {"binarizer": "ewgs", "weights": "latent", "surrogate": "ewgs", "activation": "relu"}
    model, real = models.create("digits_net", **options), models.create("digits_net", binarize="none")
    start_from(model, real.state_dict())
    assert torch.equal(model.get_parameter("blocks.0.conv.weight"), real.get_parameter("blocks.0.conv.weight"))
    assert model.get_submodule("blocks.0.sign").waits_for_batch


def test_bounds_and_scales_learn_at_a_hundredth_without_decay() -> None:
    config = with_method(recipes.get("digits").config, "ewgs")
    stage = config.stages[-1]
    model = models.create("digits_net", binarizer="ewgs", weights="latent", surrogate="ewgs")
    optimizer = build_optimizer(model, config, stage)
    assert isinstance(optimizer, HybridOptimizer)
    slow = [group for group in optimizer.real.param_groups if group["lr"] == pytest.approx(1e-5)]
    fast = [group for group in optimizer.real.param_groups if group["lr"] == pytest.approx(1e-3)]
    assert len(slow) + len(fast) == len(optimizer.real.param_groups)
    assert [group["weight_decay"] for group in slow] == [0]
    assert {group["weight_decay"] for group in fast} == {1e-4}
    ids = {id(param) for group in slow for param in group["params"]}
    names = [name for name, param in model.named_parameters() if id(param) in ids]
    assert {name.rsplit(".", 1)[1] for name in names} == {"low", "high", "scale"}
    assert len(names) == 5 * 4  # of each of the four binary convolutions and their inputs
