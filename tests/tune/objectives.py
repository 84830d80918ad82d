"""Objectives and workers that a new process can import."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path
from typing import Any

from zerocross import tune
from zerocross.tune import Parameter, SearchSpace

TWO = SearchSpace((Parameter("a", 1e-5, 1e-1, log=True), Parameter("b", -1.0, 1.0)))


def hill(settings: Any, report: Any) -> float:
    """An objective with its maximum, 0, at a = 1e-3, b = 0.25."""
    return -((math.log10(settings["a"]) + 3) ** 2) - (settings["b"] - 0.25) ** 2


def note(log: str, settings: Any, what: str) -> None:
    """Append a line to a file that several processes write to."""
    with Path(log).open("a", encoding="utf-8") as file:
        file.write(f"{what} {settings['a']!r} {os.getpid()}\n")


def notes(log: Path) -> list[list[str]]:
    return [line.split() for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


def work(url: str, name: str, log: str, seconds: float) -> None:
    """A worker that records the start and end of each trial."""

    def objective(settings: Any, report: Any) -> float:
        note(log, settings, "begin")
        time.sleep(seconds)
        note(log, settings, "end")
        return hill(settings, report)

    tune.work(tune.join(tune.connect(url, beat=1, grace=10), name), objective)


def succeed(path: str) -> None:
    Path(path, str(os.getpid())).touch()


def refuse(path: str) -> None:
    raise ValueError(f"not in {path}")


def refuse_at_length(path: str) -> None:
    raise ValueError("a very long story " * 40_000)


def die(path: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def count_threads(path: str) -> None:
    import torch

    Path(path, str(os.getpid())).write_text(str(torch.get_num_threads()), encoding="utf-8")


def begin_and_work(url: str, name: str, trials: int) -> None:
    """What the same command does on each of several machines."""
    study = tune.begin_or_join(tune.connect(url), name, tune.StudyPlan(TWO, "random"))
    tune.extend(study, trials)
    tune.work(study, hill)
