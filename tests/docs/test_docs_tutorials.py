"""The Python of each tutorial runs from top to bottom, and its C program compiles and prints what the page says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from docs.pages import DOCS, blocks
from zerocross.cli.app import run

TUTORIALS = DOCS / "tutorials"
PAGES = sorted(page for page in TUTORIALS.glob("*.md") if page.name != "index.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_python_of_a_tutorial_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = blocks(page, "python")
    assert code
    names = {"__name__": "tutorial"}
    for number, block in enumerate(code, 1):
        exec(compile(block, f"{page.name} block {number}", "exec"), names)


def test_every_tutorial_is_listed() -> None:
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (TUTORIALS / "index.md").read_text(encoding="utf-8"))
    assert sorted(listed) == [page.name for page in PAGES]


def test_the_c_program_prints_what_the_tutorial_says(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) on the PATH")
    (program,) = blocks(TUTORIALS / "deploy.md", "c")
    (tmp_path / "main.c").write_text(program)
    assert run(["export", "zoo:digits", "--to", "c", "-o", str(tmp_path / "firmware"), "--name", "digits"]) == 0
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-Ifirmware"]
    command = [compiler, *flags, "main.c", "firmware/digits.c", "-o", "digits"]
    subprocess.run(command, cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "digits"], capture_output=True, text=True, check=True).stdout
    said = re.search(r"It prints `(\d)`", (TUTORIALS / "deploy.md").read_text(encoding="utf-8"))
    assert said
    assert printed == f"{said[1]}\n"
