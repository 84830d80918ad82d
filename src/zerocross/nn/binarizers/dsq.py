"""DSQ: the sign of a soft quantiser with learned bounds and sharpness."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from zerocross.nn.sign import sign

_SHARPNESS = 0.2  # initial value in the authors' code
_SHARPNESS_RANGE = (0.01, 0.5)  # 0 is a step without a gradient, 1 a line
_SMALLEST_STEP = 1e-6


class DSQ(nn.Module):
    """Gong et al., *Differentiable Soft Quantization*, ICCV 2019, at one bit, with one set of parameters per layer::

        x = clamp(w, low, high)
        phi = s tanh(k (x - middle))            k = ln(2 / sharpness - 1) / (high - low), s = 1 / (1 - sharpness)
        out = sign(phi) (high - low) / 2        d sign / d phi = 1

    low, high and sharpness (their alpha) are learned. Their gradients are sums over all n weights of the layer, and
    are divided by sqrt(n), as in LSQ: otherwise, at the learning rate of the other real parameters, the bounds would
    move beyond the weights and all signs would become equal. The original adds the middle back to the result; here it
    is only the threshold, so that the weight is -scale or +scale, as a binary layer requires.

    Args:
        weight: The layer's latent weight; the bounds start at plus and minus its largest magnitude.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        first = self.start(weight)
        self.low = nn.Parameter(first["low"])
        self.high = nn.Parameter(first["high"])
        self.sharpness = nn.Parameter(first["sharpness"])

    def forward(self, w: Tensor) -> Tensor:
        """Return -1 and +1, times half the distance of the learned bounds."""
        low, high, sharpness = (_slowed(p, w.numel()) for p in (self.low, self.high, self.sharpness))
        step = (high - low).clamp(min=_SMALLEST_STEP)
        sharpness = sharpness.clamp(*_SHARPNESS_RANGE)
        k = torch.log(2 / sharpness - 1) / step
        clamped = torch.minimum(torch.maximum(w, low), high)
        phi = torch.tanh(k * (clamped - (low + high) / 2)) / (1 - sharpness)
        return sign(phi, "identity") * (step / 2)

    def before_sign(self, w: Tensor) -> Tensor:
        """Return w less the middle of the bounds."""
        return w - (self.low + self.high) / 2

    def start(self, w: Tensor) -> dict[str, Tensor]:
        """Return bounds at the largest magnitude, and the published sharpness."""
        bound = w.detach().abs().amax().clone()
        return {"low": -bound, "high": bound, "sharpness": torch.full_like(bound, _SHARPNESS)}


def _slowed(p: Tensor, count: int) -> Tensor:
    """The same value, with 1/sqrt(count) of the gradient."""
    return p.detach() + (p - p.detach()) / math.sqrt(count)
