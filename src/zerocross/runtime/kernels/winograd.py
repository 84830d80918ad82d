"""Tiles of Winograd's method, see `zerocross.runtime.kernels.points`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from zerocross.runtime.kernels import vector_ir as v
from zerocross.runtime.kernels.finish import Finish, emit_finish, make_tile
from zerocross.runtime.kernels.points import (
    COLOURS,
    EVEN_INPUTS,
    ODD_INPUTS,
    OUTPUTS,
    POINTS,
    SUM_BYTES,
    TERMS,
    TILE_PIXELS,
)
from zerocross.runtime.kernels.real_tiles import emit_sums
from zerocross.runtime.kernels.steps import LANES, ROWS
from zerocross.runtime.kernels.target import rows_at_once
from zerocross.runtime.kernels.vector_ir import Builder, Value

_PHASES = 2 * OUTPUTS  # pixels from a tile to the next


def _emit_transform(b: Builder, args: list[Value]) -> None:
    """Transform LANES tiles at a time, with one pixel of each in a vector, from the last tiles to the first."""
    target, source, plane, inside, padding, line, tiles, point_bytes, term_bytes = args
    groups = b.add(b.udiv(tiles, v.I64(LANES)), v.I64(1))  # at least one more tile: the last one needs its pixels

    def colour(number: Value, nothing: list[Value]) -> list[Value]:
        plane_at = b.add(source, b.mul(number, plane))

        def group(index: Value, following: list[Value]) -> list[Value]:
            place = b.sub(b.sub(groups, v.I64(1)), index)
            first = b.sub(b.mul(place, v.I64(LANES * _PHASES)), padding)
            starts = [b.add(first, v.I64(LANES * piece)) for piece in range(_PHASES)]
            phases = _emit_phases(b, [_emit_pixels(b, plane_at, start, inside) for start in starts])
            shift = v.lanes(range(1, LANES + 1))  # the first pixels of the next tile are the last ones of this tile
            pixels = phases + [b.shuffle_vector(*two, shift) for two in zip(phases, following, strict=False)]
            even = [_emit_combined(b, pixels[::2], row) for row in EVEN_INPUTS]
            odd = [_emit_combined(b, pixels[1::2], row) for row in ODD_INPUTS]
            for point in range(POINTS):
                terms = TERMS if point < len(odd) else COLOURS
                term = b.add(b.mul(line, v.I64(terms)), number)
                at = b.add(b.mul(point_bytes, v.I64(point)), b.mul(term, term_bytes))
                at = b.add(at, v.plus(b, target, place, 4 * LANES))
                v.store(b, even[point], at, 4)
                if point < len(odd):
                    v.store(b, odd[point], b.add(at, b.mul(term_bytes, v.I64(COLOURS))), 4)
            return phases[: len(following)]

        v.loop(b, groups, [v.constant(0.0, v.REALS)] * (TILE_PIXELS - _PHASES), group)
        return nothing

    v.loop(b, v.I64(COLOURS), [], colour)


def _emit_pixels(b: Builder, line: Value, start: Value, inside: Value) -> Value:
    """Load the pixels of a line from number `start` on, with zeros for those that are not within 0..inside."""
    mask = b.and_(v.below(b, b.sub(inside, start)), b.not_(v.below(b, b.neg(start))))
    at = b.inttoptr(v.plus(b, line, start, 4), ir.PointerType())
    return v.call(b, f"llvm.masked.load.v{LANES}f32.p0", v.REALS, at, v.I32(4), mask, v.constant(0.0, v.REALS))


def _emit_phases(b: Builder, vectors: list[Value]) -> list[Value]:
    """Return every n-th number of n vectors, a power of two: first from number 0 on, then from number 1 on, ..."""
    if len(vectors) == 1:
        return vectors
    pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
    halves = [[b.shuffle_vector(*two, v.lanes(range(start, 2 * LANES, 2))) for two in pairs] for start in range(2)]
    evens, odds = (_emit_phases(b, half) for half in halves)
    return [phase for two in zip(evens, odds, strict=True) for phase in two]


def _emit_combined(b: Builder, inputs: list[Value], row: np.ndarray) -> Value:
    """Return the sum of the inputs times the factors of a row."""
    total = None
    for each, factor in zip(inputs, row, strict=True):
        if factor and total is None:
            total = each if factor == 1 else b.fmul(each, v.constant(float(factor), v.REALS))
        elif factor:
            total = v.multiply_add(b, each, v.constant(float(factor), v.REALS), total)
    return total


def _transform(typingctx: Any, own: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001 - Numba's protocol
        _emit_transform(b, cgutils.unpack_tuple(b, args[0]))
        return context.get_dummy_value()

    return types.void(own), codegen


def _point_sums(typingctx: Any, own: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        a, term_bytes, weights, terms, target, tiles = cgutils.unpack_tuple(b, args[0])
        panel_bytes = b.mul(terms, v.I64(4 * LANES))
        at_once = min(ROWS, rows_at_once(2))

        def sums(first: int, number: int) -> None:
            rows = [b.add(a, v.I64(4 * row)) for row in range(first, first + number)]
            zeros = [v.constant(0.0, v.REALS)] * (2 * number)
            found = emit_sums(b, 2, rows, weights, panel_bytes, terms, zeros, term_bytes)
            for place, value in enumerate(found):
                v.store(b, value, b.add(target, v.I64(SUM_BYTES * first + 4 * LANES * place)), 4)

        def some(number: int) -> list[Value]:
            for first in range(0, number, min(number, at_once)):
                sums(first, min(number, at_once))
            return []

        key = b.zext(b.icmp_signed(">", tiles, v.I64(ROWS // 2)), v.I64)
        v.choose(b, key, [partial(some, ROWS // 2), partial(some, ROWS)], [])
        return context.get_dummy_value()

    return types.void(own), codegen


def _emit_outputs(b: Builder, own: list[Value], to: Finish) -> None:
    sums, point_bytes = own
    values = []
    for tile in range(ROWS // OUTPUTS):
        places = [b.add(b.mul(point_bytes, v.I64(point)), v.I64(SUM_BYTES * tile)) for point in range(POINTS)]
        zero, one, minus_one, two, minus_two, infinite, half = (
            v.load(b, b.add(sums, place), v.REALS, 4) for place in places
        )
        ones, twos = (one, minus_one), (two, minus_two)
        sum_one, sum_two = (b.fadd(*pair) for pair in (ones, twos))
        difference_one, difference_two = (b.fsub(*pair) for pair in (ones, twos))

        def powers(total: Value, of_two: Value, power: int, half: Value = half) -> Value:
            """Add the contributions of the points 2, -2 and 1/2 to the output of this number."""
            if power == 0:
                return b.fadd(b.fadd(total, of_two), half)
            total = v.multiply_add(b, of_two, v.constant(2.0**power, v.REALS), total)
            return v.multiply_add(b, half, v.constant(0.5**power, v.REALS), total)

        values += [
            powers(b.fadd(zero, sum_one), sum_two, 0),
            powers(difference_one, difference_two, 1),
            powers(sum_one, sum_two, 2),
            b.fadd(powers(difference_one, difference_two, 3), infinite),
        ]
    emit_finish(b, values, to)


transform_line: Any = intrinsic(_transform)
"""transform_line((target, source, plane, inside, padding, line, tiles, point bytes, term bytes)): values at the points.

Of a line of three planes of float32, `plane` bytes apart, with `inside` pixels, and zeros around them, `padding` of
them before. For every point there are TERMS values of each line, `term bytes` apart, and each is a row of all tiles.
"""

point_sums: Any = intrinsic(_point_sums)
"""point_sums((a, term bytes, weights, terms, target, tiles)): sums of a point, for a pair of panels.

As `real_tile_pair`, for up to ROWS tiles, whose values of a term stand together. They are stored as they are: SUM_BYTES
for each tile.
"""

output_tile = make_tile("output_tile", _emit_outputs)
"""The outputs of two tiles, ROWS pixels, for a panel.

Own arguments: address of the first point's sums of the first tile; bytes from there to the next point's.
"""
