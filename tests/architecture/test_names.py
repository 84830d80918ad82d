"""One meaning per name: public class names are unique in the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import zerocross

ROOT = Path(zerocross.__file__).parent
SHARED: dict[str, str] = {}  # class name -> why several modules may define it


def public_classes() -> dict[str, list[str]]:
    """Return the modules that define each public class at top level."""
    modules = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        module = path.relative_to(ROOT)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(str(module))
    return modules


def test_public_class_names_are_unique() -> None:
    classes = public_classes()
    assert len(classes) > 50
    assert {name: modules for name, modules in classes.items() if len(modules) > 1 and name not in SHARED} == {}


def test_shared_names_are_really_shared() -> None:
    classes = public_classes()
    assert [name for name in SHARED if len(classes[name]) < 2] == []
