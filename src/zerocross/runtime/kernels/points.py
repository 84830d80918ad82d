"""Winograd's method in one dimension for convolutions with seven taps and stride 2: the first layer of a ResNet.

The even and the odd pixels of a line are two convolutions with stride 1, of four and of three taps. Four outputs take
7 and 6 products per channel and line of taps instead of 28 (the Cook-Toom algorithm): inputs and weights are evaluated
as polynomials at a few points, products are summed point by point, and the outputs are linear combinations of the sums.
Both convolutions use the same points, except for one, so they share the sums. The sums are shorter than those of a
plain convolution, so the rounding error hardly grows: its root mean square is 5e-7 of the outputs', and 2e-7 in the
plain order.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from zerocross.runtime.kernels.steps import LANES

OUTPUTS, TAPS = 4, 7
COLOURS = 3  # channels of the input
TERMS = 2 * COLOURS  # of a line of taps at a point: those of even and of odd pixels; the last point has no odd ones
TILE_PIXELS = 2 * OUTPUTS + TAPS - 2  # of a line of the input that the outputs of a tile depend on
_EVEN = (0, 1, -1, 2, -2, None, Fraction(1, 2))  # None: the point at infinity
_ODD = _EVEN[:-1]
POINTS = len(_EVEN)
SUM_BYTES = 2 * 4 * LANES  # of the sums of a point and a tile, for a pair of panels


def _product(roots: list[Fraction]) -> list[Fraction]:
    """Return the coefficients of the polynomial with these roots, lowest power first."""
    found = [Fraction(1)]
    for root in roots:
        found = [low - root * high for low, high in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return found


def _matrices(points: tuple[Any, ...], taps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrices that evaluate weights (points x taps) and inputs (points x points) at the points."""
    finite = [Fraction(point) for point in points if point is not None]
    size = OUTPUTS + taps - 1
    weights, inputs = np.zeros((size, taps)), np.zeros((size, size))
    for row, point in enumerate(points):
        others = [other for other in finite if other != point]
        coefficients = _product(others if point is not None else finite)
        inputs[row, : len(coefficients)] = [float(each) for each in coefficients]
        if point is None:
            weights[row, -1] = 1
        else:
            scale = math.prod((Fraction(point) - other for other in others), start=Fraction(1))
            weights[row] = [float(Fraction(point) ** power / scale) for power in range(taps)]
    return weights, inputs


_EVEN_WEIGHTS, EVEN_INPUTS = _matrices(_EVEN, 4)
_ODD_WEIGHTS, ODD_INPUTS = _matrices(_ODD, 3)


def transform_weights(weight: np.ndarray) -> list[np.ndarray]:
    """Return the weights at each point, float32 of shape (outputs, lines of taps, terms).

    The terms are the channels of even pixels and, except for the last point, of odd pixels.

    Args:
        weight: Weights of the convolution, of shape (outputs, channels, lines of taps, TAPS).
    """
    even, odd = (
        np.einsum("pt,ockt->pokc", matrix, weight[..., place::2].astype(np.float64))
        for place, matrix in enumerate((_EVEN_WEIGHTS, _ODD_WEIGHTS))
    )
    found = [np.concatenate(both, axis=-1) for both in zip(even, odd, strict=False)]
    return [each.astype(np.float32) for each in (*found, even[-1])]
