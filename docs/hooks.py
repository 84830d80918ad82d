"""Hooks of the documentation site: formulas as MathML, files from outside docs/, and line numbers of quoted code."""

from __future__ import annotations

import html
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")  # pages of the site that live beside docs/
MATHEMATICS = "mathematics.md"  # the page that quotes code
FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)
TAG = re.compile(r"\\tag\{(\d+)\}")
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#:]+)((?:#[^)\s]*)?)\)")
# GitHub needs a backslash before a "|" in the code of a table; here it would be shown.
TABLE_CODE = re.compile(r"(?m)^\|.*\\\|.*$")
CODE = re.compile(r"`(zerocross(?:\.\w+)+)`: `([^`]+)`")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that live beside docs/, and every file outside of it that a page links to."""
    for name in PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    waiting = list(files.documentation_pages())
    while waiting:
        page = waiting.pop()
        for _, target, _ in LINK.findall(page.content_string):
            uri = _in_site(page, target)
            if uri is None or files.get_file_from_path(uri) or not (ROOT / uri).is_file():
                continue
            files.append(file := File.generated(config, uri, abs_src_path=str(ROOT / uri)))
            if file.is_documentation_page():
                waiting.append(file)
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Point links to files outside docs/ at their copies, and add line numbers to quoted code."""

    def relink(match: re.Match[str]) -> str:
        text, target, anchor = match.groups()
        uri = _in_site(page.file, target)
        if uri is None:
            return match[0]
        if (ROOT / uri).is_dir():
            return f"`{uri}/`" if text.strip("`/") == uri else f"{text} (`{uri}/`)"
        return f"[{text}]({posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or '.')}{anchor})"

    markdown = TABLE_CODE.sub(lambda match: match[0].replace("\\|", "|"), LINK.sub(relink, markdown))
    return CODE.sub(_with_line, markdown) if page.file.src_uri == MATHEMATICS else markdown


def on_page_content(content: str, **_: object) -> str:
    """Turn formulas into MathML, which browsers draw without a script, and end docstrings' "::" as a colon."""
    return FORMULA.sub(_mathml, content.replace("::</p>", ":</p>"))


def _in_site(page: File, target: str) -> str | None:
    """Where the file that a page links to is in the site, if the page or the file is outside docs/; else None."""
    source = Path(page.abs_src_path or "")
    path = (source.parent / target).resolve()
    if not path.is_relative_to(ROOT) or (path.is_relative_to(DOCS) and source.is_relative_to(DOCS)):
        return None
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT).as_posix()


def _mathml(match: re.Match[str]) -> str:
    formula = html.unescape(match[2]).strip()
    if formula[:2] not in {r"\(", r"\["}:
        raise ValueError(f"docs: a formula that is neither \\(...\\) nor \\[...\\]: {formula}")
    body = formula[2:-2].strip()
    if formula.startswith(r"\("):
        return convert(body, display="inline")
    number = TAG.search(body)
    label = f'<span class="number">({number[1]})</span>' if number else ""
    drawn = convert(TAG.sub("", body).strip(), display="block")
    return f'<div class="equation"><div class="formula">{drawn}</div>{label}</div>'


def _with_line(match: re.Match[str]) -> str:
    try:
        path, line = code_line(match[1], match[2])
    except ValueError as wrong:
        raise PluginError(str(wrong)) from None
    return f'<span class="code-line">{path}, line {line}</span><br>`{match[2]}`'


def code_line(name: str, code: str) -> tuple[str, int]:
    """The file of an object of the package, and the number of the line in it that holds a piece of code.

    Raises:
        ValueError: if the object, or the code within it, does not exist.
    """
    import ast

    module, path = _module(name)
    tree = ast.parse(text := path.read_text(encoding="utf-8"))
    node: ast.AST = tree
    for part in name.removeprefix(module).strip(".").split("."):
        inner = [n for n in ast.iter_child_nodes(node) if getattr(n, "name", None) == part]
        if not inner:
            raise ValueError(f"docs: {name} does not exist in {path.relative_to(ROOT)}")
        node = inner[0]
    lines = text.splitlines()
    for number in range(node.lineno, node.end_lineno + 1):  # type: ignore[attr-defined]
        if code in lines[number - 1]:
            return path.relative_to(ROOT).as_posix(), number
    raise ValueError(f"docs: {name} has no line with {code!r}; change the page, or quote the line as it is now")


def _module(name: str) -> tuple[str, Path]:
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        path = ROOT / "src" / Path(*parts[:end])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return ".".join(parts[:end]), file
    raise ValueError(f"docs: no module of {name}")
