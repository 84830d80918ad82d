"""Naive twins of zerocross.filters: the paper's equations as loops, and figures as sums over taps."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.signal import sosfilt

from zerocross.filters import IIRFilter

Array = NDArray[np.float64]


def run_sections(filt: IIRFilter, x: Array, state: Array | None = None) -> Array:
    """Apply scipy's filter over the sections, time first, from a state (zero by default)."""
    if state is None:
        state = np.zeros((len(filt.sections), 2, *x.shape[1:]))
    return np.asarray(sosfilt(filt.sos, x, axis=0, zi=state)[0])


def difference_equation(b: Array, a: Array, x: Array) -> Array:
    """Eq. 14, term by term."""
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] += sum(b[j] * x[i - j] for j in range(len(b)) if i - j >= 0)
        y[i] -= sum(a[j] * y[i - j] for j in range(1, len(a)) if i - j >= 0)
        y[i] /= a[0]
    return y


def latent_weights(x: Array, lr: float, weight_decay: float, gamma: float, w0: Array) -> Array:
    """Return the latent weights of the paper's SGD (Eqs. 1-3) at a constant rate after each gradient."""
    w, m, path = w0, np.zeros_like(w0), []
    for gradient in x:
        m = (1 - gamma) * m + gamma * gradient  # Eq. 2
        w = w - lr * (m + weight_decay * w)  # Eq. 3
        path.append(w)
    return np.array(path)


def filtered_gradients(x: Array, alpha: float, gamma: float) -> Array:
    """Return the filtered gradients of the paper's direct form, Eq. 17."""
    g = np.zeros((len(x) + 2, *x.shape[1:]))  # g[0] and g[1] are g_{-2} and g_{-1}
    for i in range(len(x)):
        g[i + 2] = alpha * gamma * x[i] - (alpha + gamma - 2) * g[i + 1] - (alpha - 1) * (gamma - 1) * g[i]
    return g[2:]


def figures(taps: Array) -> dict[str, float]:
    """Return every figure of a Response from sufficiently many taps."""
    held, risen = np.cumsum(np.abs(taps)), np.cumsum(taps) / taps.sum()
    correlation = float(taps[1:] @ taps[:-1] / (taps @ taps))
    return {
        "mean_delay": float(np.arange(len(taps)) @ taps / taps.sum()),
        "window": float(np.argmax(held >= 0.95 * held[-1]) + 1),
        "reversal": float(np.argmax(risen >= 0.5) + 1),
        "noise_gain": float(taps @ taps / taps.sum() ** 2),
        "flip_rate": math.acos(correlation) / math.pi,
    }
