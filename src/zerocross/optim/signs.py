"""Signs that are never zero: how theta starts, is read off a filtered gradient, and how flips are counted."""

from __future__ import annotations

import torch
from torch import Tensor

Tensors = list[Tensor] | tuple[Tensor, ...]
_EXACT_IN_FLOAT32 = 2**24  # a float32 sum of +-1 is exact, in any order, up to this many terms


def start_signs_(theta: Tensor, seed: int) -> Tensor:
    """Replace a tensor by its signs (Eq. 5); only exact zeros are drawn, the same on every rank.

    Args:
        theta: The tensor as handed over; one that holds -1 and +1 already is left as it is, to the bit.
        seed: Of the generator that draws for zeros. It runs on the CPU, so that every device and rank agrees.
    """
    zero = theta == 0
    if zero.any():
        drawn = torch.randint(0, 2, theta.shape, generator=torch.Generator().manual_seed(seed))
        theta.add_(zero * (2 * drawn - 1).to(theta))
    return theta.copy_(torch.copysign(torch.ones_like(theta), theta))


def take_signs_(thetas: Tensors, gs: Tensors) -> None:
    """theta = -sign(g) (Eq. 13), where a weight whose g is exactly 0 keeps its sign.

    theta - g / tiny has the sign of -g, or of theta where g is 0 (or below the smallest normal number): two passes
    over memory and no mask. copysign reads the sign off, so that no zero can appear, whatever g is.
    """
    if all(theta.dtype == g.dtype for theta, g in zip(thetas, gs, strict=True)):
        torch._foreach_sub_(thetas, gs, alpha=1.0 / torch.finfo(gs[0].dtype).tiny)
        for theta in thetas:
            torch.copysign(torch.ones((), dtype=theta.dtype, device=theta.device), theta, out=theta)
    else:  # half-precision theta with a wider g: 1 / tiny would not fit
        for theta, g in zip(thetas, gs, strict=True):
            theta.copy_(torch.where(g == 0, theta.to(g.dtype), torch.copysign(torch.ones_like(g), -g)))


def count_flips(before: Tensor, after: Tensor) -> Tensor:
    """How many signs differ (the numerator of Eq. 18), as a 0-dim int64 tensor on the device: no sync.

    The product of two signs is -1 at a flip, so flips = (N - before . after) / 2; a dot product is several times
    faster than comparing. Both tensors hold -1 and +1 only.
    """
    wide = torch.promote_types(after.dtype, torch.float32)
    agreement = torch.zeros((), dtype=torch.int64, device=after.device)
    for a, b in zip(*(x.split(_EXACT_IN_FLOAT32) for x in _flat(before, after)), strict=True):
        agreement += torch.dot(a.to(wide), b.to(wide)).to(torch.int64)
    return (after.numel() - agreement) // 2


def signs_of(latent: Tensor) -> Tensor:
    """The signs of latent weights as their layers see them: 0 and -0 count as +1."""
    return torch.where(latent < 0, -1.0, 1.0).to(latent.dtype)


def _flat(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both in one dimension and the same order, without a copy for any dense layout (channels_last included)."""
    if a.stride() == b.stride() and torch.ops.aten.is_non_overlapping_and_dense.default(a):
        return a.as_strided((a.numel(),), (1,)), b.as_strided((b.numel(),), (1,))
    return a.reshape(-1), b.reshape(-1)
