"""The Python examples in README and the quickstart run unchanged; links in Markdown files are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "quickstart.md"]
BLOCKS = [
    pytest.param(page, code, id=f"{page.name} {index + 1}")
    for page in PAGES
    for index, code in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    )
]
MARKDOWN = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize(("page", "code"), BLOCKS)
def test_block_runs(page: Path, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(page), "exec"), {"__name__": "readme"})


def test_every_page_has_an_example() -> None:
    assert {block.values[0] for block in BLOCKS} == set(PAGES)


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_are_not_broken(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    files = [target.partition("#")[0] for target in targets if "://" not in target and not target.startswith("#")]
    assert [file for file in files if not (page.parent / file).exists()] == []
