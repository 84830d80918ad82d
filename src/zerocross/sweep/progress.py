"""Progress of many runs: a line as each begins and ends, and the time left in all, by the time of similar runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from rich.console import Console

from zerocross.models.style import Style
from zerocross.train.config import Config, resolved, to_dict

# What makes two runs take equally long for an epoch, from the closest likeness to a loose one.
_LIKENESS = (
    ("data", "model", "method", "batch_size", "precision", "compile", "stages"),
    ("data", "model", "method"),
    ("data", "size"),
)
_STYLE = {field.name for field in fields(Style)}  # how a network is binary, which matters less than its size


class Progress:
    """Says where many runs stand.

    Args:
        todo: The runs to be made, in their order.
        found: Results that are there already.
        results: Where they are, for the first line.
        jobs: Runs at a time.
        describe: A run's name in a line.
        show: False keeps silent.
    """

    def __init__(
        self,
        todo: Sequence[Config],
        found: Sequence[Mapping[str, Any]],
        results: Path,
        *,
        jobs: int,
        describe: Callable[[Config], str],
        show: bool,
    ) -> None:
        self.console = Console(quiet=not show, highlight=False)
        self.show = show
        self.done = 0
        self.total = len(todo)
        self._names = {
            config.hash: f"run {number} of {len(todo)}: {describe(config)}" for number, config in enumerate(todo, 1)
        }
        self._left = {config.hash: config for config in todo}
        self._began: dict[str, float] = {}
        self._known = list(found)
        self._jobs = jobs
        there = f": {len(found)} in {results} already, {len(todo)}" if found else ""
        self.say(f"{_count(len(todo) + len(found), 'run')}{there} to do")

    def say(self, text: str) -> None:
        """One line."""
        self.console.print(text, soft_wrap=True, markup=False)

    def begin(self, config: Config) -> None:
        """A run begins."""
        self._began[config.hash] = time.monotonic()
        self.say(f"{self._names[config.hash]}{self._time_left()}")

    def relay(self, config: Config, line: str) -> None:
        """What a run in another process says of itself."""
        self.say(f"{self._names[config.hash]}: {line}")

    def end(self, config: Config, outcome: Mapping[str, Any]) -> None:
        """A run has ended, with a result or without."""
        self._left.pop(config.hash)
        name = self._names[config.hash]
        if "failed" in outcome:
            self.say(f"{name} failed: {outcome['failed']}")
            return
        self.done += 1
        self._known.append(outcome)
        score = f"{outcome['evaluated_on']} {outcome['final']['top1']:.2f} %"
        self.say(f"{name}: {score} in {duration(outcome['seconds'])}{self._time_left() if self._jobs > 1 else ''}")

    def standing(self) -> str:
        """How many of the runs are done."""
        return f"with {self.done} of {_count(self.total, 'run')} finished"

    def _time_left(self) -> str:
        now = time.monotonic()
        spent = {key: now - began for key, began in self._began.items()}
        seconds = seconds_left(self._left.values(), self._known, spent)
        return "" if not seconds else f" (about {duration(seconds / min(self._jobs, len(self._left)))} left in all)"


def seconds_left(
    todo: Iterable[Config], known: Sequence[Mapping[str, Any]], spent: Mapping[str, float]
) -> float | None:
    """Seconds that runs will take together, or None where no finished one is anything like them.

    Args:
        todo: Runs that are not finished.
        known: Results of finished ones.
        spent: Seconds that unfinished ones have taken already, by hash.
    """
    guesses = {config.hash: guessed_seconds(config, known) for config in todo}
    sure = [seconds for seconds in guesses.values() if seconds is not None]
    if not sure:
        return None
    usual = statistics.fmean(sure)
    return sum(
        max(0.0, (usual if seconds is None else seconds) - spent.get(key, 0.0)) for key, seconds in guesses.items()
    )


def guessed_seconds(config: Config, known: Sequence[Mapping[str, Any]]) -> float | None:
    """How long a run will take, by the epochs of the finished runs that are most like it."""
    mine = _described(to_dict(resolved(config)))  # as results have it
    described = [(each, _described(each["config"])) for each in known]
    for names in _LIKENESS:
        alike = [each for each, theirs in described if all(theirs[name] == mine[name] for name in names)]
        if alike:
            return statistics.fmean(each["seconds"] / _epochs(each["config"]) for each in alike) * _epochs(mine)
    return None


def _described(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config with the size of its network beside it."""
    options = {name: value for name, value in config["model"]["options"].items() if name not in _STYLE}
    return {**config, "size": [config["model"]["name"], options]}


def duration(seconds: float) -> str:
    """Seconds as 42 s, 5:07 min or 1:05:07 h."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{rest:02d} h"
    return f"{minutes}:{rest:02d} min" if minutes else f"{rest} s"


def _epochs(config: Mapping[str, Any]) -> int:
    return sum(stage["epochs"] for stage in config["stages"])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
