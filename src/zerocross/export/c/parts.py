"""The parts of a C file: constants, working memory and kernels, with their sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import numpy as np

from zerocross.export.c.text import comment, filled, identifier, numbers, string

WINDOW_FIELDS = (
    "height", "width", "line", "pixel", "kernel_y", "kernel_x", "stride_y", "stride_x", "pad_y", "pad_x",
    "dilation_y", "dilation_x",
)  # fmt: skip
TYPES = {
    "uint64": "uint64_t", "float32": "float", "int32": "int32_t", "int16": "int16_t", "int8": "int8_t",
    "uint8": "uint8_t",
}  # fmt: skip
_WIDTHS = {"uint64_t": 8, "float": 4, "int32_t": 4, "uint8_t": 1, "int8_t": 1}
_COPIES = {  # kernels derived from others by replacing the type of the weights or thresholds
    "convolve_int8": ("convolve_float", "const float *w", "const int8_t *w"),
    "depthwise_int8": ("depthwise_float", "const float *w", "const int8_t *w"),
    "pack_thresholds_int32": ("pack_thresholds_int16", "int16_t", "int32_t"),
}


@dataclass(frozen=True)
class Member:
    """A member of a struct: name, type, number of elements, bytes per element, description and initial value."""

    name: str
    ctype: str
    count: int
    width: int
    about: str = ""
    value: str = ""

    @property
    def align(self) -> int:
        """Alignment in bytes."""
        return 4 if self.ctype == "struct window" else self.width

    @property
    def declaration(self) -> str:
        """Declaration in the struct."""
        if self.ctype == "char":
            return f"char {self.name}[{self.count}][{self.width}]"
        return f"{self.ctype} {self.name}" + ("" if self.ctype == "struct window" else f"[{self.count}]")


@dataclass
class Members:
    """The members of a struct, ordered without gaps: the widest types come first."""

    members: list[Member] = field(default_factory=list)

    def sorted(self) -> list[Member]:
        """Return the members in the order of the struct."""
        return sorted(self.members, key=lambda member: 0 if member.ctype == "char" else -member.align)

    @property
    def bytes(self) -> int:
        """Size of the struct."""
        align = max((1 if member.ctype == "char" else member.align for member in self.members), default=1)
        return -(-sum(member.count * member.width for member in self.members) // align) * align

    def free_name(self, wanted: str) -> str:
        """Return the name if it is free, or a similar name that is."""
        base, count = identifier(wanted), 1
        name = base if base[0].isalpha() else f"n{base}"
        used_names = {member.name for member in self.members}
        while (result := name if count == 1 else f"{name}_{count}") in used_names:
            count += 1
        return result


class Constants(Members):
    """The constants of a network, as one const struct."""

    def array(self, wanted: str, array: np.ndarray, about: str = "") -> str:
        """Add an array and return its name."""
        name = self.free_name(wanted)
        ctype = TYPES[array.dtype.name]
        value = "{\n" + filled(numbers(array), " " * 8) + "}"
        self.members.append(Member(name, ctype, array.size, array.dtype.itemsize, about, value))
        return name

    def window(self, wanted: str, fields: dict[str, int], about: str = "") -> str:
        """Add a window and return its name."""
        name = self.free_name(wanted)
        value = "{" + ", ".join(str(fields[each]) for each in WINDOW_FIELDS) + "}"
        self.members.append(Member(name, "struct window", 1, 4 * len(WINDOW_FIELDS), about, value))
        return name

    def strings(self, wanted: str, texts: tuple[str, ...]) -> str:
        """Add strings, padded to the length of the longest, and return their name."""
        name = self.free_name(wanted)
        width = max(len(text.encode()) for text in texts) + 1
        value = "{\n" + filled((string(text) for text in texts), " " * 8) + "}"
        self.members.append(Member(name, "char", len(texts), width, "names of the classes", value))
        return name

    def text(self, name: str) -> str:
        """Return the struct and its values."""
        members = self.sorted()
        declared = [f"    {member.declaration};" for member in members]
        values = []
        for member in members:
            values += [comment(member.about, indent="    ")] * bool(member.about)
            values.append(f"    .{member.name} = {member.value},")
        return "\n".join([f"static const struct {name} {{", *declared, f"}} {name} = {{", *values, "};"])


class Memory(Members):
    """The memory that a prediction writes to, as one static struct."""

    def need(self, name: str, ctype: str, count: int, about: str) -> None:
        """Add an array, or enlarge an existing one to at least `count` elements."""
        old = next((member for member in self.members if member.name == name), None)
        if old is not None:
            self.members.remove(old)
            count = max(count, old.count)
        self.members.append(Member(name, ctype, count, _WIDTHS[ctype], about))

    def text(self, name: str) -> str:
        """Return the struct."""
        declared = [f"    {member.declaration}; {comment(member.about)}" for member in self.sorted()]
        return "\n".join([f"static struct {name} {{", *declared, f"}} {name};"])


@cache
def _library() -> dict[str, tuple[tuple[str, ...], str]]:
    """Return every kernel by name: the kernels that it needs, and its text."""
    source = files("zerocross.export.c").joinpath("kernels.c").read_text(encoding="utf-8")
    kernels = {}
    for part in source.split("/* ---- ")[1:]:
        head, _, text = part.partition(" */\n")
        name, _, needs = head.partition(":")
        kernels[name] = (tuple(needs.split()), text.strip())
    for name, (like, old, new) in _COPIES.items():
        needs, text = kernels[like]
        kernels[name] = (needs, text.replace(old, new).replace(f" {like}(", f" {name}("))
    return kernels


def kernels_text(used: set[str]) -> str:
    """Return the kernels of these names and those that they need, in the order of the library."""
    library = _library()
    required: set[str] = set()

    def require(name: str) -> None:
        for needed in library[name][0]:
            require(needed)
        required.add(name)

    for name in used:
        require(name)
    return "\n\n".join(text for name, (_, text) in library.items() if name in required)
