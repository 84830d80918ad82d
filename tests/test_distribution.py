"""The wheel, built from the sdist, has every file of the package, and works in a new environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def smoke(folder: Path, *stages: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / ".ci" / "smoke", folder, *stages],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )


@pytest.mark.slow
def test_wheel_from_the_sdist_is_whole_and_small(tmp_path: Path) -> None:
    done = smoke(tmp_path, "build")
    assert done.returncode == 0, done.stderr
    sizes = {path.suffix: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {".whl", ".gz"}
    assert max(sizes.values()) < 5_000_000


@pytest.mark.slow
def test_installed_wheel_runs_without_torch(tmp_path: Path) -> None:
    done = smoke(tmp_path, "base", "runtime")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the wheel works: base runtime" in done.stdout


@pytest.mark.slow
def test_an_unknown_stage_is_named(tmp_path: Path) -> None:
    done = smoke(tmp_path, "everything")
    assert done.returncode == 2
    assert "stage everything is unknown: choose among build, base, runtime and train" in done.stderr
