"""EWGS: weights and activations rounded between learned bounds; rounding scales each gradient by its own error."""

from __future__ import annotations

import math
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

DELTA = 1e-3
"""The authors' fixed factor; they also publish one that follows the Hessian's trace."""

_RANGE = 3.0  # standard deviations from zero to a bound
_HALF_NORMAL = math.sqrt(1 - 2 / math.pi)  # the standard deviation of |x| over that of x
_SMALLEST_STEP = 1e-6
_LR_FACTOR = 1e-2  # their quantisers learn at 1e-5, the rest of the network at 1e-3


class _RoundFunction(torch.autograd.Function):
    """Round [0, 1] to 0 or 1; the gradient g becomes g (1 + delta sign(g) (x - round(x)))."""

    generate_vmap_rule = True  # torch.func: forward and backward are elementwise

    @staticmethod
    def forward(x: Tensor, delta: float) -> Tensor:  # noqa: ARG004
        return x.clamp(0, 0).add_(x >= 0.5)  # keeps NaN

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        x, ctx.delta = inputs
        ctx.save_for_backward(x - output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:
        (grad,), (error,) = grads, ctx.saved_tensors
        return grad * (1 + ctx.delta * grad.sign() * error), None


def _share(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Where x lies between the bounds: 0 at the lower, 1 at the upper."""
    low, high = low.to(x.dtype), high.to(x.dtype)
    return (x - low) / (high - low).clamp(min=_SMALLEST_STEP)


def _rounded(x: Tensor, low: Tensor, high: Tensor, delta: float) -> Tensor:
    return cast("Tensor", _RoundFunction.apply(_share(x, low, high).clamp(0, 1), delta))


class EWGS(nn.Module):
    """Lee et al., *Network Quantization with Element-wise Gradient Scaling*, CVPR 2021, at one bit::

        x = clamp((w - low) / (high - low), 0, 1)
        out = (2 round(x) - 1) |scale|                  low, high and scale are learned, one of each per layer
        d round / dx = 1 + delta sign(g) (x - round(x)) g is the gradient that arrives

    The bounds start at -3 and +3 standard deviations of the layer's weights. The scale starts at the mean of abs(w);
    the authors compute it from a first batch, but in front of a batch norm its size has no effect on the output. All
    three learn at a hundredth of the network's learning rate (`lr_factors`), as published.

    Args:
        weight: The layer's latent weight.
        delta: >= 0; 0 is the straight-through estimator.
    """

    lr_factors: ClassVar = dict.fromkeys(("low", "high", "scale"), _LR_FACTOR)

    def __init__(self, weight: Tensor, delta: float = DELTA) -> None:
        super().__init__()
        self.delta = delta
        first = self.start(weight)
        self.low = nn.Parameter(first["low"])
        self.high = nn.Parameter(first["high"])
        self.scale = nn.Parameter(first["scale"])

    def forward(self, w: Tensor) -> Tensor:
        """Return -1 and +1, times the learned scale of the layer."""
        return (2 * _rounded(w, self.low, self.high, self.delta) - 1) * self.scale.abs()

    def before_sign(self, w: Tensor) -> Tensor:
        """Return where w lies between the bounds, less one half."""
        return _share(w, self.low, self.high) - 0.5

    def start(self, w: Tensor) -> dict[str, Tensor]:
        """Return bounds of three standard deviations and the mean of abs(w), of the whole layer."""
        bound = _RANGE * w.detach().std(correction=min(1, w.numel() - 1))
        return {"low": -bound, "high": bound, "scale": w.detach().abs().mean()}


class EWGSActivation(nn.Module):
    """EWGS' activation: ``round(clamp((x - low) / (high - low), 0, 1))``, which is 0 or 1, with both bounds learned.

    The bounds start from the first batch in training: at its minimum and at 3 std / sqrt(1 - 2 / pi), as published, if
    no element is negative, as after a ReLU; otherwise at -3 and +3 standard deviations, the authors' rule for weights,
    since that for activations would put the threshold above most elements.

    Args:
        delta: >= 0, see `EWGS`.
    """

    lr_factors: ClassVar = dict.fromkeys(("low", "high"), _LR_FACTOR)
    not_packable = "EWGS' activations are 0 and 1, not -1 and +1: train with surrogate='polynomial'"
    started: Tensor

    def __init__(self, delta: float = DELTA) -> None:
        super().__init__()
        self.delta = delta
        self.low = nn.Parameter(torch.tensor(-1.0))
        self.high = nn.Parameter(torch.tensor(1.0))
        self.register_buffer("started", torch.tensor(False))
        self.waits_for_batch = True  # what the buffer says, without a device sync

    def forward(self, x: Tensor) -> Tensor:
        """Return 0 or 1 for every element."""
        if self.waits_for_batch and self.training:
            self._start(x)  # type: ignore[call-arg, arg-type] - the decorator hides its parameters
        return _rounded(x, self.low, self.high, self.delta)

    @torch.compiler.disable
    @torch.no_grad()
    def _start(self, x: Tensor) -> None:
        smallest, deviation = x.amin().float(), x.float().std(correction=min(1, x.numel() - 1))
        if torch.distributed.is_available() and torch.distributed.is_initialized():  # replicas start alike
            torch.distributed.all_reduce(smallest, torch.distributed.ReduceOp.MIN)
            torch.distributed.all_reduce(deviation)
            deviation /= torch.distributed.get_world_size()
        low, high = smallest, deviation * _RANGE / _HALF_NORMAL
        if smallest < 0:
            low, high = -_RANGE * deviation, _RANGE * deviation
        self.low.copy_(low)
        self.high.copy_(high)
        self.started.fill_(True)
        self.waits_for_batch = False

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        for name, value in (*self.named_parameters(), *self.named_buffers()):  # a real network has no bounds yet
            state_dict.setdefault(prefix + name, value.detach())
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        self.waits_for_batch = not bool(self.started)
