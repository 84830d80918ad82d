"""Where jobs run: options on the command line or in a file, and their errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from zerocross import train
from zerocross.cli import app, execution
from zerocross.sweep.cache import RunCache
from zerocross.sweep.execution import Execution, from_file, minutes
from zerocross.sweep.trainings import run_all

FILE = """
cluster = "slurm"
partition = "gpu"
gpus = 1
time = "12:00:00"
setup = ["module load cuda"]
[slurm]
account = "vision"
"""


@pytest.mark.parametrize(
    ("text", "value"),
    [("90", 90), ("1:30", 2), ("12:00:00", 720), ("0:0:1", 1), ("2-00:00:00", 2880), ("1-6", 1800), ("1-0:30", 1470)],
)
def test_time_limits_have_the_format_of_slurm(text: str, value: int) -> None:
    assert minutes(text) == value


@pytest.mark.parametrize("text", ["", "soon", "1:2:3:4", "-5", "1.5"])
def test_invalid_time_limits_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write minutes, HOURS:MINUTES:SECONDS"):
        minutes(text)


def test_options_override_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(FILE)
    whole = from_file(path)
    assert whole == Execution(
        cluster="slurm", partition="gpu", gpus=1, time=720, setup=("module load cuda",), slurm={"account": "vision"}
    )
    changed = execution.execution(cluster_file=path, partition="long", time="30", jobs=None)
    assert (changed.partition, changed.time, changed.gpus) == ("long", 30, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cluster = ", "is not a TOML file"),
        ("partitoin = 'gpu'", "did you mean 'partition'"),
        ("gpus = 'one'", "gpus is 'one'; it must be a whole number"),
        ("cpus = true", "cpus is True; it must be a whole number"),
        ("partition = 3", "partition is 3; it must be text"),
        ("setup = 'module load cuda'", "setup must be a list"),
        ("slurm = 'account'", "slurm must be a table"),
        ("time = 'soon'", "write minutes"),
        ("cluster = 'slrum'", "did you mean 'slurm'"),
    ],
)
def test_invalid_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "cluster.toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        from_file(tmp_path / "cluster.toml")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"jobs": 0}, "jobs is 0; it must be at least 1"),
        ({"time": 2}, "time is 2; it must be at least 5"),
        ({"cluster": "slurm", "gpus": 2}, "a run uses one device"),
        ({"cluster": "slurm", "jobs": 2}, "set array instead"),
        ({"cluster": "pbs"}, "it must be one of local, slurm"),
    ],
)
def test_invalid_values_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Execution(**values)


@pytest.mark.parametrize("command", ["compare", "reproduce"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--partition", "gpu"], "--partition: only for a cluster; add --cluster slurm"),
        (["--cluster", "slurm", "--time", "soon"], "write minutes"),
        (["--cluster-file", "none.toml"], "No such file or directory: none.toml"),
    ],
)
def test_commands_accept_these_options_and_give_one_line_errors(
    command: str,
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert app.run([command, *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_missing_slurm_and_unsettled_precision_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    cache, slurm = RunCache(tmp_path / "results", tmp_path / "work"), Execution(cluster="slurm")
    config = train.changed(train.RECIPES["digits"].config, {"precision": "auto"})
    with pytest.raises(ValueError, match=r"set it: --set precision=bf16"):
        run_all([config], train.Placement(), cache, slurm, show=False)
    with pytest.raises(ValueError, match="srun is not available on this machine"):
        run_all([train.changed(config, {"precision": "32"})], train.Placement(), cache, slurm, show=False)


def test_accelerator_depends_on_where_jobs_run() -> None:
    assert execution.placement(None, Execution()).accelerator == "auto"
    assert execution.placement(None, Execution(cluster="slurm")).accelerator == "cpu"
    assert execution.placement(None, Execution(cluster="slurm", gpus=1)).accelerator == "cuda"
