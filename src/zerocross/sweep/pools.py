"""Jobs in other processes, by submitit: local ones, or those of a Slurm cluster.

submitit pickles the name of a function and plain JSON for it. Nothing pickled is read back here: a job leaves its
result in the cache, or an answer beside its log, both as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import torch
from filelock import FileLock

from zerocross.files import write_text
from zerocross.sweep.cache import RunCache
from zerocross.sweep.execution import Execution
from zerocross.sweep.job import Job
from zerocross.sweep.progress import Progress
from zerocross.sweep.worker import answer_path, run_job

_FOREVER = 60 * 24 * 365 * 10  # minutes: local processes have no time limit
_ARRAY = 1000  # jobs in one array of Slurm, whose usual limit is 1001
_QUEUE_POLL = 3.0  # seconds between two looks at Slurm's queue
_GRACE = 6.0  # seconds for a result to reach this machine through the shared folder


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


class Pool(Protocol):
    """Where jobs are submitted to."""

    def adopt(self, todo: Sequence[Job]) -> list[Handle]:
        """The jobs that an earlier call of the same command has submitted, and that are still under way."""
        ...

    def room(self, running: int) -> int:
        """How many more can be submitted."""
        ...

    def submit(self, jobs: Sequence[Job]) -> list[Handle]:
        """Submit jobs."""
        ...

    def ended(self, running: Sequence[Handle]) -> list[Handle]:
        """Those that are not under way any more."""
        ...

    def stop(self, running: Sequence[Handle]) -> str:
        """End this call; what has become of the jobs, in words."""
        ...


@contextmanager
def pool_for(execution: Execution, cache: RunCache, progress: Progress) -> Iterator[Pool]:
    """The pool that an Execution asks for."""
    logging.getLogger("submitit").setLevel(logging.ERROR)
    folder = cache.work / "jobs"
    folder.mkdir(parents=True, exist_ok=True)
    if execution.cluster == "slurm":
        yield SlurmPool(execution, cache, progress, folder.resolve())
        return
    with LocalPool(execution.jobs, cache, progress, folder.resolve()) as pool:
        yield pool


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
            request = _request(job, self.cache, self.folder, self.progress)
            with _interrupts_held(), _environment(OMP_NUM_THREADS=str(self.threads)):
                started = executor.submit(run_job, {**request, "while_held": str(self._held.lock_file)})
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


class SlurmPool:
    """Jobs of a Slurm cluster, in arrays. They go on when this command ends, and a later one takes them over."""

    def __init__(self, execution: Execution, cache: RunCache, progress: Progress, folder: Path) -> None:
        import submitit

        self.cache = cache
        self.progress = progress
        self.folder = folder
        try:
            self.executor = submitit.SlurmExecutor(folder, max_num_timeout=10_000)
        except RuntimeError:
            raise ValueError("--cluster slurm: there is no srun on this machine; run it where sbatch works") from None
        more = {"partition": execution.partition} if execution.partition else {}
        self.executor.update_parameters(
            **more,
            job_name="zerocross",
            time=execution.time,
            gpus_per_node=execution.gpus or None,
            cpus_per_task=execution.cpus,
            array_parallelism=execution.array,
            signal_delay_s=min(120, execution.time * 60 // 4),
            stderr_to_stdout=True,
            setup=[f"export OMP_NUM_THREADS={execution.cpus}", *execution.setup],
            srun_args=["--cpus-per-task", str(execution.cpus)],
            additional_parameters={"requeue": True, **execution.slurm},
        )
        self._looked = 0.0
        self._queued: set[str] | None = None
        self._silent = False

    def adopt(self, todo: Sequence[Job]) -> list[Handle]:
        """The jobs that an earlier command has left on the cluster."""
        handles = []
        submitted = {job.key: path for job in todo if (path := self.folder / f"{job.key}.submitted").exists()}
        queued = self._queue() if submitted else set()
        for job in todo:
            if job.key in submitted:
                number = submitted[job.key].read_text(encoding="utf-8").strip()
                if queued is None or number in queued:
                    handles.append(Handle(job, number, self.folder))
        if handles:
            self.progress.say(f"{self.progress.count(len(handles))} still on the cluster from an earlier command")
        return handles

    def room(self, running: int) -> int:
        """All at once, in arrays that Slurm takes."""
        del running
        return _ARRAY

    def submit(self, jobs: Sequence[Job]) -> list[Handle]:
        """Submit jobs as one array."""
        if not jobs:
            return []
        from submitit.core.utils import FailedJobError

        requests = [_request(job, self.cache, self.folder, self.progress) for job in jobs]
        try:
            submitted = self.executor.map_array(run_job, requests)
        except (subprocess.CalledProcessError, FailedJobError) as wrong:
            said = " ".join(str(getattr(wrong, "stderr", None) or wrong).split())
            raise ValueError(f"sbatch refused the jobs: {said}") from None
        handles = [Handle(job, each.job_id, self.folder) for job, each in zip(jobs, submitted, strict=True)]
        for handle in handles:
            write_text(self.folder / f"{handle.job.key}.submitted", handle.id)
        script = submitted[0].paths.submission_file
        for link in self.folder.glob(".submission_file_*.sh"):
            if link.is_symlink() and link.readlink().name == script.name:
                link.unlink(missing_ok=True)
        script.unlink(missing_ok=True)  # Slurm has its own copy
        ids = sorted({handle.id.partition("_")[0] for handle in handles})
        self.progress.say(f"submitted {self.progress.count(len(jobs))} to Slurm as job {', '.join(ids)}")
        self._looked = 0.0
        return handles

    def ended(self, running: Sequence[Handle]) -> list[Handle]:
        """Those that have left the queue, and whose results have had time to come through the shared folder."""
        now = time.monotonic()
        if now - self._looked >= _QUEUE_POLL:
            self._queued = self._queue()
            self._looked = now
        if self._queued is None:  # Slurm does not answer: go by the results alone
            return [handle for handle in running if self.cache.path(handle.job.key).exists()]
        ended = []
        for handle in running:
            if handle.id in self._queued:
                handle.gone = None
                continue
            handle.gone = handle.gone or now
            there = self.cache.path(handle.job.key).exists() or answer_path(self.folder, handle.job.key).exists()
            if there or now - handle.gone >= _GRACE:
                ended.append(handle)
        return ended

    def stop(self, running: Sequence[Handle]) -> str:
        """Leave the jobs to Slurm."""
        ids = " ".join(sorted({handle.id.partition("_")[0] for handle in running}))
        return f"left {self.progress.count(len(running))} to Slurm (to end them: scancel {ids})"

    def _queue(self) -> set[str] | None:
        """The jobs of this user that wait or run; None while Slurm does not answer."""
        words = ["squeue", "--me", "--noheader", "--array", "--format=%i"]
        try:
            asked = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
        except (OSError, subprocess.SubprocessError) as wrong:
            if not self._silent:
                said = " ".join(str(getattr(wrong, "stderr", None) or wrong).split())
                self.progress.say(f"Slurm does not answer ({shlex.join(words)}: {said}); waiting for it")
            self._silent = True
            return None
        if self._silent:
            self.progress.say("Slurm answers again")
            self._silent = False
        return set(asked.stdout.split())


def _request(job: Job, cache: RunCache, folder: Path, progress: Progress) -> dict[str, Any]:
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
