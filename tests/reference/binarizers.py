"""Naive twins of the latent-weight binarizers: the published formulas in numpy, with manually derived gradients.

Each function takes a weight (filters, inputs), the gradient of the loss with respect to the weight that the layer
computes with, and the method's parameters; it returns that weight, and the gradients with respect to the latent weight
and to the method's own parameters.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
Result = tuple[Array, Array, dict[str, Array]]


def signs(w: Array) -> Array:
    """Return -1 or +1; the sign of zero is +1."""
    return np.where(w < 0, -1.0, 1.0)


def less_mean(w: Array) -> Array:
    """Subtract the mean of each filter; its gradient is computed in the same way."""
    return w - w.mean(1, keepdims=True)


def binaryconnect(w: Array, grad: Array, progress: float, own: dict[str, Array]) -> Result:
    """The sign; the gradient passes unchanged."""
    del progress, own
    return signs(w), grad, {}


def dorefa(w: Array, grad: Array, progress: float, own: dict[str, Array]) -> Result:
    """The sign times the layer's mean magnitude; the gradient passes unchanged."""
    del progress, own
    return signs(w) * np.abs(w).mean(), grad, {}


def xnor_net(w: Array, grad: Array, progress: float, own: dict[str, Array]) -> Result:
    """The filter's mean magnitude, through which gradients flow; w has been centred and clamped before.

    All of the gradient is multiplied by n (1 - 1/c), n weights over c input channels: n = c in a linear layer.
    """
    del progress, own
    s, b, n = np.abs(w).mean(1, keepdims=True), signs(w), w.shape[1]
    through = grad * s * (np.abs(w) <= 1) + b * (grad * b).sum(1, keepdims=True) / n
    return b * s, through * n * (1 - 1 / n), {}


def centred_and_clamped(w: Array) -> Array:
    """Centre and clamp the stored weights of a linear layer, as XNOR-Net does before each pass."""
    return np.clip(less_mean(w), -1, 1)


def xnor_net_pp(w: Array, grad: Array, progress: float, own: dict[str, Array]) -> Result:
    """A learned scale per filter; the gradient of the sign is 0 beyond 1."""
    del progress
    scale = own["scale"][:, None]
    return signs(w) * scale, grad * scale * (np.abs(w) <= 1), {"scale": (grad * signs(w)).sum(1)}


def ir_net(w: Array, grad: Array, progress: float, own: dict[str, Array]) -> Result:
    """Standardised per filter, times a power of two; the gradients of EDE and of the standardisation."""
    del own
    t = 10 ** (-3 + 4 * progress)
    k = max(1 / t, 1)
    std = w.std(1, ddof=1, keepdims=True)
    u = less_mean(w) / std
    s = 2 ** np.round(np.log2(np.abs(u).mean(1, keepdims=True)))
    du = grad * s * k * t * (1 - np.tanh(t * u) ** 2)
    return signs(u) * s, (less_mean(du) - u * (du * u).sum(1, keepdims=True) / (w.shape[1] - 1)) / std, {}


def recu(w: Array, grad: Array, progress: float, own: dict[str, Array]) -> Result:
    """Standardised per filter, tails beyond the layer's Laplace quantile clamped, times a learned scale."""
    tau = 0.85 + 0.14 * (np.exp(progress) - 1) / (np.e - 1)
    scale, n = own["scale"][:, None], w.shape[1]
    c = less_mean(w)
    var = w.var(1, ddof=1, keepdims=True) + 1e-5
    a = np.sqrt(8 / var)
    u = a * c
    q = -np.abs(u).mean() * np.log(2 - 2 * tau)
    du = grad * scale * (np.abs(u) < q)
    dc = a * du - c * a / var * (du * c).sum(1, keepdims=True) / (n - 1)
    return signs(u) * scale, less_mean(dc), {"scale": (grad * signs(u)).sum(1)}


def dsq(w: Array, grad: Array, progress: float, own: dict[str, Array]) -> Result:
    """The soft quantizer followed by a sign; gradients by central differences of the differentiable part.

    The sign's own gradient is 1, so that near the current point the result is phi times half the current step, plus
    the current signs times half the step.
    """
    del progress
    low, high, sharpness = (float(own[name]) for name in ("low", "high", "sharpness"))

    def phi(w: Array, low: float, high: float, sharpness: float) -> Array:
        k = np.log(2 / sharpness - 1) / (high - low)
        return np.tanh(k * (np.clip(w, low, high) - (low + high) / 2)) / (1 - sharpness)

    half, b = (high - low) / 2, signs(phi(w, low, high, sharpness))

    def around(low: float, high: float, sharpness: float) -> float:
        return float((grad * (phi(w, low, high, sharpness) * half + b * (high - low) / 2)).sum())

    h = 1e-6
    dw = grad * half * (phi(w + h, low, high, sharpness) - phi(w - h, low, high, sharpness)) / (2 * h)
    point, slopes = np.array([low, high, sharpness]), {}
    for index, name in enumerate(("low", "high", "sharpness")):
        d = h * np.eye(3)[index]
        slope = (around(*(point + d)) - around(*(point - d))) / (2 * h)
        slopes[name] = np.array(slope / np.sqrt(w.size))
    return b * half, dw, slopes


def reste(w: Array, grad: Array, progress: float, own: dict[str, Array]) -> Result:
    """The sign times the layer's mean magnitude, through which gradients flow; the derivative of a power."""
    del own
    o = 1 + 2 * (1 - np.cos(np.pi / 2 * progress))
    size, b = np.abs(w), signs(w)
    slope = np.select([size <= 0.1, size <= 1.5], [0.1 ** (1 / o) / 0.1, size ** ((1 - o) / o) / o], 0.0)
    return b * size.mean(), grad * size.mean() * slope + b * (grad * b).sum() / w.size, {}


