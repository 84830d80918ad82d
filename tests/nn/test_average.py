"""Averaged models with theta weights stay binary; those of torch do not, and are detected."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import swa_utils

import zerocross
from zerocross.nn import AveragedModel, BinaryLinear, NotBinaryError


def network() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6), BinaryLinear(6, 6, binarizer="ir-net", weights="latent"), BinaryLinear(6, 3)
    )


def course(model: Any, updates: int = 7):
    """Yield the states of a model over several updates, each with different flips."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(updates):
        with torch.no_grad():
            for p in (*model[0].parameters(), model[2].weight, model[1].running_mean):
                p.copy_(torch.randn(p.shape, generator=generator))
            model[3].weight.copy_(torch.randint(0, 2, (3, 6), generator=generator) * 2 - 1)
            model[1].num_batches_tracked += 1
            model[2].binarizer.temperature.fill_(float(torch.rand((), generator=generator)))
        yield {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("decay", [None, 0.8])
@pytest.mark.parametrize("theta", ["kept", "majority"])
def test_it_equals_a_manual_average(decay, theta):
    model = network()
    averaged: Any = AveragedModel(model, decay, theta=theta)
    states = []
    for state in course(model):
        averaged.update_parameters(model)
        states.append(state)
        zerocross.check(averaged)
    shares = [1 / len(states)] * len(states)
    if decay is not None:
        shares = [decay ** (len(states) - 1 - i) * (1 - decay if i else 1) for i in range(len(states))]
    result = averaged.module.state_dict()
    for name, value in result.items():
        mean = torch.stack([share * state[name] for share, state in zip(shares, states, strict=True)]).sum(0)
        if name == "3.weight":
            assert torch.equal(value, states[-1][name] if theta == "kept" else mean.sign())
        elif name.endswith("num_batches_tracked"):
            assert value == states[-1][name]
        else:
            torch.testing.assert_close(value, mean)
    assert averaged.module[2].binarizer.temperature == model[2].binarizer.temperature  # the current state of training
    resumed = AveragedModel(network(), decay, theta=theta)
    resumed.load_state_dict(copy.deepcopy(averaged.state_dict()))
    for _ in course(model, 2):
        for each in (averaged, resumed):
            each.update_parameters(model)
    assert all(
        torch.equal(a, b) for a, b in zip(averaged.state_dict().values(), resumed.state_dict().values(), strict=True)
    )


def test_a_tie_takes_the_latest_sign_and_torch_accepts_the_class():
    model = BinaryLinear(2, 2)
    averaged: Any = AveragedModel(model, theta="majority")
    for sign in (1.0, -1.0):
        nn.init.constant_(model.weight, sign)
        averaged.update_parameters(model)
    assert (averaged.module.weight == -1).all()  # the latest sign
    assert isinstance(averaged, swa_utils.AveragedModel)
    swa_utils.update_bn([torch.randn(3, 2)], averaged)


def test_torchs_averaged_model_is_detected():
    model = network()
    averaged = swa_utils.AveragedModel(model)
    for _ in course(model):
        averaged.update_parameters(model)
    with pytest.warns(
        UserWarning, match=r"theta weights of a BinaryLinear.*average them with zerocross.nn.AveragedModel"
    ):
        averaged.eval()
    with pytest.raises(NotBinaryError, match=r"module.3: \d+ of 18 weights are not"):
        zerocross.check(averaged)


def test_settings_out_of_range_are_refused():
    with pytest.raises(ValueError, match=r"decay = 1: it must be None .* or lie in \[0, 1\)"):
        AveragedModel(network(), 1)
    with pytest.raises(ValueError, match="theta = 'mean': it must be one of majority, kept"):
        AveragedModel(network(), theta="mean")
