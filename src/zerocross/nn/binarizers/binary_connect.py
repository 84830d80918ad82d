"""BinaryConnect and BinaryNet: the plain sign; clipping is up to the optimizer."""

from __future__ import annotations

from torch import Tensor, nn

from zerocross.nn.sign import sign


class BinaryConnect(nn.Module):
    """Courbariaux et al., *BinaryConnect*, NeurIPS 2015: ``sign(w)``, straight-through.

    The method keeps w within [-1, 1] after every update, which its optimizer does (`optim.clip_after_step`).

    Args:
        weight: The layer's latent weight.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        del weight

    def forward(self, w: Tensor) -> Tensor:
        """Return -1 and +1."""
        return sign(w, "identity")

    def before_sign(self, w: Tensor) -> Tensor:
        """Return w itself."""
        return w

    def start(self, w: Tensor) -> dict[str, Tensor]:
        """Return an empty dict: this binarizer has no parameters."""
        del w
        return {}
