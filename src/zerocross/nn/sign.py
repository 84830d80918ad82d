"""The sign into {-1, +1}, and the surrogate gradients that stand in for its own, which is zero almost everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from zerocross.checks import check_choice

STANDARDIZE = ("none", "scale")
_VARIANCE_FLOOR = 1e-5  # ReCU's
Temperature = float | Tensor  # a 0-dim tensor where it changes with time: compiled code reads it, and is not built anew


def _identity(x: Tensor, temperature: Temperature) -> Tensor:  # noqa: ARG001 - every surrogate takes both
    return torch.ones_like(x)


def _clip(x: Tensor, temperature: Temperature) -> Tensor:  # noqa: ARG001
    return (x.abs() <= 1).to(x.dtype)


def _polynomial(x: Tensor, temperature: Temperature) -> Tensor:  # noqa: ARG001
    return torch.rsub(x.abs(), 2, alpha=2).clamp_(min=0)  # 2 - 2|x| in one pass


def _tanh(x: Tensor, temperature: Temperature) -> Tensor:
    return temperature * (1 - torch.tanh(temperature * x).square_())


def _ede(x: Tensor, temperature: Temperature) -> Tensor:
    # A number stays one: as a tensor it would be of float32, whatever x is.
    k = (1 / temperature).clamp(min=1) if isinstance(temperature, Tensor) else max(1 / temperature, 1.0)
    return k * _tanh(x, temperature)


def _swish(x: Tensor, temperature: Temperature) -> Tensor:
    z = temperature * x
    # BNN+ divides by 1 + cosh(z), which overflows; 2 sigmoid(z) sigmoid(-z) is its inverse and does not.
    return 2 * temperature * torch.sigmoid(z) * torch.sigmoid(-z) * (2 - z * torch.tanh(z / 2))


SURROGATES: dict[str, Callable[[Tensor, Temperature], Tensor]] = {
    "identity": _identity,
    "clip": _clip,
    "polynomial": _polynomial,
    "tanh": _tanh,
    "ede": _ede,
    "swish": _swish,
}
"""Name -> the derivative that replaces d sign(x) / dx, as a function of x and the temperature."""


class _SignFunction(torch.autograd.Function):
    # Not x + (sign(x) - x).detach(): that rounds, and its forward is not exactly -1 or +1.

    @staticmethod
    def forward(ctx: Any, x: Tensor, surrogate: str, temperature: Temperature) -> Tensor:
        ctx.surrogate = surrogate
        ctx.temperature = None if isinstance(temperature, Tensor) else temperature
        if isinstance(temperature, Tensor):
            ctx.save_for_backward(x, temperature)
        elif surrogate != "identity":
            ctx.save_for_backward(x)
        # 2 [x >= 0] - 1. The clamp gives 0, or NaN for NaN: a diverged network must not look healthy. This form is
        # three times as fast as torch.where in eager mode, and as fast as a ReLU compiled.
        return x.clamp(0, 0).add_(x >= 0, alpha=2).sub_(1)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None, None]:
        (grad,) = grads
        if ctx.surrogate == "identity":
            return grad, None, None
        x, *changing = ctx.saved_tensors
        return grad * SURROGATES[ctx.surrogate](x, changing[0] if changing else ctx.temperature), None, None


class _ScaleForwardFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor) -> Tensor:  # noqa: ARG004 - nothing to save
        return x * scale

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:  # noqa: ARG004
        (grad,) = grads
        return grad, None


def scale_forward(x: Tensor, scale: Tensor) -> Tensor:
    """Return x * scale; the gradient passes to x unscaled, and none passes to the scale."""
    return cast("Tensor", _ScaleForwardFunction.apply(x, scale))


class _ScaleBackwardFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:
        (grad,) = grads
        return grad * ctx.factor, None


def scale_backward(x: Tensor, factor: float) -> Tensor:
    """Return x; the gradient that passes back to it is multiplied by the factor."""
    return cast("Tensor", _ScaleBackwardFunction.apply(x, factor))


def sign(x: Tensor, surrogate: str = "polynomial", temperature: Temperature = 1.0) -> Tensor:
    """The sign of x in {-1, +1}, zero counted as +1, with a surrogate gradient.

    The gradient that arrives is multiplied by the surrogate's derivative:

    ==============  ===================================================  ==========================================
    name            derivative at x                                      source
    ==============  ===================================================  ==========================================
    ``identity``    1                                                    straight-through estimator
    ``clip``        1 inside [-1, 1], else 0                             BinaryNet: the derivative of hard tanh
    ``polynomial``  2 - 2 abs(x) inside [-1, 1], else 0                  Bi-Real Net
    ``tanh``        t (1 - tanh(t x)^2)                                  tanh(t x)
    ``ede``         max(1/t, 1) t (1 - tanh(t x)^2)                      IR-Net, whose t goes from 1e-3 to 10
    ``swish``       t (2 - t x tanh(t x / 2)) / (1 + cosh(t x))          BNN+, which starts at t = 5
    ==============  ===================================================  ==========================================

    Args:
        x: any floating-point tensor; its dtype and memory format are kept, and its NaNs.
        surrogate: a name of the table (`SURROGATES`).
        temperature: t > 0, the steepness of ``tanh``, ``ede`` and ``swish``; unused by the others. A 0-dim tensor where
            it changes from step to step.
    """
    check_surrogate(surrogate, 1.0 if isinstance(temperature, Tensor) else temperature)
    return cast("Tensor", _SignFunction.apply(x, surrogate, temperature))


def check_surrogate(surrogate: str, temperature: float = 1.0) -> None:
    """Raise ValueError unless `sign` knows this surrogate and can use this temperature."""
    check_choice("surrogate", surrogate, SURROGATES)
    if not temperature > 0:
        raise ValueError(f"temperature = {temperature}: it must be above 0 (1 is the usual start; larger is steeper)")


def ede_temperature(progress: float) -> float:
    """IR-Net's t: from 1e-3 (the identity) to 10 (nearly a step), on a log scale, over training in [0, 1]."""
    return 10.0 ** (4 * progress - 3)


