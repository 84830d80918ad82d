"""Freed memory is kept: a process that frees a large block gets the same pages again without page faults."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, resource, sys
from zerocross.memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        blocks = [ctypes.create_string_buffer(8 << 20) for _ in range(12)]  # 8 MiB each, written with zeros
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

kept = keep_freed_memory() if sys.argv[1] == "keep" else False
faults()
print(kept, faults())
"""


def _run(mode: str) -> tuple[str, int]:
    done = subprocess.run([sys.executable, "-c", SCRIPT, mode], capture_output=True, text=True, check=True)
    kept, faults = done.stdout.split()
    return kept, int(faults)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc is told to keep memory")
def test_freed_pages_are_reused() -> None:
    kept, faults = _run("keep")
    assert kept == "True"
    assert faults < 100
    assert _run("leave")[1] > 1000  # the default behaviour


def test_other_libraries_are_not_affected(monkeypatch: pytest.MonkeyPatch) -> None:
    from zerocross import memory

    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert memory.keep_freed_memory.__wrapped__() is False
