"""Convolution and linear layers whose weights are -1 or +1.

A layer declares which of its parameters are binary, and how, in `binary_kinds`: ``{"weight": "theta"}`` (the parameter
itself holds -1 and +1, and an optimizer such as GradientFilter flips it) or ``{"weight": "latent"}`` (the parameter is
real, and the layer computes with its sign). It is an attribute of the layer, because attributes of a Parameter are lost
by deepcopy.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zerocross.checks import check_choice
from zerocross.nn.binarizers import BINARIZERS, Binarizer
from zerocross.nn.check import not_signs
from zerocross.nn.sign import check_surrogate, scale_forward, sign
from zerocross.nn.watch import Watched

WEIGHTS = ("theta", "latent")
SCALES = ("none", "channel_mean", "magnitude_aware", "learned")
INITS = ("uniform", "normal", "kaiming_normal", "kaiming_fan_out")
MEAN_SCALES = ("channel_mean", "magnitude_aware")  # both compute with mean|w|; they differ in their gradient


def check_binarizer(binarizer: str, weights: str, scale: str, weight_surrogate: str) -> None:
    """Raise a ValueError if a layer cannot combine this binarizer with its other settings."""
    check_choice("binarizer", binarizer, BINARIZERS)
    if weights != "latent":
        raise ValueError(f"binarizer = {binarizer!r} requires latent weights; use weights='latent'")
    if scale != "none" or weight_surrogate != "identity":
        raise ValueError(
            f"binarizer = {binarizer!r} has its own scale and gradient; leave out scale and weight_surrogate"
        )


class _BinaryWeight(Watched):
    """Shared by all layers: initialisation of `weight`, and the binary weight computed from it."""

    weight: Tensor
    scale: nn.Parameter | None
    binarizer: Binarizer | None
    loaded: bool = False  # True if the weight was loaded from a state dict: an optimizer should not discard it

    def _configure(
        self,
        weights: str,
        scale: str,
        weight_surrogate: str,
        binarizer: str | None,
        sign_input: str | None,
        init: str,
        init_scale: float,
    ) -> None:
        check_choice("weights", weights, WEIGHTS)
        check_choice("init", init, INITS)
        check_choice("scale", scale, SCALES)
        check_surrogate(weight_surrogate)
        if sign_input is not None:
            check_surrogate(sign_input)
        if weights == "theta" and scale in MEAN_SCALES:
            raise ValueError(
                f"scale = {scale!r} with weights = 'theta': the mean of |-1| and |+1| is always 1; "
                "use scale='none' or 'learned', or weights='latent'"
            )
        if binarizer is not None:
            check_binarizer(binarizer, weights, scale, weight_surrogate)
        if not init_scale > 0:
            raise ValueError(
                f"init_scale = {init_scale}: it must be above 0, since sign(0) is +1 for every weight; "
                "to start near zero use a tiny value, such as 1e-20"
            )
        self.binary_kinds = {"weight": weights}
        self.scaling = scale
        self.weight_surrogate = weight_surrogate
        self.binarizer_name = binarizer
        self.sign_input = sign_input
        self.init = init
        self.init_scale = init_scale

    def _add_parts(self) -> None:
        learned = torch.ones(len(self.weight), device=self.weight.device, dtype=self.weight.dtype)
        self.register_parameter("scale", nn.Parameter(learned) if self.scaling == "learned" else None)
        self.binarizer = None if self.binarizer_name is None else BINARIZERS[self.binarizer_name](self.weight)

    @torch.no_grad()
    def _start(self, bias: Tensor | None) -> None:
        if self.init == "uniform":
            self.weight.uniform_(-self.init_scale, self.init_scale)
        elif self.init == "normal":
            self.weight.normal_(0, self.init_scale)
        else:
            fan = "fan_out" if self.init == "kaiming_fan_out" else "fan_in"
            nn.init.kaiming_normal_(self.weight, mode=fan, nonlinearity="relu")
        if self.binary_kinds["weight"] == "theta":
            self.weight.copy_(sign(self.weight))
        if bias is not None:
            bias.zero_()

    @torch.no_grad()
    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        # From a real or latent layer's state take the signs, and the mean magnitude as the learned scale.
        weight = state_dict.get(f"{prefix}weight")
        if self.scale is not None and weight is not None:
            state_dict.setdefault(f"{prefix}scale", weight.abs().flatten(1).mean(1))
        if self.binarizer is not None and weight is not None:
            for name, value in self.binarizer.start(weight).items():
                state_dict.setdefault(f"{prefix}binarizer.{name}", value)
        if self.binary_kinds["weight"] == "theta" and weight is not None and not_signs(weight):
            state_dict[f"{prefix}weight"] = sign(
                weight
            )  # before loading, since assign=True would use the caller's tensor
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        self.loaded = self.loaded or weight is not None

    def binary_weight(self) -> Tensor:
        """Return the weight that the layer computes with: -1 and +1, times the scale if there is one."""
        if self.binarizer is not None:
            return self.binarizer(self.weight)
        binary = self.weight
        if self.binary_kinds["weight"] == "latent":
            binary = sign(self.weight, self.weight_surrogate)
        if self.scaling == "none":
            return binary
        shape = (-1,) + (1,) * (binary.dim() - 1)
        if self.scale is not None:
            return binary * self.scale.view(shape)
        mean = self.weight.detach().abs().flatten(1).mean(1).view(shape)
        return binary * mean if self.scaling == "magnitude_aware" else scale_forward(binary, mean)

    def before_sign(self) -> Tensor:
        """Return the real tensor whose sign the layer computes with: the weight, or the binarizer's transform of it."""
        return self.weight if self.binarizer is None else self.binarizer.before_sign(self.weight)

    def refit(self) -> None:
        """Fit what the binarizer fits to its weights once per epoch."""
        refit = getattr(self.binarizer, "refit", None)
        if refit is not None:
            refit(self.weight)

    def _binary_input(self, x: Tensor) -> Tensor:
        x = x if self.sign_input is None else sign(x, self.sign_input)
        self._watch(x)
        return x

    def _describe(self) -> str:
        words = [f"weights={self.binary_kinds['weight']}"]
        words += [f"scale={self.scaling}"] if self.scaling != "none" else []
        words += [f"binarizer={self.binarizer_name}"] if self.binarizer_name else []
        words += [f"sign_input={self.sign_input}"] if self.sign_input else []
        return ", ".join(words)


