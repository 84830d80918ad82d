"""Batches of concurrent requests: each request gets its own results, and waiting requests are computed together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from zerocross.serve.batcher import Batcher


def samples(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


def run_script(script: Callable[[Batcher], Awaitable[None]], predict: Callable, max_batch: int = 4) -> list[int]:
    """Run a script with a batcher and return the sizes of the computed batches."""
    sizes: list[int] = []

    async def run() -> None:
        batcher = Batcher(predict, max_batch, sizes.append)
        await batcher.start()
        await asyncio.wait_for(script(batcher), 30)
        await asyncio.wait_for(batcher.stop(), 30)

    asyncio.run(run())
    return sizes


def test_requests_during_a_batch_form_the_next_one():
    free, busy = threading.Event(), threading.Event()

    def predict(x: np.ndarray) -> np.ndarray:
        busy.set()
        assert free.wait(30)
        return 10 * x

    async def script(batcher: Batcher) -> None:
        first = asyncio.create_task(batcher(samples(1)))
        await asyncio.to_thread(busy.wait, 30)
        rest = [
            asyncio.create_task(batcher(samples(*values))) for values in ((2,), (3, 4), (5,), (6, 7, 8, 9, 10), (11,))
        ]
        await asyncio.sleep(0.05)
        free.set()
        assert (await first).tolist() == [[10]]
        result = [(await task)[:, 0].tolist() for task in rest]
        assert result == [[20], [30, 40], [50], [60, 70, 80, 90, 100], [110]]

    assert run_script(script, predict) == [1, 4, 5, 1], "up to four together; a request of five is a batch by itself"


def test_hundreds_of_requests_each_get_their_own_results():
    async def script(batcher: Batcher) -> None:
        rng = np.random.default_rng(0)
        requests = [samples(*rng.normal(size=rng.integers(1, 6))) for _ in range(300)]
        result = await asyncio.gather(*(batcher(x) for x in requests))
        for x, y in zip(requests, result, strict=True):
            np.testing.assert_array_equal(y, 2 * x)

    sizes = run_script(script, lambda x: 2 * x, max_batch=16)
    assert max(sizes) <= 16
    assert len(sizes) < 300


def test_a_failure_is_raised_and_does_not_affect_later_requests():
    def predict(x: np.ndarray) -> np.ndarray:
        if x[0, 0] < 0:
            raise RuntimeError("too cold")
        return x

    async def script(batcher: Batcher) -> None:
        with pytest.raises(RuntimeError, match="too cold"):
            await batcher(samples(-1))
        assert (await batcher(samples(3))).tolist() == [[3]]

    run_script(script, predict)


def test_requests_of_disconnected_clients_are_skipped():
    free, busy = threading.Event(), threading.Event()

    def predict(x: np.ndarray) -> np.ndarray:
        busy.set()
        assert free.wait(30)
        return x

    async def script(batcher: Batcher) -> None:
        first = asyncio.create_task(batcher(samples(1)))
        await asyncio.to_thread(busy.wait, 30)
        cancelled, kept = (asyncio.create_task(batcher(samples(value))) for value in (2, 3))
        await asyncio.sleep(0.05)
        cancelled.cancel()
        first.cancel()
        await asyncio.sleep(0.05)
        free.set()
        assert (await kept).tolist() == [[3]]

    assert run_script(script, predict) == [1, 1]


def test_stop_processes_waiting_requests():
    async def run() -> list[list[list[float]]]:
        batcher = Batcher(lambda x: x, 2, lambda _: None)
        waiting = [asyncio.create_task(batcher(samples(value))) for value in (1, 2, 3)]
        await asyncio.sleep(0)
        await batcher.start()
        await asyncio.wait_for(batcher.stop(), 30)
        return [task.result().tolist() for task in waiting]

    assert asyncio.run(run()) == [[[1]], [[2]], [[3]]]


def test_a_batch_size_of_0_is_refused():
    with pytest.raises(ValueError, match="max_batch = 0: it must be at least 1"):
        Batcher(lambda x: x, 0, print)
