"""Normalisation of gradients before a filter.

Scaling a weight's gradient by a constant changes no sign of its filter; a scale that changes over time does.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from zerocross.optim.shards import whole

Normalize = Literal["rms", "sign", "adam"]

# Discounts of the running rms. One gradient estimates the scale of a tensor well, that of a single weight poorly: the
# first can follow within 10 steps, the second is Adam's usual 0.999.
_DISCOUNTS = {"rms": 0.1, "adam": 1e-3}


def check_normalize(how: Normalize | None) -> None:
    """Raise a ValueError if there is no such normalisation."""
    if how is not None and how not in get_args(Normalize):
        raise ValueError(f"normalize is {how!r}; it must be None, 'rms', 'sign' or 'adam'")


def new_rms(like: Tensor, how: Normalize | None) -> dict[str, Tensor]:
    """Return the state of a tensor's normalisation: its running rms (one number, or one a weight), and its age."""
    if how not in _DISCOUNTS:
        return {}
    scalar = torch.zeros((), dtype=like.dtype, device=like.device)
    return {"rms": torch.zeros_like(like) if how == "adam" else scalar, "age": scalar.clone()}


def normalized(grads: list[Tensor], states: list[dict[str, Tensor]], how: Normalize) -> list[Tensor]:
    """Return gradients divided by their running rms, which takes in these gradients first, or replaced by their signs.

    Args:
        grads: Left as they are.
        states: Of `new_rms`; changed in place.
        how: "rms", "sign" or "adam".
    """
    if how == "sign":
        return list(torch._foreach_sign(grads))
    return [_divided(grad, state["rms"], state["age"], how) for grad, state in zip(grads, states, strict=True)]


def _divided(grad: Tensor, rms: Tensor, age: Tensor, how: Normalize) -> Tensor:
    size = grad if how == "adam" else _rms_of(grad)
    age.add_(1)
    # A plain mean over the first steps, then a moving average: no bias at the start, and no correction.
    weight = (1 / age).clamp(min=_DISCOUNTS[how])
    # rms^2 = (1 - weight) rms^2 + weight size^2, without squares that overflow or vanish
    rms.copy_(torch.hypot(rms * (1 - weight).sqrt(), size * weight.sqrt()))
    return grad / rms.clamp(min=torch.finfo(rms.dtype).tiny)  # 0 / 0 is 0 here: no gradient so far


def _rms_of(grad: Tensor) -> Tensor:
    norm = whole(torch.linalg.vector_norm(grad, dtype=torch.float64))  # in float32 a square overflows at 2e19
    return (norm / max(grad.numel(), 1) ** 0.5).to(grad.dtype)
