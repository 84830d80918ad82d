"""A team of threads for work that does not hold Python's lock, and a few things of the system's."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any


class Team:
    """Threads that wait for jobs; the caller's own thread is one of them.

    Python's own threads suffice, since compiled functions let go of the interpreter: they need no threading library,
    survive a fork, and may be used from several threads.

    Args:
        size: how many, at least 1, the caller's included.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._process = 0
        self._queues: list[SimpleQueue[Callable[[], None] | None]] = []

    def run(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Run up to `size` jobs at once and return when all are done."""
        if self._process != os.getpid():  # the first time, or in a child, which has no threads yet
            self._start()
        done: SimpleQueue[BaseException | None] = SimpleQueue()

        def report(job: Callable[[], None]) -> None:
            try:
                job()
                done.put(None)
            except BaseException as error:  # raised again by the caller
                done.put(error)

        for queue, job in zip(self._queues, jobs[1:], strict=False):
            queue.put(lambda job=job: report(job))
        report(jobs[0])
        for error in [done.get() for _ in jobs]:
            if error is not None:
                raise error

    def _start(self) -> None:
        self._process = os.getpid()
        self._queues = [SimpleQueue() for _ in range(self._size - 1)]
        for queue in self._queues:
            threading.Thread(target=_work, args=(queue,), daemon=True).start()

    def __del__(self) -> None:
        if self._process == os.getpid():
            for queue in self._queues:
                queue.put(None)


def _work(queue: SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := queue.get()) is not None:
        job()


@functools.cache
def _from_system(name: str) -> Any:
    """A function of the C library, or None where there is none of this name."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # Windows has no library None
        return None


@functools.cache
def give_way() -> int:
    """The address of the system's function that lets another thread have the processor; 0 where it is not known."""
    function = _from_system("sched_yield")
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


def give_back_memory() -> None:
    """Return to the system what the process has freed: the C library would keep it, several times a network's size."""
    function = _from_system("malloc_trim")
    if function is not None:
        function(0)


def processors() -> int:
    """How many threads this process can run at once."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
