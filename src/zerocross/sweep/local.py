"""Jobs in processes of this machine."""

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
    """Processes of this machine, each with its share of the threads, and one of the GPUs where there are some.

    They end with this process: each waits for a lock that it holds, and saves and stops once it can have it.
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
        with suppress(OSError):  # logs of failed jobs are in there
            self.folder.rmdir()

    def adopt(self, todo: Sequence[Job]) -> list[Handle]:
        """None: local processes end with the command that started them."""
        del todo
        return []

    def room(self, running: int) -> int:
        """As many as there are free slots."""
        return self.jobs - running

    def submit(self, jobs: Sequence[Job]) -> list[Handle]:
        """Start a process for each."""
        import submitit

        handles = []
        for job in jobs:
            slot = self._free.pop(0)
            executor = submitit.LocalExecutor(self.folder)
            gpus = [self.gpus[slot % len(self.gpus)]] if self.gpus else []
            executor.update_parameters(
                timeout_min=_FOREVER, gpus_per_node=len(gpus), visible_gpus=gpus, stderr_to_stdout=True
            )
            asked = request(job, self.cache, self.folder, self.progress)
            with _interrupts_held(), _environment(OMP_NUM_THREADS=str(self.threads)):
                started = executor.submit(run_job, {**asked, "while_held": str(self._held.lock_file)})
            handles.append(Handle(job, started.job_id, self.folder, started, slot))
        return handles

    def ended(self, running: Sequence[Handle]) -> list[Handle]:
        """Those whose process has ended."""
        ended = [handle for handle in running if handle.process.done()]
        self._free += [handle.slot for handle in ended]
        return ended

    def stop(self, running: Sequence[Handle]) -> str:
        """Have all processes save and stop, and wait for them."""
        self._held.release()
        while any(not handle.process.done() for handle in running):
            time.sleep(0.05)
        for handle in running:
            handle.tidy(keep_log=False)
        return "stopped and saved"


def _visible_gpus() -> list[int]:
    """The CUDA devices that this process may use, by the numbers that CUDA_VISIBLE_DEVICES takes."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if given and all(part.strip().isdecimal() for part in given.split(",")):
        return [int(part) for part in given.split(",")]
    return list(range(torch.cuda.device_count()))


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Variables for processes that are started in this context."""
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
    """Processes started in this context never receive a Ctrl-C: it is for the command, which tells them once."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
