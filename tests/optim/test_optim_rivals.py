"""Bop, Bop2ndOrder and filters of any order equal naive twins, scipy, and each other where applicable."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import sosfilt
from torch import nn

from reference import optimizers as naive
from reference.optimizer_table import drive, swinging
from zerocross.filters import cascade, ema
from zerocross.optim import Bop, Bop2ndOrder, CascadeFilter, GradientFilter, clip_after_step

STEPS, WEIGHTS = 400, 60
discounts = st.floats(1e-4, 1.0)


def fresh(weights: int = WEIGHTS) -> tuple[nn.Parameter, np.ndarray]:
    theta = torch.randint(0, 2, (1, weights), generator=torch.Generator().manual_seed(7)).double() * 2 - 1
    return nn.Parameter(theta.clone()), theta[0].numpy()


def path(optimizer: torch.optim.Optimizer, param: nn.Parameter, gradients: torch.Tensor) -> np.ndarray:
    return torch.stack(list(drive(optimizer, param, gradients))).numpy()


@given(discounts, st.floats(0, 0.3), st.integers(0, 99))
def test_bop_equals_its_formula(gamma: float, tau: float, seed: int) -> None:
    gradients = swinging(STEPS, WEIGHTS, seed)
    param, theta = fresh()
    expected = naive.bop(gradients.numpy(), np.full(STEPS, gamma), tau, theta)
    result = path(Bop([param], gamma=gamma, tau=tau), param, gradients)
    assert (result == expected).mean() > 0.9999  # lerp rounds differently: a threshold may be reached one step apart


@given(discounts, discounts, st.floats(0, 0.5), st.integers(0, 99))
def test_bop2ndorder_equals_its_formula(gamma: float, sigma: float, tau: float, seed: int) -> None:
    gradients = swinging(STEPS, WEIGHTS, seed)
    param, theta = fresh()
    expected = naive.bop2ndorder(gradients.numpy(), np.full(STEPS, gamma), sigma, tau, theta)
    result = path(Bop2ndOrder([param], gamma=gamma, sigma=sigma, tau=tau), param, gradients)
    assert (result == expected).mean() > 0.9999


@given(st.lists(discounts, max_size=4), discounts, st.integers(0, 99))
def test_cascade_of_any_order_equals_its_formula_and_scipy(gammas: list[float], alpha: float, seed: int) -> None:
    gradients = swinging(STEPS, WEIGHTS, seed)
    param, theta = fresh()
    result = path(CascadeFilter([param], alpha, gammas), param, gradients)
    by_hand = naive.averages(gradients.numpy(), np.full(STEPS, alpha), tuple(gammas), theta)
    filtered = sosfilt(cascade(*(ema(gamma) for gamma in gammas), ema(alpha)).sos, gradients.numpy(), axis=0)
    assert (result == by_hand).mean() > 0.9999
    assert (result == -np.sign(filtered)).mean() > 0.9999


@pytest.mark.parametrize("decay", [1.0, 0.99])
def test_cascade_of_two_is_bit_identical_to_the_papers_filter_under_decay(decay: float) -> None:
    gradients = swinging(STEPS, WEIGHTS)
    (one, _), (other, _) = fresh(), fresh()
    ours, papers = CascadeFilter([one], 0.02, [0.1]), GradientFilter([other], 0.02, 0.1)
    for optimizer, param in ((ours, one), (papers, other)):
        torch.optim.lr_scheduler.ExponentialLR(optimizer, decay)
        for grad in gradients:
            param.grad = grad[None]
            optimizer.step()
            optimizer.param_groups[0]["lr"] *= decay
    assert torch.equal(ours.state[one]["g"], papers.state[other]["g"])
    assert torch.equal(one, other)


def test_bop_without_a_threshold_is_the_first_order_filter() -> None:
    gradients = swinging(STEPS, WEIGHTS)
    (one, _), (other, _) = fresh(), fresh()
    bop = path(Bop([one], gamma=0.02, tau=0.0), one, gradients)
    first = path(CascadeFilter([other], 0.02, ()), other, gradients)
    assert np.array_equal(bop, first)


def test_bop_flips_less_the_higher_the_threshold() -> None:
    flips = []
    for tau in (0.0, 0.05, 0.2, 10.0):
        param, theta = fresh()
        thetas = np.concatenate([theta[None], path(Bop([param], gamma=0.1, tau=tau), param, swinging(STEPS, WEIGHTS))])
        flips.append(int((np.diff(thetas, axis=0) != 0).sum()))
    assert flips == sorted(flips, reverse=True)
    assert flips[0] > 4 * flips[2] > 0
    assert flips[-1] == 0


def test_clip_after_step_clips_the_stepped_weights() -> None:
    param = nn.Parameter(torch.tensor([0.99, -0.99, 0.5]))
    optimizer = clip_after_step(torch.optim.SGD([param], lr=1.0), 1.0)
    param.grad = torch.tensor([-0.5, 0.5, 0.2])
    optimizer.step()
    torch.testing.assert_close(param.detach(), torch.tensor([1.0, -1.0, 0.3]))
    with pytest.raises(ValueError, match="limit is 0"):
        clip_after_step(optimizer, 0)
