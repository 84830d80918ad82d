"""Projections of parameters after each optimizer step, such as clipping."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from zerocross.optim.hooks import keep_after_step

AnyOptimizer = TypeVar("AnyOptimizer", bound=Optimizer)


def project_after_step(optimizer: AnyOptimizer, project: Callable[[list[Tensor]], None]) -> AnyOptimizer:
    """Project an optimizer's parameters now and after each of its steps, as XNOR-Net does.

    Args:
        optimizer: Any torch optimizer; modified in place and returned. Copies and pickles of it project, too.
        project: Called under no_grad with the parameters of each group, which it modifies in place. To be picklable, it
            must be a module-level function or a functools.partial of one.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> def centre(weights):
        ...     for weight in weights:
        ...         weight.sub_(weight.mean())
        ...
        >>> weight = torch.nn.Parameter(torch.tensor([1.0, 3.0]))
        >>> optimizer = zerocross.optim.project_after_step(torch.optim.SGD([weight], lr=0.1), centre)
        >>> weight.tolist()
        [-1.0, 1.0]
    """
    apply = functools.partial(_apply, project)
    apply(optimizer)
    return keep_after_step(optimizer, apply)


def clip_after_step(optimizer: AnyOptimizer, limit: float) -> AnyOptimizer:
    """Keep an optimizer's parameters within [-limit, limit], now and after each of its steps, as BinaryNet does.

    Args:
        optimizer: Any torch optimizer; modified in place and returned. Copies and pickles of it clip, too.
        limit: > 0.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> weight = torch.nn.Parameter(torch.tensor([3.0]))
        >>> optimizer = zerocross.optim.clip_after_step(torch.optim.SGD([weight], lr=1.0), limit=1.0)
        >>> weight.tolist()
        [1.0]
    """
    if not limit > 0:
        raise ValueError(f"limit is {limit}; it must be positive (BinaryNet clips at 1)")
    return project_after_step(optimizer, functools.partial(_clip, limit))


@torch.no_grad()
def _apply(project: Callable[[list[Tensor]], None], stepped: Optimizer, *_: Any) -> None:
    for group in stepped.param_groups:
        project(group["params"])


def _clip(limit: float, params: list[Tensor]) -> None:
    torch._foreach_clamp_min_(params, -limit)
    torch._foreach_clamp_max_(params, limit)
