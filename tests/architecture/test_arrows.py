"""The dependencies between the parts of the package, checked against the imports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import zerocross

ROOT = Path(zerocross.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# Part -> the parts that it may import. A new part needs a row here.
PLAIN = {"checks", "extras", "files", "tables"}  # modules that need no torch
LEAVES = PLAIN | {"compiler", "memory", "provenance"}
NETWORKS = {"filters", "nn", "data", "models", "optim", "methods", "train"}
DEPENDENCIES = {
    **{leaf: set() for leaf in LEAVES},
    "needs_torch": {"extras"},
    "filters": set(),
    "nn": PLAIN | {"needs_torch"},
    "data": PLAIN,
    "models": PLAIN | {"nn", "needs_torch"},
    "optim": {"filters", "compiler", "needs_torch"},
    "methods": PLAIN | {"optim", "nn"},
    "train": LEAVES | (NETWORKS - {"train"}),
    "runtime": PLAIN,
    "deploy": PLAIN | {"nn", "runtime"},
    "export": PLAIN | {"runtime"},
    "zoo": LEAVES | {"nn", "data", "models", "train", "runtime", "deploy"},
    "hub": PLAIN | {"train", "runtime", "zoo"},
    "serve": PLAIN | {"runtime"},
    "tune": PLAIN,
    "sweep": LEAVES | {"nn", "data", "models", "train", "tune"},
    "figures": PLAIN,
    "paper": LEAVES | NETWORKS | {"figures", "sweep"},
    "suite": LEAVES | {"filters", "methods", "train", "sweep", "figures", "tune"},
    "report": PLAIN | {"figures"},
    "bench": LEAVES | NETWORKS | {"deploy", "runtime", "export", "tune", "sweep"},
    "doctor": LEAVES | {"data", "nn", "optim", "runtime"},
    "cli": LEAVES
    | NETWORKS
    | {
        "runtime",
        "deploy",
        "export",
        "zoo",
        "serve",
        "tune",
        "sweep",
        "figures",
        "paper",
        "suite",
        "report",
        "bench",
        "doctor",
    },
    "__main__": {"cli"},
}
WITHOUT_TORCH = PLAIN | {"filters", "runtime", "export", "serve", "figures", "report"}
READS_ENVIRONMENT = {"cli", "sweep"}


def part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> list[str]:
    """Return the dotted names that a file imports anywhere, including imports for type checking."""
    results = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            results += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            results += [f"{node.module}.{alias.name}" for alias in node.names]
    return results


def test_every_part_has_a_row() -> None:
    assert {part(path) for path in FILES} - {"__init__"} == set(DEPENDENCIES)


def test_dependencies_are_acyclic() -> None:
    order: list[str] = []
    while len(order) < len(DEPENDENCIES):
        ready = [name for name, known in DEPENDENCIES.items() if name not in order and known <= set(order)]
        assert ready, "circular imports"
        order += ready


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_dependencies(path: Path) -> None:
    own = part(path)
    if own == "__init__":
        return  # __init__ offers the names of all parts, lazily
    imported = {name.split(".")[1] for name in imports(path) if name.startswith("zerocross.")}
    forbidden = imported - DEPENDENCIES[own] - {own, "__version__"}
    assert not forbidden, f"{own} must not import {forbidden}"


@pytest.mark.parametrize("path", [path for path in FILES if part(path) == "deploy"], ids=lambda path: path.name)
def test_packing_does_not_refer_to_datasets(path: Path) -> None:
    texts = {node.value for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant)}
    assert not texts & set(zerocross.data.NAMES)


@pytest.mark.parametrize("path", [path for path in FILES if part(path) in WITHOUT_TORCH], ids=lambda path: path.name)
def test_part_does_not_import_torch(path: Path) -> None:
    assert not [name for name in imports(path) if name.split(".")[0] in {"torch", "lightning_fabric"}]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_commands_and_sweeps_read_the_environment(path: Path) -> None:
    names = {
        node.attr for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Attribute)
    }
    if part(path) not in READS_ENVIRONMENT:
        assert not names & {"environ", "getenv", "argv"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_pickle_is_loaded_and_no_assert_is_used(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)], "raise ValueError instead"
    if path.name != "restricted_pickle.py":
        assert not [name for name in imports(path) if name.split(".")[0] == "pickle"]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
            assert "weights_only=True" in [ast.unparse(keyword) for keyword in node.keywords]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_not_too_long(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
