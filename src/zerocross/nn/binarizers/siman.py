"""SiMaN: a weight is +1 if its magnitude is among the larger half of its filter, regardless of its sign."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zerocross.nn.binarizers.per_filter import centred, check_several, column
from zerocross.nn.sign import sign

_VARIANCE_FLOOR = 1e-5  # theirs


class SiMaN(nn.Module):
    """Lin et al., *SiMaN: Sign-to-Magnitude Network Binarization*, TPAMI 2022::

        u = (w - mean) / sqrt(var + 1e-5)       per filter
        out = +scale where |u| is among the larger half of its filter, else -scale
        d out / d|u| = scale                    so that the gradient reaches u with the sign of u; a learned scale

    The stored weight itself is centred, and its magnitudes clamped to percentiles of the layer
    (`centre_and_clamp_magnitudes_`), which the method's optimizer does after every update.

    Args:
        weight: The layer's latent weight.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        check_several(weight, "SiMaN")
        self.scale = nn.Parameter(self.start(weight)["scale"])

    def forward(self, w: Tensor) -> Tensor:
        """Return -1 and +1, times the learned scale per filter."""
        size = _standardized_size(w)
        # Its sign is the binary weight, and its derivative by the magnitude is 1.
        return sign(size - size.detach() + _larger_half(size.detach()), "identity") * column(self.scale, w)

    def before_sign(self, w: Tensor) -> Tensor:
        """Return +1 for the larger half of each filter's magnitudes, else -1: at the border a difference would be 0."""
        return _larger_half(_standardized_size(w))  # of the same numbers as forward: rounding decides ties

    def start(self, w: Tensor) -> dict[str, Tensor]:
        """Return the mean of abs(w) per filter."""
        return {"scale": w.detach().abs().flatten(1).mean(1)}


def _standardized_size(w: Tensor) -> Tensor:
    """The magnitude of w, each filter less its mean and divided by its standard deviation."""
    balanced = centred(w)
    return (balanced * column((balanced.flatten(1).var(1) + _VARIANCE_FLOOR).rsqrt(), w)).abs()


def _larger_half(size: Tensor) -> Tensor:
    """Return +1 where a magnitude is in the larger half of its filter (the median of an odd number is not), else -1."""
    rows = size.flatten(1)
    count = rows.shape[1]
    border = rows.kthvalue(count - count // 2, dim=1).values
    return torch.where(size > column(border, size), 1.0, -1.0).to(size.dtype)


def centre_and_clamp_magnitudes_(weights: list[Tensor], percent: float) -> None:
    """Subtract the mean of each filter, then clamp magnitudes to two percentiles of the layer, in place.

    Args:
        weights: A weight per layer.
        percent: In [0, 50]: the lower percentile; the upper one is 100 less it.
    """
    for w in weights:
        w.copy_(centred(w))
        size = w.abs()
        shares = torch.tensor([percent / 100, 1 - percent / 100], dtype=torch.float64, device=w.device)
        low, high = torch.quantile(size.flatten().double(), shares).to(w.dtype)
        w.copy_(torch.copysign(torch.minimum(torch.maximum(size, low), high), w))
