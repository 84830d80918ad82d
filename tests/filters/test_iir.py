from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.filters import difference_equation, filtered_gradients, run_sections
from zerocross.filters import IIRFilter, cascade, ema, impulse_response
from zerocross.filters.iir import discount_pair

signal: Any = scipy.signal  # the return types of its functions depend on their arguments
discounts = st.floats(1e-6, 1.0)
exact = settings(deadline=None, max_examples=40, derandomize=True)
SAMPLES = np.random.default_rng(0).standard_normal(500)


@exact
@given(alpha=discounts, gamma=discounts)
def test_two_emas_have_the_coefficients_of_eq_16(alpha: float, gamma: float):
    filt = cascade(ema(gamma), ema(alpha))
    np.testing.assert_allclose(filt.b, [alpha * gamma], rtol=1e-15)
    expected = np.trim_zeros(np.array([1, alpha + gamma - 2, (alpha - 1) * (gamma - 1)]), "b")
    np.testing.assert_allclose(filt.a, expected, rtol=1e-12, atol=1e-15)


@exact
@given(alpha=st.floats(1e-4, 1.0), gamma=st.floats(1e-4, 1.0))
def test_cascade_equals_lfilter_and_eqs_14_and_17(alpha: float, gamma: float):
    filt = cascade(ema(gamma), ema(alpha))
    ours = run_sections(filt, SAMPLES)
    largest = np.abs(ours).max()
    for other in (
        signal.lfilter(filt.b, filt.a, SAMPLES),
        signal.lfilter([alpha], [1, alpha - 1], signal.lfilter([gamma], [1, gamma - 1], SAMPLES)),
        difference_equation(filt.b, filt.a, SAMPLES),
        filtered_gradients(SAMPLES, alpha, gamma),
    ):
        np.testing.assert_allclose(ours, other, rtol=0, atol=1e-9 * largest)


@exact
@given(alpha=discounts, gamma=discounts)
def test_alpha_and_gamma_may_be_swapped(alpha: float, gamma: float):
    one = run_sections(cascade(ema(gamma), ema(alpha)), SAMPLES)
    other = run_sections(cascade(ema(alpha), ema(gamma)), SAMPLES)
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-12 * np.abs(one).max())


@exact
@given(alpha=discounts, gamma=discounts, scale=st.floats(1e-6, 1e6))
def test_scaling_the_gradients_changes_no_sign(alpha: float, gamma: float, scale: float):
    filt = cascade(ema(gamma), ema(alpha))
    plain, scaled = run_sections(filt, SAMPLES), run_sections(filt, scale * SAMPLES)
    sure = np.abs(plain) > 1e-12 * np.abs(plain).max()
    assert (np.sign(plain) == np.sign(scaled))[sure].all()


def test_a_sixfold_ema_at_alpha_1e_3_is_exact_where_polynomials_fail():
    alpha, k, n = 1e-3, 6, 20_000
    filt = cascade(*[ema(alpha)] * k)
    assert filt.order == k
    assert (filt.poles == 1 - alpha).all()
    assert np.abs(np.roots(filt.a)).max() > 1  # which is why poles never come from the polynomial
    ages = np.arange(n)
    binomials = np.array([math.comb(age + k - 1, k - 1) for age in range(n)], dtype=np.float64)
    np.testing.assert_allclose(impulse_response(filt, n), binomials * alpha**k * (1 - alpha) ** ages, rtol=1e-10)


