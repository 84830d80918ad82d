"""A sweep on a real Slurm of one node on this machine: jobs are cancelled and killed, the controller is restarted."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from forks import Forks, until, updates
from sweep.slurm import Cluster, missing
from zerocross import train
from zerocross.sweep.cache import RunCache
from zerocross.sweep.execution import Execution
from zerocross.sweep.trainings import run_all
from zerocross.tune.workers import one_thread

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "Slurm is here")

CHANGES = {
    "compile": "off", "model.options.width": "4", "batch_size": "128", "log_every": "1", "checkpoint_every": "1",
    "precision": "32",
}  # fmt: skip
EPOCHS = 24  # of 11 updates; each update is logged to disk, so that a run takes seconds on any machine


def compare(seeds: int) -> list[str]:
    """Return the command: several runs of a few seconds each, on the cluster."""
    settings = [word for field, value in CHANGES.items() for word in ("--set", f"{field}={value}")]
    return [
        "compare", "--methods", f"filter:{seeds}", "--epochs", str(EPOCHS), *settings, "--keep",
        "--cluster", "slurm", "--array", "2", "--time", "30",
    ]  # fmt: skip


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="zerocross-slurm-"))  # pytest's own folders have too long paths for a socket
    try:
        with Cluster(folder, cpus=2) as started:
            yield started
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    server = Forks()
    yield server
    server.close()


def unbroken(seeds: int, folder: Path) -> list[dict[str, Any]]:
    """Run the same configs in this process, one after the other, on one thread as the jobs do."""
    config = train.with_method(train.RECIPES["digits"].config, "filter")
    whole = [train.changed(config, {**CHANGES, "stages.0.epochs": str(EPOCHS), "seed": str(s)}) for s in range(seeds)]
    with one_thread():
        return run_all(whole, train.Placement(), RunCache(folder / "results", folder / "work", keep=True), show=False)


def check_equal(actual: Path, folder: Path, seeds: int) -> None:
    """Check that all results exist once, with the figures and weights of uninterrupted runs."""
    expected = unbroken(seeds, folder)
    assert {path.stem for path in (actual / "results" / "runs").glob("*.json")} == {each["hash"] for each in expected}
    for each in expected:
        result = json.loads((actual / "results" / "runs" / f"{each['hash']}.json").read_text())
        for key in ("config", "final", "history", "ff_ratio", "train_loss"):
            assert result[key] == each[key], key
        ours, theirs = (
            load_file(run / each["hash"] / "model.safetensors") for run in (actual / "runs/by-hash", folder / "work")
        )
        assert ours.keys() == theirs.keys()
        assert all(ours[name].equal(theirs[name]) for name in ours)


class Watched:
    """The runs of a command, by their Slurm jobs."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.work = folder / "runs" / "by-hash"

    def under_way(self, but: set[str]) -> str:
        """Wait for a run that has done some updates and is far from its end; return its key."""
        chosen: list[str] = []

        def look() -> bool:
            runs = [path.parent for path in self.work.glob("*/config.json")]
            chosen[:] = [run.name for run in runs if 6 <= updates(run) <= 90 and run.name not in but]
            return bool(chosen)

        until(look, timeout=300)
        return chosen[0]

    def job(self, key: str) -> str:
        return (self.work / "jobs" / f"{key}.submitted").read_text()


def process_of(number: str) -> int:
    """Return the process of a Slurm job, given its number in the queue: 12, or 12_3 in an array."""
    array, _, task = number.partition("_")
    expected = {f"SLURM_ARRAY_JOB_ID={array}", f"SLURM_ARRAY_TASK_ID={task}"} if task else {f"SLURM_JOB_ID={array}"}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            variables = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if b"submitit.core._submit" in words and b"srun" not in words[0] and expected <= set(variables):
            return int(folder.name)
    raise AssertionError(f"no process does job {number}")


def test_a_cancelled_job_is_submitted_again_and_resumes(forks: Forks, cluster: Cluster, tmp_path: Path) -> None:
    command = forks.start(tmp_path, *compare(2), **cluster.environment)
    runs = Watched(cluster, tmp_path)
    key = runs.under_way(set())
    cluster.ask("scancel", runs.job(key))
    assert command.wait() == 0, command.output() + cluster.output()
    assert command.output().count("submitted 1 run to Slurm") == 1
    assert "ended without a result; it resumes from its last checkpoint" in command.output()
    check_equal(tmp_path, tmp_path / "unbroken", 2)
    assert not list(tmp_path.glob("runs/by-hash/jobs/*"))


@pytest.mark.slow
def test_eight_runs_survive_all_failures_of_a_cluster(forks: Forks, cluster: Cluster, tmp_path: Path) -> None:
    """Jobs are cancelled, killed and reach the time limit; the controller restarts; the command is killed and rerun."""
    command = forks.start(tmp_path, *compare(8), **cluster.environment)
    runs = Watched(cluster, tmp_path)
    hit: set[str] = set()
    for event in ("cancelled", "killed", "time limit"):
        key = runs.under_way(hit)
        hit.add(key)
        number = runs.job(key)
        if event == "cancelled":
            cluster.ask("scancel", number)
        elif event == "killed":
            os.kill(process_of(number), signal.SIGKILL)
        else:  # Slurm's signal, minutes before the limit: the same job is requeued
            cluster.ask("scancel", "--signal=USR2", number)
            until(lambda number=number: "Restarts=1" in cluster.ask("scontrol", "show", "job", number), timeout=300)
    cluster.stop("slurmctld")
    until(lambda: "Slurm does not respond" in command.output(), timeout=120)
    cluster.start_controller()
    until(lambda: "Slurm responds again" in command.output(), timeout=300)
    command.kill(signal.SIGKILL)
    command.wait()
    again = forks.start(tmp_path, *compare(8), **cluster.environment)
    assert again.wait(1200) == 0, again.output() + cluster.output()
    assert "still on the cluster from an earlier command" in again.output()
    check_equal(tmp_path, tmp_path / "unbroken", 8)
    message = command.output() + again.output()
    assert message.count("submitted 8 runs to Slurm") == 1
    submitted = [int(count) for count in re.findall(r"submitted (\d+) runs? to Slurm", message)]
    assert sum(submitted) == 8 + 2  # those that were cancelled or killed
    finished = [line for line in message.splitlines() if ": test " in line and " % in " in line]
    assert len({line.partition(": test")[0].rpartition(": ")[2] for line in finished}) == len(finished)


def test_errors_of_slurm_are_reported(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    config = train.changed(train.RECIPES["digits"].config, CHANGES)
    nowhere = Execution(cluster="slurm", partition="nowhere")
    with pytest.raises(ValueError, match=r"sbatch refused the jobs: .*invalid partition"):
        run_all([config], train.Placement(), RunCache(tmp_path / "results", tmp_path / "work"), nowhere, show=False)
