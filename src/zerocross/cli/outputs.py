"""Output files of a command: it replaces files that it wrote earlier, and no others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


def are_ours(files: Mapping[str, Path], kind: str, what: str = "call") -> bool:
    """Return True if files of an earlier call exist; raise FileExistsError if they were not written by this command.

    Args:
        files: Suffix -> path; the "json" file identifies the command.
        kind: The value of "kind" in JSON files of this command.
        what: The word for an earlier call in the message.
    """
    existing = [path for path in files.values() if path.exists()]
    if not existing:
        return False
    try:
        earlier = json.loads(files["json"].read_text(encoding="utf-8"))
    except (OSError, ValueError):
        earlier = None
    if not isinstance(earlier, dict) or earlier.get("kind") != kind:
        raise FileExistsError(
            f"{', '.join(map(str, existing))}: exists, and is not from an earlier {what}; move it, or use another --out"
        )
    return True
