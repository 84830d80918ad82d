"""The trainings of the two tables of the suite; each result is one line in results/suite/TASK.jsonl.

"published": each method with its published settings, evaluated on test data. "tuned": the same number of random trials
for each method over its own space, evaluated on held-out training data; then the best trial on test data. The first
trial has the published settings. Tuned runs are compiled: each network is trained often enough to make up for it.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from zerocross import train
from zerocross.checks import check_choice
from zerocross.methods import METHODS, current_name, get
from zerocross.suite.space import MethodSpace, space_of
from zerocross.suite.tasks import TASKS, Task
from zerocross.suite.tasks import get as get_task
from zerocross.sweep.job import Job, Result
from zerocross.sweep.short import short_training
from zerocross.train.assign import changed
from zerocross.train.config import Config

TABLES = ("published", "tuned")
TWIN = "real"
TRIALS = 12
SEARCH_SEED = 1000  # seed of the trials, different from the seeds that are reported

Settings = Mapping[str, Any]
COMPILED: Settings = MappingProxyType({"compile": "on"})  # for many runs of one network, which make up for it


@dataclass(frozen=True)
class SuiteRun:
    """One training of the suite.

    Args:
        task: The task.
        method: A name in zerocross.methods, or "real".
        table: The table it first belongs to: "published", "search", "tuned", or the space of a table of settings.
        settings: Settings that differ from those of the method, by dotted path.
        config: All settings that determine the result.
    """

    task: Task
    method: str
    table: str
    settings: Settings
    config: Config

    def job(self, place: train.Placement) -> Job:
        """Return the job of this training for a sweep."""
        about = {"task": self.task.name, "table": self.table, "method": self.method, "settings": dict(self.settings)}
        return short_training(
            self.config,
            place,
            file=f"{self.task.name}.jsonl",
            about=about,
            metric=self.task.metric,
            seconds=self.task.seconds,
        )


Find = Callable[[SuiteRun], Result | None]


def task_names(text: str) -> list[Task]:
    """Return tasks from comma-separated names, "all", or "series" (those of the UCR archive)."""
    if text == "all":
        return list(TASKS.values())
    if text == "series":
        return [task for task in TASKS.values() if task.data == "ucr"]
    return [get_task(name) for name in dict.fromkeys(filter(None, (part.strip() for part in text.split(","))))]


def method_names(text: str) -> list[str]:
    """Return methods from comma-separated names, or "all" with the full-precision twin first."""
    if text == "all":
        return [TWIN, *METHODS]
    names = list(dict.fromkeys(filter(None, (part.strip() for part in text.split(",")))))
    for name in names:
        if name != TWIN:
            get(name)
    return [name if name == TWIN else current_name(name) for name in names]


def suite_run(task: Task, method: str, table: str, seed: int, settings: Settings, *, validate: bool) -> SuiteRun:
    """Return one training: a method with its own settings on a task, some of them changed."""
    base = task.config(method, seed=seed, validate=validate)
    texts = {path: "none" if value is None else str(value) for path, value in settings.items()}
    return SuiteRun(task, method, table, settings, changed(base, texts) if texts else base)


def published_settings(method: str) -> Settings:
    """Return what differs from the task's own config in the published settings of a method: alpha of the filter."""
    return {"optimizer.alpha": get(method).hyperparameters["alpha"]} if method == "filter" else {}


def published(tasks: Iterable[Task], methods: Sequence[str], seeds: int) -> list[SuiteRun]:
    """Return the runs of each method with its published settings, on test data, by task, then seed, then method."""
    return [
        suite_run(task, method, "published", seed, published_settings(method), validate=False)
        for task in tasks
        for seed in range(seeds)
        for method in methods
    ]


def search(task: Task, method: str, trials: int) -> list[SuiteRun]:
    """Return the trials of a method on a task, on held-out training data: published settings first, then random ones.

    A trial depends only on its number, the task and the method, so that a longer search reuses the earlier trials.
    """
    first = published_settings(method)
    space = space_of(suite_run(task, method, "search", 0, first, validate=True).config, twin=method == TWIN)
    drawn: list[Settings] = [first, *(_drawn(space, task.name, method, number) for number in range(1, trials))]
    return [
        suite_run(task, method, "search", SEARCH_SEED, {**settings, **COMPILED}, validate=True) for settings in drawn
    ]


def _drawn(space: MethodSpace, task: str, method: str, number: int) -> Settings:
    words = [zlib.crc32(task.encode()), zlib.crc32(method.encode()), number]
    random = np.random.default_rng(np.random.SeedSequence(words))
    return space.at(random.random(len(space.ranges)).tolist())


def tuned(tasks: Iterable[Task], methods: Sequence[str], seeds: int, trials: int, find: Find) -> list[SuiteRun]:
    """Return the runs of the best trial of each method on each task, on test data, where all trials are finished.

    Args:
        tasks: The tasks.
        methods: The methods.
        seeds: Number of seeds (0, 1, ...).
        trials: Number of trials per search.
        find: Returns the result of a run, or None.
    """
    runs = []
    for task in tasks:
        best = {method: settings for method in methods if (settings := winner(task, method, trials, find)) is not None}
        runs += [
            suite_run(task, method, "tuned", seed, settings, validate=False)
            for seed in range(seeds)
            for method, settings in best.items()
        ]
    return runs


def winner(task: Task, method: str, trials: int, find: Find) -> Settings | None:
    """Return the settings of a method's best trial on a task (the earlier of equals); None if a trial is missing."""
    runs = search(task, method, trials)
    results = [find(run) for run in runs]
    if any(result is None for result in results):
        return None
    scores = [result["score"] for result in results if result is not None]
    return runs[int(np.argmax(scores))].settings


def check_table(name: str) -> None:
    """Raise a ValueError if there is no such table."""
    check_choice("table", name, TABLES)


def checked(runs: Iterable[SuiteRun], place: train.Placement) -> tuple[list[SuiteRun], dict[str, str]]:
    """Return the runs that are possible, and the reasons for the others by "method on task"; raise for missing data."""
    from zerocross.sweep.objective import Reader
    from zerocross.train.build import check

    read, possible, refused, valid = Reader(place), [], {}, {}
    for run in runs:
        name = f"{run.method} on {run.task.name}"
        kind = dataclasses.replace(run.config, seed=0).hash
        if kind not in valid:
            try:
                dataset = read(run.config)
                check(run.config, dataset, 1)
                valid[kind] = True
            except ValueError as error:
                valid[kind] = False
                refused[name] = str(error)
        if valid[kind]:
            possible.append(run)
    return possible, refused
