"""A pool of threads for compiled code, which releases Python's lock, and a few functions of the operating system."""

from __future__ import annotations

import ctypes
import functools
import os
import queue
import threading
import time
from typing import Any

import numpy as np

from zerocross.runtime.kernels.native import Run
from zerocross.runtime.kernels.steps import FLAG_BYTES, JOB, WORK, CallField, Duty, Mode
from zerocross.runtime.program import aligned

_HASTY, _PATIENT, _SERVE = (int(mode) for mode in Mode)
SHORT = 5e-4  # seconds: what one thread does in less time is not worth waiting for others to wake up


class ThreadPool:
    """Threads that wait for jobs; the caller's own thread is one of them.

    Python's own threads suffice, since compiled code lets go of the interpreter: they need no threading library. After
    a job they look out for the next one inside compiled code for about a millisecond, since waking a thread takes as
    long as a small network; then they sleep. A job is one call of compiled code, which ends with the job: no lock is
    held and no counter kept here, so that an exception between any two instructions leaves nothing half done. Others
    are woken, but never waited for: where they do not come the caller does the job alone. One call of `run` at a time,
    in the process that made the pool.

    Args:
        size: how many, at least 1, the caller's included.
        run: the compiled function.
    """

    def __init__(self, size: int, run: Run) -> None:
        self._shared = _Shared(size, run)
        self._seconds = 0.0  # of the caller alone, the last time
        for thread in range(1, size):
            threading.Thread(target=self._shared.serve, args=(thread,), daemon=True).start()

    def prepare(self, work: np.ndarray) -> None:
        """Say what to do, until it is said anew.

        Args:
            work: integers of shape (threads + 1, fields of WORK): the last row is the whole, by one thread.
        """
        jobs = self._shared.jobs
        jobs.view(np.int64).reshape(len(jobs), -1)[:, : len(WORK)] = work
        self._seconds = 0.0

    def run(self, x: int, y: int) -> None:
        """Do the work of all threads on the input and the output at these addresses; return when it is done."""
        shared = self._shared
        if not shared.others:
            shared.run(shared.jobs_at, _HASTY, x, y)
            return
        shared.wake()
        together, began = shared.together.value, time.perf_counter()
        shared.run(shared.jobs_at, _PATIENT if self._seconds > SHORT else _HASTY, x, y)
        if shared.together.value == together:
            self._seconds = time.perf_counter() - began

    def __del__(self) -> None:
        if hasattr(self, "_shared"):
            self._shared.end()


class _Shared:
    """What the threads of a pool share; it outlives the pool until the last of them has ended."""

    def __init__(self, size: int, run: Run) -> None:
        self.run = run
        self.jobs = aligned((size + 1) * JOB.itemsize).view(JOB)
        self.jobs_at = self.jobs.ctypes.data
        self._places = aligned((2 + 2 * size) * FLAG_BYTES)
        places = self._places.ctypes.data
        for number, name in enumerate(("call", "done", "flags")):  # the last: one of each thread, as are the duties
            self.jobs[name] = places + number * FLAG_BYTES
        self.jobs["duties"] = duties = places + (2 + size) * FLAG_BYTES
        self.jobs["thread"] = range(size + 1)
        self.jobs["others"][0] = size - 1
        self.jobs["give_way"], self.jobs["get_processor"] = _address("sched_yield"), _address("sched_getcpu")
        self.together = self._field(0, "seen")
        self.others = [
            (ctypes.c_int64.from_address(duties + thread * FLAG_BYTES), queue.SimpleQueue[bool]())
            for thread in range(1, size)
        ]

    def _field(self, job: int, name: str) -> ctypes.c_int64:
        return ctypes.c_int64.from_address(self.jobs_at + job * JOB.itemsize + JOB.fields[name][1])  # type: ignore[index]

    def wake(self) -> None:
        """Have the threads that sleep look out for a job; one word is enough, however many jobs there are."""
        for duty, words in self.others:
            if duty.value == Duty.AWAY and words.empty():
                words.put(True)

    def end(self) -> None:
        for _, words in self.others:
            words.put(False)

    def serve(self, thread: int) -> None:
        """What a thread does in its life."""
        seen, (_, words) = self._field(thread, "seen"), self.others[thread - 1]
        caller = ctypes.c_int64.from_address(int(self.jobs["call"][0]) + 8 * CallField.PROCESSOR)
        moved = 0  # how many jobs it had done when it last moved: without a new one there is no need to, but to sleep
        while words.get():
            self.run(self.jobs_at + thread * JOB.itemsize, _SERVE, 0, 0)
            while seen.value != moved and _left(caller.value):
                moved = seen.value
                self.run(self.jobs_at + thread * JOB.itemsize, _SERVE, 0, 0)


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
