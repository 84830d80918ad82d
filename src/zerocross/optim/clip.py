"""Projections of latent weights (clipping, centring), for any optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.optim import Optimizer

AnyOptimizer = TypeVar("AnyOptimizer", bound=Optimizer)


def project_after_step(optimizer: AnyOptimizer, project: Callable[[list[Tensor]], None]) -> AnyOptimizer:
    """Project an optimizer's parameters now, and after each of its steps, as XNOR-Net does.

    Args:
        optimizer: Any torch optimizer; it is changed in place, and returned.
        project: Called without gradients with the parameters of each group, which it changes in place.
    """

    @torch.no_grad()
    def apply(stepped: Optimizer, *_: Any) -> None:
        for group in stepped.param_groups:
            project(group["params"])

    apply(optimizer)
    optimizer.register_step_post_hook(apply)
    return optimizer


def clip_after_step(optimizer: AnyOptimizer, limit: float) -> AnyOptimizer:
    """Keep an optimizer's parameters within [-limit, limit], now and after each of its steps, as BinaryNet does.

    Args:
        optimizer: Any torch optimizer; it is changed in place, and returned.
        limit: > 0.
    """
    if not limit > 0:
        raise ValueError(f"limit is {limit}; it must be positive (BinaryNet clips at 1)")

    def clip(params: list[Tensor]) -> None:
        torch._foreach_clamp_min_(params, -limit)
        torch._foreach_clamp_max_(params, limit)

    return project_after_step(optimizer, clip)