@pytest.mark.parametrize("order", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("design", ["butter", "bessel", "cheby1", "highpass"])
def test_scipy_designs_via_their_sections(design: str, order: int):
    make = {
        "butter": lambda output: signal.butter(order, 0.05, output=output),
        "bessel": lambda output: signal.bessel(order, 0.05, output=output),
        "cheby1": lambda output: signal.cheby1(order, 1, 0.05, output=output),
        "highpass": lambda output: signal.butter(order, 0.05, "highpass", output=output),
    }[design]
    filt = IIRFilter.from_sos(make("sos"))
    assert filt.order == order
    zeros, poles, _ = make("zpk")
    np.testing.assert_allclose(np.sort_complex(filt.poles), np.sort_complex(poles), atol=1e-9)
    np.testing.assert_allclose(np.sort_complex(filt.zeros), np.sort_complex(zeros), atol=1e-6)
    np.testing.assert_array_equal(run_sections(filt, SAMPLES), signal.sosfilt(make("sos"), SAMPLES))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_from_ba_is_exact_up_to_order_3(order: int):
    b, a = signal.butter(order, 0.1)
    filt = IIRFilter.from_ba(2 * b, 2 * a)
    np.testing.assert_allclose(run_sections(filt, SAMPLES), signal.lfilter(b, a, SAMPLES), atol=1e-12)


def test_from_ba_of_few_inputs_and_three_outputs():
    b, a = [0.001], np.poly([0.9, 0.8, 0.5])
    filt = IIRFilter.from_ba(b, a)
    np.testing.assert_allclose(run_sections(filt, SAMPLES), signal.lfilter(b, a, SAMPLES), atol=1e-12)


def test_from_ba_refuses_orders_above_3():
    with pytest.raises(ValueError, match=r"order \(here 4\) is at most 3.*from_sos"):
        IIRFilter.from_ba(*signal.butter(4, 0.1))


def test_a_filter_is_immutable_and_hashable():
    one, same, other = ema(0.1), ema(0.1), ema(0.2)
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.sections = other.sections  # pyright: ignore[reportAttributeAccessIssue]
    one.sos[:] = 0  # sos is a copy
    assert one == same


def test_rows_are_divided_by_a0():
    assert IIRFilter.from_sos([[0.2, 0, 0, 2, -1.8, 0]]) == IIRFilter(((0.1, 0.0, 0.0, 1.0, -0.9, 0.0),))


def test_attributes_and_representation():
    filt = cascade(ema(0.1), ema(1e-3))
    assert repr(filt) == "IIRFilter(order=2, poles=[0.999, 0.9], dc_gain=1)"
    assert repr(IIRFilter(((1, 0, 0, 1, -1.85, 0.9),))) == (
        "IIRFilter(order=2, poles=[0.925+0.210654j, 0.925-0.210654j], dc_gain=20)"
    )
    assert (ema(1.0).order, len(ema(1.0).poles), ema(1.0).dc_gain) == (0, 0, 1.0)
    assert ema(1e-20).dc_gain == math.inf


@exact
@given(alpha=st.floats(1e-9, 1e-3), gamma=st.floats(1e-2, 1.0))
def test_discounts_of_a_second_order_section_keep_their_digits(alpha: float, gamma: float):
    whole = IIRFilter(((1, 0, 0, 1, -(2 - alpha - gamma), (1 - alpha) * (1 - gamma)),))
    split = cascade(ema(gamma), ema(alpha))
    np.testing.assert_allclose(whole.discounts[0].real, alpha, atol=1e-13)
    np.testing.assert_allclose(split.discounts[0].real, alpha, atol=1e-15)


@exact
@given(alpha=st.floats(-15, -6).map(lambda e: 10**e), gamma=st.floats(1e-2, 1.0))
def test_a_small_discount_next_to_a_large_one_is_exact(alpha: float, gamma: float):
    small, large = discount_pair(alpha + gamma, alpha * gamma).real
    assert small == pytest.approx(alpha, rel=1e-12, abs=0)
    assert large == pytest.approx(gamma, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.1, math.nan, math.inf])
def test_the_discount_of_an_ema_must_be_in_range(alpha: float):
    with pytest.raises(ValueError, match=r"\(0, 1\]"):
        ema(alpha)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 0, 0, 1, 0]], r"\(1, 5\)"),
        ([], r"n >= 1"),
        ([[1, 0, 0, 0, 0, 0]], "a0"),
        ([[math.nan, 0, 0, 1, 0, 0]], "finite"),
        ([[1e300, 0, 0, 1e-300, 0, 0]], "too large"),
    ],
)
def test_malformed_sections_are_refused(rows: list[list[float]], message: str):
    with pytest.raises(ValueError, match=message):
        IIRFilter.from_sos(rows)


def test_an_empty_cascade_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        cascade()
