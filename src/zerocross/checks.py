"""Checks of arguments and the wording of their errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def check_choice(what: str, value: object, allowed: Iterable[str]) -> None:
    """Raise a ValueError that suggests the closest name unless `value` is one of `allowed`."""
    names = list(allowed)
    if value not in names:
        raise ValueError(f"{what} = {value!r}: it must be one of {', '.join(names)}{did_you_mean(value, names)}")


def did_you_mean(value: object, names: Iterable[str]) -> str:
    """Return "; did you mean ...?" for the name closest to `value`, or an empty string if none is close."""
    near = difflib.get_close_matches(str(value), list(names), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def one_line(message: object, limit: int = 160) -> str:
    """Return the first `limit` characters of a message, with line breaks and runs of blanks as single blanks."""
    return " ".join(str(message).split())[:limit]
