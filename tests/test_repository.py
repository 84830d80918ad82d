"""Workflows, hooks and templates: they parse, agree with pyproject.toml, and publish without a stored secret."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from test_versions import PROJECT, pins

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def jobs(name: str) -> dict[str, Any]:
    return read(ROOT / ".github" / "workflows" / f"{name}.yml")["jobs"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_may_only_read_unless_a_job_says_otherwise(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    granted = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
    expected = {"publish": {"id-token": "write"}, "announce": {"contents": "write"}}
    assert granted == (expected if path.stem == "release" else {})
    assert "secrets." not in path.read_text(encoding="utf-8")


def test_publishing_waits_for_tests_and_build() -> None:
    release = jobs("release")
    assert release["publish"]["needs"] == ["tests", "build"]
    assert release["publish"]["environment"] == {"name": "pypi"}
    assert not any("run" in step for step in release["publish"]["steps"])  # nothing but the upload has the identity
    assert release["announce"]["needs"] == "publish"


def test_every_supported_python_is_tested() -> None:
    tested = set(jobs("tests")["test"]["strategy"]["matrix"]["python-version"])
    tested |= {jobs("tests")["lowest"]["steps"][1]["with"]["python-version"]}
    claimed = {line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if "Python :: 3." in line}
    assert tested == claimed


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_make_targets_and_scripts_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([\w-]+)", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for script in re.findall(r"run: (\.ci/\w+)", text):
        assert (ROOT / script).is_file()


def test_hooks_run_the_ruff_of_continuous_integration() -> None:
    [local] = read(ROOT / ".pre-commit-config.yaml")["repos"]
    versions = {text for hook in local["hooks"] for text in hook.get("additional_dependencies", [])}
    assert versions == {f"ruff=={pins('constraints.txt')['ruff']}"}


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_issue_forms_have_unique_fields(name: str) -> None:
    form = read(ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml")
    names = [field["id"] for field in form["body"]]
    assert len(names) == len(set(names)) > 0
    assert form["name"]
    assert form["description"]


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md", "docs/versions.md"])
def test_links_of_policies_lead_somewhere(name: str) -> None:
    path = ROOT / name
    for link in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert link.startswith("https://") or (path.parent / link).exists(), link
