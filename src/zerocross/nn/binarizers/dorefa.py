"""DoReFa-Net: one scale per layer."""

from __future__ import annotations

from torch import Tensor, nn

from zerocross.nn.sign import sign


class DoReFa(nn.Module):
    """Zhou et al., *DoReFa-Net*, 2016, Eq. 7: ``sign(w) E|w|``, E over the layer; the gradient passes unchanged.

    Args:
        weight: The layer's latent weight.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        del weight

    def forward(self, w: Tensor) -> Tensor:
        """Return -1 and +1, times the mean of abs(w)."""
        scale = w.detach().abs().mean()
        return sign(w / scale, "identity") * scale  # the two scales cancel in the gradient, which is the identity

    def before_sign(self, w: Tensor) -> Tensor:
        """Return w itself."""
        return w

    def start(self, w: Tensor) -> dict[str, Tensor]:
        """Return an empty dict: this binarizer has no parameters."""
        del w
        return {}
