"""Sharded tensors (DTensor, as in FSDP2): what of them is on this rank, and values that all ranks share."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is a DTensor (FSDP2, tensor parallelism), of which this rank holds a shard."""
    return type(tensor) is not Tensor and hasattr(tensor, "device_mesh")


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
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(full.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
