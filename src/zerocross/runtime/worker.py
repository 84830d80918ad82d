"""Workers: the memory and threads of one call of a network. Concurrent calls use one worker each."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np

from zerocross.runtime.kernels.native import Run
from zerocross.runtime.kernels.steps import WORK
from zerocross.runtime.program import PlannedStep, Program, address, assemble
from zerocross.runtime.thread_pool import ThreadPool

CACHE_BYTES = 1 << 19  # activations of the images that a thread processes at a time: half of a typical L2 cache
MAX_IMAGES = 64
SHARED_WORK = 1 << 13  # least work of a step, on average, that threads share: waiting for each other takes up to 1 us
PIECE = 1 << 27  # work (see `Program`) of a thread between two checks for signals such as Ctrl-C: about 50 ms


class Worker:
    """Memory and threads for one call at a time, in the process that created the worker.

    Args:
        steps: Steps of the network.
        threads: Number of threads, at least 1.
        run: The compiled function.
        input_size: Input shape of one sample.
        output_size: Output shape of one sample.
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
        self._short = one.work < SHARED_WORK * len(steps)
        self._memory: dict[int, WorkerMemory] = {}
        self._pool = ThreadPool(threads, run)
        self._prepared = 0  # batch size for which the pool is prepared; 0: none

    def run(self, x: np.ndarray, y: np.ndarray) -> None:
        """Compute the output `y` for a batch `x`, both float32 and contiguous, in pieces."""
        x_at, y_at = address(x), address(y)
        for first in range(0, len(x), self._piece):
            batch = min(self._piece, len(x) - first)
            if self._prepared != batch:
                self._prepared = 0
                self._pool.prepare(self.memory_for(batch).work(batch, *self._bytes))
                self._prepared = batch
            alone = self._short and batch < self.threads
            self._pool.run(x_at + first * self._bytes[0], y_at + first * self._bytes[1], alone=alone)

    def memory_for(self, batch: int) -> WorkerMemory:
        """Return steps and memory for a batch; created once per number of images that a thread processes at a time."""
        share = min(self._most_images, max(1, batch // self.threads))
        images = 1 << (share.bit_length() - 1)
        if images not in self._memory:
            self._memory[images] = WorkerMemory(assemble(self._steps, images), self.threads)
        return self._memory[images]


class WorkerMemory:
    """A program, its memory, and the addresses of both."""

    def __init__(self, program: Program, threads: int) -> None:
        self.program = program
        self.held = program.new_memory(threads)
        self.arenas, self.scratches = ([row.ctypes.data for row in memory] for memory in self.held)
        self.steps, self.stages = program.steps.ctypes.data, program.stages.ctypes.data

    def work(self, batch: int, x_bytes: int, y_bytes: int) -> np.ndarray:
        """Return the WORK of each thread on its share of a batch, followed by that of one thread on the whole batch."""
        threads = len(self.arenas)
        ends = [batch * thread // threads for thread in range(threads + 1)]
        # (memory, first image, last image, part of every step, number of parts). With fewer images than threads, the
        # threads divide each step among them.
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
