"""A run folder belongs to one config, one dataset and one process at a time, and never blocks later runs."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch

from forks import SMALL, UNHURRIED, Forks, bits, until, updates
from zerocross import data, train
from zerocross.train.folder import alone, holds_run

CONFIG = train.changed(
    train.RECIPES["digits"].config,
    {
        "stages.0.epochs": "1",
        "compile": "off",
        "model.options.width": "4",
        "batch_size": "128",
        "log_every": "1",
    },
)


def test_a_run_folder_refuses_other_data(tmp_path: Path) -> None:
    digits = data.load("digits")
    fitted = train.fit(CONFIG, digits, folder=tmp_path, show=False)
    again = train.fit(CONFIG, data.load("digits"), folder=tmp_path, show=False)
    assert again.scores == fitted.scores
    split = digits.train
    assert isinstance(split, data.Split)
    shuffled = dataclasses.replace(digits, train=data.Split(split.inputs, split.targets.roll(1)))
    with pytest.raises(ValueError, match=f"a run on other data .fingerprint {digits.fingerprint}, here [0-9a-f]{{16}}"):
        train.fit(CONFIG, shuffled, folder=tmp_path, show=False)


def test_fingerprint_depends_on_the_samples_only() -> None:
    digits = data.load("digits")
    assert digits.fingerprint == data.load("digits").fingerprint
    others = [
        data.load("digits", validate=True),
        dataclasses.replace(digits, augment="shift"),
        dataclasses.replace(digits, evaluation=digits.train),
    ]
    assert len({digits.fingerprint, *(other.fingerprint for other in others)}) == 4
    x, y = torch.zeros(4, 3), torch.tensor([0, 1, 0, 1])
    first = data.from_tensors(x, y, x, y, mean=(0.0,), std=(1.0,))
    second = data.from_tensors(x.index_fill(0, torch.tensor([1]), 1e-9), y, x, y, mean=(0.0,), std=(1.0,))
    assert first.fingerprint != second.fingerprint


def test_result_contains_the_fingerprint_of_its_data(unbroken: Path) -> None:
    result = json.loads((unbroken / "result.json").read_text(encoding="utf-8"))
    assert result["data_fingerprint"] == data.load("digits").fingerprint


def test_a_run_resumes_from_a_checkpoint_without_a_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zerocross.train import checkpoint

    save = checkpoint.save

    def old(folder: Path, position: checkpoint.Position, state: dict[str, object]) -> Path:
        return save(folder, position, {key: value for key, value in state.items() if key != "data"})

    monkeypatch.setattr(checkpoint, "save", old)
    first = train.fit(CONFIG, data.load("digits"), folder=tmp_path, show=False)
    assert train.fit(CONFIG, data.load("digits"), folder=tmp_path, show=False).scores == first.scores


def test_second_process_in_a_run_folder_is_refused(forks: Forks, tmp_path: Path, unbroken: Path) -> None:
    run = tmp_path / "run"
    command = forks.start(tmp_path, "train", *SMALL, "--out", "run", patch=UNHURRIED)
    until(lambda: updates(run) >= 6)
    for words in (("--resume", "run"), (*SMALL, "--seed", "1", "--out", "run")):
        other = forks.start(tmp_path, "train", *words)
        assert other.wait() == 2
        assert len(other.output().splitlines()) == 1
        assert "run in run: wait for it" in other.output() or "run already contains a run" in other.output()
    with pytest.raises(ValueError, match="another process is using the run in"):
        train.fit(CONFIG, data.load("digits"), folder=run, show=False)
    assert command.wait() == 0
    assert bits(run) == bits(unbroken)


def test_two_processes_started_at_once_give_one_run(forks: Forks, tmp_path: Path) -> None:
    commands = [
        forks.start(tmp_path, "train", *SMALL, "--seed", seed, "--out", "run", patch=UNHURRIED) for seed in (0, 1)
    ]
    codes = [command.wait() for command in commands]
    assert sorted(codes) == [0, 2]
    seed = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))["config"]["seed"]
    assert seed == codes.index(0)
    assert json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))["seed"] == seed


def test_killed_process_releases_its_lock(forks: Forks, tmp_path: Path) -> None:
    command = forks.start(tmp_path, "train", *SMALL, "--out", "run", patch=UNHURRIED)
    until(lambda: updates(tmp_path / "run") >= 2)
    command.kill(signal.SIGKILL)
    command.wait()
    with alone(tmp_path / "run"), alone(tmp_path / "run"):  # the same thread may hold the lock twice
        pass


FAILS_AT_START = """
import zerocross.train.loop as loop
def fail(*words, **values):
    raise ValueError("the compiler has failed")
