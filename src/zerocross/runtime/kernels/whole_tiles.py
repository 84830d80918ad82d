"""Whole tiles of products of bits, one after the other in a loop of their own.

Most tiles have eight pixels and sixteen channels, and one stage that is the same for all of them. Here these facts are
known when the code is emitted: what `finish` decides for every tile takes about as long as its arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from zerocross.runtime.kernels import vector_ir as v
from zerocross.runtime.kernels.finish import (
    Finish,
    emit_known_stage,
    finish_rows,
    finished_at_once,
    load_stage,
    make_tile,
    store_bits,
    store_reals,
)
from zerocross.runtime.kernels.popcount import emit_counts, emit_plain_counts, emit_sums_of_counts, emit_tiled_counts
from zerocross.runtime.kernels.steps import LANES, PLAIN, ROW_BYTES, ROWS, WORD, EpilogueOp, RowField
from zerocross.runtime.kernels.target import chosen_level
from zerocross.runtime.kernels.vector_ir import Builder, Value

KNOWN = (
    EpilogueOp.AFFINE, EpilogueOp.AFFINE_ADD, EpilogueOp.AFFINE_ADD_PRELU, EpilogueOp.AFFINE_ADD_PRELU_AFFINE,
)  # fmt: skip
"""Stages with a loop of their own."""

Counted = Callable[[Finish, int, int], list[Value]]


def _emit_tiles(b: Builder, own: list[Value], to: Finish) -> None:
    a, row_bytes, weights, words, factor, tiles, kind, backwards = own

    def counted(here: Finish, first: int, number: int) -> list[Value]:
        start = b.add(a, b.mul(b.sub(here.pixel, to.pixel), row_bytes))
        return emit_counts(b, v.rows_from(b, start, row_bytes, range(first, first + number)), weights, words)

    def case(op: EpilogueOp | None) -> list[Value]:
        _emit_loop(b, op, tiles, backwards, factor, counted, to)
        return []

    if emits_known_stages():
        v.choose(b, kind, [partial(case, op) for op in KNOWN], [])
    else:
        case(None)


def emits_known_stages() -> bool:
    """Return True if every stage has a loop of its own: not where a tile's code is several times as long."""
    return chosen_level().width == 1


def _emit_plain_tiles(b: Builder, own: list[Value], to: Finish) -> None:
    shape, a, tap_line, weights, words, factor, tiles, kind, backwards = own

    def in_place(known: tuple[int, int, int], here: Finish, first: int, number: int) -> list[Value]:
        start = here.row(b, 0, RowField.TAPS)
        lines = [v.apart(b, b.add(start, b.mul(tap_line, v.I64(run)))) for run in range(known[0])]
        return emit_plain_counts(b, known, first, number, lines, weights)

    def tiled(here: Finish, first: int, number: int) -> list[Value]:
        tile = b.add(a, b.mul(b.sub(here.pixel, to.pixel), b.mul(words, v.I64(WORD))))
        return emit_tiled_counts(b, tile, first, number, weights, words)

    def case(counted: Counted, op: EpilogueOp | None) -> list[Value]:
        _emit_loop(b, op, tiles, backwards, factor, counted, to)
        return []

    def cases(counted: Counted) -> list[Value]:
        if not emits_known_stages():
            return case(counted, None)
        return v.choose(b, kind, [partial(case, counted, op) for op in (*KNOWN, None)], [])

    sources = [*(partial(in_place, known) for known in PLAIN), tiled]
    v.choose(b, shape, [partial(cases, counted) for counted in sources], [])


def _emit_loop(
    b: Builder, op: EpilogueOp | None, tiles: Value, backwards: Value, factor: Value, counted: Counted,
    to: Finish,
) -> None:  # fmt: skip
    """Emit the loop over tiles.

    Args:
        b: The LLVM builder.
        op: The only stage, for panels whose channels all exist; or None, for any stages and channels.
        tiles: Number of tiles.
        backwards: Nonzero to start with the last tile.
        factor: Factor of the number of differing bits.
        counted: Function of the destination, a first row and a number of rows that counts their differing bits.
        to: The destination of the first tile.
    """
    at_once = finished_at_once()
    _, *stage = load_stage(b, to.stages)  # not in the loop, where LLVM must assume that a store could change it
    factors = v.splat(b, b.fneg(b.sitofp(factor, v.F32)), v.REALS)
    from_last = b.icmp_signed("!=", backwards, v.I64(0))

    def tile(index: Value, carried: list[Value]) -> list[Value]:
        number = b.select(from_last, b.sub(b.sub(tiles, v.I64(1)), index), index)
        pixels = b.mul(number, v.I64(ROWS))
        real = b.select(b.icmp_signed("==", to.real, v.I64(0)), to.real, b.add(to.real, b.mul(pixels, to.pitch)))
        rows = v.plus(b, to.rows, pixels, ROW_BYTES)
        here = replace(to, rows=rows, last=v.I64(ROWS - 1), pixel=b.add(to.pixel, pixels), real=real)
        for first in range(0, ROWS, at_once):
            values = emit_sums_of_counts(b, counted(here, first, at_once), factors, first, here)
            if op is None:
                finish_rows(b, first, values, here)
            else:
                _store_whole(b, first, emit_known_stage(b, op, stage, first, values, here), here)
        return carried

    v.loop(b, tiles, [], tile)


def _store_whole(b: Builder, first: int, values: list[Value], to: Finish) -> None:
    """Store rows of which every lane is a channel of a pixel."""
    panel_bytes = b.mul(to.panel, v.I64(4 * LANES))
    with b.if_then(b.icmp_signed("!=", to.real, v.I64(0)), likely=True):
        store_reals(b, first, values, b.add(to.real, panel_bytes), to, whole=True)
    with b.if_then(b.icmp_signed("!=", to.least, v.I64(0)), likely=True):
        store_bits(b, first, values, to)


binary_tiles: Any = make_tile("binary_tiles", _emit_tiles)
"""As `popcount.binary_tile`, for consecutive whole tiles of a panel whose channels all exist.

Own arguments: those of `binary_tile`, the number of tiles, the index in `KNOWN` of their only stage, and nonzero to
start with the last tile.
"""

plain_tiles: Any = make_tile("plain_tiles", _emit_plain_tiles)
"""As `binary_tiles`, for rows of a shape of `PLAIN`, which are read in place, and for TILED ones.

Own arguments: index of the shape, address of the first tile (TILED), bytes from run to run (others), address of the
panel's weights, words, factor, number of tiles, the index in `KNOWN` of their only stage, or the length of `KNOWN` for
any stages and channels, and nonzero to start with the last tile.
"""
