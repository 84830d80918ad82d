"""Reads the pages of the documentation: their code blocks, and the commands in them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


class Command(NamedTuple):
    """A `zerocross` command on a page; its comment says whether it takes long."""

    words: list[str]
    comment: str

    def __str__(self) -> str:
        return "zerocross " + shlex.join(self.words)


def blocks(page: Path, *languages: str) -> list[str]:
    """The contents of fenced blocks in one of these languages; "" is a block that names none."""
    found: list[str] = []
    language, lines = None, []
    for line in page.read_text(encoding="utf-8").splitlines():
        if not line.startswith("```"):
            lines.append(line)
        elif language is None:
            language, lines = line.removeprefix("```").strip(), []
        else:
            if language in languages:
                found.append("\n".join(lines) + "\n")
            language = None
    return found


def commands(page: Path) -> list[Command]:
    """The commands in shell blocks, with or without a prompt."""
    found = []
    for block in blocks(page, "sh", "bash", ""):
        for line in block.replace("\\\n", " ").splitlines():
            text, _, comment = line.removeprefix("$ ").removeprefix("srun ").partition(" # ")
            if text.startswith("zerocross "):
                found.append(Command(shlex.split(text)[1:], comment.strip()))
    return found


def inline_commands(page: Path) -> list[Command]:
    """The commands in inline code that have options: `zerocross train --resume RUN`."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    quoted = [" ".join(code.split()) for code in re.findall(r"`(zerocross [^`]+)`", text)]
    return [Command(shlex.split(code.replace("\\|", "|"))[1:], "") for code in quoted]
