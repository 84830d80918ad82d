"""A job in another process: its log, its answer, and the request that started it.

submitit pickles the name of a function and its plain-JSON argument. Nothing pickled is read back: a job writes its
result to the cache, or an answer beside its log, both as JSON.
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
        job: The job.
        id: submitit's ID of the process or of the Slurm job.
        folder: Folder of its log and its answer.
        process: submitit's job object, for a local process.
        slot: Index among the local processes.
    """

    job: Job
    id: str
    folder: Path
    process: Any = None
    slot: int = 0
    started: bool = False
    gone: float | None = None  # when the job was first missing from the queue
    _read: int = 0

    @property
    def log(self) -> Path:
        """The path of its log."""
        return self.folder / f"{self.id}_0_log.out"

    def relay(self, progress: Progress) -> None:
        """Show the lines of its log that are new since the last call."""
        if not self.log.exists():
            return
        if not self.started:
            self.started = True
            progress.begin(self.job)
        with self.log.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        complete = new[: new.rfind(b"\n") + 1]
        self._read += len(complete)
        for line in _lines(complete):
            progress.relay(self.job, line)

    def tail(self, count: int) -> list[str]:
        """Return the last lines of its log."""
        return _lines(self.log.read_bytes())[-count:] if self.log.exists() else []

    def answer(self) -> dict[str, Any]:
        """Return its answer (see worker.py); empty if the process was killed."""
        path = answer_path(self.folder, self.job.key)
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def tidy(self, *, keep_log: bool) -> None:
        """Remove its files, except the log with keep_log."""
        for path in (*self.folder.glob(f"{self.id}_*"), *self.folder.glob(f"{self.job.key}.*")):
            if not (keep_log and path == self.log):
                path.unlink(missing_ok=True)
        with suppress(OSError):  # it holds files of other jobs
            self.folder.rmdir()


def request(job: Job, cache: RunCache, folder: Path, progress: Progress) -> dict[str, Any]:
    """Return all that a process needs to run a job, as plain JSON. Removes the answer of an earlier attempt."""
    answer_path(folder, job.key).unlink(missing_ok=True)
    return {
        "job": job.to_dict(),
        "results": str(cache.results.resolve()),
        "work": str(cache.work.resolve()),
        "keep": cache.keep,
        "answers": str(folder),
        "show": progress.show,
    }


def _lines(text: bytes) -> list[str]:
    """Return the lines of a log, without those of submitit."""
    lines = text.decode(errors="replace").splitlines()
    return [line.rstrip() for line in lines if line.strip() and not line.startswith("submitit ")]
