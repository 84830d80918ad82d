"""Scale-free gradients: multiplying the loss by any schedule changes no sign; averages equal those of scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter
from torch import Tensor, nn

from reference.optimizer_table import drive, swinging
from zerocross import GradientFilter

STEPS, WEIGHTS = 600, 80
ALPHA, GAMMA = 0.02, 0.1


def signs(gradients: Tensor, **how: Any) -> Tensor:
    """Return theta after each gradient."""
    param = nn.Parameter(torch.ones(1, gradients.shape[1], dtype=gradients.dtype))
    return torch.stack(list(drive(GradientFilter([param], alpha=ALPHA, gamma=GAMMA, **how), param, gradients)))


def ema(values: np.ndarray, discount: float) -> np.ndarray:
    return np.asarray(lfilter([discount], [1, discount - 1], values, axis=0))


def running_rms(squares: np.ndarray, discount: float) -> np.ndarray:
    """Return a plain mean over the first 1 / discount steps, followed by a moving average that starts from it."""
    first = round(1 / discount)
    mean = np.cumsum(squares[:first], 0) / np.arange(1, len(squares[:first]) + 1)[:, None]
    if len(squares) <= first:
        return np.sqrt(mean)
    rest, _ = lfilter([discount], [1, discount - 1], squares[first:], axis=0, zi=(1 - discount) * mean[-1:])
    return np.sqrt(np.concatenate([mean, rest]))


@pytest.mark.parametrize("how", ["rms", "sign", "adam"])
def test_it_equals_scipys_filter_of_the_normalised_gradient(how: Any) -> None:
    x = swinging(STEPS, WEIGHTS)
    loud = x * torch.logspace(-3, 3, STEPS).double()[:, None]
    values = loud.numpy()
    tensor = running_rms((values**2).mean(1, keepdims=True), 0.1)
    scaled = {"rms": values / tensor, "sign": np.sign(values), "adam": values / running_rms(values**2, 1e-3)}[how]
    g = ema(ema(scaled, GAMMA), ALPHA)
    sure = np.abs(g) > 1e-12
    assert sure.mean() > 0.999
    assert (signs(loud, normalize=how).numpy() == -np.sign(g))[sure].all()
    assert (signs(loud).numpy() != -np.sign(g)).mean() > 0.05  # without normalisation the signs differ


@settings(max_examples=20)
@given(st.lists(st.floats(1e-6, 1e6), min_size=STEPS // 10, max_size=STEPS // 10), st.integers(0, 99))
def test_with_sign_normalisation_any_schedule_of_the_loss_changes_no_weight(scales: list[float], seed: int) -> None:
    x = swinging(STEPS, 20, seed)
    schedule = torch.tensor(scales).double().repeat_interleave(10)[:, None]
    assert torch.equal(signs(x, normalize="sign"), signs(x * schedule, normalize="sign"))


def test_with_rms_normalisation_a_schedule_of_the_loss_hardly_changes_weights() -> None:
    """The loss decreases a hundredfold over the run, with an additional factor of 10 within 1,000 updates."""
    x, time = swinging(2000, 400), torch.arange(2000).double()
    schedule = (torch.exp(-time / 434) * 10 ** torch.sin(time * 2 * torch.pi / 1000).div(2))[:, None]
    late = slice(200, None)

    def differing(**how: Any) -> float:
        return float((signs(x, **how)[late] != signs(x * schedule, **how)[late]).double().mean())

    assert differing(normalize="rms") < 0.01
    assert differing() > 5 * differing(normalize="rms")


def test_a_constant_scale_changes_nothing() -> None:
    x = swinging(100, WEIGHTS)
    for how in ("rms", "adam"):
        assert torch.equal(signs(x, normalize=how), signs(x * 1024.0, normalize=how))  # type: ignore[arg-type]
        assert torch.equal(signs(x, normalize=how, warm_start=0.1), signs(x * 1024.0, normalize=how, warm_start=0.1))  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["rms", "adam"])
@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_tiny_and_huge_gradients_neither_vanish_nor_overflow(how: Any, size: float) -> None:
    x = swinging(50, WEIGHTS).float()
    assert (signs(x, normalize=how) != signs(x * size, normalize=how)).float().mean() < 0.001


@pytest.mark.parametrize("how", ["rms", "sign", "adam"])
def test_weights_without_any_gradient_keep_their_sign(how: Any) -> None:
    x = swinging(20, WEIGHTS)
    x[:, :10] = 0
    assert (signs(x, normalize=how)[:, :10] == 1).all()
    assert (signs(torch.zeros(5, 3), normalize=how) == 1).all()
