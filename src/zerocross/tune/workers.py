"""Several workers on one machine: a process each, with its share of the cores."""

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
    """How a worker ended.

    Args:
        code: Its exit code, or minus the signal that ended it.
        error: What it raised.
    """

    code: int
    error: str = ""

    def __str__(self) -> str:
        if self.code < 0:
            return f"killed by {signal.Signals(-self.code).name}"
        return self.error or f"exit code {self.code}"


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def limit_threads(workers: int) -> int:
    """Have this process, one of several, compute on its share of the cores; returns how many threads that is."""
    import threadpoolctl
    import torch

    threads = max(1, min(torch.get_num_threads(), cores() // workers))  # fewer, where the environment asks for it
    torch.set_num_threads(threads)
    threadpoolctl.threadpool_limits(threads)  # NumPy's and SciPy's, which know nothing of torch's
    return threads


@contextmanager
def one_thread() -> Iterator[None]:
    """Have this process compute on one thread: small networks train fastest so, and sums do not depend on the cores."""
    import threadpoolctl
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpoolctl.threadpool_limits(1):  # NumPy's and SciPy's, which know nothing of torch's
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def stoppable() -> Iterator[None]:
    """Have SIGTERM raise SystemExit, so that a trial at hand is given back."""

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

    An interrupt, or SIGTERM, is passed on to those that run, which have time to give their trials back.

    Args:
        count: How many, at least 1.
        target: A function that a new process can import.
        args: Plain values.
    """
    if count < 1:
        raise ValueError(f"workers is {count}; it must be at least 1")
    context = multiprocessing.get_context("spawn")  # a forked copy of a process with threads may hang
    processes, said = [], {}  # said: the reading end of each worker's pipe -> its error
    with stoppable():
        try:
            for index in range(count):
                reader, writer = context.Pipe(duplex=False)
                words = (count, writer, target, args)
                processes.append(context.Process(target=_begin, args=words, name=f"worker {index + 1}"))
                said[reader] = ""
                with writer:  # the worker's own is the only one from now on: when it ends, the pipe does
                    processes[-1].start()
            _wait_for(processes, said)
        except BaseException:
            for process in processes:
                if process.pid and process.is_alive():
                    process.terminate()
            _wait_for(processes, said)
            raise
    return [WorkerExit(process.exitcode or 0, error) for process, error in zip(processes, said.values(), strict=True)]


def _wait_for(processes: list[Any], said: dict[Any, str]) -> None:
    """Wait until all that were started have ended; what they say is read meanwhile: a full pipe would hold them."""
    alive = {process.sentinel for process in processes if process.pid}
    while alive:
        for ready in wait([*alive, *(reader for reader in said if not reader.closed)]):
            if ready in said:
                _hear(ready, said)
            else:
                alive.discard(ready)
    for process in processes:
        if process.pid:
            process.join()
    for reader in said:
        while not reader.closed and reader.poll():
            _hear(reader, said)


def _hear(reader: Any, said: dict[Any, str]) -> None:
    try:
        said[reader] += reader.recv()
    except EOFError:
        reader.close()


def _begin(count: int, errors: Any, target: Callable[..., object], args: tuple[Any, ...]) -> None:
    """In the new process."""
    try:
        with stoppable():
            limit_threads(count)
            target(*args)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        errors.send(f"{type(error).__name__}: {error}")
        sys.exit(1)
