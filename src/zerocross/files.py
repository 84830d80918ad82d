"""Atomic file writes: write to a temporary file, then rename it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file atomically: call `write` with a temporary file next to `path`, then rename it to `path`.

    On any error the temporary file is removed, and `path` stays unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_whole(path, lambda file: file.write(text.encode()))


def write_json(path: Path, values: Any) -> None:
    """Write an indented JSON file atomically."""
    write_text(path, json.dumps(values, indent=1) + "\n")
