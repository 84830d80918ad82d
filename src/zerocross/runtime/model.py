"""A packed network as a function on numpy arrays."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from zerocross.runtime.format import read
from zerocross.runtime.graph import Graph
from zerocross.runtime.infer import check, infer
from zerocross.runtime.kernels.native import Run, load_run
from zerocross.runtime.kernels.steps import STEP, WORK, Kind
from zerocross.runtime.plan import make_plan
from zerocross.runtime.program import Program, address, assemble, new_job
from zerocross.runtime.team import Team, give_back_memory, processors

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
        self._ready = 0, 0  # for no batch of no process

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
                if self._ready != (len(x), os.getpid()):
                    self._prepare(len(x))
                self._team.run(address(x), address(y))
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
                job = new_job(
                    steps=memory.steps + number * STEP.itemsize, stages=memory.stages, arena=memory.arenas[0],
                    scratch=memory.scratches[0],
                )  # fmt: skip
                args = job.ctypes.data, 0, x.ctypes.data, y.ctypes.data
                found.append((Kind(step["kind"]).name, min(_seconds(run, args, rounds))))
        return found

    def _prepare(self, batch: int) -> None:
        """Have the team ready for batches of a size: most often it is that of the batch before."""
        sizes = (4 * math.prod(size) for size in (self.graph.input_size, self.output_size))
        self._team.prepare(load_run(self._say, self._cache), self._memory_for(batch).work(batch, *sizes))
        self._ready = batch, os.getpid()

    def _memory_for(self, batch: int) -> _Memory:
        """Steps and memory for a batch: made once for each number of images that a thread takes at a time."""
        share = min(self._most_images, max(1, batch // self.threads))
        images = 1 << (share.bit_length() - 1)
        key = images, self.threads
        if key not in self._memory:
            self._memory[key] = _Memory(assemble(self._plan.drafts, images), self.threads)
        return self._memory[key]


def _seconds(run: Run, args: tuple[int, int, int, int], rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        run(*args)
        times.append(time.perf_counter() - began)
    return times


class _Memory:
    """A program, the memory that it works in, and the addresses of all that."""

    def __init__(self, program: Program, threads: int) -> None:
        self.program = program
        self.held = program.new_memory(threads)
        self.arenas, self.scratches = ([row.ctypes.data for row in memory] for memory in self.held)
        self.steps, self.stages = program.steps.ctypes.data, program.stages.ctypes.data

    def work(self, batch: int, x_bytes: int, y_bytes: int) -> np.ndarray:
        """The WORK of each thread on a batch, and then that of one thread on all of it."""
        threads = len(self.arenas)
        ends = [batch * thread // threads for thread in range(threads + 1)]
        # (memory, first image, last image, share of every step, of how many); few images are shared step by step.
        if batch < threads:
            shares = [(0, 0, batch, thread, threads) for thread in range(threads)]
        else:
            shares = [(thread, *ends[thread : thread + 2], 0, 1) for thread in range(threads)]
        rows = []
        for thread, (arena, first, last, part, parts) in enumerate([*shares, (0, 0, batch, 0, 1)]):
            values = {
                "steps": self.steps, "step_count": len(self.program.steps), "stages": self.stages,
                "arena": self.arenas[arena], "scratch": self.scratches[thread % threads],
                "x": first * x_bytes, "y": first * y_bytes, "batch": last - first, "images": self.program.images,
                "x_bytes": x_bytes, "y_bytes": y_bytes, "part": part, "parts": parts,
            }  # fmt: skip
            rows.append([values[name] for name in WORK])
        return np.array(rows, np.int64)


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
