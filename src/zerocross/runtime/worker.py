"""What one call of a network works with: memory and a pool of threads. Concurrent calls use one each."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np

from zerocross.runtime.kernels.native import Run
from zerocross.runtime.kernels.steps import WORK
from zerocross.runtime.program import PlannedStep, Program, address, assemble
from zerocross.runtime.thread_pool import ThreadPool

CACHE_BYTES = 1 << 19  # activations of the images that a thread takes at a time: half of a common second cache
MAX_IMAGES = 64
PIECE = 1 << 27  # of work (see `Program`) of a thread between two looks at signals, such as that of Ctrl-C: some 50 ms


class Worker:
    """Memory and threads for one call at a time, in the process that made it.

    Args:
        steps: the network's steps.
        threads: how many, at least 1.
        run: the compiled function.
        input_size: of one sample.
        output_size: likewise.
    """

    def __init__(
        self,
        steps: Sequence[PlannedStep],
        threads: int,
        run: Run,
        input_size: Sequence[int],
        output_size: Sequence[int],
    ) -> None:
        self.process, self.threads = os.getpid(), threads
        self._steps = steps
        self._bytes = tuple(4 * math.prod(size) for size in (input_size, output_size))
        one = assemble(steps, 1)
        self._most_images = max(1, min(MAX_IMAGES, CACHE_BYTES // one.arena_bytes))
        self._piece = threads * max(1, PIECE // max(1, one.work))
        self._memory: dict[int, WorkerMemory] = {}
        self._pool = ThreadPool(threads, run)
        self._prepared = 0  # for batches of no size

    def run(self, x: np.ndarray, y: np.ndarray) -> None:
        """Compute the output `y` for a batch `x`, both float32 and contiguous, piece by piece."""
        x_at, y_at = address(x), address(y)
        for first in range(0, len(x), self._piece):
            batch = min(self._piece, len(x) - first)
            if self._prepared != batch:
                self._prepared = 0
                self._pool.prepare(self.memory_for(batch).work(batch, *self._bytes))
                self._prepared = batch
            self._pool.run(x_at + first * self._bytes[0], y_at + first * self._bytes[1])

    def memory_for(self, batch: int) -> WorkerMemory:
        """Steps and memory for a batch: made once for each number of images that a thread takes at a time."""
        share = min(self._most_images, max(1, batch // self.threads))
        images = 1 << (share.bit_length() - 1)
        if images not in self._memory:
            self._memory[images] = WorkerMemory(assemble(self._steps, images), self.threads)
        return self._memory[images]


class WorkerMemory:
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
