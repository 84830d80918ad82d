"""The flip (FF) ratio of any optimizer of binary weights."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import Optimizer

Counted = list[tuple[int, str | int, int, Tensor]]  # group, name or index of the parameter, its size, its flips


def unwrapped(optimizer: Any) -> Any:
    """Return the optimizer inside wrappers that have it as `.optimizer` (Fabric, Accelerate, lookahead).

    Examples:
        >>> from types import SimpleNamespace
        >>> import torch
        >>> import zerocross
        >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])
        >>> wrapper = SimpleNamespace(optimizer=optimizer)  # as of Fabric or Accelerate
        >>> zerocross.optim.unwrapped(wrapper) is optimizer
        True
    """
    while (inner := getattr(optimizer, "optimizer", None)) is not None:
        optimizer = inner
    return optimizer


def ff_ratio(optimizer: Any, per: Literal["total", "group", "parameter"] = "total") -> Any:
    """Return the flip ratio of the last counted update: flips / number of binary weights (Eq. 18).

    Flips are counted every `ff_every` updates, starting with the first; 50 by default, since counting reads all weights
    twice. Construct the optimizer with ``ff_every=1`` to get the ratio of each update; reading an older count warns.
    Reading synchronizes with the device, counting does not. Weights that are frozen or have not received a gradient yet
    are left out of both numbers. For sharded weights (DTensors, as in FSDP2) the counts of all ranks are summed, so
    that every rank reads the same ratio.

    Args:
        optimizer: A HybridOptimizer, any optimizer of binary weights, or a wrapper with an `.optimizer`.
        per: "total": one float. "group": a list, one float per param group. "parameter": a dict, name -> float (or
            index -> float if names are unknown).

    Returns:
        The ratio or ratios; NaN before the first count.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> weight = torch.nn.Parameter(torch.ones(2, 2))
        >>> optimizer = zerocross.GradientFilter([weight], ff_every=1)
        >>> weight.grad = torch.tensor([[1.0, -1.0], [-1.0, -1.0]])
        >>> optimizer.step()
        >>> zerocross.ff_ratio(optimizer)
        0.25
    """
    counting = list(_binary(optimizer))
    _warn_if_stale(counting)
    binary = [leaf for leaf, _ in counting]
    counted = list(_counted(binary))
    if per == "total":
        return _ratio(counted)
    if per == "group":
        groups = sum(len(each.param_groups) for each in binary)
        return [_ratio([c for c in counted if c[0] == index]) for index in range(groups)]
    if per == "parameter":
        return {name: _ratio([(0, name, size, flips)]) for _, name, size, flips in counted}
    raise ValueError(f"per is {per!r}; it must be 'total', 'group' or 'parameter'")


def _binary(optimizer: Any) -> Iterator[tuple[Optimizer, int]]:
    """Yield each optimizer of binary weights inside wrappers and hybrids, and how often its flips are counted."""
    inner = unwrapped(optimizer)
    if not hasattr(inner, "binary_parts"):
        yield inner, getattr(inner, "ff_every", 1)
        return
    for name, part in inner.parts.items():
        leaf = unwrapped(part)
        if hasattr(leaf, "binary_parts"):
            yield from _binary(leaf)
        elif name in inner.binary_parts:
            yield leaf, getattr(leaf, "ff_every", inner.ff_every)  # for a torch optimizer, the hybrid counts


def _counted(binary: list[Optimizer]) -> Iterator[tuple[int, str | int, int, Tensor]]:
    groups = ((optimizer, group) for optimizer in binary for group in optimizer.param_groups)
    position = 0
    for index, (optimizer, group) in enumerate(groups):
        for offset, param in enumerate(group["params"]):
            flips = optimizer.state[param].get("flips") if param in optimizer.state else None
            if param.requires_grad and flips is not None:
                yield index, group["param_names"][offset] if "param_names" in group else position, param.numel(), flips
            position += 1


def _ratio(counted: Counted) -> float:
    if not counted:
        return float("nan")
    flips = torch.stack([flips.to(torch.int64).reshape(()) for *_, flips in counted]).sum().item()
    return flips / sum(size for _, _, size, _ in counted)


def _warn_if_stale(counting: list[tuple[Optimizer, int]]) -> None:
    for leaf, every in counting:
        group = leaf.param_groups[0] if leaf.param_groups else {}
        steps = int(group.get("ff_step", group.get("step", 1)))
        if steps and (steps - 1) % every:
            warnings.warn(
                f"ff_ratio refers to the last counted update, not the latest: flips are counted every {every} updates. "
                "Construct the optimizer with ff_every=1 to count each update, or read it right after a counted one",
                stacklevel=3,
            )
            return
