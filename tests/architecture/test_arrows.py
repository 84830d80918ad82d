"""The arrows of the design, read off the imports: who may know whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import zerocross

ROOT = Path(zerocross.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# part -> the parts that it may import. A new part gets a row here, and so a place in the design.
PLAIN = {"checks", "extras", "files", "tables"}  # leaves that need no torch
LEAVES = PLAIN | {"compiler", "memory", "provenance"}
NETWORKS = {"filters", "nn", "data", "models", "optim", "methods", "train"}
ARROWS = {
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
    "suite": LEAVES | {"methods", "train", "sweep", "figures", "tune"},
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
    """The dotted names that a file imports, wherever in it, type-checking only or not."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def test_every_part_has_its_arrows() -> None:
    assert {part(path) for path in FILES} - {"__init__"} == set(ARROWS)


def test_arrows_have_no_circle() -> None:
    order: list[str] = []
    while len(order) < len(ARROWS):
        ready = [name for name, known in ARROWS.items() if name not in order and known <= set(order)]
        assert ready, "a circle"
        order += ready


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_arrows(path: Path) -> None:
    here = part(path)
    if here == "__init__":
        return  # offers the names of all parts, lazily
    ours = {name.split(".")[1] for name in imports(path) if name.startswith("zerocross.")}
    wrong = ours - ARROWS[here] - {here, "__version__"}
    assert not wrong, f"{here} must not import {wrong}"


@pytest.mark.parametrize("path", [path for path in FILES if part(path) == "deploy"], ids=lambda path: path.name)
def test_packing_knows_no_dataset_by_name(path: Path) -> None:
    texts = {node.value for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant)}
    assert not texts & set(zerocross.data.NAMES)


@pytest.mark.parametrize("path", [path for path in FILES if part(path) in WITHOUT_TORCH], ids=lambda path: path.name)
def test_part_needs_no_torch(path: Path) -> None:
    assert not [name for name in imports(path) if name.split(".")[0] in {"torch", "lightning_fabric"}]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_commands_and_sweeps_read_the_environment(path: Path) -> None:
    names = {
        node.attr for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Attribute)
    }
    if part(path) not in READS_ENVIRONMENT:
        assert not names & {"environ", "getenv", "argv"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_pickled_is_loaded_and_nothing_asserted(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)], "raise ValueError instead"
    if path.name != "restricted_pickle.py":
        assert not [name for name in imports(path) if name.split(".")[0] == "pickle"]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
            assert "weights_only=True" in [ast.unparse(keyword) for keyword in node.keywords]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_fit_in_a_readers_head(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
