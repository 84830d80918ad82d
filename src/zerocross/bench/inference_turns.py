"""Contenders take turns, each alone on the machine for as long as its turn takes."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

Contender = Callable[[int, int], float]  # makes calls that do not count, and then some: the median seconds of those

_WARM_UP = 2  # calls, at least: the others have emptied the caches
_WARM_SECONDS = 0.05  # and calls for so long: processors and threads that have slept take a while to wake up
_TIMED_SECONDS = 0.01  # calls that count take about so long together, one at least
_PAUSE = 0.01
_QUIET = 0.1  # of a pause: less work than this is none
_PATIENCE = 0.5


def timed(call: Callable[[], Any]) -> Contender:
    """Return a contender that makes this call."""

    def contender(warm_up: int, calls: int) -> float:
        for _ in range(warm_up):
            call()
        seconds = []
        for _ in range(calls):
            began = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - began)
        return statistics.median(seconds)

    return contender


def in_turn(contenders: dict[str, Contender], rounds: int) -> dict[str, list[float]]:
    """Return the median seconds of the calls of each contender in each round."""
    seconds: dict[str, list[float]] = {key: [] for key in contenders}
    calls = {key: _calls(contender) for key, contender in contenders.items()}
    for _ in range(rounds):
        for key, contender in contenders.items():
            settle()
            seconds[key].append(contender(*calls[key]))
    return seconds


def _calls(contender: Contender) -> tuple[int, int]:
    """How many calls make a turn: those before, and those that are timed."""
    one = max(contender(_WARM_UP, 1), 1e-6)
    return max(_WARM_UP, math.ceil(_WARM_SECONDS / one)), max(1, round(_TIMED_SECONDS / one))


def settle() -> None:
    """Wait until no thread of this process works any more.

    After a call the threads of PyTorch and ONNX Runtime look out for more work before they sleep: for 10 and 45 ms of
    processor time where this was written. On few cores they would slow down whoever is timed next.
    """
    patience = time.perf_counter() + _PATIENCE
    while time.perf_counter() < patience:
        worked = time.process_time()
        time.sleep(_PAUSE)
        if time.process_time() - worked < _QUIET * _PAUSE:
            return
