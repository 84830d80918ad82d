"""Linear filters as chains of first- and second-order sections, which stay accurate at small alpha."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Section = tuple[float, float, float, float, float, float]


@dataclass(frozen=True, repr=False)
class IIRFilter:
    """A linear filter, applied to the gradients of one weight (Eq. 14), as a chain of sections in series.

    Each section is a row `(b0, b1, b2, 1, a1, a2)`, scipy's layout, and computes

        y_i = b0 x_i + b1 x_{i-1} + b2 x_{i-2} - a1 y_{i-1} - a2 y_{i-2};

    a first-order section has zeros in b2 and a2. Sections are stored rather than polynomials: in float64 the polynomial
    of a five-fold EMA at alpha = 1e-3 has roots outside the unit circle, its sections do not. Two filters are equal if
    their sections are equal, in the same order. Unstable filters are allowed; see `stability`.

    Args:
        sections: rows of six finite numbers, a0 not zero; each row is divided by its a0.

    Raises:
        ValueError: if a row does not have this form.

    Examples:
        >>> from scipy.signal import butter
        >>> from zerocross.filters import IIRFilter
        >>> filt = IIRFilter.from_sos(butter(2, 0.01, output="sos"))
        >>> filt.order, round(filt.dc_gain, 6)
        (2, 1.0)
    """

    sections: tuple[Section, ...]

    def __post_init__(self) -> None:
        rows = np.asarray(self.sections, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[0] < 1 or rows.shape[1] != 6:
            raise ValueError(f"sections of shape {rows.shape}: expected (n, 6) with n >= 1, rows b0 b1 b2 a0 a1 a2")
        if not np.isfinite(rows).all() or (rows[:, 3] == 0).any():
            raise ValueError(f"sections {rows.tolist()}: every number must be finite, and a0 (the fourth) not 0")
        with np.errstate(over="ignore"):
            rows = rows / rows[:, 3:4]
        if not np.isfinite(rows).all():
            raise ValueError(f"sections {self.sections}: too large to be divided by their a0 (the fourth number)")
        object.__setattr__(self, "sections", tuple(tuple(row) for row in rows.tolist()))

    @classmethod
    def from_sos(cls, sos: ArrayLike) -> IIRFilter:
        """Create a filter from a scipy design, e.g. `scipy.signal.butter(4, 0.01, output="sos")`."""
        return cls(tuple(tuple(row) for row in np.atleast_2d(np.asarray(sos, dtype=np.float64)).tolist()))

    @classmethod
    def from_ba(cls, b: ArrayLike, a: ArrayLike) -> IIRFilter:
        """Create a filter from two polynomials in 1/z (Eq. 14's b and a), of order 3 at most.

        Raises:
            ValueError: above order 3, where float64 polynomials no longer determine poles near 1.
        """
        b, a = (np.trim_zeros(np.atleast_1d(np.asarray(c, dtype=np.float64)), "b") for c in (b, a))
        order = max(len(b), len(a)) - 1
        if not len(a) or a[0] == 0 or order > 3:
            raise ValueError(
                f"b of {len(b)} and a of {len(a)} coefficients: a[0] must not be 0, and the order (here {order}) is at "
                'most 3, since rounding moves the poles of longer polynomials; use from_sos(design(..., output="sos"))'
            )
        if order == 3:
            from scipy.signal import tf2sos

            return cls.from_sos(tf2sos(b, a))
        return cls.from_sos(np.concatenate([np.pad(c, (0, 3 - len(c))) for c in (b, a)]))

    @property
    def sos(self) -> NDArray[np.float64]:
        """The sections as an array of shape (n, 6), for `scipy.signal.sosfilt`."""
        return np.array(self.sections)

    @property
    def order(self) -> int:
        """The order of the filter: the larger of Eq. 14's P and Q."""
        return max(sum(_degree(row[part]) for row in self.sections) for part in (slice(3), slice(3, 6)))

    @property
    def b(self) -> NDArray[np.float64]:
        """Coefficients of the inputs (Eqs. 14-16), trailing zeros trimmed; above order 3 for display only."""
        return _multiply([row[:3] for row in self.sections])

    @property
    def a(self) -> NDArray[np.float64]:
        """Coefficients of the outputs (Eqs. 14-16), trailing zeros trimmed; above order 3 for display only."""
        return _multiply([row[3:] for row in self.sections])

    @property
    def discounts(self) -> NDArray[np.complex128]:
        """1 - pole for every pole, slowest first: alpha and gamma for two EMAs. Accurate for tiny values, too."""
        discounts = np.concatenate([_one_minus_roots(row[3:]) for row in self.sections])
        return discounts[np.argsort(np.abs(discounts), kind="stable")]

    @property
    def poles(self) -> NDArray[np.complex128]:
        """The poles, slowest first, from the sections (never from a long polynomial); those at 0 are left out."""
        return 1 - self.discounts

    @property
    def zeros(self) -> NDArray[np.complex128]:
        """The zeros, from the sections; those at 0 are left out."""
        return 1 - np.concatenate([_one_minus_roots(row[:3]) for row in self.sections])

    @property
    def dc_gain(self) -> float:
        """The steady-state output for a constant gradient of 1; infinite for an integrator, 1 for EMAs."""
        above = math.prod(math.fsum(row[:3]) for row in self.sections)
        below = math.prod(math.fsum(row[3:]) for row in self.sections)
        if below == 0:
            return math.nan if above == 0 else math.copysign(math.inf, above)
        return above / below

    def __repr__(self) -> str:
        poles = ", ".join(f"{p.real:.6g}" if p.imag == 0 else f"{p:.6g}" for p in self.poles.tolist())
        return f"IIRFilter(order={self.order}, poles=[{poles}], dc_gain={self.dc_gain:.6g})"


def ema(alpha: float) -> IIRFilter:
    """An exponential moving average (Eqs. 10 and 15): y_i = (1 - alpha) y_{i-1} + alpha x_i.

    Args:
        alpha: the discount, in (0, 1]. Below 1e-16 the pole 1 - alpha rounds to 1: an integrator.

    Examples:
        >>> from zerocross.filters import ema
        >>> ema(0.1)
        IIRFilter(order=1, poles=[0.9], dc_gain=1)
    """
    if not 0 < alpha <= 1:
        raise ValueError(f"ema({alpha}): the discount (alpha or gamma) must be in (0, 1]; a smaller one smooths more")
    return IIRFilter(((alpha, 0.0, 0.0, 1.0, -(1 - alpha), 0.0),))  # Eq. 15


def cascade(*filters: IIRFilter) -> IIRFilter:
    """Connect filters in series by concatenating their sections (Eq. 16, without multiplying out).

    `cascade(ema(gamma), ema(alpha))` is the paper's optimizer; `cascade(*[ema(alpha)] * k)` a k-fold EMA.

    Examples:
        >>> from zerocross.filters import cascade, ema
        >>> cascade(ema(0.1), ema(1e-3))
        IIRFilter(order=2, poles=[0.999, 0.9], dc_gain=1)
    """
    if not filters:
        raise ValueError("cascade: no filter given; it needs at least one")
    return IIRFilter(tuple(row for filt in filters for row in filt.sections))


def _degree(coefficients: Sequence[float]) -> int:
    return max((i for i, c in enumerate(coefficients) if c != 0), default=0)


def _multiply(factors: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    product = np.ones(1)
    for factor in factors:
        product = np.convolve(product, factor[: _degree(factor) + 1])
    return product


def _one_minus_roots(coefficients: Sequence[float]) -> NDArray[np.complex128]:
    """1 - z for the roots z != 0 of c0 + c1/z + c2/z^2, without the cancellation that 1 - roots() has near z = 1."""
    c = np.trim_zeros(np.asarray(coefficients, dtype=np.float64))
    if len(c) < 2:
        return np.empty(0, dtype=np.complex128)
    c = c / c[0]
    if len(c) == 2:
        return np.array([1 + c[1]], dtype=np.complex128)
    return discount_pair(2 + c[1], math.fsum(c))


def discount_pair(total: float, product: float) -> NDArray[np.complex128]:
    """Return the two discounts with this sum and product, u^2 - total u + product = 0, accurate for small ones.

    A pair that is complex only because of rounding, as for two equal EMAs, is treated as a double root.
    """
    spread = total**2 / 4 - product
    if spread < -4 * np.finfo(np.float64).eps * abs(total):
        half = complex(total / 2, math.sqrt(-spread))
        return np.array([half.conjugate(), half])
    large = total / 2 + math.copysign(math.sqrt(max(spread, 0.0)), total)
    return np.array([product / large if large else 0.0, large], dtype=np.complex128)  # total - large would cancel
