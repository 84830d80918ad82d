"""The filter with bfloat16 state: m and g are rounded at random, without bias, by a function of (seed, step, index).

Rounded to the nearest, an average of discount 1e-3 would stand still: its steps are smaller than half the distance of
two bfloat16 numbers. Rounded up with a probability equal to the distance from the lower one, its mean is exact. A
float32 number becomes a bfloat16 number by dropping 16 bits, so that adding 16 random bits first does just that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from zerocross.compiler import compiled
from zerocross.optim.shards import is_sharded, local, local_range, wrap_like

_LOW, _HIGH, _SIGN = 0xFFFF, -0x10000, -0x80000000  # of the 32 bits of m and g: m, g, and the sign of g
_GOLDEN = 0x9E3779B9
Lists = list[list[Tensor]]


def new_pairs(param: Tensor, g: Tensor | None = None) -> Tensor:
    """Return m = 0 and g as one bfloat16 tensor of shape (*param.shape, 2), in the memory layout of the parameter.

    Args:
        param: The weight.
        g: The start of g; None: zero, with the sign that the weight has (a zero never loses its sign).
    """
    theta = local(param)
    like = torch.empty_like(theta)  # dense, even if the weight is a view with gaps
    pairs = torch.empty_strided((*theta.shape, 2), (*(2 * s for s in like.stride()), 1), dtype=torch.bfloat16,
                                device=theta.device)  # fmt: skip
    pairs[..., 0] = 0
    pairs[..., 1] = torch.copysign(torch.zeros_like(like), -theta) if g is None else local(g)
    return wrap_like(pairs, param, (*param.shape, 2))


def words(pairs: Tensor) -> Tensor:
    """View pairs of m and g as one int32 each: m in the lower 16 bits, g in the upper."""
    return local(pairs).view(torch.int32).squeeze(-1)


def mix(x: Tensor) -> Tensor:
    """Hash int32 numbers one to one: each bit of the result depends on all bits of the input."""
    x = (x ^ ((x >> 16) & 0xFFFF)) * 0x21F0AAAD
    x = (x ^ ((x >> 15) & 0x1FFFF)) * 0x735A2D97
    return x ^ ((x >> 15) & 0x1FFFF)


def noise_factors(params: Sequence[Tensor], seeds: Sequence[int], step: int | Tensor) -> tuple[Tensor, Tensor]:
    """Return random factors of columns and of the rows of all weights: their products are the random bits.

    A row is a slice along the first dimension. The random bits of an element depend on the seed of its weight, the
    step, its row and its column, and on nothing else: not on the device, the other weights, or how it is sharded.

    Args:
        params: Weights; of a sharded one, rows are those of this rank. One that `cuts_rows` must be the only one.
        seeds: Of each weight.
        step: Counted from 0; a tensor if the step is captured in a CUDA graph.
    """
    device = local(params[0]).device
    count = step.to(torch.int32) if isinstance(step, Tensor) else torch.full((), step, dtype=torch.int32, device=device)
    key = mix(count + _wrapped(_GOLDEN))
    rows = [(p.shape[0] if p.dim() > 1 else 1) for p in params]
    spans = tuple(
        (seed, *(local_range(p)[0] if is_sharded(p) and p.dim() > 1 else (0, size)))
        for seed, p, size in zip(seeds, params, rows, strict=True)
    )
    factors = mix(_row_hashes(spans, device) ^ key) | 1  # odd, so that no bit of a column is lost
    widest = max((p.shape[1:] if p.dim() > 1 else p.shape).numel() for p in params)
    columns = mix(_count(widest, device) + mix(key))
    return (_local_columns(columns, params[0]) if cuts_rows(params[0]) else columns), factors


def cuts_rows(param: Tensor) -> bool:
    """Return True if this rank holds parts of rows; such a weight has columns of its own, in a group of its own."""
    if not is_sharded(param):
        return False
    ranges = local_range(param)
    inner = ranges[1:] if param.dim() > 1 else ranges
    return any(size != whole for (_, size), whole in zip(inner, param.shape[-len(inner) :], strict=True))


def _local_columns(columns: Tensor, param: Tensor) -> Tensor:
    ranges = local_range(param)
    inner = ranges[1:] if param.dim() > 1 else ranges
    part = columns.view(param.shape[-len(inner) :])
    for dim, (first, size) in enumerate(inner):
        part = part.narrow(dim, first, size)
    return part.reshape(-1)


@functools.lru_cache(maxsize=256)
def _row_hashes(spans: tuple[tuple[int, int, int], ...], device: torch.device) -> Tensor:
    """Return the hashes of (seed, row) of all rows of all weights, in one tensor."""
    hashes = [
        mix(torch.arange(first, first + size, dtype=torch.int32, device=device) ^ _wrapped((seed + 1) * _GOLDEN))
        for seed, first, size in spans
    ]
    return torch.cat(hashes)


@functools.lru_cache(maxsize=256)
def _count(size: int, device: torch.device) -> Tensor:
    return torch.arange(size, dtype=torch.int32, device=device)


def _wrapped(value: int) -> int:
    """Return an integer as int32, modulo 2^32."""
    return (value + 2**31) % 2**32 - 2**31


def filter_rounded_(
    thetas: Lists, grads: Lists, pairs: Lists, columns: list[Tensor], rows: list[Tensor],
    alphas: list[Tensor], gammas: list[Tensor],
) -> None:  # fmt: skip
    """Eqs. 11-13 on float32 numbers, element by element, with m and g read from and rounded to bfloat16.

    A g that becomes exactly zero keeps its sign bit, and with it theta's sign; theta is not read.
    """
    groups = zip(thetas, grads, pairs, columns, rows, alphas, gammas, strict=True)
    for theta_list, grad_list, pair_list, column, row, alpha, gamma in groups:
        first = 0
        for theta, grad, pair in zip(theta_list, grad_list, pair_list, strict=True):
            height, shape = (theta.shape[0], theta.shape[1:]) if theta.dim() > 1 else (1, theta.shape)
            factors = row[first : first + height].view(
                [height, *[1] * len(shape)] if theta.dim() > 1 else [1] * len(shape)
            )
            first += height
            noise = column[: shape.numel()].view(shape) * factors
            upper = noise >> 16
            m = (pair << 16).view(torch.float32)
            g = (pair & _HIGH).view(torch.float32)
            # Not lerp, whose rounding differs between compiled and eager code.
            m = m + gamma * (grad.to(torch.float32) - m)  # Eq. 11
            g = g + alpha * (m - g)  # Eq. 12
            m_bits = ((m.view(torch.int32) + ((noise ^ upper) & _LOW)) >> 16) & _LOW
            g_bits = (g.view(torch.int32) + (upper & _LOW)) & _HIGH
            g_bits = torch.where(g == 0, pair & _SIGN, g_bits)
            pair.copy_(g_bits | m_bits)
            theta.copy_(torch.where(g_bits < 0, 1.0, -1.0))  # Eq. 13


@functools.cache  # outside the optimizer, which must stay copyable and picklable
def compiled_filter_rounded() -> Callable[..., None]:
    """The same, compiled to one pass over memory."""
    return compiled(filter_rounded_, dynamic=False, recompile_limit=64)
