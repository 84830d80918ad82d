from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.filters import figures, run_sections
from zerocross.filters import (
    IIRFilter,
    alpha_gamma,
    cascade,
    compare_orders,
    describe,
    ema,
    flip_rate,
    frequency_response,
    from_sgd,
    half_life,
    impulse_response,
    mean_delay,
    noise_gain,
    reversal,
    stability,
    window,
)

signal: Any = scipy.signal  # the return types of its functions depend on their arguments
exact = settings(deadline=None, max_examples=40, derandomize=True)
NAMES = ("mean_delay", "window", "reversal", "noise_gain", "flip_rate")

FILTERS = {
    "ema": ema(0.01),
    "identity": ema(1.0),
    "the paper's": cascade(ema(0.1), ema(1e-3)),
    "double pole": cascade(ema(0.02), ema(0.02)),
    "six-fold": cascade(*[ema(1e-3)] * 6),
    "sgd": from_sgd(0.1, 0.9, 1e-3),
    "sgd, complex poles": from_sgd(0.1, 0.9, 0.5),
    "sgd, negative pole": from_sgd(1.0, 0.0, 1.7),
    "nesterov": from_sgd(0.1, 0.9, 1e-2, nesterov=True),
    "butter": IIRFilter.from_sos(signal.butter(4, 0.02, output="sos")),
    "bessel": IIRFilter.from_sos(signal.bessel(5, 0.02, output="sos")),
    "ellip": IIRFilter.from_sos(signal.ellip(6, 1, 60, 0.3, output="sos")),
    "finite": IIRFilter.from_sos([[0.5, 0.3, 0.2, 1, 0, 0]]),
    "a first tap against the rest": IIRFilter.from_sos([[1, -0.95, 0, 1, -0.9, 0]]),
    "negated": IIRFilter.from_sos([[-0.1, 0, 0, 1, -0.9, 0]]),
}


@pytest.mark.parametrize("name", FILTERS)
def test_every_figure_equals_a_sum_over_taps(name: str):
    filt = FILTERS[name]
    result, brute = describe(filt), figures(impulse_response(filt, 100_000))
    for figure in NAMES:
        assert getattr(result, figure) == pytest.approx(brute[figure], rel=1e-8, abs=1e-12), figure


@exact
@given(alpha=st.floats(1e-3, 1.0), gamma=st.floats(1e-3, 1.0))
def test_figures_of_two_emas_equal_their_sums_over_taps(alpha: float, gamma: float):
    filt = cascade(ema(gamma), ema(alpha))
    brute = figures(impulse_response(filt, 60_000))
    for name in NAMES:
        tolerance = 1.0 if name in {"window", "reversal"} else 1e-9  # a tie may be resolved either way
        assert getattr(describe(filt), name) == pytest.approx(brute[name], rel=1e-9, abs=tolerance), name


@pytest.mark.parametrize("alpha", [1e-2, 1e-5, 1e-8, 1e-12])
def test_closed_forms_of_one_ema(alpha: float):
    a, filt = 1 + Fraction(ema(alpha).sections[0][4]), ema(alpha)  # the stored discount, exactly
    assert mean_delay(filt) == pytest.approx(float((1 - a) / a), rel=1e-12)
    assert noise_gain(filt) == pytest.approx(float(Fraction(alpha) ** 2 / a / (2 - a)), rel=1e-3, abs=0)
    assert half_life(filt) == pytest.approx(math.log(2) / float(a), rel=alpha)
    assert window(filt) == pytest.approx(-math.log(0.05) / float(a), rel=alpha + 1e-4, abs=1)
    assert reversal(filt) == pytest.approx(math.log(2) / float(a), rel=alpha + 1e-4, abs=1)
    assert flip_rate(filt) == pytest.approx(2 * math.asin(math.sqrt(float(a) / 2)) / math.pi, rel=1e-3, abs=0)


