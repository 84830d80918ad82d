"""Clipping of latent weights, for any optimizer."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

import torch
from torch.optim import Optimizer

from zerocross.optim.hooks import keep_after_step

AnyOptimizer = TypeVar("AnyOptimizer", bound=Optimizer)


def clip_after_step(optimizer: AnyOptimizer, limit: float) -> AnyOptimizer:
    """Keep an optimizer's parameters within [-limit, limit] after each of its steps, as BinaryConnect does.

    Args:
        optimizer: Any torch optimizer; it is changed in place, and returned. Its copies and pickles clip as well.
        limit: > 0.
    """
    if not limit > 0:
        raise ValueError(f"limit is {limit}; it must be positive (BinaryConnect clips at 1)")
    return keep_after_step(optimizer, functools.partial(_clip, limit))


@torch.no_grad()
def _clip(limit: float, stepped: Optimizer, *_: Any) -> None:
    for group in stepped.param_groups:
        torch._foreach_clamp_min_(group["params"], -limit)
        torch._foreach_clamp_max_(group["params"], limit)
