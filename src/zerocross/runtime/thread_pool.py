"""A thread pool for compiled code, which releases the GIL, and a few functions of the operating system."""

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
SHORT = 5e-4  # seconds: jobs that one thread finishes faster do not wait for other threads to wake up


class ThreadPool:
    """A pool of threads that wait for jobs; the calling thread is one of them.

    Python threads suffice, since compiled code releases the GIL; no threading library is needed. After a job, the
    threads poll for the next one inside compiled code for about a millisecond, because waking a thread takes as long as
    running a small network; then they sleep. A job is a single call of compiled code, which returns when the job is
    finished: no lock is held and no counter is kept here, so that an exception between any two instructions leaves a
    consistent state. The caller wakes the other threads but never waits for them to start: if they do not, it does the
    job alone. Only one call of `run` at a time is allowed, in the process that created the pool.

    Args:
        size: Number of threads, at least 1, including the caller's.
        run: The compiled function.
    """

    def __init__(self, size: int, run: Run) -> None:
        self._shared = _Shared(size, run)
        self._seconds = 0.0  # duration of the last job that the caller did alone
        for thread in range(1, size):
            threading.Thread(target=self._shared.serve, args=(thread,), daemon=True).start()

    def prepare(self, work: np.ndarray) -> None:
        """Set the work of the following jobs.

        Args:
            work: Integers of shape (threads + 1, fields of WORK). The last row is the whole job, for one thread alone.
        """
        jobs = self._shared.jobs
        jobs.view(np.int64).reshape(len(jobs), -1)[:, : len(WORK)] = work
        self._seconds = 0.0

    def run(self, x: int, y: int, *, alone: bool = False) -> None:
        """Run the job on the input and the output at these addresses; return when it is finished.

        Args:
            x: Address of the input.
            y: Address of the output.
            alone: Leave the job to the calling thread.
        """
        shared = self._shared
        if alone or not shared.others:
            shared.run(shared.whole_job_at, _HASTY, x, y)
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
    """State shared by the threads of a pool; it lives until the last thread has ended."""

    def __init__(self, size: int, run: Run) -> None:
        self.run = run
        self.jobs = aligned((size + 1) * JOB.itemsize).view(JOB)
        self.jobs_at = self.jobs.ctypes.data
        self.whole_job_at = self.jobs_at + size * JOB.itemsize
        self._flags = aligned((2 + 2 * size) * FLAG_BYTES)
        flags = self._flags.ctypes.data
        for number, name in enumerate(("call", "done", "flags")):  # flags and duties have one entry per thread
            self.jobs[name] = flags + number * FLAG_BYTES
        self.jobs["duties"] = duties = flags + (2 + size) * FLAG_BYTES
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
        """Wake the sleeping threads; one message is enough, whatever the number of jobs."""
        for duty, messages in self.others:
            if duty.value == Duty.AWAY and messages.empty():
                messages.put(True)

    def end(self) -> None:
        for _, messages in self.others:
            messages.put(False)

    def serve(self, thread: int) -> None:
        """Main loop of a thread: wait for a message, then serve jobs until the thread goes to sleep again."""
        seen, (_, messages) = self._field(thread, "seen"), self.others[thread - 1]
        caller = ctypes.c_int64.from_address(int(self.jobs["call"][0]) + 8 * CallField.PROCESSOR)
        moved = 0  # number of jobs at the last move to another processor; without a new job there is no reason to move
        while messages.get():
            self.run(self.jobs_at + thread * JOB.itemsize, _SERVE, 0, 0)
            while seen.value != moved and _leave_processor(caller.value):
                moved = seen.value
                self.run(self.jobs_at + thread * JOB.itemsize, _SERVE, 0, 0)


@functools.cache
def _from_system(name: str) -> Any:
    """Return a function of the C library, or None if it has no function of this name."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # Windows has no library None
        return None


@functools.cache
def _address(name: str) -> int:
    """Return the address of a function of the C library, or 0 if it has no function of this name."""
    function = _from_system(name)
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


def _leave_processor(processor: int) -> bool:
    """Move this thread to another processor if it runs on `processor` and may move; return True if it moved.

    A thread often wakes up on the processor of the thread that woke it. The two would then wait for each other at every
    step, and the scheduler takes a long time to separate them.
    """
    here = _from_system("sched_getcpu")
    if here is None or here() != processor or not hasattr(os, "sched_setaffinity"):
        return False
    allowed = os.sched_getaffinity(0)  # 0 is the calling thread
    others = allowed - {processor}
    try:
        os.sched_setaffinity(0, others)  # fails if there are no others
        os.sched_setaffinity(0, allowed)
    except OSError:
        return False
    return True


def give_back_memory() -> None:
    """Return freed memory to the system; the C library would keep several times a network's size."""
    function = _from_system("malloc_trim")
    if function is not None:
        function(0)


def processors() -> int:
    """Return the number of processors available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
