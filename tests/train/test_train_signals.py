"""SIGINT and SIGTERM: the update is completed, a checkpoint is written, and the exit code tells which signal it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from forks import SMALL, UNHURRIED, Forks, bits, until, updates
from zerocross.train.checkpoint import Position
from zerocross.train.stop import Stop


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_run_saves_a_checkpoint_and_prints_how_to_resume(
    forks: Forks, tmp_path: Path, unbroken: Path, number: int, code: int
) -> None:
    run = tmp_path / "run"
    command = forks.start(tmp_path, "train", *SMALL, "--out", "run", patch=UNHURRIED)
    until(lambda: updates(run) >= 6)
    command.kill(number)
    assert command.wait() == code
    last = command.output().strip().splitlines()[-1]
    stopped = f"zerocross: stopped after {updates(run)} updates; checkpoint saved; "
    assert last == stopped + "resume with: zerocross train --resume run"
    assert not (run / "result.json").exists()

    command = forks.start(tmp_path, "train", "--resume", "run")
    assert command.wait() == 0
    assert bits(run) == bits(unbroken)


def test_signal_to_one_of_two_processes_stops_both_at_the_same_update(forks: Forks, tmp_path: Path) -> None:
    run = tmp_path / "run"
    first, second = forks.start_two(tmp_path, "train", *SMALL, "--out", "run", patch=UNHURRIED)
    until(lambda: updates(run) >= 6)
    second.kill(signal.SIGTERM)  # the process that does not write the checkpoint
    assert first.wait() == 143
    assert second.wait() == 0  # the first process has the exit code of the run; another code would get it killed
    assert "resume with: zerocross train --resume run" in first.output()
    assert second.output() == ""


def test_signal_during_the_vote_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric: Any = SimpleNamespace(world_size=2, device=torch.device("cpu"))
    to_come = [signal.SIGTERM]
    with Stop(fabric) as stop:

        def vote(flag: torch.Tensor, op: object) -> None:
            if to_come:
                os.kill(os.getpid(), to_come.pop())  # arrives while the ranks agree that no stop was requested

        monkeypatch.setattr(torch.distributed, "all_reduce", vote)
        assert not stop.requested(Position())
        assert stop.requested(Position())
        assert stop.signal == signal.SIGTERM


def test_second_signal_ends_the_run_immediately(forks: Forks, tmp_path: Path) -> None:
    stuck = """
import pathlib, time
import zerocross.train.loop as loop
def stuck(*words, **values):
    pathlib.Path("evaluating").touch()
    time.sleep(600)
loop.evaluate = stuck
"""
    command = forks.start(tmp_path, "train", *SMALL, "--out", "run", patch=stuck)
    until((tmp_path / "evaluating").exists)
    command.kill(signal.SIGTERM)
    until(lambda: not _catches_sigterm(command.pid))
    command.kill(signal.SIGTERM)
    assert command.wait() == -signal.SIGTERM


def _catches_sigterm(pid: int) -> bool:
    """Return True if a process handles SIGTERM itself; it no longer does after the first signal."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    caught = next(line.split()[1] for line in lines if line.startswith("SigCgt"))
    return bool(int(caught, 16) & 1 << (signal.SIGTERM - 1))


def test_devices_2_stops_with_one_line_and_leaves_no_process(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [str(Path(sys.executable).with_name("zerocross")), "train"]
    begun = subprocess.Popen(
        [*command, *SMALL, "--epochs", "200", "--devices", "2", "--out", "run"],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        until(lambda: updates(tmp_path / "run") >= 6)
        begun.send_signal(signal.SIGINT)
        _, output = begun.communicate(timeout=600)
    except BaseException:
        os.killpg(begun.pid, signal.SIGKILL)
        raise
    assert begun.returncode == 130, output
    assert len(output.splitlines()) == 1
    assert output.endswith("resume with: zerocross train --resume run\n")
    until(lambda: not alive_in_group(begun.pid), timeout=120)


def alive_in_group(group: int) -> list[str]:
    """Return the processes of a group that still run, without zombies."""
    results = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = path.read_text(encoding="utf-8").rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue  # it has ended in the meantime
        if int(its_group) == group and state != "Z":
            results.append(path.parent.name)
    return results
