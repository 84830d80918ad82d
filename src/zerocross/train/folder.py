"""Run folders: the config, the placement, and the lock that keeps other processes out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from zerocross.train.config import Config, build_part, from_dict


@dataclass(frozen=True)
class Placement:
    """Where a run executes: settings that resuming needs besides the config, and that do not affect the result.

    Args:
        data_dir: The folder of the datasets.
        devices: Number of processes per machine, one device each.
        nodes: Number of machines.
        accelerator: "auto", "cpu" or "cuda".
        tensorboard: Write TensorBoard event files; the same as "tensorboard" in `log`.
        log: Names of loggers: "tensorboard", "wandb", "mlflow".

    Examples:
        >>> from zerocross import train
        >>> train.Placement(devices=2, nodes=4).processes
        8
    """

    data_dir: str | None = None
    devices: int = 1
    nodes: int = 1
    accelerator: str = "auto"
    tensorboard: bool = False
    log: Sequence[str] = ()

    @property
    def processes(self) -> int:
        """Total number of processes."""
        return self.devices * self.nodes


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock a run folder; raise ValueError if another process holds it. A killed process releases its lock.

    The lock is reentrant within a thread.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.resolve() / ".lock", is_singleton=True)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(
            f"another process is using the run in {folder}: wait for it, stop it, or choose another folder with --out"
        ) from None
    try:
        yield
    finally:
        lock.release()


def holds_run(folder: Path) -> bool:
    """Return True if a folder has a run with results or progress; a run that failed at its start does not count."""
    if not (folder / "config.json").exists():
        return False
    metrics = folder / "metrics.jsonl"
    has_progress = (folder / "result.json").exists() or any(folder.glob("checkpoints/[0-9]*"))
    return has_progress or (metrics.exists() and metrics.stat().st_size > 0)


def read_config(folder: Path) -> Config:
    """Read the config of a run folder.

    Examples:
        >>> import json
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from zerocross import train
        >>> with TemporaryDirectory() as folder:
        ...     written = Path(folder, "config.json").write_text(json.dumps(train.to_dict(train.Config(seed=3))))
        ...     print(train.read_config(Path(folder)).seed)
        ...
        3
    """
    return from_dict(read_json(folder, "config.json"))


def read_placement(folder: Path) -> Placement:
    """Read the placement of a run folder.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from zerocross import train
        >>> with TemporaryDirectory() as folder:
        ...     written = Path(folder, "place.json").write_text('{"devices": 2}')
        ...     print(train.read_placement(Path(folder)).processes)
        ...
        2
    """
    return build_part(Placement, read_json(folder, "place.json"), "place.json: ")


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """Read a JSON file of a run folder; raise an error that names the file if it is missing or damaged."""
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not a run folder: it has no {name}")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} is damaged: it is not a JSON object")
    return values
