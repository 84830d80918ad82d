"""Progress of many jobs: a line when a job starts and ends, the messages of each job, and the total time left."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console

from zerocross.sweep.job import Job, Known, Result


class Progress:
    """Prints the progress of many jobs.

    Args:
        todo: The jobs to run, in their order.
        finished: Jobs that are finished already, with their results.
        where: The folder of these results, for the first line.
        parallel: Number of jobs at a time.
        noun: The word for one job.
        show: False prints nothing.
    """

    def __init__(
        self, todo: Sequence[Job], finished: Known, where: object, *, parallel: int, noun: str, show: bool
    ) -> None:
        self.console = Console(quiet=not show, highlight=False)
        self.show = show
        self.done = 0
        self.noun = noun
        self.total = len(todo)
        self._names = {job.key: f"{noun} {number} of {len(todo)}: {job.label}" for number, job in enumerate(todo, 1)}
        self._left = {job.key: job for job in todo}
        self._started: dict[str, float] = {}
        self._known = list(finished)
        self._parallel = parallel
        cached = f": {len(finished)} finished in {where}, {len(todo)}" if finished else ""
        self.say(f"{self.count(len(todo) + len(finished))}{cached} to do")

    def say(self, text: str) -> None:
        """Print one line."""
        self.console.print(text, soft_wrap=True, markup=False)

    def begin(self, job: Job) -> None:
        """Report that a job starts."""
        self._started[job.key] = time.monotonic()
        self.say(f"{self._names[job.key]}{self._time_left()}")

    def relay(self, job: Job, line: str) -> None:
        """Print a line of a job in another process."""
        self.say(f"{self._names[job.key]}: {line}")

    def end(self, job: Job, outcome: Result) -> None:
        """Report that a job has ended, with a result or with a failure."""
        self._left.pop(job.key)
        name = self._names[job.key]
        if "failed" in outcome:
            self.say(f"{name} failed: {outcome['failed']}")
            return
        self.done += 1
        self._known.append((job, outcome))
        left = self._time_left() if self._parallel > 1 else ""
        self.say(f"{name}: {job.kind.score(outcome)} in {duration(outcome['seconds'])}{left}")

    def standing(self) -> str:
        """Return how many of the jobs are finished, in words."""
        return f"with {self.done} of {self.count(self.total)} finished"

    def count(self, number: int) -> str:
        """Return a number of jobs with its noun."""
        return f"{number} {self.noun}{'' if number == 1 else 'es' if self.noun.endswith('ch') else 's'}"

    def _time_left(self) -> str:
        now = time.monotonic()
        spent = {key: now - start for key, start in self._started.items()}
        seconds = seconds_left(self._left.values(), self._known, spent)
        return (
            "" if not seconds else f" (about {duration(seconds / min(self._parallel, len(self._left)))} left in total)"
        )


def seconds_left(todo: Iterable[Job], known: Known, spent: Mapping[str, float]) -> float | None:
    """Estimate the total seconds that jobs will take, or return None if no finished job is similar.

    Args:
        todo: Unfinished jobs.
        known: Finished jobs, with their results.
        spent: Seconds that unfinished jobs have taken already, by key.
    """
    guesses = {job.key: job.kind.guess(job, known) for job in todo}
    estimates = [seconds for seconds in guesses.values() if seconds is not None]
    if not estimates:
        return None
    mean = statistics.fmean(estimates)
    return sum(
        max(0.0, (mean if seconds is None else seconds) - spent.get(key, 0.0)) for key, seconds in guesses.items()
    )


def duration(seconds: float) -> str:
    """Format seconds as 42 s, 5:07 min or 1:05:07 h."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{rest:02d} h"
    return f"{minutes}:{rest:02d} min" if minutes else f"{rest} s"
