"""The folder of a run: the two small files that say what it is and where it takes place, and who is at it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from zerocross.train.config import Config, build_part, from_dict


@dataclass(frozen=True)
class Placement:
    """Where a run takes place: all that a resumed run needs besides its config, and that does not decide its result.

    Args:
        data_dir: Where the datasets are.
        devices: How many processes on this machine, one device each.
        nodes: How many machines.
        accelerator: "auto", "cpu" or "cuda".
        tensorboard: Whether event files are written.
    """

    data_dir: str | None = None
    devices: int = 1
    nodes: int = 1
    accelerator: str = "auto"
    tensorboard: bool = False

    @property
    def processes(self) -> int:
        """How many processes train together."""
        return self.devices * self.nodes


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a run folder while in this context: any other process is refused, one that was killed holds nothing.

    The same thread may hold it more than once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.resolve() / ".lock", is_singleton=True)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(
            f"another process is at the run in {folder}: wait for it, stop it, or choose another folder by --out"
        ) from None
    try:
        yield
    finally:
        lock.release()


def holds_run(folder: Path) -> bool:
    """Whether a folder holds a run that has got anywhere; one that failed at its start leaves nothing worth keeping."""
    if not (folder / "config.json").exists():
        return False
    metrics = folder / "metrics.jsonl"
    made = (folder / "result.json").exists() or any(folder.glob("checkpoints/[0-9]*"))
    return made or (metrics.exists() and metrics.stat().st_size > 0)


def read_config(folder: Path) -> Config:
    """The config of a run folder."""
    return from_dict(read_json(folder, "config.json"))


def read_placement(folder: Path) -> Placement:
    """Where a run took place."""
    return build_part(Placement, read_json(folder, "place.json"), "place.json: ")


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A JSON file of a run folder, or an error that names it."""
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not a run folder: it has no {name}")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} is damaged: it does not hold a JSON object")
    return values
