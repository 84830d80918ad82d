"""Full disks, missing data, diverged losses, damaged checkpoints: a one-line error, and valid files are kept."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forks import SMALL, Forks, bits
from zerocross.cli import app
from zerocross.train import checkpoint

# After three checkpoints, the disk is full.
FULL_LATER = """
import errno, os
sync, count = os.fsync, 0
def full(number):
    global count
    count += 1
    if count > 6:  # place.json, config.json, inputs.json, three checkpoints
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    sync(number)
os.fsync = full
"""


def whole_checkpoints(run: Path) -> list[str]:
    result = checkpoint.paths(run / "checkpoints")
    for path in result:
        checkpoint.read(path)
    return [path.name for path in result]


@pytest.fixture(scope="session")
def cut(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that a full disk ended in its second epoch, in a folder with its output."""
    folder = tmp_path_factory.mktemp("cut")
    command = forks.start(folder, "train", *SMALL, "--out", "run", patch=FULL_LATER)
    assert command.wait() == 1
    (folder / "said.txt").write_text(command.output(), encoding="utf-8")
    return folder


def test_full_disk_is_reported_and_keeps_the_last_checkpoints(cut: Path) -> None:
    last = (cut / "said.txt").read_text(encoding="utf-8").strip().splitlines()[-1]
    assert last.startswith("zerocross: No space left on device: the run cannot write to run; ")
    assert last.endswith("resume with: zerocross train --resume run")
    assert whole_checkpoints(cut / "run") == ["00-00000-0000008.pt", "00-00001-0000000.pt"]
    assert not list(cut.rglob("*.part"))


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 90 kB: enough for the start of a run."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=90k", "none", str(disk)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("this user cannot mount a small file system")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_really_full_disk(forks: Forks, tmp_path: Path, tiny_disk: Path) -> None:
    command = forks.start(tmp_path, "train", *SMALL, "--set", "model.options.width=6", "--out", "disk/run")
    assert command.wait() == 1
    assert "No space left on device" in command.output()
    assert "Traceback" not in command.output()
    assert not list(tiny_disk.rglob("*.part"))
    whole_checkpoints(tiny_disk / "run")


def test_missing_data_are_reported_before_a_folder_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ZEROCROSS_DATA", raising=False)
    assert app.run(["train", "cifar10-birealnet20", "--data-dir", "nowhere", "--out", "run"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


NAN_LATER = """
import zerocross.train.build as build
made, count = build.build_loss, 0
def build_loss(*words):
    loss = made(*words)
    def later(*words):
        global count
        count += 1
        return loss(*words) * (float("nan") if count > 6 else 1)
    return later
build.build_loss = build_loss
"""


@pytest.mark.parametrize("method", ["filter", "torch-sgd"])  # the first refuses such gradients itself
def test_diverged_loss_keeps_the_last_good_checkpoint(forks: Forks, tmp_path: Path, method: str) -> None:
    command = forks.start(tmp_path, "train", *SMALL, "--method", method, "--out", "run", patch=NAN_LATER)
    assert command.wait() == 1
    last = command.output().strip().splitlines()[-1]
    assert last.startswith("zerocross: training diverged at update 6, epoch 1: ")
    assert " The last good checkpoint is run/checkpoints/00-00000-0000004.pt. " in last
    assert "Traceback" not in command.output()
    assert whole_checkpoints(tmp_path / "run") == ["00-00000-0000004.pt"]


def test_two_processes_report_divergence_once(forks: Forks, tmp_path: Path) -> None:
    first, second = forks.start_two(
        tmp_path, "train", *SMALL, "--method", "torch-sgd", "--set", "real.lr=1e30", "--out", "run"
    )
    assert first.wait() == 1
    assert second.wait() == 0
    assert first.output().count("zerocross:") == 1
    assert second.output() == ""


def damage(path: Path, how: str) -> None:
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(
        {
            "flipped": whole[:middle]
            + bytes(byte ^ 255 for byte in whole[middle : middle + 64])
            + whole[middle + 64 :],
            "truncated": whole[:middle],
            "empty": b"",
            "another": b"hello",
        }[how]
    )


@pytest.mark.parametrize("how", ["flipped", "truncated", "empty", "another"])
def test_damaged_checkpoint_is_named_and_the_previous_one_read(cut: Path, tmp_path: Path, how: str) -> None:
    folder = shutil.copytree(cut / "run" / "checkpoints", tmp_path / "checkpoints")
    before, last = checkpoint.paths(folder)
    damage(last, how)
    state, damaged = checkpoint.newest(folder)
    assert state is not None
    assert state["position"]["batch"] == 8
    assert len(damaged) == 1
    assert damaged[0].startswith(f"checkpoint {last} is damaged: ")
    assert "\n" not in damaged[0]
    assert before.exists()


CANNOT_READ = """
import errno, os, pathlib
read = pathlib.Path.read_bytes
def fail(self):
    if self.suffix == ".pt":
        raise {error}
    return read(self)
pathlib.Path.read_bytes = fail
"""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("OSError(errno.EIO, os.strerror(errno.EIO), str(self))", "Input/output error: run/checkpoints/"),
        ("PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))", "Permission denied: run/checkpoints/"),
        ("MemoryError", "out of memory; "),
    ],
)
def test_other_read_errors_stop_the_run_and_lose_nothing(
    forks: Forks, cut: Path, tmp_path: Path, error: str, message: str
) -> None:
    run = shutil.copytree(cut / "run", tmp_path / "run")
    before = {path: path.read_bytes() for path in checkpoint.paths(run / "checkpoints")}
    command = forks.start(tmp_path, "train", "--resume", "run", patch=CANNOT_READ.format(error=error))
    assert command.wait() == 1
    (line,) = command.output().splitlines()
    assert line.startswith(f"zerocross: {message}")
    assert line.endswith("checkpoints are kept. Fix the problem, then resume with: zerocross train --resume run")
    assert {path: path.read_bytes() for path in checkpoint.paths(run / "checkpoints")} == before


