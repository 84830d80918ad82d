"""Helpers to emit LLVM vector code, for inner loops that cannot be expressed in Numba."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from zerocross.runtime.kernels.steps import LANES
from zerocross.runtime.kernels.target import chosen_level

Value = Any  # llvmlite's values have no useful static type
Builder = Any

I16, I32, I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
F32 = ir.FloatType()
WORDS = ir.VectorType(I32, LANES)  # a panel of 32-bit words: one AVX-512 register
REALS = ir.VectorType(F32, LANES)
_POINTER = ir.PointerType()


def load(b: Builder, address: Value, typ: ir.Type, align: int) -> Value:
    """Load a value of a type from an address (an integer)."""
    return b.load(b.inttoptr(address, _POINTER), typ=typ, align=align)


def store(b: Builder, value: Value, address: Value, align: int) -> None:
    """Store a value at an address (an integer)."""
    b.store(value, b.inttoptr(address, _POINTER), align=align)


def plus(b: Builder, address: Value, index: Value, size: int) -> Value:
    """Return the address of item `index` of an array of items of `size` bytes."""
    return b.add(address, b.mul(index, I64(size)))


def apart(b: Builder, address: Value) -> Value:
    """Hide from LLVM how an address was computed, so that it keeps the address in a separate register.

    Otherwise it derives the addresses of rows from each other in every iteration of the innermost loop.
    """
    return b.asm(ir.FunctionType(I64, [I64]), "", "=r,0", [address], side_effect=False)


def rows_from(b: Builder, first: Value, row_bytes: Value, numbers: range) -> list[Value]:
    """Return the addresses of rows, `row_bytes` apart, for an innermost loop."""
    return [apart(b, b.add(first, b.mul(row_bytes, I64(number)))) for number in numbers]


def splat(b: Builder, scalar: Value, typ: ir.VectorType) -> Value:
    """Return a vector with the scalar in every lane."""
    empty = ir.Constant(typ, ir.Undefined)
    first = b.insert_element(empty, scalar, I32(0))
    return b.shuffle_vector(first, empty, ir.Constant(ir.VectorType(I32, typ.count), [0] * typ.count))


def constant(number: float, typ: ir.VectorType) -> Value:
    """Return a constant vector with the number in every lane."""
    return ir.Constant(typ, [typ.element(number)] * typ.count)


def lanes(numbers: Iterable[int]) -> Value:
    """Return the lane numbers of a shuffle."""
    found = list(numbers)
    return ir.Constant(ir.VectorType(I32, len(found)), found)


def below(b: Builder, count: Value) -> Value:
    """Return a mask of the lanes whose number is below `count`, an int64."""
    return b.icmp_signed("<", lanes(range(LANES)), splat(b, b.trunc(count, I32), WORDS))


def call(b: Builder, name: str, result: ir.Type, *args: Value) -> Value:
    """Call an LLVM intrinsic by its full name."""
    function = ir.FunctionType(result, [arg.type for arg in args])
    return b.call(cgutils.get_or_insert_function(b.module, function, name), args)


def multiply_add(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """Return x * y + z of float32 vectors, fused into one rounding if the processor supports it."""
    return call(b, f"llvm.fmuladd.v{LANES}f32", REALS, x, y, z)


def majority(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """Return the bitwise majority of x, y and not z."""
    if chosen_level().has("avx512f"):
        table = sum(1 << n for n in range(8) if (n >> 2 & 1) + (n >> 1 & 1) + (~n & 1) >= 2)
        return call(b, "llvm.x86.avx512.pternlog.d.512", WORDS, x, y, z, I32(table))
    return b.xor(x, b.and_(b.xor(y, z), b.xor(x, y)))  # where y and z differ, y; elsewhere x


def loop(
    b: Builder, count: Value, carried: Sequence[Value], body: Callable[[Value, list[Value]], list[Value]]
) -> list[Value]:
    """Emit ``for i in range(count): carried = body(i, carried)`` and return the last `carried`."""
    before = b.block
    head, inside, after = (b.append_basic_block(f"loop.{part}") for part in ("head", "inside", "after"))
    b.branch(head)
    b.position_at_end(head)
    index = b.phi(I64)
    index.add_incoming(I64(0), before)
    values = [b.phi(value.type) for value in carried]
    for phi, value in zip(values, carried, strict=True):
        phi.add_incoming(value, before)
    b.cbranch(b.icmp_signed("<", index, count), inside, after)
    b.position_at_end(inside)
    news = body(index, values)
    index.add_incoming(b.add(index, I64(1)), b.block)
    for phi, value in zip(values, news, strict=True):
        phi.add_incoming(value, b.block)
    b.branch(head)
    b.position_at_end(after)
    return values


def runs_of(
    b: Builder, rows: list[Value], weights: Value, taps: tuple[Value, Value, Value], sums: list[Value], emit: Any
) -> list[Value]:
    """Emit the sums of rows that consist of runs: for each run, `emit(rows, weights, panel bytes, terms, sums)`.

    Args:
        b: The LLVM builder.
        rows: Addresses of the first runs of the rows.
        weights: Address of the weights of the first panel, LANES numbers of 4 bytes for each term.
        taps: Terms per run, number of runs, and the distance between them in bytes.
        sums: Initial sums.
        emit: Function that adds the products of a run to the sums.
    """
    terms, runs, run_bytes = taps
    run_weights = b.mul(terms, I64(4 * LANES))
    panel_bytes = b.mul(run_weights, runs)

    def add_run(index: Value, sums: list[Value]) -> list[Value]:
        further = b.mul(index, run_bytes)
        here = [apart(b, b.add(row, further)) for row in rows]
        return emit(here, b.add(weights, b.mul(index, run_weights)), panel_bytes, terms, sums)

    return loop(b, runs, sums, add_run)


def choose(
    b: Builder, key: Value, cases: Sequence[Callable[[], list[Value]]], otherwise: Sequence[Value]
) -> list[Value]:
    """Emit a switch: the case of number `key` gives the values; `otherwise` is the default case."""
    before = b.block
    after = b.append_basic_block("chosen")
    switch = b.switch(key, after)
    ends = [(before, list(otherwise))]
    for number, case in enumerate(cases):
        block = b.append_basic_block(f"case.{number}")
        switch.add_case(I64(number), block)
        b.position_at_end(block)
        values = case()
        ends.append((b.block, values))
        b.branch(after)
    b.position_at_end(after)
    chosen = [b.phi(value.type) for value in otherwise]
    for block, values in ends:
        for phi, value in zip(chosen, values, strict=True):
            phi.add_incoming(value, block)
    return chosen
