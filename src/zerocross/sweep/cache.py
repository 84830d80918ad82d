"""The cache of jobs: a folder for each unfinished job, a JSON file named by its key for each finished one.

Short jobs share a file, one line per job (see Kind.file).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from zerocross import train
from zerocross.files import write_json
from zerocross.sweep import lines
from zerocross.sweep.job import Job, Result
from zerocross.train.folder import read_json

_POLL = 1.0  # seconds between two attempts to acquire a lock that another process holds


@dataclass(frozen=True)
class RunCache:
    """Finished jobs by content hash, and the folders of unfinished jobs. Many processes may share one cache.

    Args:
        results: Folder of finished jobs: results/KEY.json, or a line of results/FILE for kinds whose jobs share files.
        work: Folder of unfinished jobs: work/KEY/ holds their checkpoints, and the process that runs a job holds
            work/KEY.lock.
        keep: Also keep the folder of a finished job (weights and metrics of a training).
    """

    results: Path
    work: Path
    keep: bool = False

    def path(self, key: str) -> Path:
        """Return the path of a finished job's file."""
        return self.results / f"{key}.json"

    def folder(self, key: str) -> Path:
        """Return the path of an unfinished job's folder."""
        return self.work / key

    def find(self, job: Job) -> Result | None:
        """Return the result of a job, or None if the job is not finished.

        Raises:
            ValueError: if the file is damaged, or holds the result of another job.
        """
        if job.kind.members is not None:
            results = [self.find(member) for member in job.kind.members(job)]
            members = [result for result in results if result is not None]
            complete = len(members) == len(results)
            return {"members": members, "seconds": sum(member["seconds"] for member in members)} if complete else None
        if job.kind.file is not None:
            path = self.results / job.kind.file(job)
            result = lines.read(path).get(job.key)
        else:
            path = self.path(job.key)
            result = read_json(path.parent, path.name) if path.exists() else None
        if result is None:
            return None
        try:
            if missing := [name for name in job.kind.parts if name not in result]:
                raise ValueError(f"it has no {', '.join(missing)}")
            job.kind.check(job, result)
        except (ValueError, TypeError, KeyError) as error:
            damaged = "the file" if job.kind.file is None else f"the line of {job.key}"
            raise ValueError(f"{path} is damaged: {error}; remove {damaged} to repeat this {job.kind.noun}") from None
        return result

    def holds(self, job: Job) -> bool:
        """Return True if the cache has a result of a job. Does not open the job's own file."""
        if job.kind.members is None and job.kind.file is None:
            return self.path(job.key).exists()
        return self.find(job) is not None

    def finish(
        self,
        job: Job,
        *,
        show: bool = True,
        say: Callable[[str], None] = print,
        stopping: Callable[[], bool] = lambda: False,
    ) -> Result:
        """Return the cached result of a job; without one, run the job and cache its result.

        Resumes from the checkpoint of an earlier attempt, if there is one.

        Args:
            job: The job to run.
            show: Show the progress of the job.
            say: Called once with a message if another process holds the job; this call then waits for that process.
            stopping: Polled while waiting; raises SystemExit once it returns True.
        """
        if job.kind.members is not None:
            return self._finish_each(job, job.kind.members(job), say, stopping)
        with self._lock(job, say, stopping):
            if (result := self.find(job)) is None:
                result = job.kind.work(job, self.folder(job.key), show)
                if job.kind.file is None:
                    write_json(self.path(job.key), result)
                else:
                    lines.add(self.results / job.kind.file(job), result)
            if not self.keep:
                shutil.rmtree(self.folder(job.key), ignore_errors=True)
        self.folder(job.key).with_suffix(".lock").unlink(missing_ok=True)  # a process that waited finds the result now
        return result

    def _finish_each(
        self, batch: Job, members: Sequence[Job], say: Callable[[str], None], stopping: Callable[[], bool]
    ) -> Result:
        """Finish the members of a batch; a failing member does not stop the others."""
        failed, results = [], []
        for member in members:
            if stopping():
                raise SystemExit(143)
            try:
                results.append(self.finish(member, show=False, say=say, stopping=stopping))
                say(f"{member.label}: {member.kind.score(results[-1])} in {results[-1]['seconds']:.1f} s")
            except train.RunError as error:
                failed.append(f"{member.label}: {error}")
        if failed:
            raise train.RunError(f"{len(failed)} of {len(members)} in {batch.label}: {'; '.join(failed)}")
        return {"members": results, "seconds": sum(result["seconds"] for result in results)}

    @contextmanager
    def _lock(self, job: Job, say: Callable[[str], None], stopping: Callable[[], bool]) -> Iterator[None]:
        """Hold the lock of a job; the operating system releases the lock of a killed process."""
        self.work.mkdir(parents=True, exist_ok=True)
        folder = self.folder(job.key)
        lock = FileLock(folder.with_suffix(".lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"another process is working on this {job.kind.noun} in {folder}: waiting for it")
            while not lock.is_locked:
                try:
                    lock.acquire(timeout=_POLL)
                except Timeout:
                    if stopping():
                        raise SystemExit(143) from None
        try:
            yield
        finally:
            lock.release()
