"""Products of bytes, for real layers with 8-bit weights, and the quantization of activations to bytes.

An activation x becomes the code round(127 x / largest) + 128, where `largest` is the largest magnitude of the image's
activations: 0 becomes 128, and no calibration is needed. Sums are integers, the same on every processor. With VNNI,
four products and their sum take one instruction for sixteen channels.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from zerocross.runtime.kernels import vector_ir as v
from zerocross.runtime.kernels.finish import Finish, emit_finish, few_or_all, make_tile
from zerocross.runtime.kernels.steps import LANES, LAST_BYTES_PIXEL, ROWS, RowField
from zerocross.runtime.kernels.target import chosen_level, rows_at_once
from zerocross.runtime.kernels.vector_ir import Builder, Value

_HALF, _OCTETS = ir.VectorType(v.I16, 2 * LANES), ir.VectorType(ir.IntType(8), LANES)
_MAGNITUDE = 0x7FFFFFFF  # mask of a float32 without its sign; as integers, magnitudes have the same order as numbers


def _emit_byte_products(panels: int, b: Builder, own: list[Value], to: Finish) -> None:
    a, row_bytes, weights, panel_bytes, terms, runs, run_bytes, rest, rest_terms, offsets = own
    at_once = min(ROWS, rows_at_once(panels))
    run_weights = b.mul(terms, v.I64(4 * LANES))

    def sums(first: int, number: int) -> list[Value]:
        numbers = range(first, first + number)
        rows = v.rows_from(b, a, row_bytes, numbers)
        add = partial(_emit_byte_sums, b, panels, panel_bytes)

        def add_run(index: Value, found: list[Value]) -> list[Value]:
            here = [v.apart(b, b.add(row, b.mul(index, run_bytes))) for row in rows]
            return add(here, b.add(weights, b.mul(index, run_weights)), terms, found)

        found = v.loop(b, runs, [v.constant(0, v.WORDS)] * (number * panels), add_run)
        rests = v.rows_from(b, rest, b.mul(rest_terms, v.I64(4)), numbers)
        return add(rests, b.add(weights, b.mul(runs, run_weights)), rest_terms, found)

    if at_once == ROWS:
        found = few_or_all(b, to, lambda number: sums(0, number), [v.constant(0, v.WORDS)] * (panels * ROWS))
    else:
        found = [value for first in range(0, ROWS, at_once) for value in sums(first, at_once)]
    for panel in range(panels):
        to_panel = to.next_panel(b, panel)
        offset = v.load(b, v.plus(b, offsets, to_panel.panel, 4 * LANES), v.WORDS, 4)
        values = []
        for row, total in enumerate(found[panel::panels]):
            scale = v.load(b, to.row(b, row, RowField.SCALE), v.F32, 4)
            values.append(b.fmul(b.sitofp(b.sub(total, offset), v.REALS), v.splat(b, scale, v.REALS)))
        emit_finish(b, values, to_panel)


def _emit_byte_sums(
    b: Builder, panels: int, panel_bytes: Value, rows: list[Value], weights: Value, terms: Value, sums: list[Value]
) -> list[Value]:
    """Add products to sums, row by row, and for each row panel by panel."""

    def add_products(index: Value, sums: list[Value]) -> list[Value]:
        at = v.plus(b, weights, index, 4 * LANES)
        columns = [v.load(b, v.plus(b, at, panel_bytes, panel), v.WORDS, 4) for panel in range(panels)]
        codes = [v.splat(b, v.load(b, v.plus(b, row, index, 4), v.I32, 1), v.WORDS) for row in rows]
        pairs = [(code, column) for code in codes for column in columns]
        return [emit_dot(b, old, *pair) for old, pair in zip(sums, pairs, strict=True)]

    return v.loop(b, terms, sums, add_products)


def emit_dot(b: Builder, total: Value, codes: Value, weights: Value) -> Value:
    """Return the total plus, in each lane, four products of an unsigned byte and a signed byte."""
    if chosen_level().has("avx512vnni"):
        return v.call(b, "llvm.x86.avx512.vpdpbusd.512", v.WORDS, total, codes, weights)
    codes, weights = b.bitcast(codes, _HALF), b.bitcast(weights, _HALF)
    eight = v.constant(8, _HALF)
    even = b.and_(codes, v.constant(0xFF, _HALF)), b.ashr(b.shl(weights, eight), eight)
    odd = b.lshr(codes, eight), b.ashr(weights, eight)
    for pair in (even, odd):
        for half in range(2):  # LLVM emits one instruction for the sum of two 16-bit products
            lanes = ir.Constant(v.WORDS, [2 * lane + half for lane in range(LANES)])
            one, other = (b.sext(b.shuffle_vector(each, each, lanes), v.WORDS) for each in pair)
            total = b.add(total, b.mul(one, other))
    return total


def _emit_codes(b: Builder, numbers: Value, inverse: Value) -> Value:
    """Return numbers times `inverse` as codes, for one number or LANES numbers."""
    single = numbers.type == v.F32
    real, whole = ("f32", v.I32) if single else (f"v{LANES}f32", v.WORDS)
    rounded = v.call(b, f"llvm.rint.{real}", numbers.type, b.fmul(numbers, inverse))
    code = b.fptosi(rounded, whole)  # arbitrary for NaN, for which the sums are NaN anyway
    return b.add(code, v.I32(128) if single else v.constant(128, v.WORDS))


def _largest(typingctx: Any, address: Any, count: Any) -> Any:  # noqa: ARG001 - Numba's protocol
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        address, count = args
        many, mask = b.sdiv(count, v.I64(LANES)), v.constant(_MAGNITUDE, v.WORDS)

        def larger(old: Value, new: Value) -> Value:
            return b.select(b.icmp_unsigned(">", new, old), new, old)

        def vectors(index: Value, carried: list[Value]) -> list[Value]:
            return [larger(carried[0], b.and_(v.load(b, v.plus(b, address, index, 4 * LANES), v.WORDS, 4), mask))]

        (most,) = v.loop(b, many, [v.constant(0, v.WORDS)], vectors)
        most = v.call(b, f"llvm.vector.reduce.umax.v{LANES}i32", v.I32, most)
        rest = v.plus(b, address, many, 4 * LANES)

        def singles(index: Value, carried: list[Value]) -> list[Value]:
            return [larger(carried[0], b.and_(v.load(b, v.plus(b, rest, index, 4), v.I32, 4), v.I32(_MAGNITUDE)))]

        (most,) = v.loop(b, b.sub(count, b.mul(many, v.I64(LANES))), [most], singles)
        return b.bitcast(most, v.F32)

    return types.float32(types.int64, types.int64), codegen


def _store_codes(typingctx: Any, target: Any, source: Any, count: Any, inverse: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        target, source, count, inverse = args
        inverse = v.splat(b, inverse, v.REALS)

        def piece(index: Value, carried: list[Value]) -> list[Value]:
            codes = _emit_codes(b, v.load(b, v.plus(b, source, index, 4 * LANES), v.REALS, 4), inverse)
            v.store(b, b.trunc(codes, _OCTETS), v.plus(b, target, index, LANES), 1)
            return carried

        v.loop(b, b.sdiv(count, v.I64(LANES)), [], piece)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.float32), codegen


def _store_code(typingctx: Any, target: Any, number: Any, inverse: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        target, number, inverse = args
        v.store(b, b.trunc(_emit_codes(b, number, inverse), ir.IntType(8)), target, 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.float32, types.float32), codegen


def _gather_last_bytes(typingctx: Any, target: Any, source: Any, line: Any, runs: Any, tiles: Any) -> Any:  # noqa: ARG001
    quads = ir.VectorType(v.I64, ROWS)
    words = [LAST_BYTES_PIXEL * row // 4 for row in range(ROWS)]  # the word that contains the byte of a row
    shifts = ir.Constant(quads, [8 * (LAST_BYTES_PIXEL * row % 4) for row in range(ROWS)])
    octet, byte_bits = (ir.Constant(quads, [number] * ROWS) for number in (0xFF, 8))

    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        target, source, line, runs, tiles = args

        def tile(index: Value, carried: list[Value]) -> list[Value]:
            last = b.add(v.plus(b, source, index, LAST_BYTES_PIXEL * ROWS), b.mul(b.sub(runs, v.I64(1)), line))

            def run(number: Value, found: list[Value]) -> list[Value]:
                read = v.load(b, b.sub(last, b.mul(number, line)), v.WORDS, 1)
                spread = b.shuffle_vector(read, read, v.lanes(word for each in words for word in (each, each)))
                octets = b.and_(b.lshr(b.bitcast(spread, quads), shifts), octet)
                return [b.or_(b.shl(found[0], byte_bits), octets)]

            (found,) = v.loop(b, runs, [ir.Constant(quads, [0] * ROWS)], run)
            v.store(b, found, v.plus(b, target, index, 8 * ROWS), 1)
            return carried

        v.loop(b, tiles, [], tile)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), codegen


def _emit_interleaved(b: Builder, planes: list[Value]) -> Value:
    """Return the numbers of three planes, interleaved by pixel."""
    pairs = [b.shuffle_vector(*two, v.lanes(range(2 * LANES))) for two in (planes[:2], planes[1:])]
    order = [first + lane for lane in range(LANES) for first in (0, LANES, 3 * LANES)]
    return b.shuffle_vector(*pairs, v.lanes(order))


def _copy_colours(typingctx: Any, target: Any, source: Any, plane: Any, count: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        target, source, plane, count = args

        def piece(index: Value, carried: list[Value]) -> list[Value]:
            at = v.plus(b, source, index, 4 * LANES)
            planes = [v.load(b, b.add(at, b.mul(plane, v.I64(colour))), v.REALS, 4) for colour in range(3)]
            v.store(b, _emit_interleaved(b, planes), v.plus(b, target, index, 12 * LANES), 4)
            return carried

        v.loop(b, b.sdiv(count, v.I64(LANES)), [], piece)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), codegen


def _store_colours(typingctx: Any, target: Any, source: Any, plane: Any, count: Any, inverse: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        target, source, plane, count, inverse = args
        inverse = v.splat(b, inverse, v.REALS)

        def piece(index: Value, carried: list[Value]) -> list[Value]:
            at = v.plus(b, source, index, 4 * LANES)
            planes = [v.load(b, b.add(at, b.mul(plane, v.I64(colour))), v.REALS, 4) for colour in range(3)]
            codes = [b.trunc(_emit_codes(b, numbers, inverse), _OCTETS) for numbers in planes]
            v.store(b, _emit_interleaved(b, codes), v.plus(b, target, index, 3 * LANES), 1)
            return carried

        v.loop(b, b.sdiv(count, v.I64(LANES)), [], piece)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64, types.float32), codegen


byte_tile, byte_tile_pair = (
    make_tile(name, partial(_emit_byte_products, panels)) for name, panels in (("byte_tile", 1), ("byte_tile_pair", 2))
)
"""Sums of products of bytes for ROWS pixels and one panel, or two side by side.

