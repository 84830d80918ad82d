"""The epilogue of every tile: eight pixels by sixteen channels pass through stages in registers and are stored.

A tile starts with a source (products of bits, real products, a window). Its values then pass through a list of stages,
such as batch norm, a shortcut and an activation, and are stored as float32, as bits, or both: one pass over memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from zerocross.runtime.kernels import vector_ir as v
from zerocross.runtime.kernels.steps import LANES, MERGED_OPS, ROW_BYTES, ROWS, STAGE_BYTES, EpilogueOp, RowField
from zerocross.runtime.kernels.target import rows_at_once
from zerocross.runtime.kernels.vector_ir import Builder, Value


@dataclass(frozen=True)
class Finish:
    """The destination of a tile's values: the arguments that all tiles share, as LLVM values."""

    rows: Value  # address of the table of rows
    last: Value  # number of the last row that is a pixel; later rows of the tile belong to no image
    channels: Value  # channels of the step; lanes after the last are stored as 0
    pixel: Value  # number of the first pixel
    panel: Value  # number of the panel
    stages: Value  # address of the stages
    stage_count: Value
    arena: Value  # address of the activations
    real: Value  # address for the values of the first pixel, or 0
    pitch: Value  # distance between pixels there in bytes
    pool: Value  # nonzero to store averages of 2 x 2 pixels in place of the pixels
    least: Value  # address of the smallest values whose bit is 1, or 0 if no bits are stored

    def next_panel(self, b: Builder, further: int) -> Finish:
        """Return the destination of a later panel."""
        return replace(self, panel=b.add(self.panel, v.I64(further)))

    def row(self, b: Builder, number: int | Value, field: RowField, typ: ir.Type = v.I64) -> Value:
        """Load a field of the table of rows."""
        row = v.plus(b, self.rows, v.I64(number) if isinstance(number, int) else number, ROW_BYTES)
        return v.load(b, b.add(row, v.I64(8 * field)), typ, 4)


def make_tile(name: str, emit: Callable[[Builder, list[Value], Finish], None]) -> Any:
    """Return a Numba function of two tuples of int64: the source's own arguments, and those of `Finish`."""

    def typed(typingctx: Any, own: Any, to: Any) -> Any:  # noqa: ARG001 - Numba's protocol
        def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
            emit(b, cgutils.unpack_tuple(b, args[0]), Finish(*cgutils.unpack_tuple(b, args[1])))
            return context.get_dummy_value()

        return types.void(own, to), codegen

    typed.__name__ = name
    return intrinsic(typed)


