"""The target "c": a pair of files, and their flash and memory requirements."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from zerocross.export.c.model import CModel
from zerocross.export.targets import Exported
from zerocross.runtime.graph import Graph


@dataclass(frozen=True)
class ObjectSizes:
    """Bytes of an object file by section, as reported by `size -A`.

    Attributes:
        code: .text, and all loaded sections other than those below.
        constants: .rodata: the network's weights and parameters.
        memory: .bss and .data: static memory.
    """

    code: int
    constants: int
    memory: int


def make(graph: Graph, name: str, *, cc: str | None = None) -> Exported:
    """Return NAME.c and NAME.h.

    Args:
        graph: A packed network.
        name: Name of the files.
        cc: A compiler with its options, such as "arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -Os". If given, the file is
            compiled with it, and the notes contain the sizes of the object file.
    """
    model = CModel(graph, name)
    files = {f"{name}.c": model.source().encode(), f"{name}.h": model.header().encode()}
    caller = f"the input ({4 * model.inputs:,} bytes) and the output ({4 * model.outputs:,} bytes)"
    notes = [
        f"flash: {model.constant_bytes:,} bytes of constants (.rodata), plus code",
        f"RAM: {model.memory_bytes:,} bytes of static memory (.bss), plus less than 1 KB of stack",
        f"the caller provides {caller}",
    ]
    if cc is not None:
        sizes = measure(model, cc)
        notes.append(
            f"{cc}: {sizes.code:,} bytes of code + {sizes.constants:,} of constants = "
            f"{sizes.code + sizes.constants:,} of flash; {sizes.memory:,} of static memory"
        )
        if (sizes.constants, sizes.memory) != (model.constant_bytes, model.memory_bytes):
            raise ValueError(f"the object file of {cc!r} has other sizes ({sizes}) than the exporter computed")
    return Exported(files, tuple(notes))


def measure(model: CModel, cc: str) -> ObjectSizes:
    """Compile a network and measure its object file.

    Args:
        model: The network.
        cc: The compiler and its options.
    """
    command = shlex.split(cc)
    with tempfile.TemporaryDirectory() as folder:
        source, object_file = Path(folder) / f"{model.name}.c", Path(folder) / f"{model.name}.o"
        source.write_text(model.source(), encoding="utf-8")
        source.with_suffix(".h").write_text(model.header(), encoding="utf-8")
        try:
            _run([*command, "-std=c99", "-c", "-o", str(object_file), str(source)])
            size = _run([command[0], "-print-prog-name=size"]).strip()
            lines = _run([size, "-A", str(object_file)]).splitlines()
        except (FileNotFoundError, IndexError) as error:
            raise ValueError(f"cc = {cc!r} cannot be run ({error})") from None
    sections = {words[0]: int(words[1]) for words in map(str.split, lines) if len(words) == 3 and words[1].isdigit()}
    loaded = {
        name: bytes_
        for name, bytes_ in sections.items()
        if name.startswith((".text", ".rodata", ".data", ".bss", ".ARM.ex"))
    }
    memory = sum(bytes_ for name, bytes_ in loaded.items() if name.startswith((".bss", ".data")))
    constants = loaded.get(".rodata", 0)
    return ObjectSizes(sum(loaded.values()) - constants - memory, constants, memory)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        message = " ".join(done.stderr.split())[:400]
        raise ValueError(f"{command[0]} failed: {message}")
    return done.stdout
