"""Style of a binary network: creates the layers of every architecture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from zerocross.checks import check_choice
from zerocross.nn import BinaryConv1d, BinaryConv2d, BinaryLinear, RSign, Sign
from zerocross.nn.binarizers.adabin import AdaSign
from zerocross.nn.binarizers.ewgs import EWGSActivation
from zerocross.nn.layers import INITS, SCALES, WEIGHTS, check_binarizer
from zerocross.nn.sign import STANDARDIZE, check_surrogate

BINARIZE = ("both", "activations", "none")
_OWN_ACTIVATIONS = ("rsign", "adabin", "ewgs")


@dataclass(frozen=True)
class Style:
    """Which parts of a network are binary, and how. All styles have the same state-dict keys of weights.

    Args:
        binarize: ``"both"``: weights and activations; ``"activations"``: real weights, the first stage of two-step
            training; ``"none"``: the full-precision twin. The last two ignore the weight settings below.
        weights: ``"theta"`` or ``"latent"``, see `zerocross.nn.BinaryConv2d`.
        scale: ``"none"``, ``"channel_mean"`` or ``"magnitude_aware"`` (latent weights only), or ``"learned"``, which
            adds a key.
        weight_surrogate: the surrogate gradient of a latent weight's sign.
        binarizer: None, or a name of `zerocross.nn.BINARIZERS` in place of scale and weight_surrogate (latent weights).
        init: initialisation of latent weights, a name of `zerocross.nn.layers.INITS`.
        init_scale: > 0, the range or standard deviation of initial latent weights.
        surrogate: the surrogate gradient of the activations' sign, or ``"rsign"``: ReActNet's sign around a learned
            threshold per channel, which adds a key; ``"adabin"``: AdaBin's two values, learned per layer, which adds
            two; or ``"ewgs"``: EWGS' 0 and 1, between bounds learned per layer, which adds three.
        standardize: the divisor of the input of that sign in training, see `zerocross.nn.Sign`.
    """

    binarize: str = "both"
    weights: str = "theta"
    scale: str = "none"
    weight_surrogate: str = "identity"
    binarizer: str | None = None
    init: str = "uniform"
    init_scale: float = 1e-3
    surrogate: str = "polynomial"
    standardize: str = "none"

    def __post_init__(self) -> None:
        check_choice("binarize", self.binarize, BINARIZE)
        check_choice("weights", self.weights, WEIGHTS)
        check_choice("scale", self.scale, SCALES)
        check_choice("init", self.init, INITS)
        check_choice("standardize", self.standardize, STANDARDIZE)
        if self.surrogate not in _OWN_ACTIVATIONS:
            check_surrogate(self.surrogate)
        check_surrogate(self.weight_surrogate)
        if self.binarizer is not None:
            check_binarizer(self.binarizer, self.weights, self.scale, self.weight_surrogate)

    def conv(self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1) -> nn.Module:
        """Return a convolution without bias, padded so that stride 1 keeps the size."""
        padding = kernel_size // 2
        if self.binarize != "both":
            return nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding, bias=False)
        return BinaryConv2d(in_channels, out_channels, kernel_size, stride, padding, **self._binary())

    def conv1d(self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1) -> nn.Module:
        """Return a convolution of series without bias, padded so that stride 1 keeps the length."""
        padding = kernel_size // 2
        if self.binarize != "both":
            return nn.Conv1d(in_channels, out_channels, kernel_size, stride, padding, bias=False)
        return BinaryConv1d(in_channels, out_channels, kernel_size, stride, padding, **self._binary())

    def linear(self, in_features: int, out_features: int) -> nn.Module:
        """Return a linear layer without bias."""
        if self.binarize != "both":
            return nn.Linear(in_features, out_features, bias=False)
        return BinaryLinear(in_features, out_features, **self._binary())

    def _binary(self) -> dict[str, Any]:
        """The settings shared by all binary layers."""
        names = ("weights", "scale", "weight_surrogate", "binarizer", "init", "init_scale")
        return {name: getattr(self, name) for name in names}

    def sign(self, channels: int) -> nn.Module:
        """Return the module before a binary layer: the sign, or the identity in the full-precision twin."""
        if self.binarize == "none":
            return nn.Identity()
        if self.surrogate == "rsign":
            return RSign(channels, standardize=self.standardize)
        if self.surrogate == "adabin":
            return AdaSign()
        if self.surrogate == "ewgs":
            return EWGSActivation()
        return Sign(self.surrogate, standardize=self.standardize)
