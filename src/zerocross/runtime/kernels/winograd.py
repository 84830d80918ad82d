"""Tiles of Winograd's method, see `zerocross.runtime.kernels.points`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from zerocross.runtime.kernels import vector_ir as v
from zerocross.runtime.kernels.finish import Finish, emit_finish, make_tile
from zerocross.runtime.kernels.points import (
    EVEN_INPUTS,
    ODD_INPUTS,
    OUTPUTS,
    PIXEL_BYTES,
    POINTS,
    SUM_BYTES,
    TILE_PIXELS,
)
from zerocross.runtime.kernels.real_tiles import emit_sums
from zerocross.runtime.kernels.steps import LANES, ROWS
from zerocross.runtime.kernels.target import rows_at_once
from zerocross.runtime.kernels.vector_ir import Builder, Value

_QUAD, _BOTH = (ir.VectorType(v.F32, count) for count in (4, 8))  # the channels of a pixel, and of two


def _emit_transform(b: Builder, args: list[Value]) -> None:
    """Transform two tiles at a time, with the channels of one pixel of each in one vector."""
    target, source, column, line, tiles = args
    tile_bytes = 2 * OUTPUTS * PIXEL_BYTES

    def pair(index: Value, carried: list[Value]) -> list[Value]:
        first = v.plus(b, source, index, 2 * tile_bytes)
        pixels = []
        for number in range(TILE_PIXELS):
            at = b.add(first, v.I64(number * PIXEL_BYTES))
            both = [v.load(b, each, _QUAD, 4) for each in (at, b.add(at, v.I64(tile_bytes)))]
            pixels.append(b.shuffle_vector(*both, v.lanes(range(2 * _QUAD.count))))
        even = [_emit_combined(b, pixels[::2], row) for row in EVEN_INPUTS]
        odd = [_emit_combined(b, pixels[1::2], row) for row in ODD_INPUTS]
        for point in range(POINTS):
            entry = (1 + (point < len(odd))) * PIXEL_BYTES
            place = b.add(
                b.mul(column, b.add(b.mul(tiles, v.I64(point)), b.mul(index, v.I64(2)))), v.plus(b, target, line, entry)
            )
            for tile in range(2):
                _emit_store(b, tile, [values[point] for values in (even, odd) if point < len(values)], place)
                place = b.add(place, column)
        return carried

    v.loop(b, b.lshr(tiles, v.I64(1)), [], pair)


def _emit_combined(b: Builder, inputs: list[Value], row: np.ndarray) -> Value:
    """Return the sum of the inputs times the factors of a row."""
    total = None
    for each, factor in zip(inputs, row, strict=True):
        if factor and total is None:
            total = each if factor == 1 else b.fmul(each, v.constant(float(factor), _BOTH))
        elif factor:
            total = v.call(b, f"llvm.fmuladd.v{_BOTH.count}f32", _BOTH, each, v.constant(float(factor), _BOTH), total)
    return total


def _emit_store(b: Builder, tile: int, values: list[Value], place: Value) -> None:
    """Store only the three channels of even pixels and those of odd pixels, of one of two tiles."""
    first = tile * _QUAD.count
    if len(values) == 1:
        pair = b.shuffle_vector(values[0], values[0], v.lanes(range(first, first + 2)))
        v.store(b, pair, place, 4)
        v.store(b, b.extract_element(values[0], v.I32(first + 2)), b.add(place, v.I64(8)), 4)
        return
    second = first + _BOTH.count
    order = [first, first + 1, first + 2, second, second + 1, second + 2]
    for start in (0, 2):
        v.store(b, b.shuffle_vector(*values, v.lanes(order[start : start + 4])), b.add(place, v.I64(4 * start)), 4)


def _transform(typingctx: Any, target: Any, source: Any, column: Any, line: Any, tiles: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001 - Numba's protocol
        _emit_transform(b, args)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), codegen


def _point_sums(typingctx: Any, own: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        a, row_bytes, weights, terms, target, tiles = (b.extract_value(args[0], place) for place in range(6))
        taps = terms, v.I64(1), v.I64(0)
        at_once = min(ROWS, rows_at_once(2))

        def sums(first: int, number: int) -> None:
            rows = v.rows_from(b, a, row_bytes, range(first, first + number))
            zeros = [v.constant(0.0, v.REALS)] * (2 * number)
            found = v.runs_of(b, rows, weights, taps, zeros, partial(emit_sums, b, 2))
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
"""transform_line(target, source, column, line, tiles): values at the points, of a line of pixels of three float32.

For every point and, `column` bytes from one to the next, for every tile there is a column of all lines, in which the
values of even pixels and, but for the last point, of odd ones are written at the place of this line. Tiles are an even
number.
"""

point_sums: Any = intrinsic(_point_sums)
"""point_sums((a, row bytes, weights, terms, target, tiles)): sums of a point, for a pair of panels.

As `real_tile_pair`, for up to ROWS tiles, and stored as they are: SUM_BYTES for each tile.
"""

output_tile = make_tile("output_tile", _emit_outputs)
"""The outputs of two tiles, ROWS pixels, for a panel.

Own arguments: address of the first point's sums of the first tile; bytes from there to the next point's.
"""
