"""IR-Net: centred, standardised weights, a power-of-two scale, and a surrogate that sharpens during training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zerocross.nn.binarizers.per_filter import centred, check_several, column
from zerocross.nn.sign import ede_temperature, sign

_SMALL = 1e-12  # added to a standard deviation, so that a filter of equal weights does not become NaN


class IRNet(nn.Module):
    """Qin et al., *Forward and Backward Information Retention*, CVPR 2020 (Libra parameter binarisation, EDE)::

        u = (w - mean) / std                    per filter
        out = sign(u) 2^round(log2(mean|u|))    the scale takes no gradient
        d sign / du = k t (1 - tanh(t u)^2)     k = max(1/t, 1); t from 1e-3 to 10 over training

    Args:
        weight: The layer's latent weight.
    """

    temperature: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        check_several(weight, "IR-Net")
        first = torch.tensor(ede_temperature(0), device=weight.device)
        self.register_buffer("temperature", first, persistent=False)

    def set_progress(self, progress: float) -> None:
        """Set the temperature for this progress of training, from 0 to 1."""
        self.temperature.fill_(ede_temperature(progress))

    def forward(self, w: Tensor) -> Tensor:
        """Return -1 and +1, times a power of two per filter."""
        balanced = centred(w)
        u = balanced / (column(balanced.flatten(1).std(1), w) + _SMALL)
        scale = torch.exp2(u.detach().abs().flatten(1).mean(1).clamp(min=_SMALL).log2().round())
        return sign(u, "ede", self.temperature) * column(scale, w)

    def before_sign(self, w: Tensor) -> Tensor:
        """Return w minus the mean of each filter."""
        return centred(w)

    def start(self, w: Tensor) -> dict[str, Tensor]:
        """Return an empty dict: this binarizer has no parameters."""
        del w
        return {}
