"""Export of a packed network to a pair of C files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from zerocross.export.c.memory import plan_memory
from zerocross.export.c.parts import Constants, Memory, kernels_text
from zerocross.export.c.program import CProgram, make_program
from zerocross.export.c.steps import CWriter
from zerocross.export.c.text import check_name, comment, identifier, size_text
from zerocross.runtime.graph import Graph

_HEAD = """\
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "bits are stored for little-endian processors"
#endif

/* Kernels are inlined into the steps that call them, with all sizes known, unless optimising for size. */
#if defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__)
#define KERNEL inline __attribute__((always_inline))
#else
#define KERNEL
#endif

/* Keep identical steps separate: at -Os, GCC 12 merges them into one function and then drops some of its calls. */
#if defined(__GNUC__) && __GNUC__ >= 8 && !defined(__clang__)
#define STEP __attribute__((no_icf))
#else
#define STEP
#endif

/* Products and sums are rounded separately, so that every processor gives the same result. GCC has no pragma for this:
   compile with -std=c99 or -ffp-contract=off. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
"""


@dataclass(frozen=True)
class StoredValue:
    """A value that a step stores, as passed to the trace function.

    Attributes:
        step: Number of the step.
        value: Name of the value in the graph.
        kind: "real" (floats, channels last) or "bits" (eight channels per byte; each pixel starts with a new byte).
        size: Channels, height and width.
    """

    step: int
    value: str
    kind: str
    size: tuple[int, int, int]


class CModel:
    """A packed network in C99.

    Args:
        graph: A packed network.
        name: Name of the files, and prefix of function names.
    """

    def __init__(self, graph: Graph, name: str = "model") -> None:
        self.name = check_name(name)
        self.program: CProgram = make_program(graph)
        self.graph = self.program.graph
        self.constants, self.memory = Constants(), Memory()
        for kind, elements in plan_memory(self.program).items():
            member, ctype = ("reals", "float") if kind == "real" else ("bits", "uint8_t")
            if elements:
                self.memory.need(
                    member, ctype, elements, "stored values; values that are not used together share memory"
                )
        writer = CWriter(name, self.program, self.constants, self.memory)
        self._functions, self._calls = self._steps(writer)
        self._extras = self._extra_functions()
        self.kernels = frozenset(writer.kernels)

    def _steps(self, writer: CWriter) -> tuple[list[str], list[str]]:
        functions, calls = [], []
        used_names = {f"{self.name}_{each}" for each in ("predict", "trace", "normalise", "class_name")}
        for number, step in enumerate(self.program.steps):
            name = base = f"{self.name}_{identifier(step.node.output)}"
            count = 1
            while name in used_names:
                count += 1
                name = f"{base}_{count}"
            used_names.add(name)
            function, call = writer.function(number, step, name)
            functions.append(function)
            calls.append(call)
        return functions, calls

    # ---- sizes ---------------------------------------------------------------------------------------------------

    @property
    def constant_bytes(self) -> int:
        """Bytes of all constants: section .rodata of the object file, without additions by the compiler."""
        return self.constants.bytes

    @property
    def memory_bytes(self) -> int:
        """Bytes of static memory: section .bss of the object file, without the caller's input and output."""
        return self.memory.bytes

    @property
    def inputs(self) -> int:
        """Number of floats of an input."""
        return math.prod(self.graph.input_size)

    @property
    def outputs(self) -> int:
        """Number of floats of an output."""
        return math.prod(self.program.output_size)

    @cached_property
    def stored(self) -> list[StoredValue]:
        """The stored values, in the order in which `NAME_trace` is called."""
        return [
            StoredValue(number, buffer.value, buffer.kind, buffer.size)
            for number, step in enumerate(self.program.steps)
            for buffer in step.writes()
        ]

    # ---- texts ---------------------------------------------------------------------------------------------------

    def header(self) -> str:
        """Return the text of NAME.h."""
        name, upper = self.name, self.name.upper()
        parts = [
            comment(f"{name}.h: {self._about()}"),
            f'#ifndef {upper}_H\n#define {upper}_H\n\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern "C" {{\n#endif',
            f"#define {upper}_INPUTS {self.inputs}\n#define {upper}_OUTPUTS {self.outputs}",
            comment(
                f"One prediction. input: {self.inputs} floats, {size_text(self.graph.input_size)} with channels first,",
                "preprocessed as for training. output:",
                f"{self.outputs} floats, {size_text(self.program.output_size)}. Both belong to the caller and must not",
                "overlap. Memory is static: one prediction at a time.",
            )
            + f"\nvoid {name}_predict(const float *input, float *output);",
        ]
        if self.graph.preprocessing is not None:
            parts.append(
                comment("Convert bytes (an image, or the codes of a clip) to an input: (value / 255 - mean) / std.")
                + f"\nvoid {name}_normalise(const uint8_t *bytes, float *input);"
            )
        if self.graph.classes:
            parts.append(
                comment("The name of a class, 0 to outputs - 1, in UTF-8; an empty string for any other index.")
                + f"\nconst char *{name}_class_name(int32_t index);"
            )
        parts.append(
            f"#ifdef {upper}_TRACE\n"
            + comment(
                "To be defined by you if the file is compiled with this macro. It is called after each step with the",
                "values that the step has stored, channels last; 0 if it has stored none.",
            )
            + f"\nvoid {name}_trace(int32_t step, const float *reals, const uint8_t *bits);\n#endif"
        )
        parts.append("#ifdef __cplusplus\n}\n#endif\n\n#endif")
        return "\n\n".join(parts) + "\n"

    def source(self) -> str:
        """Return the text of NAME.c."""
        return join_sources([self])

    def body(self) -> str:
        """Return the source without its head and kernels."""
        name, upper = self.name, self.name.upper()
        parts = [self.constants.text(f"{name}_constants")] if self.constants.members else []
        parts += [self.memory.text(f"{name}_memory")] if self.memory.members else []
        parts.append(f"#ifdef {upper}_TRACE\n#define TRACE(call) call\n#else\n#define TRACE(call)\n#endif")
        calls = "\n".join(f"    {call}" for call in self._calls)
        parts += [*self._functions, f"void {name}_predict(const float *input, float *output)\n{{\n{calls}\n}}"]
        return "\n\n".join([*parts, *self._extras, "#undef TRACE"])

    def about_source(self) -> str:
        """Return the comment at the start of the source."""
        return comment(
            f"{self.name}.c: {self._about()} {self.constant_bytes} bytes of constants, {self.memory_bytes} bytes of",
            "static memory. C99, little-endian; no memory is allocated, and only memcpy and memset of the C library",
            "are used.",
        )

    def _about(self) -> str:
        known = self.graph.provenance
        network = known.get("network", known.get("model", ""))
        words = [f"the binary network {network},"] if network else ["a binary network,"]
        words.append(
            f"exported by zerocross {known['zerocross']}." if "zerocross" in known else "exported by zerocross."
        )
        words += [f"{key}: {known[key]}." for key in ("config", "data") if key in known]
        return " ".join(words)

    def _extra_functions(self) -> list[str]:
        name, functions = self.name, []
        preprocessing, size = self.graph.preprocessing, self.graph.input_size
        if preprocessing is not None:
            std, mean = (np.array(each, np.float32) for each in (preprocessing.std, preprocessing.mean))
            factor, term = np.float32(1) / (np.float32(255) * std), -mean / std
            channels = max(len(factor), len(term))
            arrays = [
                f"{name}_constants.{self.constants.array(f'normalise_{role}', np.broadcast_to(vector, channels))}"
                for role, vector in (("scale", factor), ("shift", term))
            ]
            each = math.prod(size) // channels
            index = "0" if channels == 1 else f"i / {each}"
            functions.append(
                f"void {name}_normalise(const uint8_t *bytes, float *input)\n{{\n"
                f"    for (int32_t i = 0; i < {self.inputs}; i++) {{\n"
                f"        float product = (float)bytes[i] * {arrays[0]}[{index}];\n"
                f"        input[i] = product + {arrays[1]}[{index}];\n    }}\n}}"
            )
        if self.graph.classes:
            names = f"{name}_constants.{self.constants.strings('classes', self.graph.classes)}"
            functions.append(
                f"const char *{name}_class_name(int32_t index)\n{{\n"
                f'    return index >= 0 && index < {len(self.graph.classes)} ? {names}[index] : "";\n}}'
            )
        return functions


def join_sources(models: Sequence[CModel]) -> str:
    """Return one C file with several networks, which share their kernels."""
    about = "\n".join(model.about_source() for model in models)
    includes = "\n".join(f'#include "{model.name}.h"' for model in models)
    kernels = kernels_text(set().union(*(model.kernels for model in models)))
    return (
        "\n\n".join([f"{about}\n\n{includes}\n{_HEAD}", *[kernels] * bool(kernels), *(m.body() for m in models)]) + "\n"
    )
