"""The prebuilt object code in the package: it matches the sources, is checked before use, and is optional."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from zerocross.runtime.kernels import native
from zerocross.runtime.kernels.target import Level, best_level
from zerocross.runtime.prebuild import prebuilt_levels

linux = pytest.mark.skipif(
    not llvm.get_process_triple().startswith("x86_64-unknown-linux"), reason="the package has code for Linux on x86-64"
)


@linux
def test_the_prebuilt_code_matches_the_sources():
    names = {native.object_name(level) for level in prebuilt_levels()}
    assert {path.name for path in native.PREBUILT.glob("*.bin")} == names, "runtime/kernels changed: run `make kernels`"
    for name in names:
        assert native.read_object(native.PREBUILT / name) is not None


@linux
@pytest.mark.skipif(best_level() not in prebuilt_levels(), reason="this processor runs none of the prebuilt levels")
def test_a_first_prediction_imports_no_numba_and_writes_no_cache(tmp_path: Path):
    code = """
import sys
from pathlib import Path
from zerocross.runtime.kernels.native import load_run
load_run(sys.exit, Path("cache"))
assert "numba" not in sys.modules
assert not Path("cache").exists()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env=environment, timeout=120)


def test_damaged_code_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    level, compiled = best_level(), []
    monkeypatch.setattr(native, "PREBUILT", tmp_path)
    monkeypatch.setattr(native, "compile_level", lambda level: compiled.append(level) or b"code")
    file = tmp_path / native.object_name(level)
    native.write_object(file, b"good code")
    assert native._object_code(level, str, tmp_path / "cache") == b"good code"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    assert native._object_code(level, str, tmp_path / "cache") == b"code"
    expected: list[Level] = [level]
    assert compiled == expected
    assert native._object_code(level, str, tmp_path / "cache") == b"code"  # from the cache
    assert compiled == expected
