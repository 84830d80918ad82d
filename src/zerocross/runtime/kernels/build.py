"""From Python to machine code, by Numba: the one function that runs whole programs."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numba
from numba import njit, types
from numba.extending import intrinsic

from zerocross.runtime.kernels.execute import OPTIONS, execute, inner
from zerocross.runtime.kernels.memory import add_atomic, ask, load_int, publish, store_int, wait_until
from zerocross.runtime.kernels.steps import FLAG_BYTES, JOB, STEP, CallField

_STEP_BYTES = STEP.itemsize
_PROCESSOR, _X, _Y = 8 * CallField.PROCESSOR, 8 * CallField.X, 8 * CallField.Y
_FOREVER = 1 << 62
_PATIENCE = 1 << 14  # turns, about a millisecond, that a thread without work looks out for the next job


def _make_record_at(dtype: Any) -> Any:
    record = numba.from_dtype(dtype)

    def codegen(context: Any, b: Any, signature: Any, args: list[Any]) -> Any:  # noqa: ARG001 - Numba's protocol
        return b.inttoptr(args[0], context.get_value_type(record))

    def typed(typingctx: Any, address: Any) -> Any:  # noqa: ARG001
        return record(types.int64), codegen

    return intrinsic(typed)


step_at, job_at = _make_record_at(STEP), _make_record_at(JOB)


@inner
def _do(job: Any, x: int, y: int) -> None:
    """Run a program over a batch, `images` images at a time; or a share of every step of it."""
    for start in range(0, job.batch, job.images):
        count = min(job.images, job.batch - start)
        x_at, y_at = x + job.x + start * job.x_bytes, y + job.y + start * job.y_bytes
        for number in range(job.step_count):
            step = step_at(job.steps + number * _STEP_BYTES)
            execute(step, count, job.stages, job.arena, job.scratch, x_at, y_at, job.part, job.parts)
            if job.parts > 1:
                _meet(job)


@inner
def _meet(job: Any) -> None:
    """Threads that share steps wait for each other after each of them.

    Each counts its steps at a place of its own, for good, which the others watch: one line of the cache goes from one
    processor to the other, where a common counter would go back and forth.
    """
    own = job.flags + FLAG_BYTES * job.part
    done = load_int(own) + 1
    publish(own, done)
    for part in range(job.parts):
        if part != job.part:
            wait_until(job.flags + FLAG_BYTES * part, done, _FOREVER, job.give_way)


def run(address, serving, x, y):
    """Call out to the others and do the job at an address, a record of JOB; return when all have done theirs.

    Serving, wait to be called and do what the record then says, again and again; return if nobody calls for a while, or
    if this thread is on the caller's processor, where the two would be in each other's way. `x` and `y` are where input
    and output begin; those who serve hear of it from the caller.
    """
    job = job_at(address)
    if serving:
        add_atomic(job.ready, 1)
        while wait_until(job.call, job.seen + 1, _PATIENCE, job.give_way):
            job.seen += 1
            _do(job, load_int(job.call + _X), load_int(job.call + _Y))
            crowded = job.get_processor and ask(job.get_processor) == load_int(job.call + _PROCESSOR)
            add_atomic(job.done, 1)
            if crowded:
                break
        add_atomic(job.ready, -1)
        return
    turn = 0
    if job.others > 0:
        turn = load_int(job.call) + 1
        store_int(job.call + _PROCESSOR, ask(job.get_processor) if job.get_processor else 0)
        store_int(job.call + _X, x)
        store_int(job.call + _Y, y)
        publish(job.call, turn)
    _do(job, x, y)
    if job.others > 0:
        wait_until(job.done, turn * job.others, _FOREVER, job.give_way)


def compile_run(symbol: str, machine: llvm.TargetMachine) -> bytes:
    """The object code of `run`, a C function of 0, 0 and its arguments (int64) under the name `symbol`."""
    signature = types.void(*[types.int64] * run.__code__.co_argcount)
    (compiled,) = njit(signature, **OPTIONS)(run).overloads.values()
    module = llvm.parse_assembly(compiled.library.get_llvm_str())
    module.get_function(compiled.fndesc.llvm_func_name).name = symbol
    needed = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    if needed:  # nothing but Numba could give them, and it is not there when the code is loaded
        raise RuntimeError(f"compiled code refers to {', '.join(needed)}")
    return machine.emit_object(module)
