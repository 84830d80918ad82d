"""Compute the alpha at which noise flips weights at a given rate: one number instead of alpha and gamma."""

from __future__ import annotations

import math

HALF = 0.5  # a filter without memory flips every second sign


def alpha_for_flips(rate: float, gamma: float | None = None) -> float:
    """Return the alpha of a cascade of two averages whose output changes sign in this share of steps under white noise.

    Two averages change sign in a share arccos((p + q) / (1 + pq)) / pi of the steps, with p = 1 - alpha, q = 1 - gamma;
    this is solved for alpha. For small rates and gammas, alpha is about (pi rate)^2 / gamma, or pi rate if gamma equals
    alpha. `zerocross.filters.flip_rate` returns the rate of any filter.

    Args:
        rate: flips per weight and step, from 0 to `most_flips(gamma)`. A rate of 0 is alpha = 0.
        gamma: the inner discount, in (0, 1]; None sets it equal to alpha, the symmetric filter.

    Examples:
        >>> from zerocross.filters import alpha_for_flips
        >>> round(alpha_for_flips(0.0032, gamma=0.1), 6)
        0.00096
    """
    most = most_flips(gamma)
    if not 0 <= rate <= most:
        tied = "alpha = gamma" if gamma is None else f"gamma = {gamma}"
        raise ValueError(f"a flip rate of {rate} is out of reach: with {tied} it lies in [0, {most:.4g}], alpha = 1")
    if gamma is None:
        tangent = math.tan(math.pi * rate / 2)
        return 2 * tangent / (1 + tangent)
    if rate == most:
        return 1.0
    gap = 2 * math.sin(math.pi * rate / 2) ** 2  # 1 - cos(pi rate), without its cancellation
    return min(gap * (2 - gamma) / (gamma + (1 - gamma) * gap), 1.0)  # rounding exceeds 1 just below the largest rate


def most_flips(gamma: float | None = None) -> float:
    """Return the flip rate at alpha = 1, the largest of two averages with this gamma under white noise.

    Examples:
        >>> from zerocross.filters import most_flips
        >>> round(most_flips(gamma=0.1), 4), most_flips()
        (0.1436, 0.5)
    """
    if gamma is None:
        return HALF
    if not 0 < gamma <= 1:
        raise ValueError(f"gamma is {gamma}; it must lie in (0, 1]")
    return math.acos(1 - gamma) / math.pi
