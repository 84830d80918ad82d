from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reference.filters import Array, latent_weights, run_sections
from zerocross.filters import (
    LatentSettings,
    SGDSettings,
    alpha_gamma,
    cascade,
    ema,
    from_latent,
    from_sgd,
    initial_state,
    sgd_input,
    stability,
    to_latent,
    to_sgd,
)

# A busy machine must not fail the test.
exact = settings(deadline=None, max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
STEPS, WEIGHTS = 500, 6
GRADIENTS = np.random.default_rng(0).standard_normal((STEPS, WEIGHTS)) + 0.05
STARTS = np.random.default_rng(1).standard_normal(WEIGHTS)
discounts = st.floats(1e-5, 1.0)


@st.composite
def sgd_settings(draw: st.DrawFn) -> SGDSettings:
    lr = 10 ** draw(st.floats(-3, 1))
    decay = draw(st.one_of(st.just(0.0), st.floats(-7, -0.01).map(lambda e: 10**e)))  # lr * weight_decay
    momentum = draw(st.one_of(st.just(0.0), st.floats(0.0, 0.999)))
    nesterov = momentum > 0 and draw(st.booleans())
    dampening = 0.0 if nesterov else draw(st.one_of(st.just(0.0), st.floats(0.0, 0.95)))
    return SGDSettings(lr, momentum, decay / lr, dampening, nesterov)


def real_sgd(sgd: SGDSettings, gradients: Array, start: Array) -> Array:
    """Return the latent weights of torch.optim.SGD after each gradient."""
    w = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    optimizer = torch.optim.SGD([w], **sgd._asdict())
    path = []
    for gradient in torch.tensor(gradients):
        w.grad = gradient
        optimizer.step()
        path.append(w.detach().numpy().copy())
    return np.array(path)


def assert_same_signs(output: Array, w: Array) -> None:
    """Check that the output is -w, including its scale, and that all signs agree where |w| exceeds rounding errors."""
    rounding = 1e-9 * np.abs(w).max()
    np.testing.assert_allclose(output, -w, rtol=0, atol=rounding)
    sure = np.abs(w) > rounding
    assert sure.mean() > 0.9
    assert (np.sign(output) == -np.sign(w))[sure].all()


@exact
@given(sgd=sgd_settings())
@example(SGDSettings(0.1, 0.9, 1e-4))
@example(SGDSettings(0.1, 0.9, 0.0))  # an integrator
@example(SGDSettings(0.1, 0.9, 0.5))  # complex poles
@example(SGDSettings(0.1, 0.9, 0.5, 0.0, True))  # complex poles with a zero
@example(SGDSettings(0.1, 0.9, 0.5, 0.5))
@example(SGDSettings(0.1, 0.0, 0.5, 0.5))  # torch ignores dampening here
@example(SGDSettings(1.0, 0.81, 0.01))  # a double pole, (1 - sqrt mu)^2 = 0.01
@example(SGDSettings(1.0, 0.5, 1.0, 0.0, True))  # both poles at 0
def test_from_sgd_equals_torch_sgd_from_a_zero_start(sgd: SGDSettings):
    output = run_sections(from_sgd(*sgd), sgd_input(GRADIENTS, sgd.momentum, sgd.dampening))
    assert_same_signs(output, real_sgd(sgd, GRADIENTS, np.zeros(WEIGHTS)))


@exact
@given(sgd=sgd_settings(), scale=st.floats(-3, 3).map(lambda e: 10**e))
@example(SGDSettings(0.1, 0.9, 1e-4), 1.0)
@example(SGDSettings(0.1, 0.9, 0.5), 1.0)
@example(SGDSettings(0.1, 0.9, 0.5, 0.5), 100.0)
@example(SGDSettings(0.1, 0.9, 0.5, 0.0, True), 100.0)
@example(SGDSettings(1.0, 0.5, 1.0, 0.0, True), 100.0)
def test_a_latent_start_is_an_initial_state_of_torch_sgd(sgd: SGDSettings, scale: float):
    start = scale * STARTS
    x = sgd_input(GRADIENTS, sgd.momentum, sgd.dampening)
    output = run_sections(from_sgd(*sgd), x, initial_state(sgd, start))
    assert_same_signs(output, real_sgd(sgd, GRADIENTS, start))


def test_without_gradients_the_state_decays_as_in_torch_sgd():
    for sgd in (SGDSettings(0.1, 0.9, 0.01, 0.3), SGDSettings(0.1, 0.9, 0.5), SGDSettings(0.1, 0.8, 0.1, 0.0, True)):
        quiet = np.zeros((STEPS, WEIGHTS))
        output = run_sections(from_sgd(*sgd), quiet, initial_state(sgd, STARTS))
        np.testing.assert_allclose(output, -real_sgd(sgd, quiet, STARTS), rtol=1e-6, atol=1e-13)


@exact
@given(lr=st.floats(-3, 1), alpha=discounts, gamma=discounts, scale=st.sampled_from([0.0, 0.01, 100.0]))
def test_from_latent_equals_eq_3(lr: float, alpha: float, gamma: float, scale: float):
    latent = to_latent(alpha, gamma, lr=10**lr)
    w = latent_weights(GRADIENTS, *latent, w0=scale * STARTS)
    output = run_sections(from_latent(*latent), GRADIENTS, initial_state(latent, scale * STARTS))
    assert_same_signs(output / latent.weight_decay, w)


def test_from_latent_without_weight_decay_is_an_integrator():
    latent = LatentSettings(lr=0.1, weight_decay=0.0, gamma=0.1)
    filt = from_latent(*latent)
    assert stability(filt) == "integrator"
    output = run_sections(filt, GRADIENTS, initial_state(latent, STARTS))
    assert_same_signs(output, latent_weights(GRADIENTS, *latent, w0=STARTS))


@exact
@given(sgd=sgd_settings(), factor=st.sampled_from([0.125, 0.5, 4.0, 32.0]))
def test_scaling_lr_equals_scaling_the_start_by_the_inverse(sgd: SGDSettings, factor: float):
    """lr * wd is constant; the factors are powers of two, so that signs agree exactly."""
    faster = sgd._replace(lr=sgd.lr * factor, weight_decay=sgd.weight_decay / factor)
    x = sgd_input(GRADIENTS, sgd.momentum, sgd.dampening)
    scaled_lr = run_sections(from_sgd(*faster), x, initial_state(faster, STARTS))
    scaled_start = run_sections(from_sgd(*sgd), x, initial_state(sgd, STARTS / factor))
    np.testing.assert_array_equal(np.sign(scaled_lr), np.sign(scaled_start))


@exact
@given(alpha=discounts, gamma=discounts, lr=st.floats(-3, 1).map(lambda e: 10**e))
def test_to_sgd_and_to_latent_have_the_signs_of_the_cascade(alpha: float, gamma: float, lr: float):
    g = run_sections(cascade(ema(gamma), ema(alpha)), GRADIENTS)
    latent, sgd = to_latent(alpha, gamma, lr=lr), to_sgd(alpha, gamma, lr=lr)
    assert from_latent(*latent).sections[0] == ema(gamma).sections[0]
    assert latent.momentum == 1 - gamma
    assert_same_signs(g / latent.weight_decay, latent_weights(GRADIENTS, *latent, w0=np.zeros(WEIGHTS)))
    assert_same_signs(g / sgd.weight_decay, real_sgd(sgd, GRADIENTS, np.zeros(WEIGHTS)))


@exact
@given(alpha=discounts, gamma=discounts)
@example(1e-5, 1e-5)
@example(0.3, 0.3)
def test_alpha_gamma_recovers_the_pair(alpha: float, gamma: float):
    pair = sorted((alpha, gamma))
    result = (cascade(ema(gamma), ema(alpha)), from_latent(*to_latent(alpha, gamma, lr=0.1)))
    for filt in result:
        np.testing.assert_allclose(alpha_gamma(filt), pair, rtol=1e-9)
    one, other = alpha_gamma(from_sgd(*to_sgd(alpha, gamma, lr=0.1)))  # equal discounts lose half of their digits
    assert one * other == pytest.approx(alpha * gamma, rel=1e-9, abs=0)
    assert one + other == pytest.approx(alpha + gamma, rel=1e-9, abs=0)


def test_the_most_common_setting():
    alpha, gamma = alpha_gamma(from_sgd(lr=0.1, momentum=0.9, weight_decay=1e-4))
    assert (f"{alpha:.5g}", f"{gamma:.3g}") == ("0.00010009", "0.0999")
    assert alpha_gamma(from_latent(lr=0.1, weight_decay=1e-4, gamma=0.1))[0] == pytest.approx(1e-5)
    assert from_latent(lr=0.1, weight_decay=1e-4, gamma=0.1) == cascade(ema(0.1), ema(0.1 * 1e-4))


def test_nesterov_has_the_poles_of_the_formula():
    lr, mu, wd = 0.1, 0.9, 1e-3
    alpha, gamma = alpha_gamma(from_sgd(lr, mu, wd, nesterov=True))
    assert alpha * gamma == pytest.approx(lr * wd)
    assert (1 - alpha) * (1 - gamma) == pytest.approx(mu * (1 - lr * wd))
    np.testing.assert_allclose(from_sgd(lr, mu, wd, nesterov=True).b, [lr * (1 + mu), -lr * mu])


def test_edge_cases_of_alpha_gamma():
    assert alpha_gamma(ema(0.2)) == (pytest.approx(0.2), 1.0)
    assert alpha_gamma(ema(1.0)) == (1.0, 1.0)
    assert alpha_gamma(from_sgd(0.1, 0.9, 0.0))[0] == 0.0
    with pytest.raises(ValueError, match=r"complex poles 0\.925 \+- 0\.210654j.*s = 0\.05, mu = 0\.9,"):
        alpha_gamma(from_sgd(0.1, 0.9, 0.5))
    with pytest.raises(ValueError, match="6 poles"):
        alpha_gamma(cascade(*[ema(0.1)] * 6))
    with pytest.raises(ValueError, match=r"poles \[-0\.5\]"):
        alpha_gamma(from_sgd(1.0, 0.0, 1.5))


@exact
@given(mu=st.floats(0.0, 0.999), nesterov=st.booleans())
def test_without_weight_decay_alpha_is_exactly_zero(mu: float, nesterov: bool):
    filt = from_sgd(0.1, mu, 0.0, nesterov=nesterov and mu > 0)
    assert alpha_gamma(filt)[0] == 0.0
    assert filt.dc_gain == math.inf
    assert stability(filt) == "integrator"


@exact
@given(mu=st.floats(0.01, 0.99), side=st.floats(0.5, 1.5))
@example(mu=0.01, side=1.5)  # beyond (1 + sqrt(mu))^2 they are real again, but negative
def test_poles_are_real_and_positive_while_s_is_small_enough(mu: float, side: float):
    limit = (1 - math.sqrt(mu)) ** 2
    poles = from_sgd(1.0, mu, side * limit).poles
    averages = ((poles.imag == 0) & (poles.real > 0)).all()
    assert averages == (side <= 1) or side == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lr": 0.0}, "lr 0.0"),
        ({"lr": math.nan}, "lr nan"),
        ({"lr": 0.1, "momentum": 1.0}, r"momentum 1.0 is outside \[0, 1\)"),
        ({"lr": 0.1, "weight_decay": -1.0}, "weight_decay -1.0"),
        ({"lr": 0.1, "momentum": 0.9, "dampening": 1.0}, "dampening 1.0"),
        ({"lr": 0.1, "nesterov": True}, "nesterov"),
        ({"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "nesterov": True}, "dampening 0"),
    ],
)
def test_invalid_settings_of_sgd(wrong: dict[str, float], message: str):
    with pytest.raises(ValueError, match=message):
        from_sgd(**wrong)  # pyright: ignore[reportArgumentType]


def test_invalid_settings_of_latent_sgd():
    with pytest.raises(ValueError, match="at most 1"):
        from_latent(lr=1.0, weight_decay=2.0, gamma=0.1)
    with pytest.raises(ValueError, match=r"gamma 0.0 is outside \(0, 1\]"):
        to_latent(0.1, 0.0, lr=0.1)
    with pytest.raises(ValueError, match=r"alpha 2.0 is outside \(0, 1\]"):
        to_sgd(2.0, 0.1, lr=0.1)
    with pytest.raises(ValueError, match="lr"):
        to_sgd(0.1, 0.1, lr=-1.0)
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        sgd_input([1.0], momentum=0.9, dampening=1.0)


def test_sgd_input_does_not_change_its_argument():
    x = np.ones((3, 2))
    np.testing.assert_array_equal(sgd_input(x, 0.9, 0.5), [[2, 2], [1, 1], [1, 1]])
    np.testing.assert_array_equal(sgd_input(x, 0.0, 0.5), x)
    assert (x == 1).all()
