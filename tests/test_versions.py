"""Lower bounds are the versions that are tested: pyproject.toml and constraints-lowest.txt agree."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NEVER_TESTED = {"nvidia-dali-cuda120"}  # the extra imagenet is no part of dev


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return {plain(left): right for left, _, right in (line.partition("==") for line in lines if "==" in line)}


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def bounds() -> dict[str, str]:
    extras = PROJECT["project"]["optional-dependencies"]
    lines = [*PROJECT["project"]["dependencies"], *(line for extra in extras.values() for line in extra)]
    found = [re.match(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)", line) for line in lines]
    return {plain(match[1]): match[2] for match in found if match}


@pytest.mark.parametrize("name", sorted(set(bounds()) & set(pins("constraints-lowest.txt"))))
def test_the_lowest_version_tested_is_the_bound(name: str) -> None:
    bound, pin = bounds()[name].split("."), pins("constraints-lowest.txt")[name].split(".")
    assert [int(number) for number in pin[: len(bound)]] == [int(number) for number in bound]


def test_what_everything_stands_on_is_pinned() -> None:
    core = {"numpy", "scipy", "safetensors", "torch", "lightning-fabric", "numba", "optuna", "botorch", "onnx", "typer"}
    assert core <= set(bounds()) & set(pins("constraints-lowest.txt"))
    assert not NEVER_TESTED & set(pins("constraints-lowest.txt"))


def test_oldest_python_is_the_same_everywhere() -> None:
    from zerocross.doctor.examination import OLDEST_PYTHON

    oldest = ".".join(map(str, OLDEST_PYTHON))
    assert PROJECT["project"]["requires-python"] == f">={oldest}"
    assert PROJECT["tool"]["pyright"]["pythonVersion"] == oldest
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    assert f"OLDEST ?= python{oldest}" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"Programming Language :: Python :: {oldest}" in PROJECT["project"]["classifiers"]
