"""XNOR-Net++: a scale that is learned."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zerocross.nn.binarizers.per_filter import column
from zerocross.nn.sign import sign


class XNORNetPP(nn.Module):
    """Bulat and Tzimiropoulos, *XNOR-Net++*, BMVC 2019, case 1: ``sign(w) scale``, a learned scale per filter.

    The gradient of the sign is stopped beyond abs(w) = 1.

    Args:
        weight: The layer's latent weight.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(len(weight), device=weight.device, dtype=weight.dtype))

    def forward(self, w: Tensor) -> Tensor:
        """Return -1 and +1, times the learned scale per filter."""
        return sign(w, "clip") * column(self.scale, w)

    def before_sign(self, w: Tensor) -> Tensor:
        """Return w itself."""
        return w

    def start(self, w: Tensor) -> dict[str, Tensor]:
        """Return the mean of abs(w) per filter, XNOR-Net's analytic scale."""
        return {"scale": w.detach().abs().flatten(1).mean(1)}
