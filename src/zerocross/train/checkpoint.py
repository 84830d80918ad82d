"""Checkpoints: written aside and renamed, the last two kept, a damaged one named and passed over."""

from __future__ import annotations

import random
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zerocross.files import write_whole

KEPT = 2


@dataclass
class Position:
    """Where a run stands.

    Attributes:
        stage: Index of the stage.
        epoch: Within the stage.
        batch: Micro-batches of the epoch that are done.
        step: Updates of the stage that are done.
        updates: Updates of all stages that are done.
    """

    stage: int = 0
    epoch: int = 0
    batch: int = 0
    step: int = 0
    updates: int = 0

    def next_epoch(self) -> None:
        """Move to the start of the next epoch."""
        self.epoch, self.batch = self.epoch + 1, 0

    def next_stage(self) -> None:
        """Move to the start of the next stage."""
        self.stage, self.epoch, self.batch, self.step = self.stage + 1, 0, 0, 0


def save(folder: Path, position: Position, state: dict[str, Any]) -> Path:
    """Write one checkpoint whole, then drop all but the last two.

    Files of a later position go, too: a run that went back behind a damaged one must not lose new ones to it.
    """
    path = folder / f"{position.stage:02d}-{position.epoch:05d}-{position.batch:07d}.pt"
    write_whole(path, lambda file: torch.save({**state, "position": asdict(position)}, file))
    present = found(folder)
    kept = [other for other in present if other <= path][-KEPT:]
    for other in present:
        if other not in kept:
            other.unlink(missing_ok=True)
    return path


def newest(folder: Path) -> tuple[dict[str, Any] | None, list[str]]:
    """The newest whole checkpoint, or None, and a line about each damaged one that was passed over."""
    damaged = []
    for path in reversed(found(folder)):
        try:
            return read(path), damaged
        except ValueError as wrong:
            damaged.append(str(wrong))
    return None, damaged


def read(path: Path) -> dict[str, Any]:
    """Read a checkpoint, no pickle loaded; a damaged one is a ValueError that names it."""
    try:
        with zipfile.ZipFile(path) as whole:
            member = whole.testzip()
        state = torch.load(path, weights_only=True, map_location="cpu") if member is None else None
    except Exception as wrong:  # a broken archive fails in many ways, all of which mean the same
        raise ValueError(f"checkpoint {path} is damaged: {' '.join(str(wrong).split())[:120]}") from wrong
    if state is None:
        raise ValueError(f"checkpoint {path} is damaged: {member} fails its checksum")
    return state


def seed_random_states(seed: int) -> None:
    """Start all random generators a training loop may draw from."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the global one is what users draw from
    random.seed(seed)


def random_states() -> dict[str, Any]:
    """The states of all random generators a training loop may draw from, in plain containers."""
    kind, keys, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": [kind, keys.tolist(), position, has_gauss, gauss],  # type: ignore[union-attr]
        "python": random.getstate(),
    }


def restore_random_states(states: dict[str, Any]) -> None:
    """Put all random generators back to where they were."""
    torch.set_rng_state(states["torch"])
    if states["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(states["cuda"])
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))


def found(folder: Path) -> list[Path]:
    """The checkpoints of a folder, oldest first."""
    return sorted(folder.glob("[0-9]*.pt"))
