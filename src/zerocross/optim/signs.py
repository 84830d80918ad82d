"""Signs that are never zero: initial signs, signs of a filtered gradient, and flip counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.optim import Optimizer

from zerocross.optim.shards import shard_like, whole

Tensors = list[Tensor] | tuple[Tensor, ...]
# weight -> the tensor that its layer takes the sign of, if not the weight itself. Keyed by the weight rather than its
# id, so that copies and pickles of an optimizer keep it.
BeforeSign = Mapping[Tensor, Callable[[], Tensor]]


def start_signs_(theta: Tensor, seed: int) -> Tensor:
    """Replace a tensor by its signs in place (Eq. 5); exact zeros get a random sign, the same on every rank.

    Args:
        theta: Any tensor; one that contains only -1 and +1 is not changed.
        seed: Seed of the random signs, drawn on the CPU so that all devices and ranks agree.
    """
    zero = theta == 0
    if zero.any():
        drawn = shard_like(torch.randint(0, 2, theta.shape, generator=torch.Generator().manual_seed(seed)), theta)
        theta.add_(zero * (2 * drawn - 1).to(theta))
    return theta.copy_(torch.copysign(torch.ones_like(theta), theta))


def take_signs_(thetas: Tensors, gs: Tensors) -> None:
    """theta = -sign(g) (Eq. 13), where a weight whose g is exactly 0 keeps its sign.

    theta - g / tiny has the sign of -g, or of theta where g is 0 (or no larger than the smallest normal number): two
    passes over memory and no mask. copysign reads the sign off, so that no zero can appear, whatever g is.
    """
    if len({tensor.dtype for tensor in (*thetas, *gs)}) == 1:
        torch._foreach_sub_(thetas, gs, alpha=1.0 / torch.finfo(gs[0].dtype).tiny)
        for theta in thetas:
            torch.copysign(torch.ones((), dtype=theta.dtype, device=theta.device), theta, out=theta)
    else:  # half-precision theta with a wider g, or a mixed group: 1 / tiny would not fit
        for theta, g in zip(thetas, gs, strict=True):
            theta.copy_(torch.where(g == 0, theta.to(g.dtype), torch.copysign(torch.ones_like(g), -g)))


@contextmanager
def flips_counted(optimizer: Optimizer, before_sign: BeforeSign) -> Iterator[None]:
    """Count the signs that change within this context into `state[param]["flips"]`, without a device sync.

    Parameters that never had a gradient are left out; those without a gradient in this step count 0 flips.

    Args:
        optimizer: The optimizer whose parameters are counted.
        before_sign: The tensors whose sign layers take; set by HybridOptimizer, which knows the layers.
    """
    params = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]

    def now() -> list[Tensor]:
        return [negative(before_sign[p]() if p in before_sign else p) for p in params]

    before = now()
    yield
    for param, was, then in zip(params, before, now(), strict=True):
        if param.grad is not None or "flips" in optimizer.state.get(param, {}):
            optimizer.state[param]["flips"] = count_flips(was, then)


def count_flips(before: Tensor, after: Tensor) -> Tensor:
    """Count differing signs (the numerator of Eq. 18) of two "is negative" masks; 0-dim int64. Overwrites `after`."""
    # Sum the counts of a sharded weight here, where all ranks take part, since a single rank may read them later.
    return whole(after.ne_(before).count_nonzero())


def negative(weights: Tensor) -> Tensor:
    """Return which binary weights are -1, for theta or latent weights (0 and -0 count as +1)."""
    return weights.detach() < 0
