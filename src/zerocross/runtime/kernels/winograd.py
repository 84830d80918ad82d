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
from zerocross.runtime.kernels.points import EVEN_INPUTS, ODD_INPUTS, OUTPUTS, POINTS, SUM_BYTES, TILE_PIXELS
from zerocross.runtime.kernels.real_tiles import emit_sums
from zerocross.runtime.kernels.steps import LANES, ROWS
from zerocross.runtime.kernels.target import rows_at_once
from zerocross.runtime.kernels.vector_ir import Builder, Value

_QUAD = 4  # lanes that take the channels of a pixel


def _emit_transform(b: Builder, args: list[Value]) -> None:
    """Two tiles at a time: the channels of a pixel of both in one vector."""
    target, source, pixel, region, tiles = args
    quad, both = ir.VectorType(v.F32, _QUAD), ir.VectorType(v.F32, 2 * _QUAD)
    halves = [ir.Constant(ir.VectorType(v.I32, _QUAD), list(range(first, first + _QUAD))) for first in (0, _QUAD)]
    together = ir.Constant(ir.VectorType(v.I32, 2 * _QUAD), list(range(2 * _QUAD)))
    tile_bytes, entry = b.mul(pixel, v.I64(2 * OUTPUTS)), b.mul(pixel, v.I64(2))

    def combined(inputs: list[Value], row: np.ndarray) -> Value:
        total = None
        for each, factor in zip(inputs, row, strict=True):
            if factor and total is None:
                total = each if factor == 1 else b.fmul(each, v.constant(float(factor), both))
            elif factor:
                total = v.call(b, f"llvm.fmuladd.v{2 * _QUAD}f32", both, each, v.constant(float(factor), both), total)
        return total

    def pair(index: Value, carried: list[Value]) -> list[Value]:
        first = b.add(source, b.mul(b.mul(index, v.I64(2)), tile_bytes))
        pixels = []
        for number in range(TILE_PIXELS):
            at = b.add(first, b.mul(pixel, v.I64(number)))
            pixels.append(b.shuffle_vector(*(v.load(b, x, quad, 4) for x in (at, b.add(at, tile_bytes))), together))
        even = [combined(pixels[::2], row) for row in EVEN_INPUTS]
        odd = [combined(pixels[1::2], row) for row in ODD_INPUTS]
        for point in range(POINTS):
            step = entry if point < len(odd) else pixel
            to = b.add(b.add(target, b.mul(region, v.I64(point))), b.mul(b.mul(index, v.I64(2)), step))
            for half in halves:  # in this order: what a vector has too much is overwritten
                for place, values in enumerate((even, odd)[: 1 + (point < len(odd))]):
                    value = b.shuffle_vector(values[point], values[point], half)
                    v.store(b, value, b.add(to, b.mul(pixel, v.I64(place))), 4)
                to = b.add(to, step)
        return carried

    v.loop(b, b.lshr(tiles, v.I64(1)), [], pair)


def _transform(typingctx: Any, target: Any, source: Any, pixel: Any, region: Any, tiles: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001 - Numba's protocol
        _emit_transform(b, args)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), codegen


def _point_sums(typingctx: Any, own: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        a, row_bytes, weights, terms, runs, run_bytes, target, tiles = (
            b.extract_value(args[0], place) for place in range(8)
        )
        at_once = min(ROWS, rows_at_once(2))

        def sums(first: int, number: int) -> None:
            rows = v.rows_from(b, a, row_bytes, range(first, first + number))
            zeros = [v.constant(0.0, v.REALS)] * (2 * number)
            found = v.runs_of(b, rows, weights, (terms, runs, run_bytes), zeros, partial(emit_sums, b, 2))
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
            """Add what the points 2, -2 and 1/2 give to the output of this number."""
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
"""transform_line(target, source, pixel, region, tiles): the values of a line of float32 at the points, tile by tile.

A pixel has `pixel` bytes, at most 16. For every point, `region` bytes from one to the next, and for every tile the
values of even pixels are written, and but for the last point those of odd pixels. Tiles are an even number; a vector
more is read and written at the end.
"""

point_sums: Any = intrinsic(_point_sums)
"""point_sums((a, row bytes, weights, terms, runs, run bytes, target, tiles)): sums of a point, for a pair of panels.

As `real_tile_pair`, for up to ROWS tiles, and stored as they are: SUM_BYTES for each tile.
"""

output_tile = make_tile("output_tile", _emit_outputs)
"""The outputs of two tiles, ROWS pixels, for a panel.

Own arguments: address of the first point's sums of the first tile; bytes from there to the next point's.
"""
