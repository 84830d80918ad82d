"""A packed network as a function on numpy arrays."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from zerocross.runtime.bounds import check_memory, check_work, memory_limit
from zerocross.runtime.format import parse, read, serialize
from zerocross.runtime.graph import Graph
from zerocross.runtime.infer import check, infer
from zerocross.runtime.kernels.native import Run, load_run
from zerocross.runtime.kernels.steps import STEP, Mode, StepKind
from zerocross.runtime.plan import make_plan
from zerocross.runtime.preprocess import as_input, images, prepare
from zerocross.runtime.program import arena_bytes, assemble, new_job
from zerocross.runtime.thread_pool import give_back_memory, processors
from zerocross.runtime.worker import Worker


def say_on_stderr(text: str) -> None:
    """Print a message on stderr."""
    print(text, file=sys.stderr, flush=True)


class Model:
    """A network that maps float32 of shape (N, *input_size) to float32 of shape (N, *output_size).

    Results depend neither on the number of threads nor on the batch size.

    A model may be called from several threads at once. Calls do not wait for each other: each uses its own memory for
    activations and its own worker threads, which are kept for later calls. N concurrent calls use N times that memory
    and up to N times `threads` processors; the weights are shared. Ctrl-C ends a call within about a tenth of a second.

    Args:
        graph: A packed network, as returned by `zerocross.runtime.format.read`.
        threads: Number of threads per call, at least 1.
        max_memory: Limit in bytes for the parameters and the activations of one sample; a larger network raises a
            ValueError. By default 1 GiB plus 64 bytes per byte of parameters.
        cache: Folder for compiled code, see `load`.
        say: Callback for a message with the compile time; called only if code had to be compiled.

    Attributes:
        graph: The network.
        output_size: Shape of the output for one sample.
        work: Vector operations per sample, each about 0.2 to 0.5 ns on one thread.

    Examples:
        >>> import numpy as np
        >>> import zerocross
        >>> model = zerocross.zoo.load("digits")
        >>> model.input_size, model.classes[:3]
        ((1, 8, 8), ('0', '1', '2'))
        >>> scores = model(np.zeros((2, 1, 8, 8), np.uint8))  # bytes are normalised as the file says
        >>> scores.shape, scores.dtype
        ((2, 10), dtype('float32'))
    """

    def __init__(
        self,
        graph: Graph,
        threads: int = 1,
        *,
        max_memory: int | None = None,
        cache: str | Path | None = None,
        say: Callable[[str], object] = say_on_stderr,
    ) -> None:
        graph = check(graph)
        self.graph = graph
        self.output_size = infer(graph)[graph.output].shape
        self._cache = None if cache is None else Path(cache)
        self._say = say
        self._max_memory = max_memory
        limit = memory_limit(max_memory, sum(array.nbytes for array in graph.tensors.values()))
        self._plan = make_plan(graph, limit)
        check_memory(self._plan.bytes + arena_bytes(self._plan.steps, 1), limit, "one sample")
        self.work = assemble(self._plan.steps, 1).work
        check_work(self.work)
        self._idle: list[Worker] = []
        self.threads = threads
        give_back_memory()

    @property
    def threads(self) -> int:
        """Number of threads that a call uses; setting it affects later calls."""
        return self._threads

    @threads.setter
    def threads(self, threads: int) -> None:
        if not 1 <= threads <= processors():
            raise ValueError(
                f"threads = {threads}: it must be within 1..{processors()}, the processors available to this process"
            )
        self._threads = threads
        self._idle.clear()

    @property
    def input_size(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return self.graph.input_size

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names, one per output; empty if the file has none."""
        return self.graph.classes

    def preprocess(self, x: Any) -> np.ndarray:
        """Return the network's input, float32 of shape (N, *input_size), preprocessed as for evaluation.

        Args:
            x: Path of an image, an audio clip or an array (.npy); a Pillow image; or an array of one sample or a batch,
                of bytes (normalised like an image) or of floating-point numbers (used unchanged).
        """
        return prepare(x, self.graph.preprocessing, self.input_size)

    def __repr__(self) -> str:
        layers = [node for node in self.graph.nodes if "weight" in node.tensors]
        weights = [(node, self.graph.tensors[node.tensors["weight"]]) for node in layers]
        binary = sum(math.prod(node.attrs["shape"]) for node, stored in weights if stored.dtype == np.uint8)
        real = sum(stored.size for _, stored in weights if stored.dtype != np.uint8)
        name = self.graph.provenance.get("network", self.graph.provenance.get("model", ""))
        about = [repr(name)] * bool(name) + [f"input_size={self.input_size}", f"output_size={self.output_size}"]
        about += [f"{binary:,} binary and {real:,} real weights", f"threads={self.threads}"]
        return f"Model({', '.join(about)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the bytes of the packed file, which are checked like any file when they are read back."""
        return _unpickled, (serialize(self.graph), self.threads, self._max_memory, self._cache)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the network's output for a batch.

        Args:
            x: Array of shape (N, *input_size); series of shape (N, C, L) if input_size is (C, 1, L). N may be 0.
                Floating-point numbers are used unchanged: they must be preprocessed as in training, see `preprocess`.
                Bytes (uint8) are normalised like images, as the file specifies. Other types raise a ValueError.
        """
        x = as_input(images(np.asarray(x), self.input_size), self.graph.preprocessing, "the input")
        if x.shape[1:] != self.graph.input_size:
            expected = ", ".join(["N", *(str(size) for size in self.graph.input_size)])
            raise ValueError(f"the input has shape {x.shape}; this network takes ({expected})")
        y = np.empty((len(x), *self.output_size), np.float32)
        if not len(x):
            return y
        worker = self._worker()
        worker.run(x, y)
        self._idle.append(worker)  # skipped after an exception, such as Ctrl-C: an interrupted worker is not reused
        return y

    def _worker(self) -> Worker:
        """Return an idle worker or a new one."""
        while self._idle:
            try:
                worker = self._idle.pop()
            except IndexError:  # another thread took it
                break
            if worker.threads == self._threads and worker.process == os.getpid():
                return worker
        run = load_run(self._say, self._cache)
        return Worker(self._plan.steps, self._threads, run, self.graph.input_size, self.output_size)

    def steps(self) -> np.ndarray:
        """Return the steps of the program for one image, as records of `kernels.steps.STEP`."""
        return self._worker().memory_for(1).program.steps

    def step_seconds(self, x: np.ndarray, rounds: int = 50) -> list[tuple[str, float]]:
        """Return the kind of every step and its fastest time in seconds, for one image on one thread.

        Args:
            x: One image, of shape (1, *input_size).
            rounds: Number of timings per step, at least 1.
        """
        x, y = np.ascontiguousarray(x, np.float32), self(x)
        times = []
        memory, run = self._worker().memory_for(1), load_run(self._say, self._cache)
        for number, step in enumerate(memory.program.steps):
            job = new_job(
                steps=memory.steps + number * STEP.itemsize, stages=memory.stages, arena=memory.arenas[0],
                scratch=memory.scratches[0],
            )  # fmt: skip
            args = job.ctypes.data, Mode.HASTY, x.ctypes.data, y.ctypes.data
            times.append((StepKind(step["kind"]).name, min(_seconds(run, args, rounds))))
        return times


def _seconds(run: Run, args: tuple[int, int, int, int], rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        run(*args)
        times.append(time.perf_counter() - began)
    return times


def _unpickled(data: bytes, threads: int, max_memory: int | None, cache: Path | None) -> Model:
    return Model(parse(data), min(threads, processors()), max_memory=max_memory, cache=cache)


def load(
    path: str | Path,
    threads: int = 1,
    *,
    max_memory: int | None = None,
    cache: str | Path | None = None,
    say: Callable[[str], object] = say_on_stderr,
) -> Model:
    """Read a packed network (.zcb).

    Args:
        path: File written by `zerocross pack`.
        threads: Number of threads per call, at least 1.
        max_memory: Limit in bytes, see `Model`.
        cache: Folder for compiled code; the first folder passed in a process is used throughout. By default the
            package's own ``__pycache__``, or ``.cache/zerocross`` in the home folder if that is not writable.
        say: Callback for a message with the compile time, called only if code had to be compiled; by default the
            message is printed on stderr.

    Examples:
        >>> import numpy as np
        >>> import zerocross
        >>> run = zerocross.runtime.load(zerocross.zoo.located("zoo:digits"))
        >>> run(np.zeros((2, 1, 8, 8), np.float32)).shape
        (2, 10)
    """
    return Model(read(path), threads, max_memory=max_memory, cache=cache, say=say)
