"""Plain-text tables and human-readable numbers, for commands and for the reports of `binarize` and `summary`."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], footer: Sequence[str] = (), right: int = 0) -> str:
    """Lay out rows of cells below a header, with the last `right` columns right-aligned and a footer below a rule."""
    lines = [header, *rows, *([footer] if footer else [])]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    first_right = len(header) - right

    def render(line: Sequence[str]) -> str:
        cells = [
            cell.rjust(width) if column >= first_right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    body = [render(header), rule, *(render(row) for row in rows)]
    return "\n".join([*body, rule, render(footer)] if footer else body)


def count_text(count: int) -> str:
    """Return a count with three digits and a decimal unit: 267264 -> '267 k'."""
    return _with_unit(count, 1000, ("", " k", " M", " G", " T"))


def bytes_text(count: int) -> str:
    """Return a number of bytes with three digits and a binary unit: 34560 -> '33.8 KiB'."""
    return _with_unit(count, 1024, (" B", " KiB", " MiB", " GiB", " TiB"))


def _with_unit(count: int, base: int, units: Sequence[str]) -> str:
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(units) - 1:
        value, unit = value / base, unit + 1
    if unit == 0:
        return f"{count}{units[0]}"
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{decimals}f}{units[unit]}"


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as '64 x 3 x 3 x 3'."""
    return " x ".join(str(size) for size in shape)
