"""The flip ratio, read off any optimizer of binary weights."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import Optimizer

Counted = list[tuple[int, str | int, int, Tensor]]  # group, name or index of the parameter, its size, its flips


def unwrapped(optimizer: Any) -> Any:
    """The optimizer inside wrappers that have it as `.optimizer` (Fabric, Accelerate, lookahead)."""
    while (inner := getattr(optimizer, "optimizer", None)) is not None:
        optimizer = inner
    return optimizer


def ff_ratio(optimizer: Any, per: Literal["total", "group", "parameter"] = "total") -> Any:
    """The flip ratio of the last counted update: flips / binary weights (Eq. 18).

    Flips are counted on every `ff_every`-th update, the first included: 50 by default, since a count reads all weights
    twice. Construct the optimizer with ``ff_every=1`` for the ratio of each update; reading an older count warns.
    Reading waits for the device; counting does not. Frozen weights and weights that got no gradient yet are left out
    of both flips and weights. Of sharded weights (DTensors, as FSDP2 has them) the counts of all ranks are summed, so
    that every rank reads the same ratio, over the whole weight.

    Args:
        optimizer: A HybridOptimizer, any optimizer of binary weights, or a wrapper with an `.optimizer`.
        per: "total": one float. "group": a list, one float per param group. "parameter": a dict, name -> float (or
            the index, where names are unknown).

    Returns:
        NaN where nothing has been counted yet.
    """
    binary = list(_binary(optimizer))
    _warn_if_stale(optimizer)
    counted = list(_counted(binary))
    if per == "total":
        return _ratio(counted)
    if per == "group":
        groups = sum(len(each.param_groups) for each in binary)
        return [_ratio([c for c in counted if c[0] == index]) for index in range(groups)]
    if per == "parameter":
        return {name: _ratio([(0, name, size, flips)]) for _, name, size, flips in counted}
    raise ValueError(f"per is {per!r}; it can be 'total', 'group' or 'parameter'")


def _binary(optimizer: Any) -> Iterator[Optimizer]:
    """The optimizers of binary weights inside wrappers and hybrids, each once."""
    inner = unwrapped(optimizer)
    if not hasattr(inner, "binary"):
        yield inner
        return
    yield from _binary(inner.binary)
    if hasattr(unwrapped(inner.real), "binary"):
        yield from _binary(inner.real)


def _counted(binary: list[Optimizer]) -> Iterator[tuple[int, str | int, int, Tensor]]:
    groups = ((optimizer, group) for optimizer in binary for group in optimizer.param_groups)
    position = 0
    for index, (optimizer, group) in enumerate(groups):
        for place, param in enumerate(group["params"]):
            flips = optimizer.state[param].get("flips") if param in optimizer.state else None
            if param.requires_grad and flips is not None:
                yield index, group["param_names"][place] if "param_names" in group else position, param.numel(), flips
            position += 1


def _ratio(counted: Counted) -> float:
    if not counted:
        return float("nan")
    flips = torch.stack([flips.to(torch.int64).reshape(()) for *_, flips in counted]).sum().item()
    return flips / sum(size for _, _, size, _ in counted)


def _warn_if_stale(optimizer: Any) -> None:
    inner = unwrapped(optimizer)
    # A hybrid counts for an optimizer of torch's, by a counter of its own.
    owner = unwrapped(inner.binary) if hasattr(unwrapped(getattr(inner, "binary", None)), "ff_every") else inner
    every: int = getattr(owner, "ff_every", 1)
    groups = owner.param_groups
    steps = int(groups[0].get("ff_step", groups[0].get("step", 1))) if groups else 1
    if steps and (steps - 1) % every:
        warnings.warn(
            f"ff_ratio is that of the last counted update, not of this one: flips are counted every {every} updates. "
            "Construct the optimizer with ff_every=1 to count each, or read it after a counted one",
            stacklevel=3,
        )
