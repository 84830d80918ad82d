"""ReSTE: the sign, with the derivative of a power function that changes from the identity towards a step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zerocross.nn.sign import reste_exponent, sign


class ReSTE(nn.Module):
    """Wu et al., *Estimator Meets Equilibrium Perspective*, ICCV 2023 (rectified straight-through estimator)::

        out = sign(w) mean|w|                   the mean of the whole layer, through which gradients flow
        d sign / dw = |w|^(1/o - 1) / o         for 0.1 < |w| <= 1.5; nearer to 0 the slope of the chord, beyond it 0
        o = 1 + 2 (1 - cos(pi/2 progress))      from 1 to 3 over training

    Args:
        weight: The layer's latent weight.
    """

    exponent: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        first = torch.tensor(reste_exponent(0), device=weight.device)
        self.register_buffer("exponent", first, persistent=False)

    def set_progress(self, progress: float) -> None:
        """Set the exponent for the progress of training, from 0 to 1."""
        self.exponent.fill_(reste_exponent(progress))

    def forward(self, w: Tensor) -> Tensor:
        """Return -1 and +1, times the mean of abs(w)."""
        return sign(w, "reste", self.exponent) * w.abs().mean()

    def before_sign(self, w: Tensor) -> Tensor:
        """Return w itself."""
        return w

    def start(self, w: Tensor) -> dict[str, Tensor]:
        """Return an empty dict: this binarizer has no parameters."""
        del w
        return {}
