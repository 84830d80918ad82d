"""The sign with values in {-1, +1}, and surrogate gradients in place of its own, which is zero almost everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from zerocross.checks import check_choice

STANDARDIZE = ("none", "scale", "scale_detached", "centre")
_VARIANCE_FLOOR = 1e-5  # ReCU's, SiMaN's and OvSW's
_CHORD, _REACH = 0.1, 1.5  # ReSTE's: below the first its derivative is a chord's slope, beyond the second it is 0
Temperature = float | Tensor  # a 0-dim tensor if it changes, so that code is not recompiled


def _identity(x: Tensor, temperature: Temperature) -> Tensor:  # noqa: ARG001 - every surrogate takes both
    return torch.ones_like(x)


def _clip(x: Tensor, temperature: Temperature) -> Tensor:  # noqa: ARG001
    return (x.abs() <= 1).to(x.dtype)


def _polynomial(x: Tensor, temperature: Temperature) -> Tensor:  # noqa: ARG001
    return torch.rsub(x.abs(), 2, alpha=2).relu_()  # 2 - 2|x| in one pass


def _tanh(x: Tensor, temperature: Temperature) -> Tensor:
    return temperature * (1 - torch.tanh(temperature * x).square_())


def _ede(x: Tensor, temperature: Temperature) -> Tensor:
    return _gain(temperature) * _tanh(x, temperature)


def _gain(temperature: Temperature) -> Temperature:
    """max(1/t, 1), of IR-Net and RBNN."""
    # Keep a number a number: a tensor would be float32, whatever the dtype of x.
    return (1 / temperature).clamp(min=1) if isinstance(temperature, Tensor) else max(1 / temperature, 1.0)


def _swish(x: Tensor, temperature: Temperature) -> Tensor:
    z = temperature * x
    # BNN+ divides by 1 + cosh(z), which overflows; 2 sigmoid(z) sigmoid(-z) is its inverse and does not.
    return 2 * temperature * torch.sigmoid(z) * torch.sigmoid(-z) * (2 - z * torch.tanh(z / 2))


def _reste(x: Tensor, temperature: Temperature) -> Tensor:
    size, inverse = x.abs(), 1 / temperature
    power = size.clamp(min=_CHORD) ** (inverse - 1) * inverse
    slope = torch.where(size <= _CHORD, _CHORD ** (inverse - 1), power)
    return slope * (size <= _REACH)


def _rbnn(x: Tensor, temperature: Temperature) -> Tensor:
    return (_gain(temperature) * temperature * (math.sqrt(2) - temperature * x.abs())).relu_()


SURROGATES: dict[str, Callable[[Tensor, Temperature], Tensor]] = {
    "identity": _identity,
    "clip": _clip,
    "polynomial": _polynomial,
    "tanh": _tanh,
    "ede": _ede,
    "swish": _swish,
    "reste": _reste,
    "rbnn": _rbnn,
}
"""Name -> the derivative that replaces d sign(x) / dx, as a function of x and the temperature.

Examples:
    >>> import torch
    >>> from zerocross.nn import SURROGATES
    >>> SURROGATES["polynomial"](torch.tensor([-2.0, 0.0, 0.5]), 1.0).tolist()
    [0.0, 2.0, 1.0]
"""


class _SignFunction(torch.autograd.Function):
    # Not x + (sign(x) - x).detach(): that rounds, and its forward is not exactly -1 or +1.
    generate_vmap_rule = True  # torch.func: forward and backward are elementwise

    @staticmethod
    def forward(x: Tensor, surrogate: str, temperature: Temperature) -> Tensor:  # noqa: ARG004
        # 2 [x >= 0] - 1. The clamp gives 0, or NaN for NaN: a diverged network must not look healthy. This form is
        # three times as fast as torch.where in eager mode, and as fast as a ReLU compiled.
        return x.clamp(0, 0).add_(x >= 0, alpha=2).sub_(1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, str, Temperature], output: Tensor) -> None:  # noqa: ARG004
        x, ctx.surrogate, temperature = inputs
        ctx.temperature = None if isinstance(temperature, Tensor) else temperature
        if isinstance(temperature, Tensor):
            ctx.save_for_backward(x, temperature)
        elif ctx.surrogate != "identity":
            ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None, None]:
        (grad,) = grads
        if ctx.surrogate == "identity":
            return grad, None, None
        x, *changing = ctx.saved_tensors
        return grad * SURROGATES[ctx.surrogate](x, changing[0] if changing else ctx.temperature), None, None


class _ScaleForwardFunction(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, scale: Tensor) -> Tensor:
        return x * scale

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """Save nothing."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:  # noqa: ARG004
        (grad,) = grads
        return grad, None


