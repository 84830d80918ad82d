"""A packed network as a pair of C files."""

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

/* Kernels become part of the steps that call them, with all sizes known, unless code is to be small. */
#if defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__)
#define KERNEL inline __attribute__((always_inline))
#else
#define KERNEL
#endif

/* Steps that read alike stay two: GCC 12 folds them into one at -Os, and then leaves out calls of it. */
#if defined(__GNUC__) && __GNUC__ >= 8 && !defined(__clang__)
#define STEP __attribute__((no_icf))
#else
#define STEP
#endif

/* A product and a sum are rounded one after the other, so that every processor gives the same result. GCC has no pragma
   for it: there -std=c99 or -ffp-contract=off does it. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
"""


@dataclass(frozen=True)
class Stored:
    """A value that a step stores, as the trace of a file shows it.

    Attributes:
        step: number of the step.
        value: its name in the graph.
        kind: "real" (floats, channels last) or "bits" (eight channels to a byte, each pixel from a new byte on).
        size: channels, height and width.
    """

    step: int
    value: str
    kind: str
    size: tuple[int, int, int]


class CModel:
    """A packed network in C99.

    Args:
        graph: a packed network.
        name: of the files, and what the names of functions begin with.
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
                    member, ctype, elements, "stored values, some of them one after the other in one place"
                )
        writer = CWriter(name, self.program, self.constants, self.memory)
        self._functions, self._calls = self._steps(writer)
        self._extras = self._extra_functions()
        self.kernels = frozenset(writer.kernels)

    def _steps(self, writer: CWriter) -> tuple[list[str], list[str]]:
        functions, calls, taken = [], [], set()
        for number, step in enumerate(self.program.steps):
            name = base = f"{self.name}_{identifier(step.node.output)}"
            count = 1
            while name in taken | {f"{self.name}_{each}" for each in ("predict", "trace", "normalise", "class_name")}:
                count += 1
                name = f"{base}_{count}"
            taken.add(name)
            function, call = writer.function(number, step, name)
            functions.append(function)
            calls.append(call)
        return functions, calls

    # ---- sizes ---------------------------------------------------------------------------------------------------

    @property
    def constant_bytes(self) -> int:
        """Bytes of all constants: section .rodata of the object file, without what the compiler adds."""
        return self.constants.bytes

    @property
    def memory_bytes(self) -> int:
        """Bytes of static memory: section .bss of the object file. The caller's input and output are not in it."""
        return self.memory.bytes

    @property
    def inputs(self) -> int:
        """Numbers of an input."""
        return math.prod(self.graph.input_size)

    @property
    def outputs(self) -> int:
        """Numbers of an output."""
        return math.prod(self.program.output_size)

    @cached_property
    def stored(self) -> list[Stored]:
        """What is stored, in the order in which `NAME_trace` is called."""
        return [
            Stored(number, buffer.value, buffer.kind, buffer.size)
            for number, step in enumerate(self.program.steps)
            for buffer in step.writes()
        ]

    # ---- texts ---------------------------------------------------------------------------------------------------

    def header(self) -> str:
        """The text of NAME.h."""
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
                comment(
                    "From bytes (an image, or codes of a clip) to an input: value / 255, less the mean, over the std."
                )
                + f"\nvoid {name}_normalise(const uint8_t *bytes, float *input);"
            )
        if self.graph.classes:
            parts.append(
                comment("The name of a class, 0 to outputs - 1, in UTF-8; the empty text for any other number.")
                + f"\nconst char *{name}_class_name(int32_t index);"
            )
        parts.append(
            f"#ifdef {upper}_TRACE\n"
            + comment(
                "Yours, where the file is compiled with this macro: called after each step with what it has stored,",
                "channels last; 0 for what it has not.",
            )
            + f"\nvoid {name}_trace(int32_t step, const float *reals, const uint8_t *bits);\n#endif"
        )
        parts.append("#ifdef __cplusplus\n}\n#endif\n\n#endif")
        return "\n\n".join(parts) + "\n"

    def source(self) -> str:
        """The text of NAME.c."""
        return join_sources([self])

    def body(self) -> str:
        """What the source has beyond its head and kernels."""
        name, upper = self.name, self.name.upper()
        parts = [self.constants.text(f"{name}_constants")] if self.constants.members else []
        parts += [self.memory.text(f"{name}_memory")] if self.memory.members else []
        parts.append(f"#ifdef {upper}_TRACE\n#define TRACE(call) call\n#else\n#define TRACE(call)\n#endif")
        calls = "\n".join(f"    {call}" for call in self._calls)
        parts += [*self._functions, f"void {name}_predict(const float *input, float *output)\n{{\n{calls}\n}}"]
        return "\n\n".join([*parts, *self._extras, "#undef TRACE"])

    def about_source(self) -> str:
        """The comment that the source begins with."""
        return comment(
            f"{self.name}.c: {self._about()} {self.constant_bytes} bytes of constants, {self.memory_bytes} bytes of",
            "static memory. C99, little-endian; nothing is allocated, nothing of the C library is used but memcpy and",
            "memset.",
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
        name, found = self.name, []
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
            place = "0" if channels == 1 else f"i / {each}"
            found.append(
                f"void {name}_normalise(const uint8_t *bytes, float *input)\n{{\n"
                f"    for (int32_t i = 0; i < {self.inputs}; i++) {{\n"
                f"        float product = (float)bytes[i] * {arrays[0]}[{place}];\n"
                f"        input[i] = product + {arrays[1]}[{place}];\n    }}\n}}"
            )
        if self.graph.classes:
            names = f"{name}_constants.{self.constants.strings('classes', self.graph.classes)}"
            found.append(
                f"const char *{name}_class_name(int32_t index)\n{{\n"
                f'    return index >= 0 && index < {len(self.graph.classes)} ? {names}[index] : "";\n}}'
            )
        return found


def join_sources(models: Sequence[CModel]) -> str:
    """One C file of several networks, which share their kernels."""
    about = "\n".join(model.about_source() for model in models)
    includes = "\n".join(f'#include "{model.name}.h"' for model in models)
    kernels = kernels_text(set().union(*(model.kernels for model in models)))
    return (
        "\n\n".join([f"{about}\n\n{includes}\n{_HEAD}", *[kernels] * bool(kernels), *(m.body() for m in models)]) + "\n"
    )
