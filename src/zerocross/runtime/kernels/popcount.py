"""Products of bits: the tile that does most of the work of a binary network.

With -1 and +1 stored as bits 0 and 1, a sum of n products is n - 2 * (number of differing bits): exclusive or and
population count. Counting every word would take three instructions each: xor, count, add. Here two words take five.
For two more words x and y, one full adder per bit adds them to the remaining bits and gives new remaining bits and a
carry, which counts twice:

    left' = left ^ x ^ y,    carry = majority(left, x, y) = majority(left, x, not left')

The remaining bits are the parity of all differing bits so far. The parity of a sum is the sum of the parities, so those
of the weights are computed when the network is planned, and those of a row of activations when it is gathered (once for
all panels): both are stored in place of y, and left' takes one xor. Only carries are counted.
"""

from __future__ import annotations

from zerocross.runtime.kernels import vector_ir as v
from zerocross.runtime.kernels.finish import Finish, emit_finish, few_or_all, make_tile
from zerocross.runtime.kernels.steps import LANES, ROWS, WORD, RowField
from zerocross.runtime.kernels.target import rows_at_once
from zerocross.runtime.kernels.vector_ir import Builder, Value


def _emit_binary(b: Builder, own: list[Value], to: Finish) -> None:
    a, row_bytes, weights, words, factor = own
    factors = v.splat(b, b.fneg(b.sitofp(factor, v.F32)), v.REALS)
    at_once = min(ROWS, rows_at_once(2))
    counts = [v.constant(0, v.WORDS)] * ROWS

    def count(first: int, number: int) -> list[Value]:
        rows = v.rows_from(b, a, row_bytes, range(first, first + number))
        return _emit_counts(b, rows, weights, words)

    if at_once == ROWS:
        counts = few_or_all(b, to, lambda number: count(0, number), counts)
    else:
        counts = [found for first in range(0, ROWS, at_once) for found in count(first, at_once)]
    values = []
    for row, differing in enumerate(counts):
        base = v.load(b, v.plus(b, to.row(b, row, RowField.BASE), to.panel, 4 * LANES), v.REALS, 4)
        values.append(v.multiply_add(b, b.sitofp(differing, v.REALS), factors, base))  # exact: integers below 2^24
    emit_finish(b, values, to)


def _emit_counts(b: Builder, rows: list[Value], weights: Value, words: Value) -> list[Value]:
    """Count the bits of each row that differ from those of each channel."""
    odd = b.and_(words, v.I64(1))
    zeros = [v.constant(0, v.WORDS)] * len(rows)
    left = v.choose(b, odd, [lambda: zeros, lambda: [_differing(b, row, weights, v.I64(0)) for row in rows]], zeros)

    def take_two(index: Value, carried: list[Value]) -> list[Value]:
        counts, left = carried[: len(rows)], carried[len(rows) :]
        first = b.add(odd, b.mul(index, v.I64(2)))
        second = b.add(first, v.I64(1))
        carried = []
        news = [_differing(b, row, weights, second) for row in rows]
        for row, count, before, after in zip(rows, counts, left, news, strict=True):
            carry = v.majority(b, _differing(b, row, weights, first), before, after)
            carried.append(b.add(count, _count_bits(b, carry)))
        return carried + news

    carried = v.loop(b, b.lshr(words, v.I64(1)), zeros + left, take_two)
    pairs = zip(carried[: len(rows)], carried[len(rows) :], strict=True)
    return [b.add(b.add(count, count), _count_bits(b, rest)) for count, rest in pairs]


def _differing(b: Builder, row: Value, weights: Value, index: Value) -> Value:
    column = v.load(b, v.plus(b, weights, index, WORD * LANES), v.WORDS, 4)
    return b.xor(v.splat(b, v.load(b, v.plus(b, row, index, WORD), v.I32, 1), v.WORDS), column)


def _count_bits(b: Builder, words: Value) -> Value:
    return v.call(b, f"llvm.ctpop.v{LANES}i32", v.WORDS, words)


binary_tile = make_tile("binary_tile", _emit_binary)
"""Sums of products of bits for ROWS pixels and a panel.

Own arguments: address of the first row of words, bytes from row to row, address of the panel's weights (for every word
LANES columns), words, factor. In rows and weights, the last word and every second one before it are parities of all
words up to there. A sum is its row's base minus `factor` times the number of differing bits.
"""
