"""Convert Python values to C text: names, comments, numbers and arrays."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

import numpy as np

WIDTH = 120
KEYWORDS = frozenset({
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float",
    "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed", "sizeof",
    "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while",
})  # fmt: skip


def check_name(name: str) -> str:
    """Return a name that may be a prefix of C functions; raise a ValueError if it is not valid."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,39}", name) or name in KEYWORDS:
        raise ValueError(
            f"name = {name!r}: it must be a C identifier of 1..40 letters, digits and underscores that starts with a "
            "letter and is not a keyword"
        )
    return name


def identifier(text: str) -> str:
    """Convert any text to letters, digits and underscores."""
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")[:60] or "value"


def comment_text(text: str) -> str:
    """Escape a text so that it is safe inside a comment."""
    printable = "".join(char if " " <= char <= "~" and char not in "\\?" else "." for char in text)
    return printable.replace("*/", "* /").replace("/*", "/ *")


def comment(*sentences: str, indent: str = "") -> str:
    """Return a comment, wrapped to lines."""
    text = comment_text(" ".join(sentence for sentence in sentences if sentence))
    first = indent + "/* "
    return textwrap.fill(
        f"{text} */", WIDTH, initial_indent=first, subsequent_indent=indent + "   ", break_on_hyphens=False
    )


def string(text: str) -> str:
    """Return a C string literal of the text in UTF-8."""
    safe = set(range(0x20, 0x7F)) - set(b'"\\?')
    return '"' + "".join(chr(byte) if byte in safe else f"\\{byte:03o}" for byte in text.encode()) + '"'


def real(value: float) -> str:
    """Return a float constant that reads back as the same float32."""
    text = str(np.float32(value))
    return (text if any(char in text for char in ".e") else f"{text}.0") + "f"


def numbers(array: np.ndarray) -> list[str]:
    """Return the numbers of an array as C constants."""
    flat = array.reshape(-1)
    if array.dtype == np.uint64:
        return [f"UINT64_C(0x{value:016x})" for value in flat.tolist()]
    if array.dtype == np.float32:
        return [real(value) for value in flat]
    if array.dtype == np.uint8:
        return [f"0x{value:02x}" for value in flat.tolist()]
    return [str(value) for value in flat.tolist()]


def filled(items: Iterable[str], indent: str) -> str:
    """Join items with commas, as many per line as fit."""
    lines, line = [], indent
    for item in items:
        if len(line) + len(item) + 2 > WIDTH and line != indent:
            lines.append(line.rstrip())
            line = indent
        line += f"{item}, "
    return "\n".join([*lines, line.rstrip().rstrip(",")])


def size_text(size: Sequence[int]) -> str:
    """Return a size as text, such as 16 x 32 x 32."""
    return " x ".join(str(each) for each in size)
