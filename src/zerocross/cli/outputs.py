"""Files that a command writes again and again: its own are replaced, others never."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


def are_ours(files: Mapping[str, Path], kind: str, what: str = "call") -> bool:
    """Whether files of an earlier call are there; FileExistsError where they are of another kind.

    Args:
        files: Suffix -> path; "json" is the file that tells its kind.
        kind: What the JSON of our own says under "kind".
        what: What made them, for the message.
    """
    there = [path for path in files.values() if path.exists()]
    if not there:
        return False
    try:
        earlier = json.loads(files["json"].read_text(encoding="utf-8"))
    except (OSError, ValueError):
        earlier = None
    if not isinstance(earlier, dict) or earlier.get("kind") != kind:
        raise FileExistsError(
            f"{', '.join(map(str, there))}: in the way, and not from an earlier {what}; move it, or name another --out"
        )
    return True
