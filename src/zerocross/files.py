"""Files written whole or not at all: aside first, then renamed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` fill a file beside `path`, then rename it; on any error nothing of it stays behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with aside.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file whole."""
    write_whole(path, lambda file: file.write(text.encode()))


def write_json(path: Path, values: Any) -> None:
    """Write a JSON file whole, indented so that readers and diffs can follow it."""
    write_text(path, json.dumps(values, indent=1) + "\n")