@pytest.mark.parametrize(("alpha", "gamma"), [(1e-3, 0.1), (1e-5, 0.1), (1e-8, 1e-2), (1e-6, 1e-6), (1e-8, 1e-8)])
def test_closed_forms_of_two_emas(alpha: float, gamma: float):
    filt = cascade(ema(gamma), ema(alpha))
    a, c = Fraction(alpha), Fraction(gamma)
    p, q = 1 - a, 1 - c
    rel = 1e-14 / alpha  # the cost of rounding 1 - alpha
    assert mean_delay(filt) == pytest.approx(float(p / a + q / c), rel=rel, abs=0)
    assert noise_gain(filt) == pytest.approx(
        float(a * c * (1 + p * q) / ((1 - p * q) * (1 + p) * (1 + q))), rel=rel, abs=0
    )
    unlike = float(a * c / (1 + p * q))  # 1 - correlation of neighbours
    assert flip_rate(filt) == pytest.approx(2 * math.asin(math.sqrt(unlike / 2)) / math.pi, rel=rel, abs=0)


@pytest.mark.parametrize("name", ["ema", "the paper's", "sgd, complex poles", "butter"])
def test_flip_rate_equals_that_of_simulated_noise(name: str):
    output = run_sections(FILTERS[name], np.random.default_rng(0).standard_normal(2_000_000))[20_000:]
    counted = float(np.mean(np.sign(output[1:]) != np.sign(output[:-1])))
    assert counted == pytest.approx(flip_rate(FILTERS[name]), rel=0.03)


@pytest.mark.parametrize("name", ["ema", "the paper's", "double pole", "six-fold", "sgd, complex poles", "butter"])
def test_reversal_is_the_number_of_steps_until_the_sign_changes(name: str):
    turned = 60_000
    x = np.where(np.arange(2 * turned) < turned, -1.0, 1.0)
    output = run_sections(FILTERS[name], x)
    followed = int(np.argmax(output[turned:] > 0))
    assert followed + 1 == reversal(FILTERS[name])


def test_taps_at_chosen_steps_equal_those_of_the_whole_response():
    filt = FILTERS["butter"]
    steps = np.array([[0, 1, 2], [50, 3000, 7]])
    np.testing.assert_allclose(impulse_response(filt, steps), impulse_response(filt, 3001)[steps], atol=1e-14)
    far = 10**9
    assert impulse_response(ema(1e-9), [far])[0] == pytest.approx(1e-9 * math.exp(-1), rel=1e-6, abs=0)


@pytest.mark.parametrize("name", FILTERS)
def test_frequency_response_equals_scipys(name: str):
    f, gain = frequency_response(FILTERS[name], 400)
    assert (f[0], f[-1], len(f)) == (0.0, 0.5, 400)
    _, oracle = signal.sosfreqz(FILTERS[name].sos, worN=2 * np.pi * f)
    np.testing.assert_allclose(gain, oracle, rtol=1e-6, atol=1e-12)
    assert gain[0].real == pytest.approx(FILTERS[name].dc_gain)
    np.testing.assert_array_equal(frequency_response(FILTERS[name], f[3:5])[1], gain[3:5])


def test_stability_has_three_values():
    assert stability(ema(1e-12)) == "stable"
    assert stability(from_sgd(0.1, 0.9, 0.0)) == "integrator"
    assert stability(ema(1e-20)) == "integrator"
    assert stability(IIRFilter.from_sos([[1, 0, 0, 1, -2 * math.cos(0.3), 1.0]])) == "integrator"
    assert stability(IIRFilter.from_sos([[1, 0, 0, 1, -1, 0], [1, 0, 0, 1, -1, 0]])) == "unstable"
    assert stability(IIRFilter.from_sos([[1, 0, 0, 1, -1.001, 0]])) == "unstable"
    assert stability(cascade(*[ema(1e-3)] * 6)) == "stable"


def test_an_integrator_has_infinite_memory():
    result = describe(from_sgd(0.1, 0.9, 0.0))
    assert [result.mean_delay, result.window, result.half_life, result.reversal, result.noise_gain] == [math.inf] * 5
    assert result.flip_rate == 0.0
    assert math.isinf(frequency_response(result.filt, [0.0])[1][0].real)


