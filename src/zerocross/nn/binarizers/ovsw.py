"""OvSW: the sign of the latent weight, scaled as a standardised filter would be; the rest is its optimizer's."""

from __future__ import annotations

from torch import Tensor, nn

from zerocross.nn.binarizers.per_filter import centred, check_several, column
from zerocross.nn.sign import sign

_VARIANCE_FLOOR = 1e-5  # theirs


class OvSWWeight(nn.Module):
    """Xiang et al., *OvSW: Overcoming Silent Weights for Accurate Binary Neural Networks*, ECCV 2024::

        out = sign(w) mean|u|                   d sign / dw = 1
        u = (w - mean) / sqrt(var + 1e-5)       per filter; the scale takes no gradient

    The method itself changes the gradient, see `zerocross.optim.OvSW`.

    Args:
        weight: The layer's latent weight.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        check_several(weight, "OvSW")

    def forward(self, w: Tensor) -> Tensor:
        """Return -1 and +1, times a scale per filter."""
        balanced = centred(w.detach()).flatten(1)
        scale = balanced.abs().mean(1) * (balanced.var(1) + _VARIANCE_FLOOR).rsqrt()
        return sign(w, "identity") * column(scale, w)

    def before_sign(self, w: Tensor) -> Tensor:
        """Return w itself."""
        return w

    def start(self, w: Tensor) -> dict[str, Tensor]:
        """Return an empty dict: this binarizer has no parameters."""
        del w
        return {}
