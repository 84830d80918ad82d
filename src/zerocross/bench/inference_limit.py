"""The processor's limit for products of bits, and the share of it that the product of bit matrices reaches."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from zerocross.runtime.bits import BitMatrix
from zerocross.runtime.kernels import vector_ir as v

# (pixels, outputs, bits) of typical layers.
SHAPES = ((3136, 64, 576), (784, 128, 1152), (196, 256, 2304), (196, 512, 4608))
_REGISTERS = 12  # independent running counts: enough to hide the latency of each addition
_TURNS = 20_000


def _count_in_registers(typingctx: Any, turns: Any) -> Any:  # noqa: ARG001 - Numba's protocol
    def codegen(context: Any, b: Any, signature: Any, args: list[Any]) -> Any:  # noqa: ARG001
        starts = [v.constant(number + 1, v.WORDS) for number in range(_REGISTERS)]
        words = [v.constant(word, v.WORDS) for word in (0x5555_AAAA, 0x5A5A_A5A5)]

        def turn(index: Any, counts: list[Any]) -> list[Any]:  # noqa: ARG001
            # Two words at a time, as in `kernels.popcount`: five instructions.
            first, second = ([b.xor(count, word) for count in counts] for word in words)
            carries = [v.majority(b, *of) for of in zip(first, counts, second, strict=True)]
            ones = [v.call(b, f"llvm.ctpop.v{v.WORDS.count}i32", v.WORDS, carry) for carry in carries]
            return [b.add(count, more) for count, more in zip(second, ones, strict=True)]

        total, *counts = v.loop(b, args[0], starts, turn)
        for count in counts:
            total = b.add(total, count)
        return b.zext(b.extract_element(total, v.I32(0)), v.I64)

    return types.int64(types.int64), codegen


_intrinsic: Any = intrinsic(_count_in_registers)


@njit
def _register_loop(turns: int) -> int:
    return _intrinsic(turns)


@dataclass(frozen=True)
class LimitTimes:
    """Billions of products of bits per second: all operands in registers, and matrices of (rows, columns, bits)."""

    limit: float
    products: dict[tuple[int, int, int], float]

    @property
    def share(self) -> float:
        """Share of the limit that the slowest matrix product reaches."""
        return min(self.products.values()) / self.limit


def measure_limit(rounds: int = 200, shapes: tuple[tuple[int, int, int], ...] = SHAPES) -> LimitTimes:
    """Measure both on one thread, in turn; the fastest of many short rounds is reported.

    Args:
        rounds: Rounds of each measurement, >= 1.
        shapes: Rows, columns and bits of the matrices; bits must be a multiple of 64.
    """
    rng = np.random.default_rng(0)
    calls = []
    for rows, columns, bits in shapes:
        left, right = (rng.integers(0, 2**64, (size, bits // 64), np.uint64) for size in (rows, columns))
        calls.append(BitMatrix(right).prepare(left))
    calls.insert(0, lambda: _register_loop(_TURNS))
    fastest = [float("inf")] * len(calls)
    for _ in range(1 + rounds):  # the first compiles
        for index, call in enumerate(calls):
            began = time.perf_counter()
            call()
            fastest[index] = min(fastest[index], time.perf_counter() - began)
    products = _TURNS * _REGISTERS * 2 * 32 * v.WORDS.count
    rates = {shape: math.prod(shape) / seconds / 1e9 for shape, seconds in zip(shapes, fastest[1:], strict=True)}
    return LimitTimes(products / fastest[0] / 1e9, rates)
