"""AdaBin: two values per filter and per activation, not necessarily around zero, and its Maxout."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zerocross.nn.binarizers.per_filter import centred, check_several, column
from zerocross.nn.sign import ede_temperature, sign

_SMALL = 1e-12  # under a deviation: a filter of equal weights must not become NaN


class AdaBin(nn.Module):
    """Tu et al., *AdaBin: Improving Binary Neural Networks with Adaptive Binary Sets*, ECCV 2022::

        b = mean(w), a = sqrt(mean((w - b)^2))  per filter, gradients flow through both
        out = a sign((w - b) / a) + b           d sign / du = EDE's (IR-Net), t from 1e-3 to 10 over training

    The two values of a filter are b - a and b + a, not minus and plus one scale: such a layer cannot be packed.

    Args:
        weight: The layer's latent weight.
    """

    temperature: Tensor
    not_packable = "AdaBin's weights are two values per filter around its mean, not -1 and +1 times a scale"

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        check_several(weight, "AdaBin")
        first = torch.tensor(ede_temperature(0), device=weight.device)
        self.register_buffer("temperature", first, persistent=False)

    def set_progress(self, progress: float) -> None:
        """Set the temperature for the progress of training, from 0 to 1."""
        self.temperature.fill_(ede_temperature(progress))

    def forward(self, w: Tensor) -> Tensor:
        """Return two values per filter: its mean less, and plus, its deviation."""
        balanced = centred(w)
        distance = column(balanced.square().flatten(1).mean(1).sqrt() + _SMALL, w)
        return sign(balanced / distance, "ede", self.temperature) * distance + (w - balanced)

    def before_sign(self, w: Tensor) -> Tensor:
        """Return w, each filter less its mean."""
        return centred(w)

    def start(self, w: Tensor) -> dict[str, Tensor]:
        """Return an empty dict: this binarizer has no parameters."""
        del w
        return {}


class AdaSign(nn.Module):
    """AdaBin's activation: ``distance (sign((x - centre) / distance) + centre)``, both learned, one pair per layer.

    The centre is multiplied by the distance, as in the authors' code; their paper does not. Bi-Real Net's polynomial is
    the derivative of the sign.
    """

    not_packable = "AdaBin's activations are two learned values, not -1 and +1"

    def __init__(self) -> None:
        super().__init__()
        self.distance = nn.Parameter(torch.ones(1))
        self.centre = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """Return one of two values for every element."""
        distance, centre = self.distance.to(x.dtype), self.centre.to(x.dtype)
        return distance * (sign((x - centre) / distance, "polynomial") + centre)


class Maxout(nn.Module):
    """AdaBin's activation of the real stream: a slope per channel on each side, ``p relu(x) - q relu(-x)``.

    Args:
        channels: the size of dimension 1 of the input.
    """

    not_packable = "Maxout has two slopes per channel, and a packed activation one: train with activation='prelu'"

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.positive = nn.Parameter(torch.ones(channels))
        self.negative = nn.Parameter(torch.full((channels,), 0.25))

    def forward(self, x: Tensor) -> Tensor:
        """Bend every element at zero."""
        shape = (-1, *(1,) * (x.dim() - 2))
        p, q = (slope.to(x.dtype).view(shape) for slope in (self.positive, self.negative))
        return p * x.relu() - q * (-x).relu()
