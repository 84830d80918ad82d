"""Stopping on a signal: the update at hand is finished, a checkpoint written, and every rank stops at the same one."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

import torch
from lightning_fabric import Fabric

from zerocross.train.checkpoint import Position

_EVERY_ON_CUDA = 20  # asking all ranks waits for the device, which must not happen at each update there


class Stopped(Exception):  # noqa: N818 - not an error
    """A run that was asked to stop and has saved itself.

    Attributes:
        exit_code: 128 + the signal: 130 for SIGINT, 143 for SIGTERM.
        saved: False where the input path cannot be entered in the middle of an epoch (DALI): the epoch is repeated.
    """

    def __init__(self, number: int, updates: int, *, saved: bool) -> None:
        where = "and saved" if saved else "and will repeat this epoch, which its reader cannot enter in the middle"
        super().__init__(f"stopped after {updates} updates, {where}")
        self.exit_code = 128 + number
        self.saved = saved


class Stop:
    """While it is entered, SIGINT and SIGTERM are noted instead of obeyed; a second one is obeyed."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # signals reach no other
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.signal = number
        signal.signal(number, self._before[number])

    def requested(self, position: Position) -> bool:
        """Whether any rank has been asked to stop."""
        if self.fabric.world_size == 1:
            return self.signal is not None
        if self.fabric.device.type == "cuda" and position.updates % _EVERY_ON_CUDA:
            return False
        asked = torch.tensor(self.signal or 0, device=self.fabric.device)
        torch.distributed.all_reduce(asked, op=torch.distributed.ReduceOp.MAX)
        if agreed := int(asked):  # a signal that came in the meantime stays noted for the next time
            self.signal = agreed
        return agreed != 0
