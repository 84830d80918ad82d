"""ReCU: clamp the tails of the weight distribution, so that dead weights can flip again."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from zerocross.nn.binarizers.per_filter import centred, check_several, column
from zerocross.nn.sign import sign

_FIRST_TAU, _LAST_TAU = 0.85, 0.99
_VARIANCE_FLOOR = 1e-5  # as in the authors' code


class ReCU(nn.Module):
    """Xu et al., *ReCU: Reviving the Dead Weights*, ICCV 2021::

        u = (w - mean) / (std / sqrt(8))                per filter: a Laplace distribution of scale 2
        v = clamp(u, -Q, Q), Q = -mean|u| ln(2 - 2 tau) the tau-quantile of the layer's Laplace fit, no gradient
        out = sign(v) scale                             d sign / dv = 1; a learned scale per filter
        tau = 0.85 -> 0.99 over training, along e^progress

    Args:
        weight: The layer's latent weight.
    """

    tau: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        check_several(weight, "ReCU")
        self.scale = nn.Parameter(
            torch.rand(len(weight), device=weight.device, dtype=weight.dtype)
        )  # as in the authors' code
        self.register_buffer("tau", torch.tensor(_FIRST_TAU, device=weight.device), persistent=False)

    def set_progress(self, progress: float) -> None:
        """Set the quantile for this progress of training, from 0 to 1."""
        risen = (math.exp(progress) - 1) / (math.e - 1)
        self.tau.fill_(_FIRST_TAU + (_LAST_TAU - _FIRST_TAU) * risen)

    def forward(self, w: Tensor) -> Tensor:
        """Return -1 and +1, times the learned scale per filter."""
        balanced = centred(w)
        u = balanced * column((8 / (balanced.flatten(1).var(1) + _VARIANCE_FLOOR)).sqrt(), w)
        quantile = -u.detach().abs().mean() * torch.log(2 - 2 * self.tau)
        v = torch.minimum(torch.maximum(u, -quantile), quantile)
        return sign(v, "identity") * column(self.scale, w)

    def before_sign(self, w: Tensor) -> Tensor:
        """Return w minus the mean of each filter."""
        return centred(w)

    def start(self, w: Tensor) -> dict[str, Tensor]:
        """Return a scale of 1 per filter."""
        return {"scale": torch.ones(len(w), device=w.device, dtype=w.dtype)}