def adabin(w: Array, grad: Array, progress: float, own: dict[str, Array]) -> Result:
    """The filter's mean plus or minus its deviation; the gradients of EDE, mean and deviation."""
    del own
    t = 10 ** (-3 + 4 * progress)
    n, c = w.shape[1], less_mean(w)
    a = np.sqrt((c**2).mean(1, keepdims=True))
    b = signs(c)
    du = grad * a * max(1 / t, 1) * t * (1 - np.tanh(t * c / a) ** 2)
    da = (grad * b).sum(1, keepdims=True) - (du * c).sum(1, keepdims=True) / a**2
    dc = du / a + da * c / (n * a)
    return a * b + w.mean(1, keepdims=True), less_mean(dc) + grad.mean(1, keepdims=True), {}


def siman(w: Array, grad: Array, progress: float, own: dict[str, Array]) -> Result:
    """+1 for the n // 2 largest magnitudes of each filter of n; the gradient reaches the standardised magnitude."""
    del progress
    scale, (rows, n), c = own["scale"][:, None], w.shape, less_mean(w)
    b = np.full(w.shape, -1.0)
    b[np.arange(rows)[:, None], np.argsort(-np.abs(c), axis=1)[:, : n // 2]] = 1
    r = 1 / np.sqrt(w.var(1, ddof=1, keepdims=True) + 1e-5)
    du = grad * scale * np.sign(c)
    dc = r * du - c * r**3 * (du * c).sum(1, keepdims=True) / (n - 1)
    return b * scale, less_mean(dc), {"scale": (grad * b).sum(1)}


def magnitudes_clamped(w: Array, percent: float) -> Array:
    """Clamp the magnitudes of the stored weights, as SiMaN does before each pass."""
    c = less_mean(w)
    low, high = np.percentile(np.abs(c), [percent, 100 - percent])
    return np.clip(np.abs(c), low, high) * np.sign(c)


def ovsw(w: Array, grad: Array, progress: float, own: dict[str, Array]) -> Result:
    """The sign, times the mean magnitude of the standardised filter, which receives no gradient."""
    del progress, own
    s = np.abs(less_mean(w) / np.sqrt(w.var(1, ddof=1, keepdims=True) + 1e-5)).mean(1, keepdims=True)
    return signs(w) * s, grad * s, {}


def rbnn(w: Array, grad: Array, progress: float, own: dict[str, Array]) -> Result:
    """Standardised by filter, turned by two rotations as far as an angle says; the turned part takes no gradient."""
    t = 10 ** (-2 + 3 * progress)
    scale, angle, n = own["scale"][:, None], own["angle"][:, None], w.shape[1]
    std = w.std(1, ddof=1, keepdims=True)
    u, left, right = less_mean(w) / std, own["left"], own["right"]
    turned = np.stack([(left.T @ row.reshape(len(left), len(right)) @ right).ravel() for row in u])
    share = np.abs(np.sin(angle))
    v = u + share * (turned - u)
    dv = grad * scale * np.maximum(0, max(1 / t, 1) * (2 * np.sqrt(t**2 / 2) - t**2 * np.abs(v)))
    du = dv * (1 - share)
    dw = (less_mean(du) - u * (du * u).sum(1, keepdims=True) / (n - 1)) / std
    d_angle = (dv * (turned - u)).sum(1) * (np.sign(np.sin(angle)) * np.cos(angle))[:, 0]
    return signs(v) * scale, dw, {"scale": (grad * signs(v)).sum(1), "angle": d_angle}


def ewgs(w: Array, grad: Array, progress: float, own: dict[str, Array]) -> Result:
    """Rounded between two bounds; the gradient is scaled by the error of rounding, at delta = 1e-3."""
    del progress
    low, high, scale = (float(own[name]) for name in ("low", "high", "scale"))
    x = np.clip((w - low) / (high - low), 0, 1)
    r = np.where(x < 0.5, 0.0, 1.0)
    g = grad * 2 * abs(scale)
    dx = g * (1 + 1e-3 * np.sign(g) * (x - r)) * (w > low) * (w < high)
    d_low, d_high = (-(dx * share).sum() / (high - low) for share in (1 - x, x))
    d_scale = (grad * (2 * r - 1)).sum() * np.sign(scale)
    own_grads = {"low": np.array(d_low), "high": np.array(d_high), "scale": np.array(d_scale)}
    return (2 * r - 1) * abs(scale), dx / (high - low), own_grads


NAIVE: dict[str, Callable[[Array, Array, float, dict[str, Array]], Result]] = {
    "binaryconnect": binaryconnect,
    "xnor-net": xnor_net,
    "xnor-net++": xnor_net_pp,
    "dorefa": dorefa,
    "ir-net": ir_net,
    "dsq": dsq,
    "recu": recu,
    "reste": reste,
    "adabin": adabin,
    "siman": siman,
    "ovsw": ovsw,
    "rbnn": rbnn,
    "ewgs": ewgs,
}


def around_zero(binarizer: str | None, weight: Tensor) -> Tensor:
    """Return a layer's weight as minus and plus one scale per filter; AdaBin's two values are made symmetric first."""
    if binarizer != "adabin":
        return weight
    rows = weight.flatten(1)
    return weight - ((rows.amax(1) + rows.amin(1)) / 2).view(-1, *(1,) * (weight.dim() - 1))
