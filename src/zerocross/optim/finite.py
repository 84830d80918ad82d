"""One verdict on gradients: are they finite, and fit to be averaged, over all parameters and all ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

import torch
from torch import Tensor

NonFinite = Literal["raise", "skip", "ignore"]
Group = dict[str, Any]


class NonFiniteError(ValueError):
    """A gradient holds NaN, infinity, or numbers too large to be averaged."""


def check_policy(nonfinite: str) -> None:
    """Refuse an unknown word for what to do about gradients that are not finite."""
    if nonfinite not in get_args(NonFinite):
        raise ValueError(f"nonfinite is {nonfinite!r}; it can be 'raise', 'skip' or 'ignore'")


def check_finite(work: Iterable[tuple[Group, Tensor, Tensor]], nonfinite: NonFinite) -> Tensor | None:
    """One verdict over all gradients: None unasked ("ignore"), an error on "raise", else a 0-dim bool tensor.

    Args:
        work: (group, parameter, its gradient).
        nonfinite: The policy, see BinaryOptimizer.
    """
    if nonfinite == "ignore" or not (work := list(work)):
        return None
    finite = all_finite([grad for _, _, grad in work])
    if nonfinite == "raise" and not finite:
        for group, param, grad in work:
            values = _local(grad)
            if bad := int((~(values.abs() <= _largest(values))).sum()):
                huge = f" (beyond {_largest(values):.2g}, too large to be averaged)" if values.isfinite().all() else ""
                raise NonFiniteError(
                    f"the gradient of {name_in_group(group, param)} holds {bad} NaN or infinite values of "
                    f"{values.numel()}{huge}; no state has changed. Lower the learning rate, look for a division by "
                    "zero, or construct the optimizer with nonfinite='skip'"
                )
        raise NonFiniteError("a gradient on another rank holds NaN or infinite values; no state has changed")
    return finite


def all_finite(tensors: list[Tensor]) -> Tensor:
    """Whether every element is finite and fit to be averaged, as a 0-dim bool tensor on the first tensor's device.

    An average moves by x - m, which overflows where both are near the largest number and differ in sign: numbers
    beyond a quarter of it count as not finite. Minimum and maximum carry NaN and infinity along and read memory once,
    15 times faster than isfinite().all(). Of sharded tensors every rank reads its own part; the verdict is over all.
    """
    local = [_local(tensor) for tensor in tensors]
    home = local[0].device
    alike: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
    for tensor in local:
        if tensor.numel():
            alike.setdefault((tensor.device, tensor.dtype), []).append(tensor)
    verdict = torch.ones((), dtype=torch.bool, device=home)
    for (device, _), filled in alike.items():
        if device.type == "cuda":
            extremes = torch._foreach_norm(filled, float("inf"))
        else:
            extremes = [value for tensor in filled for value in torch.aminmax(tensor)]
        verdict = verdict & (torch.stack(list(extremes)).abs() <= _largest(filled[0])).all().to(home)
    for mesh in {tensor.device_mesh for tensor in tensors if is_sharded(tensor)}:  # type: ignore[attr-defined]
        verdict = _agreed(verdict, mesh)
    return verdict


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is a DTensor (FSDP2, tensor parallelism), of which this rank holds a part."""
    return type(tensor) is not Tensor and hasattr(tensor, "device_mesh")


def _agreed(verdict: Tensor, mesh: Any) -> Tensor:
    from torch.distributed.tensor import DTensor, Partial

    return DTensor.from_local(verdict.to(torch.int32), mesh, [Partial("min")] * mesh.ndim).full_tensor() > 0


def _largest(tensor: Tensor) -> float:
    """The largest number of the precision in which a gradient is averaged that all averages can carry."""
    return torch.finfo(state_dtype(tensor)).max / 4


def _local(grad: Tensor) -> Tensor:
    """The numbers that a rank holds of a dense, sparse or sharded gradient."""
    grad = grad.to_local() if is_sharded(grad) else grad  # type: ignore[operator]
    return grad._values() if grad.is_sparse else grad


def name_in_group(group: Group, param: Tensor) -> str:
    """What to call a parameter in a message."""
    index = next(i for i, p in enumerate(group["params"]) if p is param)
    if "param_names" in group:
        return f"{group['param_names'][index]!r}"
    return f"parameter {index} of its group, shape {tuple(param.shape)}"


def state_dtype(param: Tensor) -> torch.dtype:
    """At least float32: in bfloat16 an EMA of alpha = 1e-3 does not move."""
    return torch.promote_types(param.dtype, torch.float32)
