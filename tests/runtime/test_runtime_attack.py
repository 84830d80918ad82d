"""Mutated files with a valid checksum are refused or run, within limits on time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from reference.runtime_mutations import attack


def test_mutated_files_are_refused_or_run():
    outcomes = [attack(seed) for seed in range(10_000, 10_150)]
    assert outcomes.count("called") > 30, "a fuzzer whose files are always refused tests nothing"
    assert outcomes.count("refused") > 30


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_twenty_thousand_mutated_files_within_time_and_memory_limits(part: int):
    """The process may map at most 4 GiB; each file takes at most `MAX_SECONDS`."""
    code = (
        "import json; from reference.runtime_mutations import attack_many; "
        f"print(json.dumps(attack_many({part * 5000}, 5000, gigabytes=4)))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = json.loads(done.stdout)
    assert outcomes["called"] > 1000
    assert outcomes["refused"] > 1000
    assert outcomes["read"] > 20, "files that can be read but exceed the limits"
