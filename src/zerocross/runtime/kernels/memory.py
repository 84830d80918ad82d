"""Memory access by address inside Numba functions: single numbers and runs of bytes."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from zerocross.runtime.kernels import vector_ir as v
from zerocross.runtime.kernels.vector_ir import Builder, Value

SPINS = 1 << 8  # polls of `wait_until`, a few microseconds, before it yields; a power of 2
COPY_BYTES = 32  # `copy` reads and writes multiples of this size: leave as much space after source and target


def _make_load(typ: ir.Type, numba_type: types.Type) -> Any:
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001 - protocol
        return v.load(b, args[0], typ, 1)

    def typed(typingctx: Any, address: Any) -> Any:  # noqa: ARG001
        return numba_type(types.int64), codegen

    return intrinsic(typed)


def _make_store(numba_type: types.Type) -> Any:
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        v.store(b, args[1], args[0], 1)
        return context.get_dummy_value()

    def typed(typingctx: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
        return types.void(types.int64, numba_type), codegen

    return intrinsic(typed)


load_int, load_word, load_byte, load_real = (
    _make_load(typ, numba_type)
    for typ, numba_type in (
        (v.I64, types.int64),
        (v.I32, types.int32),
        (ir.IntType(8), types.uint8),
        (v.F32, types.float32),
    )
)
store_int, store_word, store_real = (_make_store(typ) for typ in (types.int64, types.int32, types.float32))


def _copy(typingctx: Any, target: Any, source: Any, size: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        target, source, size = args
        piece = ir.VectorType(v.I64, COPY_BYTES // 8)

        def move(index: Value, carried: list[Value]) -> list[Value]:
            v.store(
                b, v.load(b, v.plus(b, source, index, COPY_BYTES), piece, 1), v.plus(b, target, index, COPY_BYTES), 1
            )
            return carried

        v.loop(b, b.udiv(b.add(size, v.I64(COPY_BYTES - 1)), v.I64(COPY_BYTES)), [], move)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


def _add_atomic(typingctx: Any, address: Any, number: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        before = b.atomic_rmw("add", b.inttoptr(args[0], v.I64.as_pointer()), args[1], "seq_cst")
        return b.add(before, args[1])

    return types.int64(types.int64, types.int64), codegen


def _exchange(typingctx: Any, address: Any, old: Any, new: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        address, old, new = args
        found = b.cmpxchg(b.inttoptr(address, v.I64.as_pointer()), old, new, "seq_cst", "seq_cst")
        return b.zext(b.extract_value(found, 1), v.I64)

    return types.int64(types.int64, types.int64, types.int64), codegen


def _publish(typingctx: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        b.store_atomic(args[1], b.inttoptr(args[0], v.I64.as_pointer()), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


def _wait_until(typingctx: Any, address: Any, target: Any, patience: Any, give_way: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        address, target, patience, give_way = args
        address = b.inttoptr(address, v.I64.as_pointer())
        before = b.block
        look, wait, spin, after = (b.append_basic_block(name) for name in ("look", "wait", "spin", "after"))
        b.branch(look)
        b.position_at_end(look)
        turns = b.phi(v.I64)
        turns.add_incoming(v.I64(1), before)
        reached = b.icmp_signed(">=", b.load_atomic(address, "seq_cst", 8), target)
        b.cbranch(reached, after, wait)
        b.position_at_end(wait)
        b.cbranch(b.icmp_signed("<", turns, patience), spin, after)
        b.position_at_end(spin)
        if "x86" in b.module.triple:
            v.call(b, "llvm.x86.sse2.pause", ir.VoidType())
        long = b.icmp_signed("==", b.and_(turns, v.I64(SPINS - 1)), v.I64(0))
        with b.if_then(b.and_(long, b.icmp_signed("!=", give_way, v.I64(0)))):
            function = ir.FunctionType(ir.IntType(32), [])
            b.call(b.inttoptr(give_way, function.as_pointer()), [])
        turns.add_incoming(b.add(turns, v.I64(1)), b.block)
        b.branch(look)
        b.position_at_end(after)
        return b.zext(reached, v.I64)

    return types.int64(types.int64, types.int64, types.int64, types.int64), codegen


def _ask(typingctx: Any, function: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, b: Builder, signature: Any, args: list[Value]) -> Value:  # noqa: ARG001
        function = ir.FunctionType(ir.IntType(32), [])
        return b.sext(b.call(b.inttoptr(args[0], function.as_pointer()), []), v.I64)

    return types.int64(types.int64), codegen


copy: Any = intrinsic(_copy)
"""copy(target, source, size): copy in pieces of COPY_BYTES; a few more bytes may be read and written."""

add_atomic: Any = intrinsic(_add_atomic)
"""add_atomic(address, number): add to the int64 at an address, and return the result."""

exchange: Any = intrinsic(_exchange)
"""exchange(address, old, new): replace the int64 at an address by `new` if it is `old`; return 1 if it was, else 0."""

publish: Any = intrinsic(_publish)
"""publish(address, value): store an int64; a thread that reads it also sees everything stored before."""

wait_until: Any = intrinsic(_wait_until)
"""wait_until(address, target, patience, give_way): wait until the int64 at an address has reached `target`.

1 if it has, 0 if it had not after `patience` turns. Now and then the function at the address `give_way` is called (0:
none), for others who need the processor.
"""

ask: Any = intrinsic(_ask)
"""ask(function): call the C function without arguments at an address, and return its int."""
