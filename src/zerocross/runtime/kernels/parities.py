"""Copy rows of words with parities in whole vectors, using the parities of the lines that contain them."""

from __future__ import annotations

from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from zerocross.runtime.kernels import vector_ir as v
from zerocross.runtime.kernels.steps import LANES, ROWS, WORD
from zerocross.runtime.kernels.vector_ir import Builder, Value

_SHORT_RUNS = 3  # of one vector each: the common kernel, without inner loops


def _copy_runs(typingctx: Any, own: Any) -> Any:  # noqa: ARG001 - Numba's protocol
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        own = cgutils.unpack_tuple(b, args[0])
        runs, run = own[7:9]
        wide = [b.icmp_signed(">", run, v.I64(WORD * lanes)) for lanes in (4, 8)]
        key = b.add(v.I64(1), b.add(*(b.zext(each, v.I64) for each in wide)))
        short = b.and_(b.icmp_signed("==", runs, v.I64(_SHORT_RUNS)), b.icmp_signed("<=", run, v.I64(WORD * LANES)))

        def case(lanes: int, known: int | None) -> list[Value]:
            _emit_copy_runs(b, own, lanes, known)
            return []

        cases = [partial(case, LANES, None), *(partial(case, lanes, _SHORT_RUNS) for lanes in (4, 8, 16))]
        v.choose(b, b.select(short, key, v.I64(0)), cases, [])
        return context.get_dummy_value()

    return types.void(own), codegen


def _emit_copy_runs(b: Builder, own: list[Value], lanes: int, known: int | None) -> None:
    """Copy runs in vectors of this many words: `known` runs of one vector each, or any number of any length."""
    target, source, scan, row, pixel, line, scan_line, runs, run, odd, count = own
    size, words = WORD * lanes, ir.VectorType(v.I32, lanes)
    pieces = b.udiv(b.add(run, v.I64(size - 1)), v.I64(size))

    def flipped(when: Value) -> Value:
        return v.splat(b, b.trunc(b.neg(b.and_(when, v.I64(1))), v.I32), words)

    def word(at: Value) -> Value:
        return v.splat(b, v.load(b, at, v.I32, 1), words)

    odd_lanes = ir.Constant(words, [-(lane % 2) for lane in range(lanes)])
    first, turn = b.xor(odd_lanes, flipped(odd)), flipped(b.lshr(run, v.I64(2)))  # all bits set if a word is a parity

    def copy_pixel(index: Value, carried: list[Value]) -> list[Value]:
        at, of, to = (b.add(x, b.mul(index, step)) for x, step in ((source, pixel), (scan, pixel), (target, row)))

        def copy_run(number: Value, carried: list[Value]) -> list[Value]:
            parity, mask = carried
            steps = ((at, line), (of, scan_line), (to, run))
            own, prefix, place = (b.add(x, b.mul(number, step)) for x, step in steps)
            parity = b.xor(parity, word(b.sub(prefix, v.I64(WORD))))

            def copy_piece(piece: Value, nothing: list[Value]) -> list[Value]:
                raw, parities = (v.load(b, v.plus(b, x, piece, size), words, 1) for x in (own, prefix))
                other = b.xor(raw, b.xor(parities, parity))
                v.store(b, b.xor(raw, b.and_(other, mask)), v.plus(b, place, piece, size), 1)
                return nothing

            if known is None:
                v.loop(b, pieces, [], copy_piece)
            else:
                copy_piece(v.I64(0), [])
            return [b.xor(parity, word(b.sub(b.add(prefix, run), v.I64(WORD)))), b.xor(mask, turn)]

        values = [v.constant(0, words), first]
        if known is None:
            v.loop(b, runs, values, copy_run)
        else:
            for number in range(known):
                values = copy_run(v.I64(number), values)
        return carried

    v.loop(b, count, [], copy_pixel)


def _gather_tiles(typingctx: Any, own: Any) -> Any:  # noqa: ARG001
    quads = ir.VectorType(v.I64, ROWS)
    upper = ir.Constant(quads, [-1 << 32] * ROWS)

    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        target, source, line, runs, taps, stride, tiles = cgutils.unpack_tuple(b, args[0])
        size = 2 * WORD * ROWS
        shift = ir.Constant(quads, [32] * ROWS)

        def every_second(at: Value) -> list[Value]:
            both = [v.load(b, b.add(at, v.I64(size * place)), quads, 1) for place in range(2)]
            return [b.shuffle_vector(*both, v.lanes(range(0, 2 * ROWS, 2)))]

        def tile(index: Value, carried: list[Value]) -> list[Value]:
            first = b.add(source, b.mul(index, b.mul(stride, v.I64(size))))
            to = b.add(target, b.mul(index, b.mul(b.mul(runs, taps), v.I64(size))))

            def run(number: Value, parity: list[Value]) -> list[Value]:
                at, place = b.add(first, b.mul(number, line)), v.plus(b, to, b.mul(number, taps), size)

                def tap(further: Value, parity: list[Value]) -> list[Value]:
                    here = v.plus(b, at, further, 2 * WORD)
                    zero = [ir.Constant(quads, [0] * ROWS)]
                    cases = [lambda: zero, lambda: [v.load(b, here, quads, 1)], lambda: every_second(here)]
                    (words,) = v.choose(b, stride, cases, zero)
                    total = b.xor(b.xor(words, b.shl(words, shift)), parity[0])
                    mixed = b.xor(words, b.and_(b.xor(words, total), upper))
                    v.store(b, mixed, v.plus(b, place, further, size), 1)
                    return [total]

                return v.loop(b, taps, parity, tap)

            v.loop(b, runs, [ir.Constant(quads, [0] * ROWS)], run)
            return carried

        v.loop(b, tiles, [], tile)
        return context.get_dummy_value()

    return types.void(own), codegen


gather_tiles: Any = intrinsic(_gather_tiles)
"""gather_tiles((target, source, line, runs, taps, stride, tiles)): the taps of pixels of 64 bits, for whole tiles.

`runs` x `taps` taps, `line` bytes from run to run, of pixels that are `stride` pixels (1 or 2) apart in the source. The
second word of each tap is replaced by the parity of all words of its pixel up to it.
"""

copy_runs: Any = intrinsic(_copy_runs)
"""copy_runs((target, source, scan, row, pixel, line, scan line, runs, run, odd, count)): rows of words with parities.

For each of `count` pixels, `pixel` bytes apart: `runs` runs of `run` bytes, `line` bytes apart, are written one behind
the other, `row` bytes from one pixel's to the next. Every second word is replaced by the parity of all words of the row
up to it, the first word where `odd` is 1, else the second. At `scan` there are the parities of each line up to every
word, `scan line` bytes from line to line. Whole vectors are read and written: leave room behind.
"""