def test_without_a_response_at_dc_there_is_no_delay():
    result = describe(IIRFilter.from_sos(signal.butter(2, 0.1, "highpass", output="sos")))
    assert math.isnan(result.mean_delay)
    assert math.isnan(result.reversal)
    assert result.noise_gain == math.inf


@exact
@given(alpha=st.floats(1e-4, 0.99), gamma=st.floats(1e-4, 0.99))
def test_noise_against_delay_first_and_second_order(alpha: float, gamma: float):
    """The identities in the docstring of compare_orders, and their consequences."""
    p, q = 1 - alpha, 1 - gamma
    given_, noise, flips = compare_orders(cascade(ema(gamma), ema(alpha)))
    assert 1 / given_.noise_gain == pytest.approx(2 * given_.mean_delay + 1 + 2 * p * q / (1 + p * q), rel=1e-9)
    assert 1 / noise.noise_gain == pytest.approx(2 * noise.mean_delay + 1, rel=1e-9)
    assert noise.noise_gain == pytest.approx(given_.noise_gain, rel=1e-9)
    assert -1e-6 < noise.mean_delay - given_.mean_delay < 0.5 + 1e-6
    assert given_.flip_rate < noise.flip_rate
    assert flips.flip_rate == pytest.approx(given_.flip_rate, rel=1e-6)
    assert alpha_gamma(flips.filt)[0] == pytest.approx(alpha * gamma / (1 + p * q), rel=1e-6)
    assert given_.reversal <= 1.22 * noise.reversal + 2
    assert given_.window >= 0.78 * noise.window - 2


def test_the_figures_quoted_in_the_documentation():
    second, noise, flips = compare_orders(cascade(ema(0.1), ema(1e-3)))
    assert (round(second.mean_delay, 1), round(noise.mean_delay, 1), round(flips.mean_delay)) == (1008.0, 1008.5, 18990)
    assert (second.reversal, noise.reversal, flips.reversal) == (702, 700, 13164)
    assert (second.window, noise.window, flips.window) == (3004, 3023, 56891)
    assert noise.flip_rate / second.flip_rate == pytest.approx(4.34, abs=0.01)
    second, noise, _ = compare_orders(cascade(ema(1e-3), ema(1e-3)))
    assert (second.reversal, noise.reversal) == (1678, 1386)
    assert (second.window, noise.window) == (4741, 5989)
    assert noise.flip_rate / second.flip_rate == pytest.approx(31.6, abs=0.05)
    later = [compare_orders(cascade(*[ema(1e-3)] * k)) for k in (2, 3, 4, 6)]
    assert [round(c.given.mean_delay / c.equal_noise.mean_delay, 2) for c in later] == [1.0, 1.12, 1.25, 1.48]
    per_noise = [c.given.flip_rate / c.given.noise_gain for c in later]  # both are proportional to alpha
    assert [round(per_noise[0] / each, 1) for each in per_noise] == [1.0, 1.3, 1.4, 1.5]


def test_resonances_and_integrators_cannot_be_compared_with_an_ema():
    for filt in (from_sgd(0.1, 0.9999, 0.5), from_sgd(0.1, 0.9, 0.0)):
        with pytest.raises(ValueError, match="there is no comparable EMA"):
            compare_orders(filt)


def test_invalid_arguments():
    with pytest.raises(ValueError, match=r"\(0, 0.99\]"):
        window(ema(0.1), 1.0)
    with pytest.raises(ValueError, match="at least 1"):
        impulse_response(ema(0.1), 0)
    with pytest.raises(ValueError, match="whole numbers"):
        impulse_response(ema(0.1), [0.5])
    with pytest.raises(ValueError, match="last"):
        window(IIRFilter.from_sos([[1, 0, 0, 1, -2 * math.cos(0.3) * (1 - 1e-9), (1 - 1e-9) ** 2]]))
