"""Progress of many jobs: a line as each begins and ends, what each says on its way, and the time left in all."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console

from zerocross.sweep.job import Job, Known, Result


class Progress:
    """Says where many jobs stand.

    Args:
        todo: The jobs to be done, in their order.
        found: Jobs that are finished already, with their results.
        where: Where these results are, for the first line.
        parallel: Jobs at a time.
        noun: What one is called.
        show: False keeps silent.
    """

    def __init__(
        self, todo: Sequence[Job], found: Known, where: object, *, parallel: int, noun: str, show: bool
    ) -> None:
        self.console = Console(quiet=not show, highlight=False)
        self.show = show
        self.done = 0
        self.noun = noun
        self.total = len(todo)
        self._names = {job.key: f"{noun} {number} of {len(todo)}: {job.label}" for number, job in enumerate(todo, 1)}
        self._left = {job.key: job for job in todo}
        self._began: dict[str, float] = {}
        self._known = list(found)
        self._parallel = parallel
        there = f": {len(found)} in {where} already, {len(todo)}" if found else ""
        self.say(f"{self.count(len(todo) + len(found))}{there} to do")

    def say(self, text: str) -> None:
        """One line."""
        self.console.print(text, soft_wrap=True, markup=False)

    def begin(self, job: Job) -> None:
        """A job begins."""
        self._began[job.key] = time.monotonic()
        self.say(f"{self._names[job.key]}{self._time_left()}")

    def relay(self, job: Job, line: str) -> None:
        """What a job in another process says of itself."""
        self.say(f"{self._names[job.key]}: {line}")

    def end(self, job: Job, outcome: Result) -> None:
        """A job has ended, with a result or without."""
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
        """How many of the jobs are done."""
        return f"with {self.done} of {self.count(self.total)} finished"

    def count(self, number: int) -> str:
        """A number of jobs in words."""
        return f"{number} {self.noun}{'' if number == 1 else 'es' if self.noun.endswith('ch') else 's'}"

    def _time_left(self) -> str:
        now = time.monotonic()
        spent = {key: now - began for key, began in self._began.items()}
        seconds = seconds_left(self._left.values(), self._known, spent)
        return "" if not seconds else f" (about {duration(seconds / min(self._parallel, len(self._left)))} left in all)"


def seconds_left(todo: Iterable[Job], known: Known, spent: Mapping[str, float]) -> float | None:
    """Seconds that jobs will take together, or None if no finished one is anything like them.

    Args:
        todo: Jobs that are not finished.
        known: Finished ones, with their results.
        spent: Seconds that unfinished ones have taken already, by key.
    """
    guesses = {job.key: job.kind.guess(job, known) for job in todo}
    sure = [seconds for seconds in guesses.values() if seconds is not None]
    if not sure:
        return None
    usual = statistics.fmean(sure)
    return sum(
        max(0.0, (usual if seconds is None else seconds) - spent.get(key, 0.0)) for key, seconds in guesses.items()
    )


def duration(seconds: float) -> str:
    """Seconds as 42 s, 5:07 min or 1:05:07 h."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{rest:02d} h"
    return f"{minutes}:{rest:02d} min" if minutes else f"{rest} s"
