"""Run jobs in local processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from filelock import FileLock
from typing_extensions import Self

from zerocross.sweep.cache import RunCache
from zerocross.sweep.handle import Handle, request
from zerocross.sweep.job import Job
from zerocross.sweep.progress import Progress
from zerocross.sweep.worker import run_job

_FOREVER = 60 * 24 * 365 * 10  # minutes: local processes have no time limit


class LocalPool:
    """Local processes, each with an equal share of the threads and, if there are any, one of the GPUs.

    They end with this process, which holds a lock: a worker that acquires the lock saves a checkpoint and stops.
    """

    def __init__(self, jobs: int, cache: RunCache, progress: Progress, folder: Path) -> None:
        self.jobs = jobs
        self.cache = cache
        self.progress = progress
        self.folder = folder
        self.threads = max(1, torch.get_num_threads() // jobs)
        self.gpus = _visible_gpus()
        self._free = list(range(jobs))
        self._held = FileLock(folder / f"command-{os.getpid()}.lock")

    def __enter__(self) -> Self:
        self._held.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self._held.release()
        Path(self._held.lock_file).unlink(missing_ok=True)
        with suppress(OSError):  # it holds logs of failed jobs
            self.folder.rmdir()

    def adopt(self, todo: Sequence[Job]) -> list[Handle]:
        """Return an empty list: local processes end with the command that started them."""
        del todo
        return []

    def room(self, running: int) -> int:
        """Return the number of free slots."""
        return self.jobs - running

    def submit(self, jobs: Sequence[Job]) -> list[Handle]:
        """Start one process per job."""
        import submitit

        handles = []
        for job in jobs:
            slot = self._free.pop(0)
            executor = submitit.LocalExecutor(self.folder)
            gpus = [self.gpus[slot % len(self.gpus)]] if self.gpus else []
            executor.update_parameters(
                timeout_min=_FOREVER, gpus_per_node=len(gpus), visible_gpus=gpus, stderr_to_stdout=True
            )
            message = request(job, self.cache, self.folder, self.progress)
            with _interrupts_held(), _environment(OMP_NUM_THREADS=str(self.threads)):
                started = executor.submit(run_job, {**message, "while_held": str(self._held.lock_file)})
            handles.append(Handle(job, started.job_id, self.folder, started, slot))
        return handles

    def ended(self, running: Sequence[Handle]) -> list[Handle]:
        """Return the handles whose process has ended."""
        ended = [handle for handle in running if handle.process.done()]
        self._free += [handle.slot for handle in ended]
        return ended

    def stop(self, running: Sequence[Handle]) -> str:
        """Make all processes save and stop, and wait for them."""
        self._held.release()
        while any(not handle.process.done() for handle in running):
            time.sleep(0.05)
        for handle in running:
            handle.tidy(keep_log=False)
        return "stopped and saved"


def _visible_gpus() -> list[int]:
    """Return the CUDA devices that this process may use, numbered as in CUDA_VISIBLE_DEVICES."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if given and all(part.strip().isdecimal() for part in given.split(",")):
        return [int(part) for part in given.split(",")]
    return list(range(torch.cuda.device_count()))


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Set environment variables for processes that are started in this context."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C from processes started in this context: the command receives it, and stops them once."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
