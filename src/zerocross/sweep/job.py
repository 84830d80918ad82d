"""A job, the unit of a sweep: the settings that determine its result, how it runs, and how its result is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Result = dict[str, Any]  # the result of a finished job, as plain JSON; it always has "seconds"
Known = Sequence[tuple["Job", Result]]  # finished jobs, from which the time of others is estimated


@dataclass(frozen=True)
class Kind:
    """The properties and functions that all jobs of one kind share.

    Args:
        name: For example "training" or "search"; another process looks the kind up by this name.
        noun: The word for one job in messages.
        parts: The keys that a result must have.
        check: (job, result) -> None; raises ValueError, TypeError or KeyError if the result is not that of the job.
        work: (job, folder, show) -> result. Runs the job in its own folder, resuming from a checkpoint in there. Raises
            train.RunError if the job fails, and train.Stopped or SystemExit if it was stopped and has saved.
        score: result -> the result in a few words.
        guess: (job, finished jobs) -> estimated seconds of the job, or None if no finished job is similar.
        file: job -> the name of the JSON-lines file that holds its result; None for one file per result.
        members: job -> the jobs of a batch, which run and are cached one by one; None if the job is not a batch.
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
        key: A hash of all settings that determine the result; it names the file of the result.
        kind: The kind of the job.
        label: Its name in progress messages.
        payload: All that a process needs to run it, as plain JSON.
    """

    key: str
    kind: Kind
    label: str
    payload: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return plain containers for another process; see zerocross.sweep.kinds.job_from."""
        return {"key": self.key, "kind": self.kind.name, "label": self.label, "payload": dict(self.payload)}


def failure(job: Job, reason: str) -> Result:
    """Return the dict that stands for the result of a failed job."""
    return {"hash": job.key, **job.payload, "failed": reason}
