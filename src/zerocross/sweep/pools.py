"""Where jobs are submitted to: local processes, or a Slurm cluster, both by submitit."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from zerocross.sweep.cache import RunCache
from zerocross.sweep.execution import Execution
from zerocross.sweep.handle import Handle
from zerocross.sweep.job import Job
from zerocross.sweep.local import LocalPool
from zerocross.sweep.progress import Progress
from zerocross.sweep.slurm import SlurmPool


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
