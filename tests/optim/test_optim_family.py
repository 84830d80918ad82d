"""docs/family.md, sign by sign: Bop, BOLD, BayesBiNN and the filters share one rule (order, threshold, reset).

The rule is written here once, following that page, in numpy float64; scipy's lfilter computes the averages if nothing
is reset.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.signal import lfilter
from torch import nn

from reference.optimizer_table import drive, swinging
from zerocross.optim import BOLD, BayesBiNN, Bop, CascadeFilter, GradientFilter

STEPS, WEIGHTS = 600, 200


def start() -> np.ndarray:
    return np.where(np.random.default_rng(7).random(WEIGHTS) < 0.5, -1.0, 1.0)


def path(build, gradients: torch.Tensor, dtype: torch.dtype = torch.float64) -> np.ndarray:
    """Return theta after each gradient."""
    param = nn.Parameter(torch.tensor(start()[None]).to(dtype))
    return torch.stack(list(drive(build([param]), param, gradients))).numpy()


def family(filtered: np.ndarray, threshold: float) -> np.ndarray:
    """Flip where theta times the filtered gradient exceeds the threshold, without resets."""
    theta, seen = start(), []
    for y in filtered:
        theta = np.where(theta * y > threshold, -theta, theta)
        seen.append(theta)
    return np.array(seen)


def ema(x: np.ndarray, discount: float) -> np.ndarray:
    return np.asarray(lfilter([discount], [1, discount - 1], x, axis=0))


def test_the_filters_have_no_threshold() -> None:
    x = swinging(STEPS, WEIGHTS)
    first, second = ema(x.numpy(), 0.02), ema(ema(x.numpy(), 0.1), 0.02)
    assert np.array_equal(path(lambda p: CascadeFilter(p, 0.02, ()), x), family(first, 0.0))
    assert np.array_equal(path(lambda p: GradientFilter(p, 0.02, 0.1), x), family(second, 0.0))


@pytest.mark.parametrize("tau", [0.0, 0.03, 0.1])
def test_bop_is_the_first_order_filter_with_a_threshold(tau: float) -> None:
    x = swinging(STEPS, WEIGHTS)
    result = path(lambda p: Bop(p, gamma=0.02, tau=tau), x)
    assert np.array_equal(result, family(ema(x.numpy(), 0.02), tau))
    assert (result != family(ema(x.numpy(), 0.02), tau + 0.05)).any()  # the threshold matters


@pytest.mark.parametrize("lr", [0.02, 0.2])
def test_bold_is_the_first_order_filter_with_a_threshold_and_a_reset(lr: float) -> None:
    """An average of discount 1 - kept, in units in which the threshold is (1 - kept) / lr; a flip resets the weight."""
    x = swinging(STEPS, WEIGHTS)
    theta, average, discount, seen = start(), np.zeros(WEIGHTS), 1.0, []
    for grad in x.numpy():
        # a = kept a + lr grad, with a = average lr / discount: the unit of the average changes with its discount
        last = discount
        average = (1 - last) * average + last * grad
        flips = theta * average >= last / lr
        theta, average = np.where(flips, -theta, theta), np.where(flips, 0.0, average)
        discount = max(flips.mean(), 1e-30)
        average = average * discount / last
        seen.append(theta)
    result = path(lambda p: BOLD(p, lr=lr), x)
    assert np.array_equal(result, np.array(seen))
    assert (np.diff(result, axis=0) != 0).sum() > 10


def test_bayesbinn_in_float32_equals_the_first_order_filter() -> None:
    """At its published setting, gradients in float32: the start at 10 weighs 10 / (450,000 / 1e-10) = 2e-15."""
    x = swinging(STEPS, WEIGHTS).float()
    bayes = path(BayesBiNN, x, torch.float32)
    first = path(lambda p: CascadeFilter(p, 3e-4, ()), x, torch.float32)
    assert (np.diff(bayes, axis=0) != 0).sum() > 1000
    assert np.array_equal(bayes, first)