def few_or_all(b: Builder, to: Finish, emit: Callable[[int], list[Value]], zeros: list[Value]) -> list[Value]:
    """Compute the first rows of a tile, or all: the last tile of an image often has one pixel, or less than half.

    Args:
        b: The LLVM builder.
        to: The destination, which contains the number of rows.
        emit: Function that emits the values of a number of rows.
        zeros: Values for rows that are not computed, as many as there are values in all rows.
    """
    numbers = (1, ROWS // 2, ROWS)
    key = b.add(*(b.zext(b.icmp_signed(">=", to.last, v.I64(number)), v.I64) for number in numbers[:2]))

    def case(number: int) -> list[Value]:
        values = emit(number)
        return values + zeros[len(values) :]

    return v.choose(b, key, [partial(case, number) for number in numbers], zeros)


def finished_at_once() -> int:
    """Return the number of rows to finish at a time: at least two, whose average may be stored."""
    return max(2, min(ROWS, rows_at_once(2)))


def emit_finish(b: Builder, values: list[Value], to: Finish) -> None:
    """Pass the rows of a tile through the stages and store them."""
    at_once = finished_at_once()
    for first in range(0, ROWS, at_once):
        finish_rows(b, first, values[first : first + at_once], to)


def finish_rows(b: Builder, first: int, values: list[Value], to: Finish) -> None:
    """As `emit_finish`, for some rows, of which the first has this number."""
    values = v.loop(b, to.stage_count, values, lambda index, values: _emit_stage(b, index, first, values, to))
    panel_bytes = b.mul(to.panel, v.I64(4 * LANES))
    with b.if_then(b.icmp_signed("!=", to.real, v.I64(0))):
        store_reals(b, first, values, b.add(to.real, panel_bytes), to)
    with b.if_then(b.icmp_signed("!=", to.least, v.I64(0))):
        store_bits(b, first, values, to)


def store_bits(b: Builder, first: int, values: list[Value], to: Finish) -> None:
    """Store the bits of rows, of which the first has this number."""
    least = v.load(b, b.add(to.least, b.mul(to.panel, v.I64(4 * LANES))), v.REALS, 4)
    for row, value in enumerate(values, first):
        bits = b.fcmp_ordered(">=", value, least)
        v.store(b, b.bitcast(bits, v.I16), v.plus(b, to.row(b, row, RowField.BITS), to.panel, LANES // 8), 1)


def store_reals(b: Builder, first: int, values: list[Value], real: Value, to: Finish, *, whole: bool = False) -> None:
    """Store only the pixels of a tile, or their averages, with 0 in the lanes after the last channel.

    Later steps read those lanes, in this call or in another one, and 0 times NaN would be NaN.

    Args:
        b: The LLVM builder.
        first: Number of the first row.
        values: The values of the rows.
        real: Address for the values of the first pixel of the tile and the channels of the panel.
        to: The destination.
        whole: True if every lane of the tile is a channel of a pixel.
    """
    channels = b.sub(to.channels, b.mul(to.panel, v.I64(LANES)))
    full = b.and_(b.icmp_signed("==", to.last, v.I64(ROWS - 1)), b.icmp_signed(">=", channels, v.I64(LANES)))
    with b.if_else(b.icmp_signed("!=", to.pool, v.I64(0)), likely=False) as (pooled, single):
        with pooled:
            inside, zeros = v.below(b, channels), v.constant(0.0, v.REALS)
            for row in range(0, len(values), 2):
                with b.if_then(b.icmp_signed("<=", v.I64(first + row), to.last)):
                    pair = values[row : row + 2]
                    if not whole:
                        pair = [b.select(inside, value, zeros) for value in pair]
                    _store_average(b, first + row, pair, to)
        with single:
            if whole:
                _store_all(b, first, values, real, to)
                return
            with b.if_else(full) as (complete, part):
                with complete:
                    _store_all(b, first, values, real, to)
                with part:
                    inside, zeros = v.below(b, channels), v.constant(0.0, v.REALS)
                    for row, value in enumerate(values, first):
                        with b.if_then(b.icmp_signed("<=", v.I64(row), to.last)):
                            v.store(b, b.select(inside, value, zeros), b.add(real, b.mul(to.pitch, v.I64(row))), 4)


def _store_all(b: Builder, first: int, values: list[Value], real: Value, to: Finish) -> None:
    for row, value in enumerate(values, first):
        v.store(b, value, b.add(real, b.mul(to.pitch, v.I64(row))), 4)


def _store_average(b: Builder, row: int, pair: list[Value], to: Finish) -> None:
    """Add two adjacent pixels to the sum of those above, in the order in which a window adds its pixels."""
    partial_sum, target = (
        v.plus(b, to.row(b, row, field), to.panel, 4 * LANES) for field in (RowField.PARTIAL, RowField.POOLED)
    )
    total = b.fadd(b.fadd(v.load(b, partial_sum, v.REALS, 4), pair[0]), pair[1])
    share = v.splat(b, to.row(b, row, RowField.SHARE, v.F32), v.REALS)
    v.store(b, b.fmul(total, share), target, 4)


def _emit_stage(b: Builder, index: Value, first: int, values: list[Value], to: Finish) -> list[Value]:
    kind, *stage = load_stage(b, v.plus(b, to.stages, index, STAGE_BYTES))
    return v.choose(
        b, kind, [partial(emit_known_stage, b, each, stage, first, values, to) for each in EpilogueOp], values
    )


def load_stage(b: Builder, stage: Value) -> list[Value]:
    """Load a stage: its kind, the address of its parameters, offset and pitch of the added value."""
    return [v.load(b, b.add(stage, v.I64(8 * place)), v.I64, 8) for place in range(4)]


def emit_known_stage(
    b: Builder, op: EpilogueOp, stage: list[Value], first: int, values: list[Value], to: Finish
) -> list[Value]:
    """Pass rows, of which the first has this number, through a stage of a known kind, given as its other fields."""
    address, offset, pitch = stage

    def parameters(count: int) -> list[Value]:
        panel = v.plus(b, address, to.panel, 4 * LANES * count)
        return [v.load(b, b.add(panel, v.I64(4 * LANES * place)), v.REALS, 4) for place in range(count)]

    def affine(values: list[Value], scale: Value, shift: Value) -> list[Value]:
        # Not fused into one rounding, so that the result is bit-identical to that of two steps.
        return [b.fadd(b.fmul(value, scale), shift) for value in values]

    def add(values: list[Value]) -> list[Value]:
        own = b.add(v.plus(b, b.add(to.arena, offset), to.panel, 4 * LANES), b.mul(to.pixel, pitch))
        rows = range(first, first + len(values))
        others = [v.load(b, b.add(own, b.mul(pitch, v.I64(row))), v.REALS, 4) for row in rows]
        return [b.fadd(value, other) for value, other in zip(values, others, strict=True)]

    def prelu(values: list[Value], slope: Value) -> list[Value]:
        # "Less or NaN", so that LLVM multiplies under a mask: one instruction less than a product and a selection.
        zero = v.constant(0.0, v.REALS)
        return [b.select(b.fcmp_unordered("<", value, zero), b.fmul(value, slope), value) for value in values]

    def clamp(values: list[Value], low: Value, high: Value) -> list[Value]:
        raised = [b.select(b.fcmp_ordered("<", value, low), low, value) for value in values]
        return [b.select(b.fcmp_ordered(">", value, high), high, value) for value in raised]

    parts: dict[EpilogueOp, tuple[tuple[int, Callable[..., list[Value]]], ...]] = {
        EpilogueOp.AFFINE: ((2, affine),),
        EpilogueOp.ADD: ((0, add),),
        EpilogueOp.PRELU: ((1, prelu),),
        EpilogueOp.CLAMP: ((2, clamp),),
    }
    for merged, names in MERGED_OPS.items():
        parts[merged] = tuple(part for name in names for part in parts[name])
    given = parameters(sum(count for count, _ in parts[op]))
    for count, apply in parts[op]:
        values = apply(values, *given[:count])
        given = given[count:]
    return values
