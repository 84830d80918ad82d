"""The filter with bfloat16 state: m and g are rounded at random, without bias, by a function of (seed, step, index).

Rounded to the nearest, an average of discount 1e-3 would stand still: its steps are smaller than half the distance of
two bfloat16 numbers. Rounded up with a probability equal to the distance from the lower one, its mean is exact. A
float32 number becomes a bfloat16 number by dropping 16 bits, so that adding 16 random bits first does just that.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from zerocross.compiler import Recorded, flattened
from zerocross.optim.shards import is_sharded, local, local_range, wrap_like

_LOW, _HIGH, _SIGN = 0xFFFF, -0x10000, -0x80000000  # of the 32 bits of m and g: m, g, and the sign of g
_ONE = 0x3F800000  # 1.0 in float32
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
    hashes, columns = _hashes(params, seeds)
    if not isinstance(step, Tensor):
        step = torch.full((), step, dtype=torch.int32, device=hashes.device)
    return _factors(hashes, columns, step.to(torch.int32))


def _hashes(params: Sequence[Tensor], seeds: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the hashes of (seed, row) of all rows, and the numbers of the columns of the longest row."""
    device = local(params[0]).device
    heights = [(p.shape[0] if p.dim() > 1 else 1) for p in params]
    rows = [
        local_range(p)[0] if is_sharded(p) and p.dim() > 1 else (0, height)
        for p, height in zip(params, heights, strict=True)
    ]
    hashes = [
        mix(torch.arange(first, first + size, dtype=torch.int32, device=device) ^ _wrapped((seed + 1) * _GOLDEN))
        for seed, (first, size) in zip(seeds, rows, strict=True)
    ]
    longest = max((p.shape[1:] if p.dim() > 1 else p.shape).numel() for p in params)
    columns = torch.arange(longest, dtype=torch.int32, device=device)
    return torch.cat(hashes), _local_columns(columns, params[0]) if cuts_rows(params[0]) else columns


def _factors(hashes: Tensor, columns: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factors of columns and rows; of several steps, given in a column, one below the other."""
    key = mix(steps + _wrapped(_GOLDEN))
    return mix(columns + mix(key)), mix(hashes ^ key) | 1  # odd, so that no bit of a column is lost


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


def _wrapped(value: int) -> int:
    """Return an integer as int32, modulo 2^32."""
    return (value + 2**31) % 2**32 - 2**31


class RoundedGroup:
    """What a step needs of a group of weights besides their gradients, prepared once.

    A step on the CPU evicts all else from the caches, so that each line of Python costs several times its usual time:
    views of the state are kept, and factors are computed for many steps at a time.

    Args:
        params: Weights with gradients.
        pairs: Their m and g.
        seeds: Of each weight.
    """

    _STEPS = 32  # of factors at a time, if they take at most a quarter of a byte per weight

    def __init__(self, params: Sequence[Tensor], pairs: Sequence[Tensor], seeds: Sequence[int]) -> None:
        self.sharded = any(map(is_sharded, params))
        self.thetas = [local(p) for p in params]
        self.device = self.thetas[0].device
        self.words = [words(pair) for pair in pairs]
        self._params, self._pairs = list(params), list(pairs)
        self._addresses = [word.data_ptr() for word in self.words]
        self._hashes, self._columns = _hashes(params, seeds)
        factors = self._hashes.numel() + self._columns.numel()
        self._count = max(1, min(self._STEPS, sum(theta.numel() for theta in self.thetas) // (16 * factors)))
        self._first, self._rows, self._cols = -1, (), ()

    def fits(self, params: Sequence[Tensor], pairs: Sequence[Tensor]) -> bool:
        """Return whether these are the same weights with the same state, in the same place in memory."""
        return (
            not self.sharded  # the part of a rank may be another tensor at every step
            and len(params) == len(self._params)
            and all(map(operator.is_, params, self._params))
            and all(map(operator.is_, pairs, self._pairs))
            and [pair.data_ptr() for pair in pairs] == self._addresses  # `state["mg"].data = ...` moves it
        )

    def factors(self, step: int | Tensor) -> tuple[Tensor, Tensor]:
        """Return the factors of columns and of rows, as `noise_factors` does."""
        if isinstance(step, Tensor):  # its value is not known here
            return _factors(self._hashes, self._columns, step.to(torch.int32))
        first = step - step % self._count
        if first != self._first:
            steps = torch.arange(first, first + self._count, dtype=torch.int32, device=self._hashes.device)
            columns, rows = _factors(self._hashes, self._columns, steps[:, None])
            self._first, self._cols, self._rows = first, columns.unbind(), rows.unbind()
        return self._cols[step - first], self._rows[step - first]


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
            theta.copy_(((~g_bits & _SIGN) | _ONE).view(torch.float32))  # Eq. 13


@functools.cache  # outside the optimizer, which must stay copyable and picklable
def _recorded_filter() -> Recorded:
    return Recorded(filter_rounded_, recompile_limit=64)


class RoundedStep:
    """A step over groups of weights; compiled, from the second on without torch's guards if no layout has changed.

    Args:
        groups: Weights and their state.
    """

    def __init__(self, groups: Sequence[RoundedGroup]) -> None:
        self.groups = groups
        self._thetas, self._words = [group.thetas for group in groups], [group.words for group in groups]
        self._all_thetas, self._all_words = list(flattened(self._thetas)), list(flattened(self._words))
        self._again: Callable[[list[Tensor]], object] | None = None
        self._layout: object = None

    def fits(self, params: Lists, pairs: Lists) -> bool:
        """Return whether these are the same weights with the same state, in the same place in memory."""
        return len(params) == len(self.groups) and all(
            group.fits(own, mg) for group, own, mg in zip(self.groups, params, pairs, strict=True)
        )

    def __call__(
        self, grads: Lists, steps: Sequence[int | Tensor], alphas: list[Tensor], gammas: list[Tensor], compiled: bool
    ) -> None:  # fmt: skip
        """Run `filter_rounded_`; if compiled, as one pass over memory. Steps are counted from 0, group by group."""
        if any(group.sharded for group in self.groups):
            grads = [[local(x) for x in tensors] for tensors in grads]
        factors = [group.factors(step) for group, step in zip(self.groups, steps, strict=True)]
        columns, rows = [column for column, _ in factors], [row for _, row in factors]
        if not compiled:
            filter_rounded_(self._thetas, grads, self._words, columns, rows, alphas, gammas)
            return
        every = [x for tensors in grads for x in tensors]
        # Few objects, which are out of the caches by now. `model.to(...)` gives weights other memory, hence addresses;
        # code is built for a number of threads.
        layout = [
            torch.get_num_threads(),
            *[x.data_ptr() for x in self._all_thetas],
            *[x.dtype for x in (*self._all_thetas, *every)],
            *[x.numel() for x in every],
            *[x.is_contiguous() or x.stride() for x in (*self._all_thetas, *every)],
        ]
        if self._again is not None and layout == self._layout:
            self._again([*self._all_thetas, *every, *self._all_words, *columns, *rows, *alphas, *gammas])
        else:
            code = _recorded_filter()(self._thetas, grads, self._words, columns, rows, alphas, gammas)
            self._again, self._layout = code, layout
