"""Many searches: what the results folder holds is read, the rest is made, one by one or side by side."""

from __future__ import annotations

import dataclasses
import logging
import signal
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import Timeout
from rich.console import Console

from zerocross import train
from zerocross.sweep.jobs import Interrupted
from zerocross.sweep.objective import Reader, Training
from zerocross.sweep.progress import duration
from zerocross.sweep.search import Result, Search, SearchShelf, search_from
from zerocross.train.config import build_part


def run_searches(
    searches: Sequence[Search], place: train.Placement, results: Path, work: Path, *, jobs: int = 1, show: bool = True
) -> list[Result]:
    """The results of all searches, in their order.

    Each is written to results/HASH.json as soon as it is there, and read from there the next time. Raises Interrupted
    on SIGINT or SIGTERM; finished trials are kept, and the same call goes on after them.

    Args:
        searches: Independent of each other.
        place: Where the data are.
        results: Where results are.
        work: Where unfinished searches have their studies.
        jobs: Processes, at least 1, which each make one search after the other on one thread. It changes no result.
        show: Progress on the terminal.
    """
    from zerocross.tune import workers

    if jobs < 1:
        raise ValueError(f"jobs is {jobs}; it must be at least 1")
    shelf = SearchShelf(results, work)
    todo = [search for search in searches if shelf.find(search) is None]
    _check(todo, Reader(place))
    jobs = max(1, min(jobs, len(todo)))
    desk = _Desk(shelf, place, tuple(searches), jobs, show)
    desk.say(f"{len(searches)} searches: {len(searches) - len(todo)} in {results} already, {len(todo)} to do")
    ended: list[workers.WorkerExit] = []
    try:
        if jobs == 1:
            with workers.stoppable():
                desk.work()
        else:
            ended = workers.run(jobs, _work_in_a_process, desk.to_dict())
    except (KeyboardInterrupt, SystemExit) as stopped:
        number = int(stopped.code or 0) - 128 if isinstance(stopped, SystemExit) else signal.SIGINT
        raise Interrupted(number, f"stopped, {desk.standing()} and the trials of the others kept") from None
    found = [result for search in searches if (result := shelf.find(search)) is not None]
    lost = [str(one) for one in ended if one.code]
    told = "; ".join(sorted(set(lost)))
    if len(found) < len(searches):
        raise train.RunError(f"all processes have ended ({told}), {desk.standing()}; the same command goes on")
    if lost:
        desk.say(f"{len(lost)} of {jobs} processes ended early ({told}); the others went on with their searches")
    return found


@dataclass(frozen=True)
class _Desk:
    """Where a process makes searches and says how far all of them are."""

    shelf: SearchShelf
    place: train.Placement
    searches: tuple[Search, ...]
    jobs: int
    show: bool

    def work(self) -> None:
        """Make what is not there yet and nobody else is at, until all are there; whoever dies leaves his to us."""
        from zerocross.tune.workers import one_thread

        read = Reader(self.place)
        left = list(enumerate(self.searches, 1))
        with one_thread():
            while left:
                for number, search in list(left):
                    try:
                        self._make(number, search, read)
                    except Timeout:
                        continue
                    left.remove((number, search))
                if left:
                    time.sleep(1)

    def _make(self, number: int, search: Search, read: Reader) -> None:
        if self.shelf.find(search) is not None:
            return
        name = f"search {number} of {len(self.searches)}: {search.label}, seed {search.seed}"
        result = self.shelf.finish(search, read, lambda: self.say(f"{name}{self._time_left()}"))
        best = max(one["value"] for one in result["outcomes"])
        self.say(f"{name}: best {best:.2f} % of {search.trials} trials in {duration(result['seconds'])}")

    def say(self, text: str) -> None:
        """One line."""
        Console(quiet=not self.show, highlight=False).print(text, soft_wrap=True, markup=False)

    def standing(self) -> str:
        """How many searches are done."""
        done = sum(self.shelf.find(search) is not None for search in self.searches)
        return f"with {done} of {len(self.searches)} searches finished"

    def _time_left(self) -> str:
        seconds = seconds_left(self.searches, [self.shelf.find(search) for search in self.searches])
        return "" if not seconds else f" (about {duration(seconds / self.jobs)} left in all)"

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, for another process."""
        return {
            "shelf": [str(self.shelf.results), str(self.shelf.work)],
            "place": dataclasses.asdict(self.place),
            "searches": [search.to_dict() for search in self.searches],
            "jobs": self.jobs,
            "show": self.show,
        }


def seconds_left(searches: Sequence[Search], results: Sequence[Result | None]) -> float | None:
    """Seconds that unfinished searches will take together, by those of the finished ones; None where there is none.

    Args:
        searches: All of them.
        results: Of each, or None.
    """
    paces: dict[str, list[float]] = {}
    for search, result in zip(searches, results, strict=True):
        if result is not None:
            paces.setdefault(search.label, []).append(result["seconds"] / search.trials)
    if not paces:
        return None
    usual = statistics.fmean(pace for group in paces.values() for pace in group)
    left = [search for search, result in zip(searches, results, strict=True) if result is None]
    return sum(statistics.fmean(paces.get(search.label, [usual])) * search.trials for search in left)


def _work_in_a_process(values: Mapping[str, Any]) -> None:
    logging.getLogger("lightning_fabric.utilities").setLevel(logging.WARNING)  # who is which rank
    shelf = SearchShelf(*map(Path, values["shelf"]))
    place = build_part(train.Placement, values["place"], "place.")
    _Desk(shelf, place, tuple(map(search_from, values["searches"])), values["jobs"], values["show"]).work()


def _check(todo: Sequence[Search], read: Reader) -> None:
    """Refuse, before the first search, what one of them would refuse later; data that are missing, too."""
    kinds = {(search.label, dataclasses.replace(search.base, seed=0).hash): search for search in todo}
    for search in kinds.values():
        Training(search.config, read).check(search.plan.space)
