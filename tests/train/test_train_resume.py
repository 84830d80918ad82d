"""Runs killed with SIGKILL and resumed are bit-identical to uninterrupted runs."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from forks import SMALL, UNHURRIED, Command, Forks, bits, until, updates

STUCK_IN_A_CHECKPOINT = """
import io, time, torch
save = torch.save
def stuck(state, file, *words, **values):
    if not str(getattr(file, "name", "")).endswith(".part"):
        return save(state, file, *words, **values)  # torch's own, between processes
    buffer = io.BytesIO()
    save(state, buffer)
    file.write(buffer.getvalue()[: len(buffer.getvalue()) // 2])
    file.flush()
    time.sleep(600)
torch.save = stuck
"""
STUCK_IN_EVALUATION = """
import pathlib, time
import zerocross.train.loop as loop
def stuck(*words, **values):
    pathlib.Path("evaluating").touch()
    time.sleep(600)
loop.evaluate = stuck
"""
STUCK_AT_THE_END = """
import pathlib, time
import zerocross.train.run as run
def stuck(*words):
    pathlib.Path("ending").touch()
    time.sleep(600)
run.draw = stuck
"""


def kill(command: Command) -> None:
    command.kill(signal.SIGKILL)
    assert command.wait() == -signal.SIGKILL


def test_run_killed_at_five_places_resumes_bit_exactly(forks: Forks, tmp_path: Path, unbroken: Path) -> None:
    run = tmp_path / "run"
    command = forks.start(tmp_path, "train", *SMALL, "--out", "run", patch=UNHURRIED)
    until(lambda: updates(run) >= 2)
    kill(command)  # before the first checkpoint
    assert not list(run.glob("checkpoints/*.pt"))

    command = forks.start(tmp_path, "train", "--resume", "run", patch=UNHURRIED)
    until(lambda: updates(run) >= 10)
    kill(command)  # between two checkpoints
    present = sorted(run.glob("checkpoints/*.pt"))
    assert len(present) == 2

    command = forks.start(tmp_path, "train", "--resume", "run", patch=STUCK_IN_A_CHECKPOINT)
    until(lambda: any(path.stat().st_size for path in run.glob("checkpoints/.*.part")))
    kill(command)  # while writing a checkpoint: the partial file is left behind, the two earlier ones are complete
    assert len(list(run.glob("checkpoints/.*.part"))) == 1
    assert sorted(run.glob("checkpoints/*.pt")) == present

    command = forks.start(tmp_path, "train", "--resume", "run", patch=STUCK_IN_EVALUATION)
    until((tmp_path / "evaluating").exists)
    kill(command)
    assert not list(run.glob("checkpoints/.*.part"))

    command = forks.start(tmp_path, "train", "--resume", "run", patch=STUCK_AT_THE_END)
    until((tmp_path / "ending").exists)
    kill(command)  # all updates are done, but there is no result yet
    assert not (run / "result.json").exists()

    command = forks.start(tmp_path, "train", "--resume", "run")
    assert command.wait() == 0, command.output()
    assert bits(run) == bits(unbroken)
    assert len(list(run.glob("checkpoints/*.pt"))) == 2

    command = forks.start(tmp_path, "train", "--resume", "run")
    assert command.wait() == 0
    assert "was already finished" in command.output()
    assert bits(run) == bits(unbroken)


def test_two_processes_killed_one_at_a_time_resume_bit_exactly(
    forks: Forks, tmp_path: Path, unbroken_two: Path
) -> None:
    run = tmp_path / "run"
    first, second = forks.start_two(tmp_path, "train", *SMALL, "--out", "run", patch=UNHURRIED)
    until(lambda: updates(run) >= 6)
    kill(second)
    assert first.wait(timeout=300) == 1  # it does not wait for the other
    assert first.output().strip().splitlines()[-1].startswith("zerocross: another process of this run has exited")
    assert "Traceback" not in first.output()

    first, second = forks.start_two(tmp_path, "train", "--resume", "run", patch=UNHURRIED)
    until(lambda: updates(run) >= 14)
    kill(first)
    assert second.wait(timeout=300) == 1  # it has nothing to report, and leaves no process behind
    assert second.output() == ""

    for command in forks.start_two(tmp_path, "train", "--resume", "run"):
        assert command.wait() == 0, command.output()
    assert bits(run) == bits(unbroken_two)


@pytest.mark.slow
@pytest.mark.parametrize("point", range(8))
def test_run_killed_at_a_random_update(forks: Forks, tmp_path: Path, unbroken: Path, point: int) -> None:
    run, after = tmp_path / "run", random.Random(point).randrange(1, 33)
    command = forks.start(tmp_path, "train", *SMALL, "--out", "run", patch=UNHURRIED)
    until(lambda: updates(run) >= after)
    kill(command)
    command = forks.start(tmp_path, "train", "--resume", "run")
    assert command.wait() == 0, command.output()
    assert bits(run) == bits(unbroken)


@pytest.mark.slow
@pytest.mark.parametrize("point", range(6))
def test_two_processes_killed_at_a_random_update(forks: Forks, tmp_path: Path, unbroken_two: Path, point: int) -> None:
    run, after = tmp_path / "run", random.Random(100 + point).randrange(1, 33)
    commands = forks.start_two(tmp_path, "train", *SMALL, "--out", "run", patch=UNHURRIED)
    until(lambda: updates(run) >= after)
    for command in commands:
        command.kill(signal.SIGKILL)
    assert commands[0].wait() == -signal.SIGKILL
    commands[1].wait()  # it may have ended by itself a moment before
    for command in forks.start_two(tmp_path, "train", "--resume", "run"):
        assert command.wait() == 0, command.output()
    assert bits(run) == bits(unbroken_two)


@pytest.mark.slow
def test_two_processes_killed_while_writing_a_checkpoint(forks: Forks, tmp_path: Path, unbroken_two: Path) -> None:
    run = tmp_path / "run"
    first, second = forks.start_two(tmp_path, "train", *SMALL, "--out", "run", patch=STUCK_IN_A_CHECKPOINT)
    until(lambda: any(path.stat().st_size for path in run.glob("checkpoints/.*.part")))
    kill(first)
    assert second.wait(timeout=300) == 1
    for command in forks.start_two(tmp_path, "train", "--resume", "run"):
        assert command.wait() == 0, command.output()
    assert bits(run) == bits(unbroken_two)
    assert not list(run.glob("checkpoints/.*.part"))
