"""Every public name has a docstring with an example, and the example gives what it says."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import zerocross
from docs.pages import DOCS, ROOT

PACKAGES = sorted(page.stem for page in (DOCS / "api").glob("*.md") if page.stem != "index")
NAMES = [
    (f"zerocross.{package}", name)
    for package in PACKAGES
    for name in importlib.import_module(f"zerocross.{package}").__all__
]


def docstring(module: str, name: str) -> str:
    """The docstring of a class or function, or the string below the assignment of anything else."""
    value = inspect.unwrap(getattr(importlib.import_module(module), name))
    alias = hasattr(value, "__origin__")  # Python 3.10 takes Callable[...] for a class
    if (inspect.isclass(value) and not alias) or inspect.isfunction(value):
        return inspect.getdoc(value) or ""
    package = ROOT / "src" / Path(*module.split("."))
    files = [package.with_suffix(".py")] if not package.is_dir() else sorted(package.rglob("*.py"))
    return next((found for file in files for found in _below(ast.parse(file.read_text("utf-8")), name)), "")


def _below(module: ast.Module, name: str) -> Iterator[str]:
    for assignment, after in zip(module.body, module.body[1:], strict=False):
        targets = assignment.targets if isinstance(assignment, ast.Assign) else [getattr(assignment, "target", None)]
        named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
        if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            yield str(after.value.value)


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda text: text.removeprefix("zerocross."))
def test_the_example_of_a_public_name(module: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parsed = doctest.DocTestParser().get_doctest(docstring(module, name), {}, f"{module}.{name}", None, None)
    assert parsed.examples, f"{module}.{name} has no example: add an Examples section to its docstring"
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(parsed, out=report.append)
    assert "".join(report) == ""


def test_every_public_package_has_a_page() -> None:
    without_names = {part for part in zerocross._PARTS if not hasattr(getattr(zerocross, part), "__all__")}
    assert set(zerocross._PARTS) - without_names <= set(PACKAGES)


def test_names_of_the_package_itself_are_those_of_a_package() -> None:
    public = {name for _, name in NAMES}
    assert set(zerocross._HOME) <= public


def test_a_wrong_example_is_found() -> None:
    parsed = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner(verbose=False).run(parsed, out=lambda _: None).failed == 1
