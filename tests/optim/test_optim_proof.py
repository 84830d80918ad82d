"""The paper's equations in float64: cascade, direct form, latent weights and scipy's filters have the same signs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import signal
from torch import Tensor, nn

from reference.optimizer_table import designed, drive, swinging
from reference.optimizers import cascade as naive_cascade
from reference.optimizers import direct_form, latent_sgd
from zerocross.filters import IIRFilter, cascade, ema, from_sgd
from zerocross.optim import GradientFilter, IIRGradientFilter, LatentSGD, Schedule, set_field

exact = settings(deadline=None, max_examples=12, derandomize=True)
discounts = st.floats(-4, 0).map(lambda exponent: 10.0**exponent)
STEPS, WEIGHTS = 500, 48
GRADIENTS = swinging(STEPS, WEIGHTS)
DECAYS = {name: Schedule(name, total=STEPS) for name in ("constant", "cosine", "linear")}  # type: ignore[arg-type]


def path_of(build: Callable[[list[nn.Parameter]], torch.optim.Optimizer], gradients: Tensor = GRADIENTS,
            decay: Schedule | None = None, start: Tensor | None = None) -> np.ndarray:  # fmt: skip
    """Return the parameter after each step, in float64, under a decay of its lr."""
    weights = gradients.shape[1]
    param = nn.Parameter(torch.ones(1, weights, dtype=torch.float64) if start is None else start.clone())
    optimizer = build([param])
    path = []
    for step in range(len(gradients)):
        if decay is not None:
            set_field(optimizer.param_groups, "lr", decay.factor(step))
        path += drive(optimizer, param, gradients[step : step + 1])
    return torch.stack(path).numpy()


def differing(thetas: np.ndarray, g: np.ndarray, rounding: float = 1e-9) -> int:
    """Count the signs that differ from -sign(g) where g exceeds rounding errors, which must be nearly everywhere."""
    sure = np.abs(g) > rounding * np.abs(g).max(axis=1, keepdims=True)
    assert sure.mean() > 0.99
    return int((thetas != -np.sign(g))[sure].sum())


# ---- cascade = direct form = scipy


@exact
@given(alpha=discounts, gamma=discounts)
@example(alpha=1e-3, gamma=0.1)
@example(alpha=1.0, gamma=1.0)
def test_cascade_equals_the_direct_form_and_scipys_lfilter(alpha: float, gamma: float):
    thetas = path_of(lambda p: GradientFilter(p, alpha=alpha, gamma=gamma))
    x, alphas = GRADIENTS.numpy(), np.full(STEPS, alpha)
    b, a = [alpha * gamma], [1, alpha + gamma - 2, (alpha - 1) * (gamma - 1)]  # Eq. 16
    assert differing(thetas, np.asarray(signal.lfilter(b, a, x, axis=0))) == 0
    assert differing(thetas, direct_form(x, alphas, gamma, corrected=False)) == 0  # Eq. 17
    assert (thetas == naive_cascade(x, alphas, gamma, np.ones(WEIGHTS))[0]).all()


def test_the_filtered_gradient_equals_scipys_up_to_rounding():
    param = nn.Parameter(torch.ones(1, WEIGHTS, dtype=torch.float64))
    optimizer = GradientFilter([param], alpha=1e-3, gamma=0.1)
    *_, _ = drive(optimizer, param, GRADIENTS)
    y = np.asarray(signal.sosfilt(cascade(ema(0.1), ema(1e-3)).sos, GRADIENTS.numpy(), axis=0))[-1]
    np.testing.assert_allclose(optimizer.state[param]["g"][0], y, rtol=1e-9, atol=1e-13)


# ---- cascade = latent weights


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("lr", [1e-6, 0.1, 1.0, 1e4])
def test_latent_weights_have_the_signs_of_the_filter_for_any_rate(decay: str, lr: float):
    """alpha = lr * weight_decay (Eq. 9), from a zero start, with decay: not one sign of 200 x 600 differs."""
    alpha, gamma, gradients = 0.02, 0.1, swinging(600, 200, seed=1)
    schedule = Schedule(DECAYS[decay].shape, total=600)
    filtered = path_of(lambda p: GradientFilter(p, alpha=alpha, gamma=gamma), gradients, schedule)
    latent = path_of(lambda p: LatentSGD(p, lr=lr, weight_decay=alpha / lr, gamma=gamma, start=0), gradients, schedule)
    assert int((np.sign(latent) != filtered).sum()) == 0
    assert (np.diff(filtered, axis=0) != 0).mean() > 0.001  # and signs do change
    lrs = np.array([lr * schedule.factor(step) for step in range(600)])
    naive = latent_sgd(gradients.numpy(), lrs, alpha / lr, gamma, np.zeros(200))
    np.testing.assert_allclose(latent, naive, rtol=1e-9, atol=1e-12 * lr)


@exact
@given(alpha=discounts, gamma=discounts, lr=st.floats(-3, 3).map(lambda e: 10.0**e), decay=st.sampled_from([*DECAYS]))
def test_latent_weights_have_the_signs_of_the_filter(alpha: float, gamma: float, lr: float, decay: str):
    filtered = path_of(lambda p: GradientFilter(p, alpha=alpha, gamma=gamma), decay=DECAYS[decay])
    latent = path_of(lambda p: LatentSGD(p, lr=lr, weight_decay=alpha / lr, gamma=gamma, start=0), decay=DECAYS[decay])
    assert differing(filtered, -latent) == 0


# ---- the direct form under decay


@pytest.mark.parametrize("decay", ["cosine", "linear"])
def test_under_decay_the_direct_form_needs_the_ratio_of_alphas(decay: str):
    steps, alpha, gamma = 400, 0.01, 0.1
    gradients = swinging(steps, 500, seed=2)
    schedule = Schedule(DECAYS[decay].shape, total=steps)
    alphas = np.array([alpha * schedule.factor(step) for step in range(steps)])
    thetas = path_of(lambda p: GradientFilter(p, alpha=alpha, gamma=gamma), gradients, schedule)
    right = direct_form(gradients.numpy(), alphas, gamma, corrected=True)
    merely_replaced = direct_form(gradients.numpy(), alphas, gamma, corrected=False)
    assert differing(thetas, right) == 0
    assert (thetas != -np.sign(merely_replaced)).mean() > 0.001


def test_in_float32_the_cascade_is_safer_than_the_direct_form():
    steps, alpha, gamma = 6000, 1e-4, 0.1
    gradients = np.random.default_rng(0).standard_normal((steps, 100))
    truth = naive_cascade(gradients, np.full(steps, alpha), gamma, np.ones(100))[0]
    param = nn.Parameter(torch.ones(1, 100))
    optimizer = GradientFilter([param], alpha=alpha, gamma=gamma)
    fast = torch.stack([*drive(optimizer, param, torch.tensor(gradients))]).numpy()
    direct = -np.sign(direct_form(gradients.astype(np.float32), np.full(steps, alpha), gamma, corrected=False))
    assert (direct != truth).sum() > 5 * (fast != truth).sum()
    assert (fast != truth).mean() < 1e-5


# ---- any filter


FILTERS = {
    "butterworth": designed(signal.butter(4, 0.05, output="sos")),
    "bessel": designed(signal.bessel(3, 0.02, output="sos", norm="phase")),
    "chebyshev": designed(signal.cheby2(5, 40, 0.1, output="sos")),
    "six-fold": cascade(*[ema(0.01)] * 6),
    "first order": ema(1e-3),
    "integrator": from_sgd(0.1, momentum=0.9, weight_decay=0.0),
    "nesterov": from_sgd(0.1, momentum=0.9, weight_decay=1e-2, nesterov=True),
    "complex": from_sgd(0.1, momentum=0.9, weight_decay=0.5),
    "two taps": IIRFilter(((0.5, 0.5, 0.0, 1.0, 0.0, 0.0),)),
}


@pytest.mark.parametrize("name", FILTERS)
def test_any_filter_equals_scipys_sosfilt(name: str):
    filt = FILTERS[name]
    y = np.asarray(signal.sosfilt(filt.sos, GRADIENTS.numpy(), axis=0))
    assert differing(path_of(lambda p: IIRGradientFilter(p, filt)), y) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(("alpha", "gamma"), [(1e-3, 0.1), (0.02, 0.7), (1.0, 0.5)])
def test_two_averages_are_bit_identical_to_the_gradient_filter(dtype: torch.dtype, alpha: float, gamma: float):
    one, other = (nn.Parameter(torch.ones(1, WEIGHTS, dtype=dtype)) for _ in range(2))
    general = IIRGradientFilter([one], cascade(ema(gamma), ema(alpha)))
    special = GradientFilter([other], alpha=alpha, gamma=gamma)
    for a, b in zip(drive(general, one, GRADIENTS), drive(special, other, GRADIENTS), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(general.state[one]["y0"], special.state[other]["m"])
    assert torch.equal(general.state[one]["y1"], special.state[other]["g"])


@pytest.mark.parametrize(
    "sgd",
    [
        {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4},
        {"lr": 0.5, "momentum": 0.8, "weight_decay": 1e-2, "nesterov": True},
        {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.5},
        {"lr": 0.3, "momentum": 0.0, "weight_decay": 0.0},
    ],
)
def test_torch_sgd_is_a_filter_optimizer(sgd: dict):
    thetas = path_of(lambda p: IIRGradientFilter(p, from_sgd(**sgd)))
    latent = path_of(lambda p: torch.optim.SGD(p, **sgd), start=torch.zeros(WEIGHTS, dtype=torch.float64))
    assert differing(thetas, -latent) == 0


@pytest.mark.parametrize(
    ("filt", "most"),
    [
        (from_sgd(0.1, 0.9, 1e-4), 2e-5),
        (designed(signal.butter(2, 1e-3, output="sos")), 2e-5),
        (designed(signal.butter(4, 1e-4, output="sos")), 2e-5),
    ],
)
def test_a_slow_filter_is_accurate_on_float32_weights(filt: IIRFilter, most: float):
    gradients = swinging(3000, 200, seed=4)
    truth = np.asarray(signal.sosfilt(filt.sos, gradients.float().double().numpy(), axis=0))
    param = nn.Parameter(torch.ones(1, 200))
    thetas = torch.stack([*drive(IIRGradientFilter([param], filt), param, gradients)]).numpy()
    assert (thetas != -np.sign(truth)).mean() <= most


# ---- the three properties, with their conditions


@exact
@given(alpha=discounts, gamma=discounts)
def test_alpha_and_gamma_may_be_swapped_at_constant_alpha_from_zero(alpha: float, gamma: float):
    one = path_of(lambda p: GradientFilter(p, alpha=alpha, gamma=gamma))
    other = path_of(lambda p: GradientFilter(p, alpha=gamma, gamma=alpha))
    g = naive_cascade(GRADIENTS.numpy(), np.full(STEPS, alpha), gamma, np.ones(WEIGHTS))[1]
    assert differing(one, g) == differing(other, g) == 0


def test_alpha_and_gamma_may_not_be_swapped_under_decay():
    one = path_of(lambda p: GradientFilter(p, alpha=0.02, gamma=0.2), decay=DECAYS["cosine"])
    other = path_of(lambda p: GradientFilter(p, alpha=0.2, gamma=0.02), decay=DECAYS["cosine"])
    assert (one != other).mean() > 0.01


@exact
@given(alpha=discounts, gamma=discounts, exponent=st.integers(-60, 60), c=st.floats(1e-3, 1e3))
def test_scaling_every_gradient_changes_no_sign(alpha: float, gamma: float, exponent: int, c: float):
    build = lambda p: GradientFilter(p, alpha=alpha, gamma=gamma)  # noqa: E731
    thetas = path_of(build)
    assert (path_of(build, GRADIENTS * 2.0**exponent) == thetas).all()  # exact: only exponents change
    g = naive_cascade(GRADIENTS.numpy(), np.full(STEPS, alpha), gamma, np.ones(WEIGHTS))[1]
    assert differing(path_of(build, GRADIENTS * c), g) == 0


@pytest.mark.parametrize("filt", [FILTERS["butterworth"], FILTERS["bessel"], FILTERS["nesterov"]])
def test_scaling_every_gradient_changes_no_sign_of_any_filter(filt: IIRFilter):
    build = lambda p: IIRGradientFilter(p, filt)  # noqa: E731
    assert (path_of(build) == path_of(build, GRADIENTS * 2.0**-30)).all()


@exact
@given(alpha=discounts, gamma=discounts, exponent=st.integers(-20, 20), decay=st.sampled_from([*DECAYS]))
def test_scaling_lr_equals_scaling_the_start_by_the_inverse(alpha: float, gamma: float, exponent: int, decay: str):
    """lr * weight_decay is constant; factors are powers of two, so that signs agree exactly (the paper's Figure 4)."""
    factor = 2.0**exponent
    start = torch.randn(WEIGHTS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    faster = path_of(
        lambda p: LatentSGD(p, lr=factor, weight_decay=alpha / factor, gamma=gamma), decay=DECAYS[decay], start=start
    )
    nearer = path_of(
        lambda p: LatentSGD(p, lr=1.0, weight_decay=alpha, gamma=gamma), decay=DECAYS[decay], start=start / factor
    )
    assert (np.sign(faster) == np.sign(nearer)).all()
    assert (faster == nearer * factor).all()


# ---- clipping, for which magnitudes matter


def test_clipping():
    gradients = swinging(100, 30, seed=5)
    clipped = path_of(lambda p: LatentSGD(p, lr=0.5, weight_decay=0.0, clip=0.2, start=0), gradients)
    assert np.abs(clipped).max() == 0.2
    w, m = torch.full((30,), 0.3, dtype=torch.float64), np.zeros(30)
    stopped = path_of(lambda p: LatentSGD(p, lr=0.1, weight_decay=0.01, clip_gradient=0.25), gradients, start=w)
    naive = w.numpy()
    for x, now in zip(gradients.numpy(), stopped, strict=True):
        m = 0.9 * m + 0.1 * np.where(np.abs(naive) > 0.25, 0.0, x)
        naive = naive - 0.1 * (m + 0.01 * naive)
        np.testing.assert_allclose(now, naive, rtol=1e-12)
