"""Combine the samples of concurrent requests into batches; requests that arrive during a batch form the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

Request = tuple[np.ndarray, "asyncio.Future[np.ndarray]"]


class Batcher:
    """Call a function on batches, one after the other, in a separate thread.

    Requests do not wait for a batch to fill: a batch consists of the requests that arrived while the previous one was
    computed. A single request is computed immediately; under load, batches grow up to their limit.

    Args:
        predict: Function from float32 of shape (N, ...) to one result per sample.
        max_batch: Samples per batch, at least 1; a larger request is a batch by itself.
        on_batch: Called with the number of samples of every batch.
    """

    def __init__(
        self, predict: Callable[[np.ndarray], np.ndarray], max_batch: int, on_batch: Callable[[int], object]
    ) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch = {max_batch}: it must be at least 1")
        self.predict, self.max_batch, self.on_batch = predict, max_batch, on_batch
        self._waiting: asyncio.Queue[Request | None] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, "zerocross-batch")
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the results of a request's samples."""
        future: asyncio.Future[np.ndarray] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((x, future))
        return await future

    async def start(self) -> None:
        """Start to process requests."""
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Process the waiting requests, then stop."""
        self._waiting.put_nowait(None)
        if self._task is not None:
            await self._task
        self._thread.shutdown()

    async def _work(self) -> None:
        carried: Request | None = None
        while True:
            first = carried or await self._waiting.get()
            if first is None:
                return
            batch, carried, last = self._gathered(first)
            # A client may have disconnected.
            await self._compute([request for request in batch if not request[1].done()])
            if last:
                return

    def _gathered(self, first: Request) -> tuple[list[Request], Request | None, bool]:
        """Return the next batch, a request that no longer fits (or None), and whether the queue has ended."""
        batch, count = [first], len(first[0])
        while count < self.max_batch and not self._waiting.empty():
            request = self._waiting.get_nowait()
            if request is None:
                return batch, None, True
            if count + len(request[0]) > self.max_batch:
                return batch, request, False
            batch.append(request)
            count += len(request[0])
        return batch, None, False

    async def _compute(self, batch: list[Request]) -> None:
        if not batch:
            return
        x = np.concatenate([samples for samples, _ in batch])
        self.on_batch(len(x))
        try:
            y = await asyncio.get_running_loop().run_in_executor(self._thread, self.predict, x)
        except Exception as error:  # passed on to the callers; the server keeps running
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        first = 0
        for samples, future in batch:
            if not future.done():
                future.set_result(y[first : first + len(samples)])
            first += len(samples)
