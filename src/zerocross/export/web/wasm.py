"""The target "wasm": the C file of a network, compiled to WebAssembly by clang."""

from __future__ import annotations

import json
import subprocess
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from zerocross.export.c.model import CModel
from zerocross.export.targets import Exported
from zerocross.runtime.graph import Graph

FLAGS = (
    "--target=wasm32", "-std=c99", "-ffreestanding", "-nostdlib", "-mbulk-memory", "-Wall", "-Wextra", "-Werror",
    "-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=16384",
)  # fmt: skip

_GLUE = """\
#include "{name}.h"
#include <string.h>

#define EXPORT(name) __attribute__((export_name(#name)))

static float input[{upper}_INPUTS], output[{upper}_OUTPUTS];
static uint8_t bytes[{upper}_INPUTS];

EXPORT(input) float *get_input(void) {{ return input; }}
EXPORT(output) float *get_output(void) {{ return output; }}
EXPORT(bytes) uint8_t *get_bytes(void) {{ return bytes; }}
EXPORT(predict) void predict(void) {{ {name}_predict(input, output); }}
{normalise}

__attribute__((import_module("env"), import_name("trace"))) void trace(int32_t, const float *, const uint8_t *);

void {name}_trace(int32_t step, const float *reals, const uint8_t *bits)
{{
    trace(step, reals, bits);
}}

void *memcpy(void *restrict to, const void *restrict from, size_t count)
{{
    return __builtin_memcpy(to, from, count); /* one instruction, memory.copy */
}}

void *memset(void *to, int value, size_t count)
{{
    return __builtin_memset(to, value, count); /* memory.fill */
}}
"""


def make(graph: Graph, name: str, *, clang: str = "clang") -> Exported:
    """Return NAME.wasm, NAME.simd.wasm and NAME.json, which describes their interface.

    Args:
        graph: A packed network.
        name: Name of the files.
        clang: The compiler, version 14 or later, with lld.
    """
    model = CModel(graph, name)
    plain, simd = (build(model, simd=simd, clang=clang) for simd in (False, True))
    described = {f"{name}.json": json.dumps(describe(model), indent=1).encode()}
    return Exported(
        {f"{name}.wasm": plain, f"{name}.simd.wasm": simd, **described},
        (f"{len(plain):,} bytes, and {len(simd):,} bytes with SIMD (-msimd128)",),
    )


def build(model: CModel, *, simd: bool = True, clang: str = "clang") -> bytes:
    """Return a WebAssembly module that exports memory, input(), output(), bytes(), normalise() and predict().

    It imports env.trace(step, reals, bits), which is called after each step with the addresses of the stored values.

    Args:
        model: The network.
        simd: Use WebAssembly's 128-bit vectors.
        clang: The compiler.
    """
    name, upper = model.name, model.name.upper()
    call = f"EXPORT(normalise) void normalise(void) {{ {name}_normalise(bytes, input); }}\n"
    glue = _GLUE.format(name=name, upper=upper, normalise=call if model.graph.preprocessing is not None else "")
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        header = files("zerocross.export.web").joinpath("string.h").read_text(encoding="utf-8")
        sources = {f"{name}.c": model.source(), f"{name}.h": model.header(), "glue.c": glue, "string.h": header}
        for each, source in sources.items():
            (folder / each).write_text(source, encoding="utf-8")
        level = ["-O3", "-msimd128"] if simd else ["-Os"]  # without vectors, larger code is hardly faster
        command = [clang, *FLAGS, *level, "-I.", f"-D{upper}_TRACE", "-o", "model.wasm", f"{name}.c", "glue.c"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise ValueError(
                f"{clang} is not installed: building WebAssembly requires clang and lld (Debian: .ci/wasm)"
            ) from None
        if done.returncode:
            raise ValueError(f"{clang} failed: {' '.join(done.stderr.split())[:400]}")
        return (folder / "model.wasm").read_bytes()


def describe(model: CModel) -> dict[str, Any]:
    """Return the interface of a network as plain values."""
    graph, preprocessing = model.graph, model.graph.preprocessing
    last = {stored.value: stored for stored in model.stored}  # after its last step, a concatenation is complete
    return {
        "name": model.name,
        "input_size": list(graph.input_size),
        "output_size": list(model.program.output_size),
        "classes": list(graph.classes),
        "preprocessing": None if preprocessing is None else preprocessing.to_json(),
        "stored": [
            {"step": stored.step, "value": stored.value, "kind": stored.kind, "size": list(stored.size)}
            for stored in last.values()
        ],
    }