READ_ONLY = """
import errno, os, pathlib
def read_only(self, *words, **values):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))
pathlib.Path.mkdir = read_only
"""


def test_read_only_folder_gives_a_one_line_error(forks: Forks, tmp_path: Path) -> None:
    command = forks.start(tmp_path, "train", *SMALL, "--out", "run", patch=READ_ONLY)
    assert command.wait() == 1
    assert command.output() == "zerocross: Read-only file system: the run cannot write to run\n"


REFUSED_STEP = """
from zerocross.optim import HybridOptimizer
def step(self, closure=None):
    raise ValueError("this optimizer needs a closure")
HybridOptimizer.step = step
"""


def test_an_error_with_finite_values_is_not_divergence(forks: Forks, tmp_path: Path) -> None:
    command = forks.start(tmp_path, "train", *SMALL, "--out", "run", patch=REFUSED_STEP)
    assert command.wait() == 2
    assert command.output() == "zerocross: this optimizer needs a closure\n"


def test_run_resumes_from_the_checkpoint_before_a_damaged_one(
    forks: Forks, cut: Path, tmp_path: Path, unbroken: Path
) -> None:
    run = shutil.copytree(cut / "run", tmp_path / "run")
    last = checkpoint.paths(run / "checkpoints")[-1]
    damage(last, "flipped")
    command = forks.start(tmp_path, "train", "--resume", "run")
    assert command.wait() == 0, command.output()
    first = command.output().splitlines()[0]
    assert first.startswith(f"checkpoint run/checkpoints/{last.name} is damaged: ")
    assert first.endswith(f" (kept as {last.name}.damaged); resuming from the previous one")
    assert last.with_name(f"{last.name}.damaged").exists()
    assert bits(run) == bits(unbroken)


def test_a_run_with_two_damaged_checkpoints_starts_again(
    forks: Forks, cut: Path, tmp_path: Path, unbroken: Path
) -> None:
    run = shutil.copytree(cut / "run", tmp_path / "run")
    for path in checkpoint.paths(run / "checkpoints"):
        damage(path, "flipped")
    command = forks.start(tmp_path, "train", "--resume", "run", patch=FULL_LATER.replace("count > 6", "count > 2"))
    assert command.wait() == 1
    assert command.output().count("; starting from scratch") == 2
    assert whole_checkpoints(run) == ["00-00000-0000004.pt"]  # the damaged ones of later updates have been renamed
    assert len(list(run.glob("checkpoints/*.damaged"))) == 2
    command = forks.start(tmp_path, "train", "--resume", "run")
    assert command.wait() == 0, command.output()
    assert bits(run) == bits(unbroken)
