"""The site builds without a warning, needs no network, and shows every public name and every equation."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from docs.pages import DOCS, ROOT
from report.chromium import Chromium

PACKAGES = sorted(page.stem for page in (DOCS / "api").glob("*.md") if page.stem != "index")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="no MkDocs: pip install 'zerocross[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    pytest.importorskip("latex2mathml", reason="no latex2mathml: pip install 'zerocross[docs]'")
    spec = importlib.util.spec_from_file_location("docs_hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium: .ci/chromium installs it")
    page = Chromium(program, tmp_path_factory.mktemp("browser") / "profile")
    yield page
    page.close()


def test_nothing_is_fetched_from_the_network(site: Path) -> None:
    own = {"report.html", "playground.html"}  # tested by themselves
    tags = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=\"(https?:)?//[^\"]*\"[^>]*>")
    found = [
        f"{file.relative_to(site)}: {match[0]}"
        for file in site.rglob("*.html")
        if file.name not in own
        for match in tags.finditer(file.read_text("utf-8"))
    ]
    sheets = [
        file.name for file in site.rglob("*.css") if re.search(r"url\([\"']?(https?:)?//", file.read_text("utf-8"))
    ]
    assert found == []
    assert sheets == []


def test_alternatives_in_tables_are_shown_without_backslashes(site: Path) -> None:
    assert "<code>zerocross data fetch | check</code>" in (site / "commands.html").read_text("utf-8")
    assert [
        file.name
        for file in site.glob("*.html")
        if "\\|" in re.sub(r"(?s)<script.*?</script>", "", file.read_text("utf-8"))
    ] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_reference(package: str, site: Path) -> None:
    shown = set(re.findall(r'id="(zerocross[^"]*)"', (site / "api" / f"{package}.html").read_text("utf-8")))
    names = importlib.import_module(f"zerocross.{package}").__all__
    full = {name: {f"zerocross.{package}.{name}", f"zerocross.{package}.{name}.{name}"} for name in names}
    assert [name for name, either in full.items() if not either & shown] == []


def test_every_equation_of_the_paper_is_shown_as_mathml(site: Path) -> None:
    page = (site / "mathematics.html").read_text("utf-8")
    assert re.findall(r'class="number">\((\d+)\)', page) == [str(number) for number in range(1, 23)]
    assert page.count("<math") > 40
    assert "\\frac" not in page
    assert "$$" not in page


def test_every_equation_but_those_derived_in_between_names_its_line(hooks: ModuleType) -> None:
    text = (DOCS / "mathematics.md").read_text("utf-8")
    quoted = hooks.CODE.findall(text)
    assert len(quoted) >= 35
    for name, code in quoted:
        path, line = hooks.code_line(name, code)
        assert code in (ROOT / path).read_text("utf-8").splitlines()[line - 1]
    between = re.split(r"\\tag\{(\d+)\}", text)[1:]
    alone = [int(n) for n, after in zip(between[::2], between[1::2], strict=True) if not hooks.CODE.search(after)]
    assert alone == [6, 7, 9, 19, 20, 21]  # rewritten by the next equation, which has a line


def test_a_quoted_line_that_is_gone_stops_the_build(hooks: ModuleType) -> None:
    with pytest.raises(ValueError, match="has no line with"):
        hooks.code_line("zerocross.optim.gradient_filter.filter_", "g.is_gone()")
    with pytest.raises(ValueError, match="does not exist"):
        hooks.code_line("zerocross.optim.gradient_filter.gone", "x")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_pages_in_a_browser(width: int, scheme: str, site: Path, browser: Chromium) -> None:
    for name in ("index", "mathematics", "faq", "api/nn", "tutorials/own-model", "compared"):
        browser.look(width, scheme)
        browser.open(site / f"{name}.html")
        browser.look(width, scheme)
        assert browser.errors_and_warnings() == [], name
        assert browser.requests() == [], name
        assert browser.run("document.documentElement.scrollWidth - innerWidth") <= 0, f"{name} is too wide"
        background = browser.run("getComputedStyle(document.body).backgroundColor")
        red = int(re.findall(r"\d+", background)[0])
        assert (red < 128) == (scheme == "dark")


def test_search_finds_a_page_from_disk(site: Path, browser: Chromium) -> None:
    browser.look(1400, "light")
    browser.open(site / "index.html")
    browser.run("document.querySelector('label[for=__search]').click()")
    browser.run("document.querySelector('[data-md-component=search-query]').focus()")
    browser.send("Input.insertText", text="warm start")
    found = "document.querySelectorAll('.md-search-result__item').length"
    wait = "new Promise((done) => setTimeout(done, 100))"
    count = browser.run(
        f"(async () => {{ for (let n = 0; n < 100 && !{found}; n++) await {wait}; return {found}; }})()"
    )
    assert count > 0
    assert browser.errors_and_warnings() == []
    assert browser.requests() == []
