"""A team of threads for compiled work, which does not hold Python's lock, and a few things of the system's."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import time
from typing import Any

import numpy as np

from zerocross.runtime.kernels.native import Run
from zerocross.runtime.kernels.steps import FLAG_BYTES, JOB, WORK, CallField
from zerocross.runtime.program import aligned

SHORT = 5e-4  # seconds: what one thread does in less time is not worth waiting for others to wake up


class Team:
    """Threads that wait for jobs; the caller's own thread is one of them.

    Python's own threads suffice, since compiled code lets go of the interpreter: they need no threading library and
    survive a fork. After a job they look out for the next one inside compiled code for about a millisecond, since
    waking a thread takes as long as a small network; then they sleep. While they get up the caller does a short job
    alone. One call of `run` at a time.

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
            work: integers of shape (threads + 1, fields of WORK): the last row is the whole, by one thread.
        """
        if self._shared is None or self._process != os.getpid():
            self._shared, self._process = _Shared(self.size, run), os.getpid()
        self._shared.set(work)

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
        names = ("call", "done", "ready", "flags")  # the last stands for a flag of each thread
        self._jobs, places = aligned((size + 1) * JOB.itemsize).view(JOB), aligned((len(names) - 1 + size) * FLAG_BYTES)
        for number, name in enumerate(names):
            self._jobs[name] = places.ctypes.data + number * FLAG_BYTES
        self._jobs["others"][0] = size - 1
        self._jobs["give_way"], self._jobs["get_processor"] = _address("sched_yield"), _address("sched_getcpu")
        at = self._jobs.ctypes.data
        self._addresses, self._alone = [at + number * JOB.itemsize for number in range(size)], at + size * JOB.itemsize
        self._places, self._ready = places, ctypes.c_int64.from_address(int(self._jobs["ready"][0]))
        self._run = run
        self._changed = threading.Condition()
        self._called = self._asleep = 0
        self._seconds = 0.0  # of the caller alone, the last time
        self._over = False
        for thread in range(1, size):
            threading.Thread(target=self._serve, args=(thread,), daemon=True).start()

    def set(self, work: np.ndarray) -> None:
        self._jobs.view(np.int64).reshape(len(self._jobs), -1)[:, : len(WORK)] = work
        self._seconds = 0.0

    def lead(self, x: int, y: int) -> None:
        others = len(self._addresses) - 1
        if others and self._everybody(others):
            self._run(self._addresses[0], 0, x, y)
            return
        began = time.perf_counter()
        self._run(self._alone, 0, x, y)
        self._seconds = time.perf_counter() - began

    def _everybody(self, others: int) -> bool:
        """Whether all do the next job, which those who sleep must hear of; they are woken in any case."""
        with self._changed:
            everybody = self._ready.value == others or self._seconds > SHORT
            self._called += everybody
            if self._asleep:
                self._changed.notify_all()
        return everybody

    def end(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _serve(self, thread: int) -> None:
        job = self._jobs[thread]
        caller = ctypes.c_int64.from_address(int(job["call"]) + 8 * CallField.PROCESSOR)
        moved = 0  # how many jobs it had seen when it last moved: without a new one there is no need to, but to sleep
        while not self._over:
            self._run(self._addresses[thread], 1, 0, 0)
            seen = int(job["seen"])
            if seen != moved and _left(caller.value):
                moved = seen
                continue
            with self._changed:
                if self._called == job["seen"] and not self._over:
                    self._asleep += 1
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
