"""From Python to machine code, by Numba: the one function that runs whole programs."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numba
from numba import njit, types
from numba.extending import intrinsic

from zerocross.runtime.kernels.execute import OPTIONS, execute
from zerocross.runtime.kernels.memory import meet
from zerocross.runtime.kernels.steps import STEP

_STEP_BYTES = STEP.itemsize
_RECORD = numba.from_dtype(STEP)


def _step_at(typingctx: Any, address: Any) -> Any:  # noqa: ARG001 - Numba's protocol
    def codegen(context: Any, b: Any, signature: Any, args: list[Any]) -> Any:  # noqa: ARG001
        return b.inttoptr(args[0], context.get_value_type(_RECORD))

    return _RECORD(types.int64), codegen


step_at: Any = intrinsic(_step_at)


def run(
    steps, step_count, stages, arena, scratch, x, y, batch, images, x_bytes, y_bytes, part, parts, counter,
    give_way,
):  # fmt: skip
    """Run a program over a batch, `images` images at a time; or one of `parts` equal shares of every step of it.

    Addresses and sizes are integers. `counter` is the address of an int64 that is 0 at the start: threads that share
    steps meet there after each of them; `give_way` as in `meet`.
    """
    met = 0
    for start in range(0, batch, images):
        count = min(images, batch - start)
        for number in range(step_count):
            execute(
                step_at(steps + number * _STEP_BYTES), count, stages, arena, scratch, x + start * x_bytes,
                y + start * y_bytes, part, parts,
            )  # fmt: skip
            if parts > 1:
                met += parts
                meet(counter, met, give_way)


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
