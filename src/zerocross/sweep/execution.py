"""Where jobs run: on this machine, or on a Slurm cluster with its options."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zerocross.checks import check_choice

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CLUSTERS = ("local", "slurm")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


@dataclass(frozen=True)
class Execution:
    """How many jobs run at a time, and where.

    Args:
        jobs: Number of jobs at a time on this machine, at least 1. A single job runs in this process, on all its
            threads; several jobs run in one process each, with an equal share of the threads and one of the GPUs.
        cluster: "local" for this machine; "slurm" for one Slurm job per job, submitted as an array.
        partition: The Slurm partition; None uses the cluster's default.
        gpus: GPUs per Slurm job: 0 or 1, since a run uses one device.
        cpus: Cores per Slurm job, at least 1; a job computes on as many threads.
        time: Time limit of a Slurm job in minutes, at least 5. A job saves a checkpoint two minutes before the limit,
            and is requeued.
        array: Maximum number of Slurm jobs that run at the same time, at least 1.
        slurm: Further sbatch options by name ("account", "qos", "mem", ...).
        setup: Shell commands that each Slurm job runs first ("module load ...").
    """

    jobs: int = 1
    cluster: str = "local"
    partition: str | None = None
    gpus: int = 0
    cpus: int = 1
    time: int = 24 * 60
    array: int = 64
    slurm: Mapping[str, Any] = field(default_factory=dict)
    setup: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("cluster", self.cluster, CLUSTERS)
        for name, least in (("jobs", 1), ("gpus", 0), ("cpus", 1), ("time", 5), ("array", 1)):
            if (value := getattr(self, name)) < least:
                raise ValueError(f"{name} is {value}; it must be at least {least}")
        if self.gpus > 1:
            raise ValueError(f"gpus is {self.gpus}; a run uses one device, so it must be 0 or 1 (raise array instead)")
        if self.cluster == "slurm" and self.jobs > 1:
            raise ValueError(f"jobs is {self.jobs}, which is for this machine; on a cluster set array instead")

    @property
    def parallel(self) -> int:
        """Number of jobs at a time."""
        return self.array if self.cluster == "slurm" else self.jobs


def minutes(text: str) -> int:
    """Convert a time limit in Slurm's notation ("90", "12:00:00", "2-00:00:00") to minutes, rounded up.

    Raises:
        ValueError: if the text is not a time limit.
    """
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"time is {text!r}; write minutes, HOURS:MINUTES:SECONDS or DAYS-HOURS:MINUTES:SECONDS")
    days, first, second, third = (None if part is None else int(part) for part in match.groups())
    if days is not None:  # D-H[:M[:S]]
        seconds = ((days * 24 + (first or 0)) * 60 + (second or 0)) * 60 + (third or 0)
    elif third is not None:  # H:M:S
        seconds = ((first or 0) * 60 + (second or 0)) * 60 + third
    else:  # M[:S]
        seconds = (first or 0) * 60 + (second or 0)
    return -(-seconds // 60)


def from_file(path: Path, **given: Any) -> Execution:
    """Read an Execution from a TOML file, such as

        cluster = "slurm"
        partition = "gpu"
        gpus = 1
        time = "12:00:00"
        setup = ["module load cuda"]
        [slurm]
        account = "vision"

    Args:
        path: The file.
        given: Fields that override those of the file.

    Raises:
        ValueError: if the file has an unknown field or a wrong value; the message names the field.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not a TOML file: {error}") from None
    values = {**values, **given}
    types = {each.name: each for each in dataclasses.fields(Execution)}
    for name, value in values.items():
        check_choice(f"{path}: field", name, types)
        if name == "time":
            values[name] = minutes(str(value))
        elif name == "setup":
            if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
                raise ValueError(f"{path}: setup must be a list of shell commands")
            values[name] = tuple(value)
        elif name == "slurm":
            if not isinstance(value, dict):
                raise ValueError(f"{path}: slurm must be a table of sbatch options, [slurm]")
        elif not isinstance(value, str if name in {"cluster", "partition"} else int) or isinstance(value, bool):
            expected = "text" if name in {"cluster", "partition"} else "a whole number"
            raise ValueError(f"{path}: {name} is {value!r}; it must be {expected}")
    return Execution(**values)
