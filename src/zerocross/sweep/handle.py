"""A job in another process: its log, its answer, and what it was asked for.

submitit pickles the name of a function and plain JSON for it. Nothing pickled is read back: a job leaves its result in
the cache, or an answer beside its log, both as JSON.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerocross.sweep.cache import RunCache
from zerocross.sweep.job import Job
from zerocross.sweep.progress import Progress
from zerocross.sweep.worker import answer_path


@dataclass
class Handle:
    """A job in another process.

    Args:
        job: Which.
        id: submitit's: of a process, or of a Slurm job.
        folder: Where its log and its answer are.
        process: submitit's job, of a local process.
        slot: Which of the local processes it is.
    """

    job: Job
    id: str
    folder: Path
    process: Any = None
    slot: int = 0
    begun: bool = False
    gone: float | None = None  # when it was first seen to have left the queue
    _read: int = 0

    @property
    def log(self) -> Path:
        """What it has said."""
        return self.folder / f"{self.id}_0_log.out"

    def relay(self, progress: Progress) -> None:
        """Pass on what it has said since the last time."""
        if not self.log.exists():
            return
        if not self.begun:
            self.begun = True
            progress.begin(self.job)
        with self.log.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in _own(whole):
            progress.relay(self.job, line)

    def tail(self, count: int) -> list[str]:
        """The last lines that it has said."""
        return _own(self.log.read_bytes())[-count:] if self.log.exists() else []

    def answer(self) -> dict[str, Any]:
        """What it has said of its end; empty if it was killed."""
        path = answer_path(self.folder, self.job.key)
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def tidy(self, *, keep_log: bool) -> None:
        """Remove its files; the log of a job that failed stays."""
        for path in (*self.folder.glob(f"{self.id}_*"), *self.folder.glob(f"{self.job.key}.*")):
            if not (keep_log and path == self.log):
                path.unlink(missing_ok=True)
        with suppress(OSError):  # others are in there
            self.folder.rmdir()


def request(job: Job, cache: RunCache, folder: Path, progress: Progress) -> dict[str, Any]:
    """All that a process needs to do a job, as plain JSON; an answer of an earlier attempt goes."""
    answer_path(folder, job.key).unlink(missing_ok=True)
    return {
        "job": job.to_dict(),
        "results": str(cache.results.resolve()),
        "work": str(cache.work.resolve()),
        "keep": cache.keep,
        "answers": str(folder),
        "show": progress.show,
    }


def _own(text: bytes) -> list[str]:
    """The lines of a log without submitit's own."""
    lines = text.decode(errors="replace").splitlines()
    return [line.rstrip() for line in lines if line.strip() and not line.startswith("submitit ")]