def scale_forward(x: Tensor, scale: Tensor) -> Tensor:
    """Return x * scale; the gradient passes to x unscaled, and the scale gets none."""
    return cast("Tensor", _ScaleForwardFunction.apply(x, scale))


class _ScaleBackwardFunction(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, factor: float) -> Tensor:  # noqa: ARG004
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:  # noqa: ARG004
        _, ctx.factor = inputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:
        (grad,) = grads
        return grad * ctx.factor, None


def scale_backward(x: Tensor, factor: float) -> Tensor:
    """Return x; its gradient is multiplied by the factor."""
    return cast("Tensor", _ScaleBackwardFunction.apply(x, factor))


def sign(x: Tensor, surrogate: str = "polynomial", temperature: Temperature = 1.0) -> Tensor:
    """The sign of x in {-1, +1}, zero counted as +1, with a surrogate gradient.

    The gradient that arrives is multiplied by the surrogate's derivative:

    | name         | derivative at x                                                 | source                     |
    |--------------|-----------------------------------------------------------------|----------------------------|
    | `identity`   | 1                                                               | straight-through estimator |
    | `clip`       | 1 inside [-1, 1], else 0                                        | BinaryNet: of hard tanh    |
    | `polynomial` | 2 - 2 abs(x) inside [-1, 1], else 0                             | Bi-Real Net                |
    | `tanh`       | t (1 - tanh(t x)^2)                                             | tanh(t x)                  |
    | `ede`        | max(1/t, 1) t (1 - tanh(t x)^2)                                 | IR-Net: t from 1e-3 to 10  |
    | `swish`      | t (2 - t x tanh(t x / 2)) / (1 + cosh(t x))                     | BNN+: starts at t = 5      |
    | `reste`      | abs(x)^(1/t - 1) / t inside [-1.5, 1.5], else 0; within 0.1 of  | ReSTE: t (its o) from 1    |
    |              | 0 the slope of the chord, 0.1^(1/t - 1)                         | to 3                       |
    | `rbnn`       | max(1/t, 1) (sqrt(2) t - t^2 abs(x)), at least 0                | RBNN: t from 1e-2 to 10,   |
    |              |                                                                 | at least 1 for activations |

    Args:
        x: any floating-point tensor; its dtype and memory format are kept, and its NaNs.
        surrogate: a name of the table (`SURROGATES`).
        temperature: t > 0, the steepness of ``tanh``, ``ede``, ``swish``, ``reste`` and ``rbnn``; unused by the
            others. A 0-dim tensor where it changes from step to step.

    Examples:
        >>> import torch
        >>> from zerocross.nn import sign
        >>> x = torch.tensor([-2.0, 0.0, 0.5], requires_grad=True)
        >>> y = sign(x, "polynomial")
        >>> y.sum().backward()
        >>> y.tolist(), x.grad.tolist()
        ([-1.0, 1.0, 1.0], [0.0, 2.0, 1.0])
    """
    check_surrogate(surrogate, 1.0 if isinstance(temperature, Tensor) else temperature)
    return cast("Tensor", _SignFunction.apply(x, surrogate, temperature))


def check_surrogate(surrogate: str, temperature: float = 1.0) -> None:
    """Raise ValueError if a surrogate is unknown or a temperature is not positive."""
    check_choice("surrogate", surrogate, SURROGATES)
    if not temperature > 0:
        raise ValueError(
            f"temperature = {temperature}: it must be positive (1 is a common initial value; larger is steeper)"
        )


def ede_temperature(progress: float) -> float:
    """IR-Net's t: from 1e-3 (the identity) to 10 (nearly a step), on a log scale, over training in [0, 1]."""
    return 10.0 ** (4 * progress - 3)


def reste_exponent(progress: float) -> float:
    """ReSTE's o: from 1 (the identity) to 3 along a quarter of a cosine, over training in [0, 1]."""
    return 1 + 2 * (1 - math.cos(math.pi / 2 * progress))


