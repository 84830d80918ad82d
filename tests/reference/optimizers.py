"""Naive twins of the optimizers: the paper's equations, step by step, in numpy float64 (or another type, if asked)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


def signs_against(values: Array, theta: Array) -> Array:
    """-sign(value), where a value of 0 keeps the sign that was there."""
    return np.where(values == 0, theta, np.where(values < 0, 1.0, -1.0))


def cascade(gradients: Array, alphas: Array, gamma: float, theta: Array) -> tuple[Array, Array]:
    """Eqs. 11-13 with an alpha per step: theta and g after each gradient."""
    m, g, thetas, gs = np.zeros_like(theta), np.zeros_like(theta), [], []
    for x, alpha in zip(gradients, alphas, strict=True):
        m = (1 - gamma) * m + gamma * x  # Eq. 11
        g = (1 - alpha) * g + alpha * m  # Eq. 12
        theta = signs_against(g, theta)  # Eq. 13
        thetas.append(theta)
        gs.append(g)
    return np.array(thetas), np.array(gs)


def direct_form(gradients: Array, alphas: Array, gamma: float, *, corrected: bool) -> Array:
    """Eq. 17 with an alpha per step: g after each gradient, from a zero start.

    As the paper writes it, with alpha merely replaced; or corrected, with the factor alpha_i / alpha_{i-1} that appears
    when m_{i-1} is expressed by g_{i-1} and g_{i-2}, which were made with the alpha of then.
    """
    kind = gradients.dtype.type
    before, last, gs, slow = np.zeros_like(gradients[0]), np.zeros_like(gradients[0]), [], kind(gamma)
    for i, x in enumerate(gradients):
        alpha, old = kind(alphas[i]), kind(alphas[max(i - 1, 0)])
        if corrected:
            g = alpha * slow * x + (1 - alpha) * last + (1 - slow) * alpha / old * (last - (1 - old) * before)
        else:
            g = alpha * slow * x - (alpha + slow - 2) * last - (alpha - 1) * (slow - 1) * before  # Eq. 17
        before, last = last, g
        gs.append(g)
    return np.array(gs)


def latent_sgd(gradients: Array, lrs: Array, weight_decay: float, gamma: float, w: Array) -> Array:
    """Eqs. 1-3 with a learning rate per step: the latent weights after each gradient."""
    m, path = np.zeros_like(w), []
    for x, lr in zip(gradients, lrs, strict=True):
        m = (1 - gamma) * m + gamma * x  # Eq. 2
        w = w - lr * (m + weight_decay * w)  # Eq. 3
        path.append(w)
    return np.array(path)


def flip_ratio(before: Array, after: Array) -> float:
    """Eq. 18, as written: half the 1-norm of the difference of the signs, over the number of weights."""
    return float(sum(abs(b - a) / 2 for a, b in zip(before.ravel(), after.ravel(), strict=True)) / before.size)
