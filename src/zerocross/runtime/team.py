"""A team of threads for compiled work, which does not hold Python's lock, and a few things of the system's."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from typing import Any

import numpy as np

from zerocross.runtime.kernels.native import Run
from zerocross.runtime.kernels.steps import JOB, WORK
from zerocross.runtime.program import aligned

_APART = 128  # bytes: what two threads write lies so far apart, two lines of the cache, which are fetched in pairs


class Team:
    """Threads that wait for jobs; the caller's own thread is one of them.

    Python's own threads suffice, since compiled code lets go of the interpreter: they need no threading library and
    survive a fork. After a job they look out for the next one inside compiled code for about a millisecond, since
    waking a thread takes as long as a small network; then they sleep. One call of `run` at a time.

    Args:
        size: how many, at least 1, the caller's included.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._process = 0
        self._shared: _Shared | None = None

    def prepare(self, run: Run, work: np.ndarray) -> None:
        """Say what to do, until it is said anew; in a child of this process it must be.

        Args:
            run: the compiled function.
            work: integers of shape (threads, fields of WORK).
        """
        if self._shared is None or self._process != os.getpid():
            self._shared, self._process = _Shared(self.size, run), os.getpid()
        self._shared.work[:] = work

    def run(self, x: int, y: int) -> None:
        """Do the work of all threads on the input and the output at these addresses; return when it is done."""
        if self._shared is None:
            raise ValueError("a team must be told what to do")
        self._shared.lead(x, y)

    def __del__(self) -> None:
        if self._shared is not None and self._process == os.getpid():
            self._shared.end()


class _Shared:
    """What the threads of a team hold; it outlives the team until the last of them has ended."""

    def __init__(self, size: int, run: Run) -> None:
        jobs, places = aligned(size * JOB.itemsize).view(JOB), aligned(4 * _APART).view(np.int64)
        for number, name in enumerate(("counter", "called", "done", "caller")):
            jobs[name] = places.ctypes.data + number * _APART
        self._places, self._caller = places, places[3 * _APART // 8 :]
        jobs["others"][0] = size - 1
        jobs["give_way"], jobs["get_processor"] = _address("sched_yield"), _address("sched_getcpu")
        self.work, self._seen = jobs.view(np.int64).reshape(size, -1)[:, : len(WORK)], jobs["seen"]
        self._addresses = [jobs.ctypes.data + thread * JOB.itemsize for thread in range(size)]
        self._run = run
        self._changed = threading.Condition()
        self._called = self._asleep = 0
        self._over = False
        for thread in range(1, size):
            threading.Thread(target=self._serve, args=(thread,), daemon=True).start()

    def lead(self, x: int, y: int) -> None:
        if len(self._addresses) > 1:
            with self._changed:  # whoever is asleep must be up to hear the call
                self._called += 1
                if self._asleep:
                    self._changed.notify_all()
        self._run(self._addresses[0], 0, x, y)

    def end(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _serve(self, thread: int) -> None:
        while not self._over:
            self._run(self._addresses[thread], 1, 0, 0)
            if _left(int(self._caller[0])):
                continue
            with self._changed:
                self._asleep += 1
                while self._called == self._seen[thread] and not self._over:
                    self._changed.wait()
                self._asleep -= 1


@functools.cache
def _from_system(name: str) -> Any:
    """A function of the C library, or None where there is none of this name."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # Windows has no library None
        return None


@functools.cache
def _address(name: str) -> int:
    """The address of a function of the C library; 0 where there is none of this name."""
    function = _from_system(name)
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


def _left(processor: int) -> bool:
    """Go to another processor, if this thread is on that one and may go; whether it did.

    A thread is often woken on the processor of the one who wakes it. There the two would wait for each other in turn,
    step by step, and the system takes a long while to see that they are in each other's way.
    """
    here = _from_system("sched_getcpu")
    if here is None or here() != processor or not hasattr(os, "sched_setaffinity"):
        return False
    allowed = os.sched_getaffinity(0)  # of this thread, which is what 0 means here
    others = allowed - {processor}
    try:
        os.sched_setaffinity(0, others)  # refused where there are no others
        os.sched_setaffinity(0, allowed)
    except OSError:
        return False
    return True


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
