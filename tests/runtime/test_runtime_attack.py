"""Mutated files under a right checksum: refused, or read, made and called, within bounds of time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from reference.runtime_mutations import attack


def test_mutated_files_are_refused_or_run():
    came = [attack(seed) for seed in range(10_000, 10_150)]
    assert came.count("called") > 30, "a fuzzer that is always refused tests nothing"
    assert came.count("refused") > 30


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_twenty_thousand_mutated_files_in_little_time_and_memory(part: int):
    """In a process that may map 4 GiB; each file within `MAX_SECONDS`."""
    code = (
        "import json; from reference.runtime_mutations import attack_many; "
        f"print(json.dumps(attack_many({part * 5000}, 5000, gigabytes=4)))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    came = json.loads(done.stdout)
    assert came["called"] > 1000
    assert came["refused"] > 1000
    assert came["read"] > 20, "read, and refused by its bounds"