def rbnn_temperature(progress: float) -> float:
    """RBNN's t: from 1e-2 to 10, on a log scale, over training in [0, 1]; for activations it is at least 1."""
    return 10.0 ** (3 * progress - 2)


_SCHEDULES: dict[str, Callable[[float], float]] = {
    "ede": ede_temperature,
    "reste": reste_exponent,
    "rbnn": lambda progress: max(rbnn_temperature(progress), 1.0),
}
"""The temperature of an activation's sign as a function of how far training has come."""


class Sign(nn.Module):
    """`sign` as a layer.

    With ``ede`` the input passes a hard tanh first, as in IR-Net's networks: the signs are the same, and no gradient
    comes from beyond 1. Without it EDE, which at first is the identity, makes gradients explode in a deep network whose
    activations are not bounded.

    Args:
        surrogate: a name of `SURROGATES`.
        temperature: t > 0, see `sign`. With ``ede``, ``reste`` and ``rbnn`` it is where `set_progress` has
            put it, at first 1e-3, 1 and 1.
        standardize: ``"none"``; ``"scale"``: in training the input is divided by the standard deviation of its sample,
            through which gradients flow (ReCU); ``"scale_detached"``: through which they do not (OvSW). It changes
            where the surrogate's derivative is read, and no sign: evaluation leaves it out. ``"centre"``: the input
            less the mean of its sample, then divided, with gradients, in evaluation too (SiMaN, RBNN): signs depend on
            the whole sample, so that such a network cannot be packed.

    Examples:
        >>> import torch
        >>> from zerocross.nn import Sign
        >>> Sign("polynomial")(torch.tensor([-0.5, 0.0, 0.5])).tolist()
        [-1.0, 1.0, 1.0]
    """

    temperature: Temperature

    def __init__(self, surrogate: str = "polynomial", temperature: float = 1.0, standardize: str = "none") -> None:
        super().__init__()
        check_surrogate(surrogate, temperature)
        check_choice("standardize", standardize, STANDARDIZE)
        self.standardize = standardize
        if standardize == "centre":
            self.not_packable = "its signs depend on the mean of a whole sample (standardize='centre')"
        self.surrogate = surrogate
        if surrogate in _SCHEDULES:
            self.register_buffer("temperature", torch.tensor(_SCHEDULES[surrogate](0)), persistent=False)
        else:
            self.temperature = temperature

    def set_progress(self, progress: float) -> None:
        """Set the temperature for this progress of training, from 0 to 1."""
        if isinstance(self.temperature, Tensor):
            self.temperature.fill_(_SCHEDULES[self.surrogate](progress))

    def forward(self, x: Tensor) -> Tensor:
        """Return -1 or +1 for every element."""
        if self.standardize == "centre" or (self.training and self.standardize != "none"):
            x = _standardized(x, self.standardize)
        if self.surrogate == "ede":
            x = nn.functional.hardtanh(x)
        return sign(x, self.surrogate, self.temperature)

    def extra_repr(self) -> str:
        """Return what distinguishes this layer in print."""
        fixed = isinstance(self.temperature, Tensor) or self.temperature == 1
        words = [self.surrogate, *([] if fixed else [f"temperature={self.temperature}"])]
        return ", ".join(words + ([f"standardize={self.standardize}"] if self.standardize != "none" else []))


def _standardized(x: Tensor, how: str) -> Tensor:
    """Divide every sample by its own standard deviation, computed in at least float32; for "centre", less its mean."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    whole = tuple(range(1, x.dim()))
    deviation = (wide.var(whole, keepdim=True) + _VARIANCE_FLOOR).sqrt().to(x.dtype)
    if how == "centre":
        x = x - wide.mean(whole, keepdim=True).to(x.dtype)
    return x / (deviation.detach() if how == "scale_detached" else deviation)


def set_progress(model: nn.Module, progress: float) -> None:
    """Set the training progress, from 0 to 1, of every layer that depends on it (EDE's t, ReCU's tau).

    Examples:
        >>> from zerocross.nn import Sign, set_progress
        >>> layer = Sign("ede")
        >>> set_progress(layer, 0.75)
        >>> layer.temperature.item()
        1.0
    """
    for module in model.modules():
        tell = getattr(module, "set_progress", None)
        if tell is not None:
            tell(progress)
