"""Contenders take turns, each alone on the machine for as long as its turn takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

Contender = Callable[[int], float]  # makes so many calls, and returns the seconds of the last

_WARM_UP = 2  # calls, at least: the others have emptied the caches
_WARM_SECONDS = 0.05  # and calls for so long: processors and threads that have slept take a while to wake up
_PAUSE = 0.01
_QUIET = 0.1  # of a pause: less work than this is none
_PATIENCE = 0.5


def timed(call: Callable[[], Any]) -> Contender:
    """Return a contender that makes this call."""

    def contender(calls: int) -> float:
        for _ in range(calls - 1):
            call()
        began = time.perf_counter()
        call()
        return time.perf_counter() - began

    return contender


def in_turn(contenders: dict[str, Contender], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of one call of each contender in each round."""
    seconds: dict[str, list[float]] = {key: [] for key in contenders}
    calls = {key: _calls(contender) for key, contender in contenders.items()}
    for _ in range(rounds):
        for key, contender in contenders.items():
            settle()
            seconds[key].append(contender(calls[key]))
    return seconds


def _calls(contender: Contender) -> int:
    """How many calls make a turn, of which the last is timed."""
    return 1 + max(_WARM_UP, math.ceil(_WARM_SECONDS / max(contender(_WARM_UP), 1e-6)))


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
