"""A packed network as a function on numpy arrays."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from zerocross.runtime.format import read
from zerocross.runtime.graph import Graph
from zerocross.runtime.infer import check, infer
from zerocross.runtime.kernels.native import load_run
from zerocross.runtime.kernels.steps import STEP, Kind
from zerocross.runtime.plan import make_plan
from zerocross.runtime.program import Program, assemble
from zerocross.runtime.team import Team, give_back_memory, give_way, processors

CACHE_BYTES = 1 << 19  # activations of the images that a thread takes at a time: half of a common second cache
MAX_IMAGES = 64


def say_on_stderr(text: str) -> None:
    """Tell the user, outside of what a program prints."""
    print(text, file=sys.stderr, flush=True)


class Model:
    """A network that maps float32 of shape (N, *input_size) to float32 of shape (N, *output_size).

    Results do not depend on threads, nor on how images are put into batches. One call at a time runs; others wait.

    Args:
        graph: a packed network, such as `zerocross.runtime.format.read` gives.
        threads: how many to use, at least 1.
        cache: folder of compiled code, see `load`.
        say: told how long compiling took, where it had to be done.
    """

    def __init__(
        self,
        graph: Graph,
        threads: int = 1,
        *,
        cache: str | Path | None = None,
        say: Callable[[str], object] = say_on_stderr,
    ) -> None:
        graph = check(graph)
        self.graph = replace(graph, tensors={})  # the plan has them in another order
        self.output_size = infer(graph)[graph.output].shape
        self._cache = None if cache is None else Path(cache)
        self._say = say
        self._plan = make_plan(graph)
        self._lock = threading.Lock()
        self._memory: dict[tuple[int, int], _Memory] = {}
        one = assemble(self._plan.drafts, 1).arena_bytes
        self._most_images = max(1, min(MAX_IMAGES, CACHE_BYTES // one))
        self.threads = threads
        give_back_memory()

    @property
    def threads(self) -> int:
        """How many threads a call uses."""
        return self._threads

    @threads.setter
    def threads(self, threads: int) -> None:
        if not 1 <= threads <= processors():
            raise ValueError(
                f"threads = {threads}: it must be within 1..{processors()}, the processors of this process"
            )
        self._threads = threads
        self._team = Team(threads)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the network's output for a batch.

        Args:
            x: numbers of shape (N, *input_size), preprocessed as the network was trained; N may be 0.
        """
        x = np.ascontiguousarray(x, np.float32)
        if x.shape[1:] != self.graph.input_size:
            wanted = ", ".join(["N", *(str(size) for size in self.graph.input_size)])
            raise ValueError(f"an input of shape {x.shape}: this network takes ({wanted})")
        y = np.empty((len(x), *self.output_size), np.float32)
        if len(x):
            with self._lock:
                self._run(x, y)
        return y

    def step_seconds(self, x: np.ndarray, rounds: int = 50) -> list[tuple[str, float]]:
        """The kind of every step, and the fastest of its times for one image on one thread: where time goes.

        Args:
            x: one image, of shape (1, *input_size).
            rounds: how often each step is timed, >= 1.
        """
        x, y = np.ascontiguousarray(x, np.float32), self(x)
        found = []
        with self._lock:
            memory, run = self._memory_for(1), load_run(self._say, self._cache)
            for number, step in enumerate(memory.program.steps):
                args = (
                    memory.steps + number * STEP.itemsize, 1, memory.stages, memory.arenas[0],
                    memory.scratches[0], x.ctypes.data, y.ctypes.data, 1, 1, x.nbytes, y.nbytes, 0, 1, 0, 0,
                )  # fmt: skip
                found.append((Kind(step["kind"]).name, min(_seconds(run, args, rounds))))
        return found

    def _run(self, x: np.ndarray, y: np.ndarray) -> None:
        memory = self._memory_for(len(x))
        run = load_run(self._say, self._cache)
        x_at, y_at, x_bytes, y_bytes = x.ctypes.data, y.ctypes.data, x.nbytes // len(x), y.nbytes // len(y)

        def job(first: int, last: int, thread: int, part: int, parts: int) -> None:
            # Threads that share the steps of an image share its memory.
            arena, scratch = memory.arenas[0 if parts > 1 else thread], memory.scratches[thread]
            run(
                memory.steps, len(memory.program.steps), memory.stages, arena, scratch,
                x_at + first * x_bytes, y_at + first * y_bytes, last - first, memory.program.images, x_bytes, y_bytes,
                part, parts, memory.counter_at, give_way(),
            )  # fmt: skip

        if self.threads == 1:
            job(0, len(x), 0, 0, 1)
        elif len(x) < self.threads:
            memory.counter[0] = 0
            self._team.run([partial(job, 0, len(x), thread, thread, self.threads) for thread in range(self.threads)])
        else:
            ends = [len(x) * thread // self.threads for thread in range(self.threads + 1)]
            self._team.run([partial(job, *pair, thread, 0, 1) for thread, pair in enumerate(pairwise(ends))])

    def _memory_for(self, batch: int) -> _Memory:
        """Steps and memory for a batch: made once for each number of images that a thread takes at a time."""
        share = min(self._most_images, max(1, batch // self.threads))
        images = 1 << (share.bit_length() - 1)
        key = images, self.threads
        if key not in self._memory:
            self._memory[key] = _Memory(assemble(self._plan.drafts, images), self.threads)
        return self._memory[key]


def _seconds(function: Any, args: tuple[Any, ...], rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        function(*args)
        times.append(time.perf_counter() - began)
    return times


class _Memory:
    """A program, the memory that it works in, and the addresses of all that."""

    def __init__(self, program: Program, threads: int) -> None:
        self.program = program
        self.held = program.new_memory(threads)
        self.arenas, self.scratches = ([row.ctypes.data for row in memory] for memory in self.held)
        self.steps, self.stages = program.steps.ctypes.data, program.stages.ctypes.data
        self.counter = np.zeros(1, np.int64)
        self.counter_at = self.counter.ctypes.data


def load(
    path: str | Path,
    threads: int = 1,
    *,
    cache: str | Path | None = None,
    say: Callable[[str], object] = say_on_stderr,
) -> Model:
    """Read a packed network (.zcb).

    Args:
        path: a file that `zerocross pack` made.
        threads: how many to use, at least 1.
        cache: folder of compiled code; the first one of a process counts. None is this package's own ``__pycache__``,
            or ``.cache/zerocross`` in the user's home where that cannot be written.
        say: told how long compiling took, where it had to be done; by default it is printed on stderr.
    """
    return Model(read(path), threads, cache=cache, say=say)