loop.prepare = fail
"""


def test_run_that_fails_at_its_start_does_not_block_the_next(forks: Forks, tmp_path: Path, unbroken: Path) -> None:
    command = forks.start(tmp_path, "train", *SMALL, "--seed", "5", "--out", "run", patch=FAILS_AT_START)
    assert command.wait() == 2
    assert not holds_run(tmp_path / "run")
    command = forks.start(tmp_path, "train", *SMALL, "--out", "run")
    assert command.wait() == 0, command.output()
    assert bits(tmp_path / "run") == bits(unbroken)
    command = forks.start(tmp_path, "train", *SMALL, "--out", "run")
    assert command.wait() == 2
    assert "run already contains a run" in command.output()


# ---- several processes

KILLED_BEFORE_THE_MEETING = """
import os, signal
import zerocross.train.ranks as ranks
import zerocross.train.run as run
ranks.RENDEZVOUS_SECONDS = 2.0
made = run.make_fabric
def make_fabric(*words):
    if os.environ["RANK"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    return made(*words)
run.make_fabric = make_fabric
"""


def test_a_process_ends_soon_if_rank_zero_was_killed_at_the_start(forks: Forks, tmp_path: Path) -> None:
    began = time.monotonic()
    first, second = forks.start_two(tmp_path, "train", *SMALL, "--out", "run", patch=KILLED_BEFORE_THE_MEETING)
    assert first.wait() == -signal.SIGKILL
    assert second.wait() == 1
    assert time.monotonic() - began < 60
    (line,) = second.output().splitlines()
    assert line.startswith("zerocross: the first process (rank 0) cannot be reached at 127.0.0.1:")


UNREADABLE = """
import errno, os, pathlib
read = pathlib.Path.read_bytes
def fail(self):
    if self.suffix == ".pt" and os.environ.get("RANK", "0") == "{rank}":
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(self))
    return read(self)
pathlib.Path.read_bytes = fail
"""


def unfinished(finished: Path, to: Path) -> list[Path]:
    """Restore the run to its state before its last checkpoint."""
    shutil.copytree(finished, to)
    for name in ("result.json", "model.safetensors"):
        (to / name).unlink()
    *kept, last = sorted((to / "checkpoints").iterdir())
    last.unlink()
    return kept


def test_rank_zero_reads_checkpoints_for_all_ranks(forks: Forks, tmp_path: Path, unbroken_two: Path) -> None:
    unfinished(unbroken_two, tmp_path / "run")
    for command in forks.start_two(tmp_path, "train", "--resume", "run", patch=UNREADABLE.format(rank=1)):
        assert command.wait() == 0, command.output()
    assert bits(tmp_path / "run") == bits(unbroken_two)


def test_if_rank_zero_cannot_read_all_ranks_stop_and_nothing_is_lost(
    forks: Forks, tmp_path: Path, unbroken_two: Path
) -> None:
    kept = unfinished(unbroken_two, tmp_path / "run")
    before = [path.read_bytes() for path in kept]
    first, second = forks.start_two(tmp_path, "train", "--resume", "run", patch=UNREADABLE.format(rank=0))
    assert [first.wait(), second.wait()] == [1, 0]
    (line,) = first.output().splitlines()
    assert line.startswith(f"zerocross: Input/output error: run/checkpoints/{kept[-1].name}; checkpoints are kept.")
    assert second.output() == ""
    assert [path.read_bytes() for path in kept] == before
