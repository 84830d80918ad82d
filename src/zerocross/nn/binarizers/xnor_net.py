"""XNOR-Net: a scale per filter, computed from the weights, through which gradients flow."""

from __future__ import annotations

from torch import Tensor, nn

from zerocross.nn.binarizers.per_filter import centred, check_several, column
from zerocross.nn.sign import sign


class XNORNet(nn.Module):
    """Rastegari et al., *XNOR-Net*, ECCV 2016: each filter centred and clamped to [-1, 1], ``sign(w) mean|w|``.

    The gradient is their Eq. for dC/dW: through the sign where abs(w) <= 1, times the scale, and through the scale.
    Their code centres and clamps the stored weight before each pass; here it is part of the function.

    Args:
        weight: The layer's latent weight.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        check_several(weight, "XNOR-Net")

    def forward(self, w: Tensor) -> Tensor:
        """Return -1 and +1, times the mean of abs(w) per filter."""
        clamped = centred(w).clamp(-1, 1)
        return sign(clamped, "clip") * column(clamped.abs().flatten(1).mean(1), w)

    def before_sign(self, w: Tensor) -> Tensor:
        """Return w, each filter less its mean."""
        return centred(w)

    def start(self, w: Tensor) -> dict[str, Tensor]:
        """Return nothing: there is no parameter."""
        del w
        return {}
