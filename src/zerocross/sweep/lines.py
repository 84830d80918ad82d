"""Results that share a file of sorted JSON lines, one short line per result. Many processes may add to one file."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from zerocross.files import write_text

LIMIT = 1024  # bytes per line: thousands of lines take a few MB and stay readable


def read(path: Path) -> Mapping[str, dict[str, Any]]:
    """Return the lines of a file by their "hash"; empty if the file does not exist.

    Raises:
        ValueError: if a line is damaged; the message names the line.
    """
    try:
        state = path.stat()
    except FileNotFoundError:
        return {}
    return _read(path, state.st_mtime_ns, state.st_size, state.st_ino)


@functools.lru_cache(maxsize=64)
def _read(path: Path, *state: int) -> Mapping[str, dict[str, Any]]:
    """Read a file; the cache reads it again only if the state of the file has changed."""
    del state
    lines = {}
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            line = json.loads(text)
            lines[line["hash"]] = line
        except (ValueError, TypeError, KeyError):
            raise ValueError(
                f"{path}, line {number} is damaged: it is not a JSON object with a hash; remove the line to repeat "
                "this run"
            ) from None
    return lines


def add(path: Path, line: Mapping[str, Any]) -> None:
    """Add a line, or replace the line with the same hash. Writes the file atomically, under a lock.

    Raises:
        ValueError: if the line is too long.
    """
    size = len(_text(line).encode())
    if size > LIMIT:
        raise ValueError(f"the line of {line['hash']} takes {size} bytes; at most {LIMIT} are allowed")
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock")):
        lines = {**read(path), line["hash"]: line}
        write_text(path, "".join(sorted(_text(line) + "\n" for line in lines.values())))


def _text(line: Mapping[str, Any]) -> str:
    return json.dumps(line, separators=(", ", ": "), ensure_ascii=False)
