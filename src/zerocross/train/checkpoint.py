"""Checkpoints: written aside and renamed, the last two kept, a damaged one named, set aside and passed over.

A file is torch's zip archive, followed by a mark and the SHA-256 of the archive; torch.load reads it as it is.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import random
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from zerocross.checks import one_line
from zerocross.files import write_whole

KEPT = 2
_MARK = b"zerocross sha256"
_DIGEST = 32
_TRAILER = len(_MARK) + _DIGEST
_END, _END_RECORD = b"PK\5\6", 22  # the last record of a zip archive, and its size without a comment


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
    """Write one checkpoint whole, ending in its own checksum, then drop all but the last two."""
    path = folder / f"{position.stage:02d}-{position.epoch:05d}-{position.batch:07d}.pt"

    def write(file: IO[bytes]) -> None:
        summed: Any = _Summed(file)
        try:
            torch.save({**state, "position": asdict(position)}, summed)
        except RuntimeError as error:  # torch's, about an archive that it could not end
            raise (summed.failed or error) from None
        file.write(_MARK + summed.sum.digest())

    write_whole(path, write)
    for old in found(folder)[:-KEPT]:
        old.unlink(missing_ok=True)
    return path


class _Summed:
    """A file that keeps the SHA-256 of what is written to it, and the first error that it met."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.sum = hashlib.sha256()
        self.failed: OSError | None = None

    def write(self, data: Any) -> int:
        self.sum.update(data)
        try:
            return self.file.write(data)
        except OSError as error:
            self.failed = self.failed or error
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


class DamagedCheckpointError(ValueError):
    """A checkpoint that is proven to hold other bytes than were written; `path` names it."""

    def __init__(self, path: Path, why: object) -> None:
        super().__init__(f"checkpoint {path} is damaged: {one_line(why, 120)}")
        self.path = path


def newest(folder: Path) -> tuple[dict[str, Any] | None, list[str]]:
    """The newest whole checkpoint, or None, and a line about each damaged one that was passed over."""
    data, damaged = newest_bytes(folder)
    return None if data is None else parse(data), [str(error) for error in damaged]


def newest_bytes(folder: Path) -> tuple[bytes | None, list[DamagedCheckpointError]]:
    """The newest whole checkpoint, as `parse` takes it, or None; and the damaged ones that were passed over.

    Only proven damage is passed over. A file that cannot be read for another reason (a disk that fails, a permission,
    too little memory) may be whole: its error is the caller's.
    """
    damaged = []
    for path in reversed(found(folder)):
        try:
            return read_bytes(path), damaged
        except DamagedCheckpointError as error:
            damaged.append(error)
    return None, damaged


def read_bytes(path: Path) -> bytes:
    """The bytes of a checkpoint, its checksum verified and taken off."""
    data = path.read_bytes()
    body, mark, sum_ = data[:-_TRAILER], data[-_TRAILER:-_DIGEST], data[-_DIGEST:]
    if mark == _MARK:
        if hashlib.sha256(body).digest() != sum_:
            raise DamagedCheckpointError(path, "it fails its checksum")
        return body
    # Written before checkpoints had a checksum of their own: the archive has one for each member, and ends the file.
    if data[-_END_RECORD:][: len(_END)] != _END:
        raise DamagedCheckpointError(path, "it has no checksum at its end")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            member = archive.testzip()
        if member is None:
            parse(data)  # the archive's own tables have no checksum
    except MemoryError:
        raise
    except Exception as error:  # a broken archive fails in many ways, all of which mean the same
        if "allocate memory" in str(error):  # torch's word for MemoryError
            raise
        raise DamagedCheckpointError(path, error) from error
    if member is not None:
        raise DamagedCheckpointError(path, f"{member} fails its checksum")
    return data


def parse(data: bytes) -> dict[str, Any]:
    """The state that a checkpoint holds; no pickle is run."""
    return torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")


def read(path: Path) -> dict[str, Any]:
    """Read one checkpoint; a damaged one is a ValueError that names it."""
    return parse(read_bytes(path))


def set_aside(path: Path) -> Path:
    """Rename a damaged checkpoint, so that it is neither read nor dropped again; returns its new name."""
    names = (path.with_name(f"{path.name}.damaged{number or ''}") for number in itertools.count())
    return path.rename(next(name for name in names if not name.exists()))


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