class BinaryConv2d(_BinaryWeight, nn.Conv2d):
    """A 2-d convolution whose weights are -1 or +1: ``conv2d(x, scale * sign(weight)) + bias``.

    Zero padding is applied after the sign of the input, so that borders are 0 and not +1.

    Args:
        in_channels: as in `torch.nn.Conv2d`.
        out_channels: as in `torch.nn.Conv2d`.
        kernel_size: as in `torch.nn.Conv2d`.
        stride: as in `torch.nn.Conv2d`.
        padding: as in `torch.nn.Conv2d`.
        dilation: as in `torch.nn.Conv2d`.
        groups: as in `torch.nn.Conv2d`.
        bias: a real bias per output channel; it starts at 0.
        weights: ``"theta"``: `weight` itself holds -1 and +1, initially random; ``"latent"``: it is real, initialised
            according to `init`, and the layer computes with its sign.
        scale: ``"none"``; ``"channel_mean"``: times the mean of abs(weight) per output channel, with the gradient
            passed to the latent weight unscaled, as in the published code of Bi-Real Net and ReActNet (latent weights
            only); ``"magnitude_aware"``: the same forward, with the gradient multiplied by that mean, as in Bi-Real
            Net's paper and Larq (latent weights only); ``"learned"``: times a parameter per output channel, 1 at the
            start. No gradient flows through the mean itself.
        weight_surrogate: the surrogate gradient of a latent weight's sign; ``"clip"`` stops it beyond abs(w) = 1.
        binarizer: None, or a name of `zerocross.nn.BINARIZERS`: a published conversion of a latent weight to -1 and +1
            times a scale, instead of `scale` and `weight_surrogate`.
        sign_input: None, or the surrogate with which the input is binarised first.
        init: latent weights start ``"uniform"`` within +-init_scale; ``"normal"`` with standard deviation init_scale;
            ``"kaiming_normal"`` with sqrt(2 / inputs of a filter), or ``"kaiming_fan_out"`` with sqrt(2 / outputs), as
            in `torch.nn.init.kaiming_normal_`.
        init_scale: > 0, see `init`; a tiny value starts at zero with random signs.
        padding_mode: as in `torch.nn.Conv2d`.
        device: as in `torch.nn.Conv2d`.
        dtype: as in `torch.nn.Conv2d`.

    Examples:
        >>> import torch
        >>> from zerocross.nn import BinaryConv2d
        >>> layer = BinaryConv2d(16, 32, kernel_size=3, padding=1, sign_input="polynomial")
        >>> layer(torch.randn(2, 16, 8, 8)).shape
        torch.Size([2, 32, 8, 8])
        >>> sorted(layer.weight.unique().tolist())
        [-1.0, 1.0]
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: str | int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = False,
        *,
        weights: str = "theta",
        scale: str = "none",
        weight_surrogate: str = "identity",
        binarizer: str | None = None,
        sign_input: str | None = None,
        init: str = "uniform",
        init_scale: float = 1e-3,
        padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        # First, because Conv2d's constructor calls reset_parameters, which reads it.
        self._configure(weights, scale, weight_surrogate, binarizer, sign_input, init, init_scale)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
            device, dtype,
        )  # fmt: skip
        self._add_parts()

    def reset_parameters(self) -> None:
        """Reinitialise the weight."""
        self._start(self.bias)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Convolve with the binary weight."""
        return self._conv_forward(self._binary_input(input), self.binary_weight(), self.bias)

    def extra_repr(self) -> str:
        """Return the settings of this layer for print."""
        return f"{super().extra_repr()}, {self._describe()}"


