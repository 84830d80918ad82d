"""Time contenders in turn; no other contender runs during a turn."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

Contender = Callable[[int, int], float]  # (warm-up calls, timed calls) -> median seconds of the timed calls

_WARM_UP = 2  # minimum number of warm-up calls: other contenders have evicted the caches
_WARM_SECONDS = 0.05  # minimum duration of the warm-up: sleeping processors and threads take a while to wake up
_TIMED_SECONDS = 0.01  # approximate total duration of the timed calls; at least one call
_PAUSE = 0.01
_QUIET = 0.1  # a process is idle if it works for less than this share of a pause
_PATIENCE = 0.5  # seconds to wait for an idle process


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
    """Return the numbers of warm-up calls and of timed calls per turn."""
    one = max(contender(_WARM_UP, 1), 1e-6)
    return max(_WARM_UP, math.ceil(_WARM_SECONDS / one)), max(1, round(_TIMED_SECONDS / one))


def settle() -> None:
    """Wait until all threads of this process are idle.

    After a call, the threads of PyTorch and ONNX Runtime poll for more work before they sleep: for 10 and 45 ms of
    processor time in our measurements. On few cores they would slow down the next contender.
    """
    patience = time.perf_counter() + _PATIENCE
    while time.perf_counter() < patience:
        worked = time.process_time()
        time.sleep(_PAUSE)
        if time.process_time() - worked < _QUIET * _PAUSE:
            return
