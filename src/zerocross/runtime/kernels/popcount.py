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

from collections.abc import Callable

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
        return emit_counts(b, rows, weights, words)

    if at_once == ROWS:
        counts = few_or_all(b, to, lambda number: count(0, number), counts)
    else:
        counts = [found for first in range(0, ROWS, at_once) for found in count(first, at_once)]
    emit_finish(b, emit_sums_of_counts(b, counts, factors, 0, to), to)


def emit_sums_of_counts(b: Builder, counts: list[Value], factors: Value, first: int, to: Finish) -> list[Value]:
    """Return the sums of rows, of which the first has this number, given how many bits differ."""
    values = []
    for row, differing in enumerate(counts, first):
        base = v.load(b, v.plus(b, to.row(b, row, RowField.BASE), to.panel, 4 * LANES), v.REALS, 4)
        values.append(v.multiply_add(b, b.sitofp(differing, v.REALS), factors, base))  # exact: integers below 2^24
    return values


def emit_counts(b: Builder, rows: list[Value], weights: Value, words: Value) -> list[Value]:
    """Count the bits of each row that differ from those of each channel."""
    odd = b.and_(words, v.I64(1))
    zeros = [v.constant(0, v.WORDS)] * len(rows)
    left = v.choose(b, odd, [lambda: zeros, lambda: [_differing(b, row, weights, v.I64(0)) for row in rows]], zeros)

    def two(index: Value) -> list[list[Value]]:
        first = b.add(odd, b.mul(index, v.I64(2)))
        places = (first, b.add(first, v.I64(1)))
        return [[_differing(b, row, weights, place) for row in rows] for place in places]

    return _emit_pairs(b, b.lshr(words, v.I64(1)), left, two)


def emit_tiled_counts(b: Builder, tile: Value, first: int, number: int, weights: Value, words: Value) -> list[Value]:
    """As `emit_counts`, for some rows of a tile that was gathered as TILED."""

    def two(index: Value) -> list[list[Value]]:
        here, columns = v.apart(b, v.plus(b, tile, index, 2 * WORD * ROWS)), v.plus(b, weights, index, 2 * WORD * LANES)
        both = []
        for place in range(2):
            column = v.load(b, b.add(columns, v.I64(WORD * LANES * place)), v.WORDS, 4)
            at = [b.add(here, v.I64(WORD * (2 * row + place))) for row in range(first, first + number)]
            both.append([b.xor(v.splat(b, v.load(b, each, v.I32, 1), v.WORDS), column) for each in at])
        return both

    return _emit_pairs(b, b.lshr(words, v.I64(1)), [v.constant(0, v.WORDS)] * number, two)


def _emit_pairs(b: Builder, pairs: Value, left: list[Value], two: Callable[[Value], list[list[Value]]]) -> list[Value]:
    """Count differing bits: `two(index)` gives those of the first words of a pair, and the parities, of all rows."""
    number = len(left)

    def take_two(index: Value, carried: list[Value]) -> list[Value]:
        firsts, news = two(index)
        counts = []
        for count, before, word, after in zip(carried[:number], carried[number:], firsts, news, strict=True):
            counts.append(b.add(count, _count_bits(b, v.majority(b, word, before, after))))
        return counts + news

    carried = v.loop(b, pairs, [v.constant(0, v.WORDS)] * number + left, take_two)
    both = zip(carried[:number], carried[number:], strict=True)
    return [b.add(b.add(count, count), _count_bits(b, rest)) for count, rest in both]


def emit_plain_counts(
    b: Builder, shape: tuple[int, int, int], first: int, number: int, lines: list[Value], weights: Value
) -> list[Value]:
    """As `emit_counts`, for rows of a shape of `PLAIN`: without parities, so that two words take six instructions.

    Args:
        b: The LLVM builder.
        shape: The shape of the rows.
        first: Number of the first row.
        number: Number of rows.
        lines: Addresses of the runs of row 0.
        weights: Address of the panel's weights.
    """
    runs, words, pixel = shape
    places = [(run, word) for run in range(runs) for word in range(words)]

    def differing(index: int) -> list[Value]:
        run, word = places[index]
        column = v.load(b, b.add(weights, v.I64(WORD * LANES * index)), v.WORDS, 4)
        at = [b.add(lines[run], v.I64(pixel * row + WORD * word)) for row in range(first, first + number)]
        return [b.xor(v.splat(b, v.load(b, each, v.I32, 1), v.WORDS), column) for each in at]

    left, counts = [v.constant(0, v.WORDS)] * number, [v.constant(0, v.WORDS)] * number
    start = len(places) % 2
    if start:
        left = differing(0)
    for index in range(start, len(places), 2):
        pair = zip(differing(index), differing(index + 1), strict=True)
        for row, (one, other) in enumerate(pair):
            after = b.xor(b.xor(one, other), left[row])
            counts[row] = b.add(counts[row], _count_bits(b, v.majority(b, one, left[row], after)))
            left[row] = after
    pairs = zip(counts, left, strict=True)
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
