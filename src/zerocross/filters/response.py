"""Properties of filters: memory, delay, noise gain, and how often noise alone flips a weight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zerocross.filters.iir import IIRFilter, cascade, ema

Stability = Literal["stable", "integrator", "unstable"]

_INTEGRATE = IIRFilter(((1.0, 0.0, 0.0, 1.0, -1.0, 0.0),))
_LONGEST = 2**24  # maximum number of taps to sum one by one, where there is no closed form


@dataclass(frozen=True)
class Response:
    """Properties of a filter, as returned by `describe`; each is defined by the function of the same name.

    Examples:
        >>> from zerocross.filters import describe, ema
        >>> describe(ema(0.01)).stability
        'stable'
    """

    filt: IIRFilter
    stability: Stability
    mean_delay: float
    window: float
    half_life: float
    reversal: float
    noise_gain: float
    flip_rate: float


class OrderComparison(NamedTuple):
    """A filter, and the first-order filters with the same noise gain and the same flip rate.

    Examples:
        >>> from zerocross.filters import cascade, compare_orders, ema
        >>> compare_orders(cascade(ema(0.1), ema(1e-3)))._fields
        ('given', 'equal_noise', 'equal_flips')
    """

    given: Response
    equal_noise: Response
    equal_flips: Response


def describe(filt: IIRFilter) -> Response:
    """Return all properties of a filter.

    Examples:
        >>> from zerocross.filters import cascade, describe, ema
        >>> response = describe(cascade(ema(0.1), ema(1e-3)))
        >>> response.window, round(response.flip_rate, 5)
        (3004.0, 0.00327)
    """
    return Response(
        filt=filt,
        stability=stability(filt),
        mean_delay=mean_delay(filt),
        window=window(filt),
        half_life=half_life(filt),
        reversal=reversal(filt),
        noise_gain=noise_gain(filt),
        flip_rate=flip_rate(filt),
    )


def compare_orders(filt: IIRFilter) -> OrderComparison:
    """Compare a filter with first-order ones: does a second order smooth noise and still react quickly?

    The paper claims so for `cascade(ema(gamma), ema(alpha))`. With p = 1 - alpha, q = 1 - gamma, N the noise gain and D
    the mean delay, one EMA has 1/N = 2D + 1, and the cascade has 1/N = 2D + 1 + 2pq / (1 + pq), exactly. Hence, at
    equal noise gain,

    - the cascade's mean delay is shorter by less than half a step: a higher order does not reduce delay;
    - after a reversal it flips later (up to 21 %, at alpha = gamma), and forgets sooner (a window up to 21 % shorter);
    - but noise flips it far less often: arccos((p + q) / (1 + pq)) / pi a step against arccos(1 - a) / pi.

    So the claim holds for flips, not for variance: an EMA with the same flip rate has a = alpha gamma / (1 + pq), a
    delay near 2 / (alpha gamma) where the cascade has 1 / alpha + 1 / gamma. Figures: docs/symbols.md.

    Raises:
        ValueError: if there is no comparable EMA: the filter is unstable, amplifies noise, or flips more than noise
            itself.

    Examples:
        >>> from zerocross.filters import cascade, compare_orders, ema
        >>> given, equal_noise, equal_flips = compare_orders(cascade(ema(0.1), ema(1e-3)))
        >>> round(equal_noise.flip_rate / given.flip_rate, 1), round(equal_flips.mean_delay / given.mean_delay, 1)
        (4.3, 18.8)
    """
    given = describe(filt)
    if not given.noise_gain <= 1 or not given.flip_rate <= 0.5:
        raise ValueError(
            f"{filt!r} is {given.stability}, with noise gain {given.noise_gain:.4g} (an EMA's is at most 1) and flip "
            f"rate {given.flip_rate:.4g} (at most 0.5): there is no comparable EMA"
        )
    equal_noise = 2 * given.noise_gain / (1 + given.noise_gain)  # noise gain a / (2 - a), solved for a
    equal_flips = 2 * math.sin(math.pi * given.flip_rate / 2) ** 2  # flip rate arccos(1 - a) / pi, solved for a
    return OrderComparison(given, describe(ema(equal_noise)), describe(ema(equal_flips)))


def impulse_response(filt: IIRFilter, steps: int | ArrayLike) -> NDArray[np.float64]:
    """Return the taps h_n: the weight of the gradient of n steps ago in the output.

    Args:
        filt: the filter.
        steps: the number of taps, starting with h_0; or an array of steps n, which costs log n per tap.

    Examples:
        >>> from zerocross.filters import ema, impulse_response
        >>> impulse_response(ema(0.5), 4)
        array([0.5   , 0.25  , 0.125 , 0.0625])
    """
    if isinstance(steps, int | np.integer):
        from scipy.signal import sosfilt  # imported here, since scipy.signal takes a second to import

        if steps < 1:
            raise ValueError(f"impulse_response: {steps} taps requested; it must be at least 1")
        return np.asarray(sosfilt(filt.sos, np.eye(1, int(steps))[0]))
    indices = np.asarray(steps)
    if not np.issubdtype(indices.dtype, np.integer) or (indices < 0).any():
        raise ValueError(f"impulse_response: steps must be whole numbers >= 0, not {steps}")
    A, B, C, D = _state_space(filt)
    taps = [D if n == 0 else C @ np.linalg.matrix_power(A, n - 1) @ B for n in indices.ravel().tolist()]
    return np.array(taps, dtype=np.float64).reshape(indices.shape)


def frequency_response(
    filt: IIRFilter, frequencies: int | ArrayLike = 512
) -> tuple[NDArray[np.float64], NDArray[np.complex128]]:
    """Return frequencies in cycles per step, and the complex gain at each.

    Args:
        filt: the filter.
        frequencies: the number of frequencies, evenly spaced from 0 to 0.5 (alternating sign); or their values.

    Examples:
        >>> from zerocross.filters import ema, frequency_response
        >>> frequencies, gain = frequency_response(ema(0.5), [0.0, 0.5])
        >>> abs(gain).round(3)
        array([1.   , 0.333])
    """
    f = np.linspace(0, 0.5, int(frequencies)) if isinstance(frequencies, int | np.integer) else np.asarray(frequencies)
    back = np.exp(-2j * np.pi * np.asarray(f, dtype=np.float64))  # 1 / z, one step back
    gain = np.ones(back.shape, dtype=np.complex128)
    with np.errstate(divide="ignore", invalid="ignore"):  # an integrator's gain is infinite at 0
        for b0, b1, b2, a0, a1, a2 in filt.sections:
            gain = gain * (b0 + back * (b1 + back * b2)) / (a0 + back * (a1 + back * a2))
    return np.asarray(f, dtype=np.float64), gain


def stability(filt: IIRFilter) -> Stability:
    """Return "stable" if a gradient decays, "integrator" if it persists (a pole of modulus 1), "unstable" if it grows.

    An integrator is a valid filter (weight decay 0); two equal poles of modulus 1 grow, and count as unstable.

    Examples:
        >>> from zerocross.filters import ema, from_sgd, stability
        >>> stability(ema(0.1)), stability(from_sgd(lr=0.1))
        ('stable', 'integrator')
    """
    poles = filt.poles
    excess = np.abs(poles) - 1
    near = 4 * np.finfo(np.float64).eps  # indistinguishable from 1 in float64
    on_circle = poles[np.abs(excess) <= near]
    if (excess > near).any() or len(np.unique(on_circle.round(12))) < len(on_circle):
        return "unstable"
    return "integrator" if len(on_circle) else "stable"


def mean_delay(filt: IIRFilter) -> float:
    """Return the mean age, in steps, of the gradients in the output: sum n h_n / sum h_n, the group delay at 0.

    (1 - alpha) / alpha for an EMA; delays in series add up. Infinite unless stable; nan if sum h_n = 0.

    Examples:
        >>> from zerocross.filters import ema, mean_delay
        >>> round(mean_delay(ema(0.1)), 6)
        9.0
    """
    if stability(filt) != "stable":
        return math.inf
    if filt.dc_gain == 0:
        return math.nan
    return math.fsum(_centre(row[:3]) - _centre(row[3:]) for row in filt.sections)


def window(filt: IIRFilter, share: float = 0.95) -> float:
    """Return how many steps contain a share of the response: the smallest n with sum_{i<n} |h_i| >= share * sum |h_i|.

    log(1 - share) / log(1 - alpha) for an EMA, rounded up. Infinite unless stable.

    Args:
        filt: the filter.
        share: in (0, 0.99]; a larger share would be lost in rounding for tiny alpha.

    Examples:
        >>> from zerocross.filters import ema, window
        >>> window(ema(0.1)), window(ema(0.1), share=0.5)
        (29.0, 7.0)
    """
    if not 0 < share <= 0.99:
        raise ValueError(f"window: a share of {share} is outside (0, 0.99]")
    if stability(filt) != "stable":
        return math.inf
    if _one_signed(filt):
        return float(_first_step(filt, share))
    held = np.cumsum(np.abs(impulse_response(filt, _horizon(filt))))
    return float(np.searchsorted(held, share * held[-1]) + 1)


def half_life(filt: IIRFilter) -> float:
    """Return the half-life of the slowest component in steps: log 2 / -log |largest pole|; 0 if there is no pole.

    Examples:
        >>> from zerocross.filters import ema, half_life
        >>> round(half_life(ema(0.1)), 3)
        6.579
    """
    if stability(filt) != "stable":
        return math.inf
    largest = max(np.abs(filt.poles), default=0.0)
    return math.log(2) / -math.log(largest) if largest else 0.0


def reversal(filt: IIRFilter) -> float:
    """Return the steps until the output changes sign after a long steady gradient has changed sign.

    The smallest n whose first n taps sum to half of all: how quickly a weight follows a new trend.
    Infinite unless stable; nan if sum h_n = 0.

    Examples:
        >>> from zerocross.filters import cascade, ema, reversal
        >>> reversal(cascade(ema(0.1), ema(1e-3)))
        702.0
    """
    if stability(filt) != "stable":
        return math.inf
    if filt.dc_gain == 0:
        return math.nan
    if _one_signed(filt):
        return float(_first_step(filt, 0.5))
    risen = np.cumsum(impulse_response(filt, _horizon(filt))) / filt.dc_gain
    return float(np.argmax(risen >= 0.5) + 1)


def noise_gain(filt: IIRFilter) -> float:
    """Return the variance of filtered unit white noise, with the filter scaled to a dc gain of 1.

    sum h_n^2 / (sum h_n)^2, independent of lr: alpha / (2 - alpha) for an EMA. Infinite unless stable
    (also if sum h_n = 0: only noise passes).

    Examples:
        >>> from zerocross.filters import ema, noise_gain
        >>> round(noise_gain(ema(0.5)), 6)
        0.333333
    """
    if stability(filt) != "stable" or filt.dc_gain == 0:
        return math.inf
    return _energy(filt) / filt.dc_gain**2


def flip_rate(filt: IIRFilter) -> float:
    """Return the share of steps in which the output changes sign if the gradient is white Gaussian noise.

    arccos(r) / pi with r the correlation of neighbouring outputs; arccos(1 - alpha) / pi for an EMA. An integrator's
    rate falls towards 0; nan for an unstable filter.

    Examples:
        >>> from zerocross.filters import cascade, ema, flip_rate
        >>> round(flip_rate(ema(1e-3)), 5), round(flip_rate(cascade(ema(0.1), ema(1e-3))), 5)
        (0.01424, 0.00327)
    """
    if stability(filt) != "stable":
        return 0.0 if stability(filt) == "integrator" else math.nan
    # The energy of y_i - y_{i-1} is 2 (1 - r) times that of y_i, and free of the cancellation in 1 - r. The difference
    # shares a section with the first poles, since it nearly cancels a slow one.
    (b0, b1, b2, a0, a1, a2), *rest = filt.sections
    difference = IIRFilter(((b0, b1, b2, 1.0, 0.0, 0.0), (1.0, -1.0, 0.0, a0, a1, a2), *rest))
    return 2 * math.asin(min(1.0, math.sqrt(_energy(difference) / _energy(filt)) / 2)) / math.pi


def _state_space(filt: IIRFilter) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]:
    """Return the chain as v_{i+1} = A v_i + B x_i, y_i = C v_i + D x_i; v is the state of sosfilt (zi), flattened."""
    n = 2 * len(filt.sections)
    A, B, C, D = np.zeros((n, n)), np.zeros(n), np.zeros(n), 1.0
    for i, (b0, b1, b2, _, a1, a2) in enumerate(filt.sections):
        rows = slice(2 * i, 2 * i + 2)
        feed = np.array([b1 - a1 * b0, b2 - a2 * b0])
        A[rows] = np.outer(feed, C)  # the output of the previous sections is the input here
        A[rows, rows] = [[-a1, 1.0], [-a2, 0.0]]
        B[rows] = feed * D
        C, D = C * b0, D * b0
        C[2 * i] = 1.0
    return A, B, C, D


def _energy(filt: IIRFilter) -> float:
    """Return the sum of squared taps by doubling, 2^k steps in k rounds, so that tiny alphas do not take longer."""
    A, B, C, D = _state_space(filt)
    P = np.outer(B, B)
    while np.linalg.norm(A) > 1e-9:
        P = P + A @ P @ A.T
        A = A @ A
    return float(C @ P @ C + D**2)


def _one_signed(filt: IIRFilter) -> bool:
    """Return True if all taps certainly have the same sign, because those of every section do."""
    for row in filt.sections:
        b0, b1, b2, _, a1, a2 = row
        poles = IIRFilter((row,)).poles
        real_positive = bool((poles.imag == 0).all() and (poles.real >= 0).all())
        lone = b1 == 0 and b2 == 0
        first = b2 == 0 and a2 == 0 and b0 * (b1 - a1 * b0) >= 0
        if not (real_positive and (lone or first)):
            return False
    return True


def _first_step(filt: IIRFilter, share: float) -> int:
    """Return the smallest n whose first n taps contain a share of the sum, by bisection (taps of one sign)."""
    summed = cascade(filt, _INTEGRATE)
    low, high = 0, 1

    def reached(n: int) -> bool:
        return bool(impulse_response(summed, np.array([n - 1]))[0] / filt.dc_gain >= share)

    while not reached(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _horizon(filt: IIRFilter) -> int:
    """Return the number of taps after which the rest is negligible."""
    largest = max(np.abs(filt.poles), default=0.0)
    lifetimes = 40 + 10 * filt.order  # k equal poles decay as n^(k-1) p^n
    steps = filt.order + 1 + (math.ceil(lifetimes / -math.log(largest)) if largest else 0)
    if steps > _LONGEST:
        raise ValueError(f"{filt!r}: its taps change sign and last {steps} steps, more than the maximum of {_LONGEST}")
    return steps


def _centre(coefficients: tuple[float, ...]) -> float:
    c0, c1, c2 = coefficients
    return (c1 + 2 * c2) / math.fsum((c0, c1, c2))
