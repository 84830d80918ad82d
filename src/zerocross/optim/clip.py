"""Clipping of latent weights, for any optimizer."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch.optim import Optimizer

AnyOptimizer = TypeVar("AnyOptimizer", bound=Optimizer)


def clip_after_step(optimizer: AnyOptimizer, limit: float) -> AnyOptimizer:
    """Keep an optimizer's parameters within [-limit, limit] after each of its steps, as BinaryConnect does.

    Args:
        optimizer: Any torch optimizer; it is changed in place, and returned.
        limit: > 0.
    """
    if not limit > 0:
        raise ValueError(f"limit is {limit}; it must be positive (BinaryConnect clips at 1)")

    @torch.no_grad()
    def clip(stepped: Optimizer, *_: Any) -> None:
        for group in stepped.param_groups:
            torch._foreach_clamp_min_(group["params"], -limit)
            torch._foreach_clamp_max_(group["params"], limit)

    optimizer.register_step_post_hook(clip)
    return optimizer
