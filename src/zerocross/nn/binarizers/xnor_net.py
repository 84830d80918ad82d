"""XNOR-Net: a scale per filter, computed from the weights, through which gradients flow."""

from __future__ import annotations

from torch import Tensor, nn

from zerocross.nn.binarizers.per_filter import column
from zerocross.nn.sign import scale_backward, sign


class XNORNet(nn.Module):
    """Rastegari et al., *XNOR-Net*, ECCV 2016: ``sign(w) mean|w|``, the mean of each filter.

    The stored weight itself is centred and clamped (`centre_and_clamp_`) by the method's optimizer after every update;
    the gradient does not pass through this. The gradient is the published one: through the sign where abs(w) <= 1,
    times the scale, and through the scale; all multiplied by n (1 - 1/c), for filters of n weights over c input
    channels, which makes the weight decay relatively small.

    Args:
        weight: The layer's latent weight.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        channels = weight.shape[1]
        if channels == 1:
            raise ValueError(
                f"XNOR-Net centres weights over their input channels, and a weight of shape {tuple(weight.shape)} has "
                "one: keep this layer real, or use another binarizer"
            )
        self.gain = weight[0].numel() * (1 - 1 / channels)

    def forward(self, w: Tensor) -> Tensor:
        """Return -1 and +1, times the mean of abs(w) per filter."""
        w = scale_backward(w, self.gain)
        return sign(w, "clip") * column(w.abs().flatten(1).mean(1), w)

    def before_sign(self, w: Tensor) -> Tensor:
        """Return w itself."""
        return w

    def start(self, w: Tensor) -> dict[str, Tensor]:
        """Return an empty dict: this binarizer has no parameters."""
        del w
        return {}


def centre_and_clamp_(weights: list[Tensor]) -> None:
    """Subtract the mean over input channels from each position of the kernels, then clamp to [-1, 1], in place."""
    for w in weights:
        w.sub_(w.mean(1, keepdim=True)).clamp_(-1, 1)
