"""HTML elements from plain values; all text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

NOTHING = "\N{EN DASH}"  # a cell without a value


def text(value: Any) -> str:
    """Format any JSON value as escaped text: numbers with four digits, None as a dash."""
    return escape(_plain(value))


def _plain(value: Any) -> str:
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.4g}"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_plain(each)}" for key, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_plain(each) for each in value)
    return str(value)


def duration(seconds: Any) -> str:
    """Format seconds as 42 s, 5.1 min or 1.3 h; any other value as a dash."""
    if not isinstance(seconds, int | float):
        return NOTHING
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 1 else "below 1 s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def table(title: str, columns: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table that scrolls horizontally if it is too wide; numeric columns are right-aligned."""
    rows = [list(row) for row in rows]
    numeric = [all(_is_number(row[i]) for row in rows if i < len(row)) for i in range(len(columns))]

    def cell(tag: str, i: int, value: Any) -> str:
        kind = ' class="number"' if i < len(numeric) and numeric[i] else ""
        scope = ' scope="col"' if tag == "th" else ""
        return f"<{tag}{scope}{kind}>{text(value)}</{tag}>"

    head = "".join(cell("th", i, name) for i, name in enumerate(columns))
    body = "\n".join("<tr>" + "".join(cell("td", i, each) for i, each in enumerate(row)) + "</tr>" for row in rows)
    caption = f"<caption>{text(title)}</caption>" if title else ""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{text(title or "table")}"><table>{caption}'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return value[:1].isdigit()  # formatted already: 62 s, 96.64 ± 0.37
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def pairs(values: Mapping[str, Any]) -> str:
    """Return a description list of names and values."""
    rows = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in values.items())
    return f'<dl class="pairs">{rows}</dl>'


def details(title: str, content: str) -> str:
    """Return a section that opens on a click."""
    return f"<details><summary>{text(title)}</summary>{content}</details>"
