"""Sharded tensors (DTensor, as in FSDP2): what of them is on this rank, and values that all ranks share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

_PLAIN = {Tensor, Parameter}  # a Parameter made from a DTensor is a DTensor


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is a DTensor (FSDP2, tensor parallelism), of which this rank holds a shard."""
    return type(tensor) not in _PLAIN and hasattr(tensor, "device_mesh")


def local(tensor: Any) -> Tensor:
    """The part of a tensor that is on this rank, sharing its memory; an ordinary tensor as it is."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def whole(tensor: Any) -> Tensor:
    """A tensor's values over all ranks, which all have to ask for them; an ordinary tensor as it is."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def placed_as(grad: Any, param: Any) -> Tensor:
    """A gradient with the placement of its parameter: with tensor parallelism it may still be a sum to be made."""
    if not is_sharded(param) or not is_sharded(grad) or grad.placements == param.placements:
        return grad
    return grad.redistribute(param.device_mesh, param.placements)


def shard_like(full: Tensor, like: Any) -> Tensor:
    """Shard a tensor that every rank holds in full as another one is; communicates nothing."""
    if not is_sharded(like):
        return full
    part = full.to(like.device)
    for dim, (first, size) in enumerate(local_range(like)):
        part = part.narrow(dim, first, size)
    return wrap_like(part.contiguous(), like, tuple(full.shape))


def wrap_like(part: Tensor, like: Any, shape: tuple[int, ...]) -> Tensor:
    """Return a tensor of this whole shape that is sharded as another one is, and of which this rank holds `part`."""
    if not is_sharded(like):
        return part
    from torch.distributed.tensor import DTensor

    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(
        part, like.device_mesh, like.placements, run_check=False, shape=torch.Size(shape), stride=stride
    )


def local_range(tensor: Any) -> tuple[tuple[int, int], ...]:
    """Return, for each dimension of a sharded tensor, where this rank's part begins and its size."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    sizes, offsets = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return tuple(zip(offsets, sizes, strict=True))