Own arguments: address of the first row of codes, bytes from row to row, address of the panel's weights (for every four
bytes of a row LANES columns of four), bytes from there to the next panel's; fours of a run, runs, and bytes from one to
the next; address of the bytes of each row that are left over, gathered one row behind the other, and their fours;
address of what is taken from the sums (int32, all panels): 128 times the sum of a channel's weights. The result is
multiplied by the row's scale.
"""

largest: Any = intrinsic(_largest)
"""largest(address, count): the largest magnitude of `count` float32; NaN if one of them is NaN."""

store_codes: Any = intrinsic(_store_codes)
"""store_codes(target, source, count, inverse): bytes for a multiple of LANES float32."""

store_code: Any = intrinsic(_store_code)
"""store_code(target, number, inverse): the byte for a single float32."""

gather_last_bytes: Any = intrinsic(_gather_last_bytes)
"""gather_last_bytes(target, source, line, runs, tiles): a byte of every run, for whole tiles; eight bytes per pixel.

`runs` bytes, at most eight, `line` bytes apart, of pixels that are LAST_BYTES_PIXEL bytes apart.
"""

store_colours: Any = intrinsic(_store_colours)
"""store_colours(target, source, plane, count, inverse): bytes for three planes of float32, `plane` bytes apart.

The three of a pixel stand together; `count` is that of pixels, a multiple of LANES.
"""

copy_colours: Any = intrinsic(_copy_colours)
"""copy_colours(target, source, plane, count): as store_colours, but copies the float32 themselves."""