class Sign(nn.Module):
    """`sign` as a layer.

    With ``ede`` the input passes a hard tanh first, as in IR-Net's networks: the signs are the same, and no gradient
    comes from beyond 1. Without it EDE, which at first is the identity, makes gradients explode in a deep network whose
    activations are not bounded.

    Args:
        surrogate: a name of `SURROGATES`.
        temperature: t > 0, see `sign`. With ``ede`` it is where `set_progress` has put it, at first 1e-3.
        standardize: ``"none"``; ``"scale"``: in training the input is divided by the standard deviation of its sample,
            through which gradients flow (ReCU). It changes where the surrogate's derivative is read, and no sign:
            evaluation leaves it out.
    """

    temperature: Temperature

    def __init__(self, surrogate: str = "polynomial", temperature: float = 1.0, standardize: str = "none") -> None:
        super().__init__()
        check_surrogate(surrogate, temperature)
        check_choice("standardize", standardize, STANDARDIZE)
        self.standardize = standardize
        self.surrogate = surrogate
        if surrogate == "ede":
            self.register_buffer("temperature", torch.tensor(ede_temperature(0)), persistent=False)
        else:
            self.temperature = temperature

    def set_progress(self, progress: float) -> None:
        """Take the temperature of this moment of training, from 0 to 1."""
        if isinstance(self.temperature, Tensor):
            self.temperature.fill_(ede_temperature(progress))

    def forward(self, x: Tensor) -> Tensor:
        """Return -1 or +1 for every element."""
        if self.training and self.standardize == "scale":
            x = _standardized(x)
        if self.surrogate == "ede":
            x = nn.functional.hardtanh(x)
        return sign(x, self.surrogate, self.temperature)

    def extra_repr(self) -> str:
        """Return what distinguishes this layer in print."""
        fixed = isinstance(self.temperature, Tensor) or self.temperature == 1
        words = [self.surrogate, *([] if fixed else [f"temperature={self.temperature}"])]
        return ", ".join(words + ([f"standardize={self.standardize}"] if self.standardize != "none" else []))


def _standardized(x: Tensor) -> Tensor:
    """Every sample over its own standard deviation, which is taken in float32 at least."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    variance = wide.var(tuple(range(1, x.dim())), keepdim=True)
    return x / (variance + _VARIANCE_FLOOR).sqrt().to(x.dtype)


def set_progress(model: nn.Module, progress: float) -> None:
    """Tell every layer that changes with time (EDE's t, ReCU's tau) how far training has come, from 0 to 1."""
    for module in model.modules():
        tell = getattr(module, "set_progress", None)
        if tell is not None:
            tell(progress)
