"""Pools that jobs are submitted to: local processes or a Slurm cluster, both through submitit."""

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
    """A pool that jobs are submitted to."""

    def adopt(self, todo: Sequence[Job]) -> list[Handle]:
        """Return the jobs that an earlier call of the same command submitted, and that are still running."""
        ...

    def room(self, running: int) -> int:
        """Return how many more jobs can be submitted."""
        ...

    def submit(self, jobs: Sequence[Job]) -> list[Handle]:
        """Submit jobs."""
        ...

    def ended(self, running: Sequence[Handle]) -> list[Handle]:
        """Return the handles of jobs that have ended."""
        ...

    def stop(self, running: Sequence[Handle]) -> str:
        """Stop, and return a message that says what happens to the jobs."""
        ...


@contextmanager
def pool_for(execution: Execution, cache: RunCache, progress: Progress) -> Iterator[Pool]:
    """Open the pool that an Execution selects."""
    logging.getLogger("submitit").setLevel(logging.ERROR)
    folder = cache.work / "jobs"
    folder.mkdir(parents=True, exist_ok=True)
    if execution.cluster == "slurm":
        yield SlurmPool(execution, cache, progress, folder.resolve())
        return
    with LocalPool(execution.jobs, cache, progress, folder.resolve()) as pool:
        yield pool
