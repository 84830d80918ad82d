"""Naive twins of the optimizers: the paper's equations, step by step, in numpy float64 (or another type)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


def signs_against(values: Array, theta: Array) -> Array:
    """Return -sign(value); a value of 0 keeps the previous sign."""
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

    As in the paper, with alpha simply replaced; or corrected, with the factor alpha_i / alpha_{i-1} that appears when
    m_{i-1} is expressed by g_{i-1} and g_{i-2}, which were computed with the previous alpha.
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


def averages(
    gradients: Array, alphas: Array, gammas: tuple[float, ...], theta: Array, start: Array | float = 0.0
) -> Array:
    """Moving averages in series from `start`, the last one with an alpha per step: theta after each gradient."""
    states, thetas = [np.zeros_like(theta) + start for _ in (*gammas, 0)], []
    for x, alpha in zip(gradients, alphas, strict=True):
        for index, discount in enumerate((*gammas, alpha)):
            states[index] = (1 - discount) * states[index] + discount * (states[index - 1] if index else x)
        theta = signs_against(states[-1], theta)
        thetas.append(theta)
    return np.array(thetas)


def bop(gradients: Array, gammas: Array, tau: float, theta: Array) -> Array:
    """Bop, weight by weight, with a gamma per step: theta after each gradient."""
    m, thetas = np.zeros_like(theta), []
    for x, gamma in zip(gradients, gammas, strict=True):
        m = (1 - gamma) * m + gamma * x
        flip = (np.abs(m) > tau) & (np.sign(m) == theta)
        theta = np.where(flip, -theta, theta)
        thetas.append(theta)
    return np.array(thetas)


def ramp(text: str, steps: int) -> Array:
    """Return the values of "first->last" at each step; the last value is reached just after the last step."""
    first, last = map(float, text.split("->"))
    return np.linspace(first, last, steps + 1)[:-1]


def bop2ndorder(gradients: Array, gammas: Array, sigma: float | Array, tau: float | Array, theta: Array) -> Array:
    """Bop2ndOrder with a gamma per step, and optionally a sigma and a tau per step: theta after each gradient."""
    m, v, thetas = np.zeros_like(theta), np.zeros_like(theta), []
    sigmas, taus = (np.broadcast_to(value, gammas.shape) for value in (sigma, tau))
    for x, gamma, sigma, tau in zip(gradients, gammas, sigmas, taus, strict=True):  # noqa: PLR1704
        m = (1 - gamma) * m + gamma * x
        v = (1 - sigma) * v + sigma * x**2
        pull = m / (np.sqrt(v) + 1e-10)
        flip = (np.abs(pull) > tau) & (np.sign(pull) == theta)
        theta = np.where(flip, -theta, theta)
        thetas.append(theta)
    return np.array(thetas)


def bold(gradients: Array, lrs: Array, theta: Array) -> Array:
    """BOLD, with a learning rate per step: theta after each gradient."""
    votes, kept, thetas = np.zeros_like(theta), 0.0, []
    for x, lr in zip(gradients, lrs, strict=True):
        votes = kept * votes + lr * x
        flip = votes * theta >= 1
        theta, votes = np.where(flip, -theta, theta), np.where(flip, 0.0, votes)
        kept = 1 - flip.mean()
        thetas.append(theta)
    return np.array(thetas)


class NaiveSGD:
    """SGD with momentum and weight decay as in torch: the decay is added to the momentum."""

    def __init__(self, momentum: float, weight_decay: float) -> None:
        self.momentum, self.weight_decay, self.buffer = momentum, weight_decay, 0.0

    def step(self, w: Array, grad: Array, lr: float) -> Array:
        """Return the weights after one update."""
        self.buffer = self.momentum * self.buffer + grad + self.weight_decay * w
        return w - lr * self.buffer


class NaiveOvSW:
    """OvSW, filter by filter: small gradients are scaled up, weights that have not flipped decay, then SGD."""

    def __init__(self, momentum: float, weight_decay: float, delta: float, dampen: float) -> None:
        self.sgd, self.delta, self.dampen = NaiveSGD(momentum, weight_decay), delta, dampen
        self.rate: Array | float = 0.0
        self.before: Array | None = None

    def step(self, w: Array, grad: Array, lr: float) -> Array:
        """Return the weights after one update."""
        x = np.empty_like(grad)
        for row, (g, v) in enumerate(zip(grad, w, strict=True)):
            small, size = max(np.sqrt((g**2).sum()), 1e-6), max(np.sqrt((v**2).sum()), 1e-3)
            x[row] = g * max(1.0, self.delta * size / small)
        before = w if self.before is None else self.before
        self.rate = 0.999 * self.rate + 0.001 * ((w < 0) != (before < 0))
        self.before = w.copy()
        return self.sgd.step(w, x + self.dampen * (self.rate < 1e-4) * w, lr)


class NaiveAdam:
    """Adam with bias correction, and weight decay added to the gradient."""

    def __init__(self, weight_decay: float = 0.0, clip: float | None = None) -> None:
        self.weight_decay, self.clip, self.m, self.v, self.steps = weight_decay, clip, 0.0, 0.0, 0

    def step(self, w: Array, grad: Array, lr: float) -> Array:
        """Return the weights after one update, clipped if requested."""
        grad = grad + self.weight_decay * w
        self.steps += 1
        self.m = 0.9 * self.m + 0.1 * grad
        self.v = 0.999 * self.v + 0.001 * grad**2
        m, v = self.m / (1 - 0.9**self.steps), self.v / (1 - 0.999**self.steps)
        w = w - lr * m / (np.sqrt(v) + 1e-8)
        return w if self.clip is None else np.clip(w, -self.clip, self.clip)


def flip_ratio(before: Array, after: Array) -> float:
    """Eq. 18 as written: half the 1-norm of the difference of the signs, divided by the number of weights."""
    return float(sum(abs(b - a) / 2 for a, b in zip(before.ravel(), after.ravel(), strict=True)) / before.size)
