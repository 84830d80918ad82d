"""The compiled function: read from a file by llvmlite alone, or compiled by Numba at first use.

The package contains the object code of the common levels for Linux (see `zerocross.runtime.prebuild`); code for other
systems is compiled once and cached. Every file starts with its SHA-256, and its name contains a hash of the sources.
Importing Numba takes more time and memory than loading and running a network; with such a file it is not imported.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from zerocross.files import write_whole
from zerocross.runtime.kernels.target import Level, best_level, choose_level, level_named

Run = Callable[[int, int, int, int], object]  # the address of a job, a `Mode`, the addresses of x and y

PREBUILT = Path(__file__).parents[1] / "prebuilt"  # object code inside the package
_SYMBOL = "zerocross_run"
_loaded: list[tuple[Run, Any]] = []  # the function, and references that keep its code in memory
_forced: list[Level] = []


def use_level(name: str) -> None:
    """Run code of a level of `target.LEVELS` in this process, for tests; call it before a network is loaded."""
    level = level_named(name)
    if _loaded:
        raise RuntimeError(f"level = {name!r}: code is already loaded; choose a level before the first network")
    _forced[:] = [level]


def load_run(say: Callable[[str], object], cache: Path | None = None) -> Run:
    """Return the compiled `zerocross.runtime.kernels.build.run`; the first call of a process loads or compiles it.

    Args:
        say: Callback for messages about the compilation and its duration.
        cache: Folder for compiled code; by default the first writable one of this package's own ``__pycache__`` and
            ``.cache/zerocross`` in the home folder.
    """
    if not _loaded:  # two threads may both do this, which only costs time; Ctrl-C could leave a lock behind
        level = _forced[0] if _forced else best_level()
        _loaded.append(_link(_object_code(level, say, cache), level))
    return _loaded[0][0]


def _object_code(level: Level, say: Callable[[str], object], cache: Path | None) -> bytes:
    files = [folder / object_name(level) for folder in ([cache] if cache else _folders())]
    for file in (PREBUILT / object_name(level), *files):
        if (code := read_object(file)) is not None:
            return code
    say("compiling kernels for this processor, once: about ten seconds ...")
    began = time.perf_counter()
    code = compile_level(level)
    folder = next(_written(files, code), None)
    cached = f"and cached in {folder}" if folder else "but not cached, since no folder is writable: pass one as `cache`"
    say(f"kernels compiled in {time.perf_counter() - began:.1f} s, {cached}")
    return code


def object_name(level: Level) -> str:
    """Return the file name of a level's code; it changes with every change to this folder."""
    return f"{level.name}-{_key(level)}.bin"


def compile_level(level: Level) -> bytes:
    """Return object code for a level, which this processor need not support; one level per process."""
    choose_level(level)
    from zerocross.runtime.kernels.build import compile_run

    return compile_run(_SYMBOL, _machine(level))


def _folders() -> list[Path]:
    try:
        return [Path(__file__).parent / "__pycache__", Path.home() / ".cache" / "zerocross"]
    except RuntimeError:  # the user has no home folder
        return [Path(__file__).parent / "__pycache__"]


def read_object(file: Path) -> bytes | None:
    """Return the object code in a file, or None if the file does not exist or its checksum is wrong."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    return data[32:] if hashlib.sha256(data[32:]).digest() == data[:32] else None


def write_object(file: Path, code: bytes) -> None:
    """Write object code, preceded by its checksum."""
    data = hashlib.sha256(code).digest() + code
    write_whole(file, lambda stream: stream.write(data))


def _written(files: list[Path], code: bytes) -> Iterator[str]:
    """Write the code to files, and yield the folders in which that succeeded."""
    for file in files:
        try:
            write_object(file, code)
        except OSError:
            continue
        yield str(file.parent)


@functools.cache
def _key(level: Level) -> str:
    """Return a hash of everything that compiled code depends on: this folder's sources and the target."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    for text in (llvm.get_process_triple(), repr(level), *([] if level.cpu else _host())):
        digest.update(text.encode())
    return digest.hexdigest()[:16]


def _host() -> tuple[str, str]:
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _machine(level: Level) -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    cpu, features = (level.cpu, level.features) if level.cpu else _host()
    return target.create_target_machine(cpu=cpu, features=features, opt=3, codemodel="jitdefault", jit=True)


def _link(code: bytes, level: Level) -> tuple[Run, Any]:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine(level))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    # Numba's convention: addresses for the result (None) and an exception (never raised), then the arguments.
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 4)
    native = function(engine.get_function_address(_SYMBOL))
    result, exception = ctypes.c_void_p(), ctypes.c_void_p()
    return functools.partial(native, ctypes.addressof(result), ctypes.addressof(exception)), (engine, result, exception)
