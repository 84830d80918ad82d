"""One unit of work: what decides its result, how it is done, and how a finished result is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Result = dict[str, Any]  # what a finished job leaves behind, as plain JSON; it always has "seconds"
Known = Sequence[tuple["Job", Result]]  # finished jobs, by which the time of others is estimated


@dataclass(frozen=True)
class Kind:
    """What all jobs of one kind share.

    Args:
        name: "training" or "search", for example; by it a job is found again in another process.
        noun: What one is called in messages.
        parts: The keys that a result must have.
        check: (job, result) -> None; raises ValueError, TypeError or KeyError if the result is not that of the job.
        work: (job, folder, show) -> result. Does the job in a folder of its own, and resumes what is in there. It
            raises train.RunError if the job fails, and train.Stopped or SystemExit if it was stopped and has saved.
        score: The outcome of a result in a few words.
        guess: (job, finished jobs) -> seconds that the job will take, or None if none of them is like it.
        file: job -> the name of the JSON-lines file that its result shares with others; None: a file of its own.
        members: job -> the jobs that it is made of, if it is a batch: they are done and kept one by one.
    """

    name: str
    noun: str
    parts: Sequence[str]
    check: Callable[[Job, Result], None]
    work: Callable[[Job, Path, bool], Result]
    score: Callable[[Result], str]
    guess: Callable[[Job, Known], float | None]
    file: Callable[[Job], str] | None = None
    members: Callable[[Job], list[Job]] | None = None


@dataclass(frozen=True)
class Job:
    """A training or a search.

    Args:
        key: A hash of all that decides the result: the name of the result's file.
        kind: What it has in common with others.
        label: Its name in lines of progress.
        payload: All that a process needs to do it, as plain JSON.
    """

    key: str
    kind: Kind
    label: str
    payload: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, for another process; see zerocross.sweep.kinds.job_from."""
        return {"key": self.key, "kind": self.kind.name, "label": self.label, "payload": dict(self.payload)}


def failure(job: Job, reason: str) -> Result:
    """What stands in place of the result of a job that failed."""
    return {"hash": job.key, **job.payload, "failed": reason}
