"""Several workers on one machine: one process each, with its share of the cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from types import FrameType
from typing import Any


@dataclass(frozen=True)
class WorkerExit:
    """How a worker exited.

    Args:
        code: Exit code, or minus the number of the signal that killed it.
        error: The exception it raised.
    """

    code: int
    error: str = ""

    def __str__(self) -> str:
        if self.code < 0:
            return f"killed by {signal.Signals(-self.code).name}"
        return self.error or f"exit code {self.code}"


def cores() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def limit_threads(workers: int) -> int:
    """Limit this process to its share of the cores; return the number of threads."""
    import threadpoolctl
    import torch

    threads = max(1, min(torch.get_num_threads(), cores() // workers))  # fewer if the environment says so
    torch.set_num_threads(threads)
    threadpoolctl.threadpool_limits(threads)  # for NumPy and SciPy
    return threads


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit this process to one thread: fastest for small networks, and sums do not depend on the number of cores."""
    import threadpoolctl
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpoolctl.threadpool_limits(1):  # for NumPy and SciPy
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def stoppable() -> Iterator[None]:
    """Make SIGTERM raise SystemExit, so that the current trial is returned to the queue."""

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run(count: int, target: Callable[..., object], *args: Any) -> list[WorkerExit]:
    """Call target(*args) in `count` processes, each limited to its share of the cores; wait for all of them.

    An interrupt or SIGTERM is forwarded to running workers, which return their trials to the queue.

    Args:
        count: Number of processes, at least 1.
        target: A function that a new process can import.
        args: Picklable values.
    """
    if count < 1:
        raise ValueError(f"workers is {count}; it must be at least 1")
    context = multiprocessing.get_context("spawn")  # a forked copy of a process with threads may hang
    processes, errors = [], {}  # errors: the reading end of each worker's pipe -> its error
    with stoppable():
        try:
            for index in range(count):
                reader, writer = context.Pipe(duplex=False)
                words = (count, writer, target, args)
                processes.append(context.Process(target=_begin, args=words, name=f"worker {index + 1}"))
                errors[reader] = ""
                with writer:  # close our end, so that the pipe closes when the worker exits
                    processes[-1].start()
            _wait_for(processes, errors)
        except BaseException:
            for process in processes:
                if process.pid and process.is_alive():
                    process.terminate()
            _wait_for(processes, errors)
            raise
    return [WorkerExit(process.exitcode or 0, error) for process, error in zip(processes, errors.values(), strict=True)]


def _wait_for(processes: list[Any], errors: dict[Any, str]) -> None:
    """Wait until all started processes have exited, reading their errors, since a full pipe would block them."""
    alive = {process.sentinel for process in processes if process.pid}
    while alive:
        for ready in wait([*alive, *(reader for reader in errors if not reader.closed)]):
            if ready in errors:
                _receive(ready, errors)
            else:
                alive.discard(ready)
    for process in processes:
        if process.pid:
            process.join()
    for reader in errors:
        while not reader.closed and reader.poll():
            _receive(reader, errors)


def _receive(reader: Any, errors: dict[Any, str]) -> None:
    try:
        errors[reader] += reader.recv()
    except EOFError:
        reader.close()


def _begin(count: int, errors: Any, target: Callable[..., object], args: tuple[Any, ...]) -> None:
    """Entry point of a worker process."""
    try:
        with stoppable():
            limit_threads(count)
            target(*args)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        errors.send(f"{type(error).__name__}: {error}")
        sys.exit(1)
