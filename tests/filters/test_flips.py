"""Alpha computed from a flip rate, against the flip rate of the filter itself (by state-space energies)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter

from zerocross.filters import alpha_for_flips, cascade, ema, flip_rate, most_flips

gammas = st.floats(1e-3, 1.0)
shares = st.floats(1e-3, 1.0)


@given(gammas, shares)
def test_the_filter_has_the_requested_rate(gamma: float, share: float) -> None:
    rate = share * most_flips(gamma)
    alpha = alpha_for_flips(rate, gamma)
    assert flip_rate(cascade(ema(gamma), ema(alpha))) == pytest.approx(rate, rel=1e-6)


@given(st.floats(1e-6, 0.5))
def test_tied_averages_have_the_requested_rate(rate: float) -> None:
    alpha = alpha_for_flips(rate)
    assert flip_rate(cascade(ema(alpha), ema(alpha))) == pytest.approx(rate, rel=1e-6)


def test_noise_flips_at_the_computed_rate() -> None:
    noise = np.random.default_rng(0).standard_normal((64, 40_000))
    for rate, gamma in ((0.01, 0.1), (0.05, 0.1), (0.02, None)):
        alpha = alpha_for_flips(rate, gamma)
        inner = alpha if gamma is None else gamma
        m = np.asarray(lfilter([inner], [1, inner - 1], noise))
        g = np.asarray(lfilter([alpha], [1, alpha - 1], m))[:, 4_000:]
        flips = np.mean(np.sign(g[:, 1:]) != np.sign(g[:, :-1]))
        assert flips == pytest.approx(rate, rel=0.03)


@pytest.mark.parametrize("gamma", [0.01, 0.1, 1.0])
def test_limits_of_the_rate(gamma: float) -> None:
    assert alpha_for_flips(0.0, gamma) == 0
    assert alpha_for_flips(most_flips(gamma), gamma) == 1
    assert alpha_for_flips(math.nextafter(most_flips(gamma), 0), gamma) <= 1
    assert alpha_for_flips(1e-6, gamma) == pytest.approx((math.pi * 1e-6) ** 2 * (2 - gamma) / (2 * gamma), rel=1e-4)


def test_limits_of_the_rate_of_tied_averages() -> None:
    assert alpha_for_flips(0.0) == 0
    assert alpha_for_flips(0.5) == pytest.approx(1)
    assert alpha_for_flips(1e-6) == pytest.approx(math.pi * 1e-6, rel=1e-5)


def test_a_rate_out_of_reach_is_refused_with_its_range() -> None:
    with pytest.raises(ValueError, match=r"0\.3 is out of reach: with gamma = 0\.1 it lies in \[0, 0\.1436\]"):
        alpha_for_flips(0.3, 0.1)
    with pytest.raises(ValueError, match=r"alpha = gamma it lies in \[0, 0\.5\]"):
        alpha_for_flips(-1e-9)
    with pytest.raises(ValueError, match=r"gamma is 0; it must lie in \(0, 1\]"):
        most_flips(0)
