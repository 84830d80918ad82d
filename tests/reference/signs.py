"""Naive twins of the sign and its surrogate gradients: one scalar at a time, with the formulas of their papers."""

from __future__ import annotations

import math


def naive_sign(x: float) -> float:
    return -1.0 if x < 0 else 1.0


def naive_derivative(surrogate: str, x: float, t: float) -> float:
    if surrogate == "identity":
        return 1.0
    if surrogate == "clip":
        return 1.0 if -1 <= x <= 1 else 0.0
    if surrogate == "polynomial":  # Bi-Real Net: 2 + 2x on [-1, 0), 2 - 2x on [0, 1)
        return 2 + 2 * x if -1 <= x < 0 else 2 - 2 * x if 0 <= x < 1 else 0.0
    if surrogate == "ede":
        return max(1 / t, 1) * t * (1 - math.tanh(t * x) ** 2)
    if surrogate == "tanh":
        return t / math.cosh(t * x) ** 2
    if surrogate == "swish":  # BNN+: the derivative of 2 sigmoid(tx) (1 + tx (1 - sigmoid(tx))) - 1
        return t * (2 - t * x * math.tanh(t * x / 2)) / (1 + math.cosh(t * x))
    if surrogate == "reste":  # a power of x, linear near 0, and 0 beyond 1.5
        if abs(x) <= 0.1:
            return 0.1 ** (1 / t) / 0.1
        return abs(x) ** ((1 - t) / t) / t if abs(x) <= 1.5 else 0.0
    if surrogate == "rbnn":  # a triangle, cut at its edges
        return max(0.0, max(1 / t, 1) * (2 * math.sqrt(t**2 / 2) - t**2 * abs(x)))
    raise KeyError(surrogate)