class BinaryConv1d(_BinaryWeight, nn.Conv1d):
    """A 1-d convolution whose weights are -1 or +1, for series (N, C, L): ``conv1d(x, scale * sign(weight)) + bias``.

    Args:
        in_channels: as in `torch.nn.Conv1d`.
        out_channels: as in `torch.nn.Conv1d`.
        kernel_size: as in `torch.nn.Conv1d`.
        stride: as in `torch.nn.Conv1d`.
        padding: as in `torch.nn.Conv1d`.
        dilation: as in `torch.nn.Conv1d`.
        groups: as in `torch.nn.Conv1d`.
        bias: a real bias per output channel; it starts at 0.
        weights: as in `BinaryConv2d`.
        scale: as in `BinaryConv2d`.
        weight_surrogate: as in `BinaryConv2d`.
        binarizer: as in `BinaryConv2d`.
        sign_input: as in `BinaryConv2d`.
        init: as in `BinaryConv2d`.
        init_scale: as in `BinaryConv2d`.
        padding_mode: as in `torch.nn.Conv1d`.
        device: as in `torch.nn.Conv1d`.
        dtype: as in `torch.nn.Conv1d`.

    Examples:
        >>> import torch
        >>> from zerocross.nn import BinaryConv1d
        >>> layer = BinaryConv1d(4, 8, kernel_size=3, padding=1, sign_input="polynomial")
        >>> layer(torch.randn(2, 4, 100)).shape
        torch.Size([2, 8, 100])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] = 1,
        padding: str | int | tuple[int] = 0,
        dilation: int | tuple[int] = 1,
        groups: int = 1,
        bias: bool = False,
        *,
        weights: str = "theta",
        scale: str = "none",
        weight_surrogate: str = "identity",
        binarizer: str | None = None,
        sign_input: str | None = None,
        init: str = "uniform",
        init_scale: float = 1e-3,
        padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        # First, because Conv1d's constructor calls reset_parameters, which reads it.
        self._configure(weights, scale, weight_surrogate, binarizer, sign_input, init, init_scale)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
            device, dtype,
        )  # fmt: skip
        self._add_parts()

    def reset_parameters(self) -> None:
        """Reinitialise the weight."""
        self._start(self.bias)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Convolve with the binary weight."""
        return self._conv_forward(self._binary_input(input), self.binary_weight(), self.bias)

    def extra_repr(self) -> str:
        """Return the settings of this layer for print."""
        return f"{super().extra_repr()}, {self._describe()}"


class BinaryLinear(_BinaryWeight, nn.Linear):
    """A linear layer whose weights are -1 or +1: ``linear(x, scale * sign(weight)) + bias``.

    Args:
        in_features: as in `torch.nn.Linear`.
        out_features: as in `torch.nn.Linear`.
        bias: a real bias per output; it starts at 0.
        weights: as in `BinaryConv2d`.
        scale: as in `BinaryConv2d`.
        weight_surrogate: as in `BinaryConv2d`.
        binarizer: as in `BinaryConv2d`.
        sign_input: as in `BinaryConv2d`.
        init: as in `BinaryConv2d`.
        init_scale: as in `BinaryConv2d`.
        device: as in `torch.nn.Linear`.
        dtype: as in `torch.nn.Linear`.

    Examples:
        >>> import torch
        >>> from zerocross.nn import BinaryLinear
        >>> layer = BinaryLinear(64, 10, scale="learned")
        >>> layer(torch.randn(2, 64)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = False,
        *,
        weights: str = "theta",
        scale: str = "none",
        weight_surrogate: str = "identity",
        binarizer: str | None = None,
        sign_input: str | None = None,
        init: str = "uniform",
        init_scale: float = 1e-3,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        # First, because Linear's constructor calls reset_parameters, which reads it.
        self._configure(weights, scale, weight_surrogate, binarizer, sign_input, init, init_scale)
        super().__init__(in_features, out_features, bias, device, dtype)
        self._add_parts()

    def reset_parameters(self) -> None:
        """Reinitialise the weight."""
        self._start(self.bias)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Multiply by the binary weight."""
        return F.linear(self._binary_input(input), self.binary_weight(), self.bias)

    def extra_repr(self) -> str:
        """Return the settings of this layer for print."""
        return f"{super().extra_repr()}, {self._describe()}"
