"""GradientFilter set by its flip rate: the resulting alpha, the flip rate under noise, and invalid settings."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR

from reference.optimizer_table import assert_same_bits, bits, make_params, run
from zerocross import GradientFilter, HybridOptimizer, ff_ratio
from zerocross.filters import alpha_for_flips, cascade, ema, flip_rate


@pytest.mark.parametrize("gamma", [0.1, 0.5, None])
def test_it_equals_the_filter_with_the_computed_alpha(gamma: float | None) -> None:
    alpha = alpha_for_flips(0.03, gamma)
    mine, others = make_params(), make_params()
    by_rate = GradientFilter(mine, flip_rate=0.03, gamma=gamma)
    by_alpha = GradientFilter(others, alpha=alpha, gamma=alpha if gamma is None else gamma)
    run(by_rate, mine, range(40))
    run(by_alpha, others, range(40))
    assert_same_bits(bits(by_rate, mine), bits(by_alpha, others))


@pytest.mark.parametrize("gamma", [0.1, None])
def test_noise_flips_weights_at_the_rate(gamma: float | None) -> None:
    weight = nn.Parameter(torch.randn(100, 100, generator=torch.Generator().manual_seed(0)))
    optimizer = GradientFilter([weight], flip_rate=0.02, gamma=gamma, ff_every=1)
    generator = torch.Generator().manual_seed(1)
    ratios = []
    for step in range(1200):
        weight.grad = torch.randn(weight.shape, generator=generator)
        optimizer.step()
        if step >= 900:  # the initial state, g = 0, is forgotten
            ratios.append(ff_ratio(optimizer))
    assert sum(ratios) / len(ratios) == pytest.approx(0.02, rel=0.05)


def test_a_scheduler_scales_the_rate_and_not_alpha() -> None:
    param = nn.Parameter(torch.randn(3, 3))
    optimizer = GradientFilter([param], flip_rate=0.02)
    schedule = CosineAnnealingLR(optimizer, T_max=10)
    for step in range(10):
        param.grad = torch.randn(3, 3)
        optimizer.step()
        alpha = optimizer._alpha(optimizer.param_groups[0])
        rate = flip_rate(cascade(ema(0.1), ema(alpha)))
        assert rate == pytest.approx(0.01 * (1 + torch.cos(torch.tensor(torch.pi * step / 10)).item()), rel=1e-5)
        schedule.step()
    before = param.detach().clone()
    param.grad = torch.randn(3, 3)
    optimizer.step()  # at a rate of 0, nothing flips
    assert torch.equal(before, param)


def test_the_papers_setting_has_the_documented_rate() -> None:
    assert flip_rate(cascade(ema(0.1), ema(1e-3))) == pytest.approx(3.2e-3, rel=0.03)


def test_groups_have_their_own_rates() -> None:
    one, other = make_params()
    optimizer = GradientFilter(
        [{"params": [one], "flip_rate": 0.05}, {"params": [other], "gamma": None}], flip_rate=0.01
    )
    assert [group["lr"] for group in optimizer.param_groups] == [0.05, 0.01]
    with pytest.raises(ValueError, match="has no group option 'alpha'; options: gamma, flip_rate"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2, 2))], "alpha": 0.1})


def test_copies_and_checkpoints_keep_the_rate() -> None:
    params = make_params()
    optimizer = GradientFilter(params, flip_rate=0.05, gamma=None)
    run(optimizer, params, range(5))
    copied = copy.deepcopy(optimizer)
    assert copied.lr_name == "flip_rate"
    again = make_params()
    resumed = GradientFilter(again, flip_rate=0.07, gamma=0.3)
    resumed.load_state_dict(optimizer.state_dict())
    with torch.no_grad():
        for target, source in zip(again, params, strict=True):
            target.copy_(source)
    run(optimizer, params, range(5, 15))
    run(resumed, again, range(5, 15))
    assert_same_bits(bits(optimizer, params), bits(resumed, again))


@pytest.mark.parametrize(("saved", "loading"), [({"flip_rate": 0.05}, {}), ({}, {"flip_rate": 0.05})])
def test_a_checkpoint_of_the_other_kind_is_refused(saved: dict[str, Any], loading: dict[str, Any]) -> None:
    names = {True: "flip_rate", False: "alpha"}
    state = GradientFilter(make_params(), **saved).state_dict()
    expected = f"has {names[bool(saved)]} as its lr, this GradientFilter has {names[bool(loading)]}"
    with pytest.raises(ValueError, match=expected):
        GradientFilter(make_params(), **loading).load_state_dict(state)


def test_a_hybrid_refuses_a_checkpoint_of_the_other_kind() -> None:
    def hybrid(**settings: Any) -> HybridOptimizer:
        model = nn.Linear(4, 3)
        return HybridOptimizer(GradientFilter([model.weight], **settings), torch.optim.SGD([model.bias], lr=0.1), model)

    with pytest.raises(ValueError, match="has flip_rate as its lr"):
        hybrid().load_state_dict(hybrid(flip_rate=0.01).state_dict())
