"""Products of bits: the tile that does most of the work of a binary network.

With -1 and +1 stored as bits 0 and 1, a sum of n products is n - 2 * (number of differing bits): exclusive or and
population count on 64-bit words. A tile keeps 4 pixels x 16 channels of counts in registers: 4 x 2 vectors of eight
words. Where the processor counts bits in vectors (AVX-512 VPOPCNTDQ) each is one instruction; elsewhere LLVM writes
the same operation with what there is.
"""

from __future__ import annotations

import llvmlite.binding as llvm
from llvmlite import ir

from zerocross.runtime.kernels import vector_ir as v
from zerocross.runtime.kernels.finish import Finish, emit_finish, make_tile
from zerocross.runtime.kernels.steps import LANES, ROWS, RowField
from zerocross.runtime.kernels.vector_ir import Builder, Value


def _rows_at_once() -> int:
    """Rows whose counts fit the registers: 4 x 2 of 32 with AVX-512; elsewhere a row of a panel takes 4 or 8."""
    return ROWS if llvm.get_host_cpu_features().get("avx512f") else ROWS // 2


def _emit_binary(b: Builder, own: list[Value], to: Finish) -> None:
    a, row_bytes, weights, words, factor = own
    at_once = _rows_at_once()
    lanes32 = ir.VectorType(v.I32, LANES)
    factors = v.splat(b, b.sitofp(factor, v.F32), v.REALS)
    values = []
    for first in range(0, ROWS, at_once):
        rows = [b.add(a, b.mul(row_bytes, v.I64(row))) for row in range(first, first + at_once)]
        counts = v.loop(
            b,
            words,
            [v.constant(0, v.WORDS)] * (2 * at_once),
            lambda index, counts, rows=rows: _xor_and_count(b, rows, weights, index, counts),
        )
        for row in range(at_once):
            both = b.shuffle_vector(*counts[2 * row : 2 * row + 2], ir.Constant(lanes32, list(range(LANES))))
            differing = b.sitofp(b.trunc(both, lanes32), v.REALS)
            base = v.load(b, v.plus(b, to.row(b, first + row, RowField.BASE), to.panel, 4 * LANES), v.REALS, 4)
            values.append(b.fsub(base, b.fmul(differing, factors)))  # exact: integers below 2^24
    emit_finish(b, values, to)


def _xor_and_count(b: Builder, rows: list[Value], weights: Value, index: Value, counts: list[Value]) -> list[Value]:
    panel = v.plus(b, weights, index, 8 * LANES)
    columns = [v.load(b, b.add(panel, v.I64(4 * LANES * half)), v.WORDS, 8) for half in range(2)]
    more = []
    for row in rows:
        word = v.splat(b, v.load(b, v.plus(b, row, index, 8), v.I64, 8), v.WORDS)
        more += [v.call(b, f"llvm.ctpop.v{v.WORDS.count}i64", v.WORDS, b.xor(word, column)) for column in columns]
    return [b.add(count, new) for count, new in zip(counts, more, strict=True)]


binary_tile = make_tile("binary_tile", _emit_binary)
"""Sums of products of bits for ROWS pixels and a panel.

Own arguments: address of the first row of words, bytes from row to row, address of the panel's weights (for every word
LANES columns), words, factor. A sum is its row's base minus `factor` times the number of differing bits.
"""
