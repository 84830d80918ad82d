"""Compile the function that runs whole programs, from Python to machine code, with Numba."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numba
from numba import njit, types
from numba.core import config
from numba.extending import intrinsic

from zerocross.runtime.kernels.execute import execute
from zerocross.runtime.kernels.gather import OPTIONS, inner
from zerocross.runtime.kernels.memory import add_atomic, ask, exchange, load_int, publish, store_int, wait_until
from zerocross.runtime.kernels.steps import FLAG_BYTES, JOB, STEP, CallField, Duty, Mode

_STEP_BYTES, _JOB_BYTES = STEP.itemsize, JOB.itemsize
_PROCESSOR, _X, _Y = 8 * CallField.PROCESSOR, 8 * CallField.X, 8 * CallField.Y
_AWAY, _READY, _CLAIMED, _WORKING = (int(duty) for duty in Duty)
_PATIENT, _SERVE = int(Mode.PATIENT), int(Mode.SERVE)
_FOREVER = 1 << 62
_PATIENCE = 1 << 14  # polls, about a millisecond: how long to wait for a job, or for helper threads


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
    """Run a program, or a share of each of its steps, over a batch, `images` images at a time."""
    for start in range(0, job.batch, job.images):
        count = min(job.images, job.batch - start)
        x_at, y_at = x + job.x + start * job.x_bytes, y + job.y + start * job.y_bytes
        number = 0
        while number < job.step_count:
            alone = count == job.parts == 1 and number + 1 < job.step_count
            slices = step_at(job.steps + number * _STEP_BYTES).slices if alone else 0
            together = 2 if slices else 1
            part, parts = (0, slices) if slices else (job.part, job.parts)
            for turn in range(together * max(1, slices)):
                step = step_at(job.steps + (number + turn % together) * _STEP_BYTES)
                at = part + turn // together
                execute(step, count, job.stages, job.arena, job.scratch, x_at, y_at, at, parts)
            if job.parts > 1:
                _meet(job)
            number += together


@inner
def _meet(job: Any) -> None:
    """Synchronise the threads that share a step.

    Each thread counts its steps in its own cache line, which the others poll: the line moves from one processor to the
    other only once, whereas a common counter would move back and forth.
    """
    own = job.flags + FLAG_BYTES * job.part
    done = load_int(own) + 1
    publish(own, done)
    for part in range(job.parts):
        if part != job.part:
            wait_until(job.flags + FLAG_BYTES * part, done, _FOREVER, job.give_way)


@inner
def _serve(job: Any) -> None:
    """Poll for jobs and do them, until there is no job for a while.

    Also return if this thread runs on the caller's processor, where the two would slow down each other.
    """
    duty = job.duties + FLAG_BYTES * job.thread
    publish(duty, _READY)
    crowded = 0
    while True:
        if not crowded and wait_until(duty, _WORKING, _PATIENCE, job.give_way):
            job.seen += 1
            _do(job, load_int(job.call + _X), load_int(job.call + _Y))
            crowded = job.get_processor and ask(job.get_processor) == load_int(job.call + _PROCESSOR)
            publish(duty, _READY)
            add_atomic(job.done, 1)
        elif exchange(duty, _READY, _AWAY):
            return
        elif crowded:
            crowded = 0


@inner
def _claimed(job: Any, patience: int) -> bool:
    """Reserve all other threads for a job; return False if one of them is not ready."""
    for thread in range(1, job.others + 1):
        if not wait_until(job.duties + FLAG_BYTES * thread, _READY, patience, job.give_way):
            return False
    for thread in range(1, job.others + 1):
        if not exchange(job.duties + FLAG_BYTES * thread, _READY, _CLAIMED):
            for before in range(1, thread):
                publish(job.duties + FLAG_BYTES * before, _READY)
            return False
    return True


def run(address, mode, x, y):
    """Do the job at an address, a record of JOB, together with the helper threads; return when all shares are done.

    The record after those of the caller and its helpers is the whole job for one thread, which is done instead if the
    helpers are not ready: a call always completes its job. `mode` is a `Mode`; `x` and `y` are the addresses of input
    and output, which the helpers read from the caller's message.
    """
    job = job_at(address)
    if mode == _SERVE:
        _serve(job)
        return
    if job.others == 0:
        _do(job, x, y)
        return
    if not _claimed(job, _PATIENCE if mode == _PATIENT else 1):
        _do(job_at(address + (job.others + 1) * _JOB_BYTES), x, y)
        return
    store_int(job.call + _PROCESSOR, ask(job.get_processor) if job.get_processor else 0)
    store_int(job.call + _X, x)
    store_int(job.call + _Y, y)
    job.seen += 1
    publish(job.done, 0)
    for thread in range(1, job.others + 1):
        publish(job.duties + FLAG_BYTES * thread, _WORKING)
    _do(job, x, y)
    wait_until(job.done, job.others, _FOREVER, job.give_way)


def compile_run(symbol: str, machine: llvm.TargetMachine) -> bytes:
    """Return the object code of `run`: a C function named `symbol` of two pointers (unused) and its int64 arguments."""
    signature = types.void(*[types.int64] * run.__code__.co_argcount)
    numba_config: Any = config  # its attributes are created when Numba is imported
    level, numba_config.OPT = (
        numba_config.OPT,
        type(numba_config.OPT)(0),
    )  # Numba would optimize every function, and again in its callers
    try:
        (compiled,) = njit(signature, **OPTIONS)(run).overloads.values()
    finally:
        numba_config.OPT = level
    module = llvm.parse_assembly(compiled.library.get_llvm_str())
    name = compiled.fndesc.llvm_func_name
    for function in module.functions:
        if not function.is_declaration and function.name != name:
            function.linkage = "internal"
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    module.get_function(name).name = symbol
    needed = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    if needed:  # only Numba could provide them, and it is not imported when the code is loaded
        raise RuntimeError(f"compiled code refers to {', '.join(needed)}")
    return machine.emit_object(module)
