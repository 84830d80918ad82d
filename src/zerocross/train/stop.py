"""Stop on a signal: finish the current update, write a checkpoint, and stop all ranks at the same update."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

import torch
from lightning_fabric import Fabric
from typing_extensions import Self

from zerocross.train.checkpoint import Position

_EVERY_ON_CUDA = 20  # an all-reduce waits for the device, which is too slow to do at each update


class Stopped(Exception):  # noqa: N818 - not an error
    """Raised when a run has stopped on a signal, after saving a checkpoint.

    Attributes:
        exit_code: 128 + the signal number: 130 for SIGINT, 143 for SIGTERM.
        saved: False if the data loader cannot resume within an epoch (DALI): the epoch is repeated.

    Examples:
        >>> import signal
        >>> from zerocross import train
        >>> stopped = train.Stopped(signal.SIGTERM, updates=120, saved=True)
        >>> stopped.exit_code, stopped.saved
        (143, True)
    """

    def __init__(self, number: int, updates: int, *, saved: bool) -> None:
        where = "checkpoint saved" if saved else "this epoch will be repeated: its data loader cannot resume within one"
        super().__init__(f"stopped after {updates} updates; {where}")
        self.exit_code = 128 + number
        self.saved = saved


class Stop:
    """Context manager that records the first SIGINT or SIGTERM instead of stopping; a second one stops at once."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # only it receives signals
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
        """Return True if any rank has received a signal to stop."""
        if self.fabric.world_size == 1:
            return self.signal is not None
        if self.fabric.device.type == "cuda" and position.updates % _EVERY_ON_CUDA:
            return False
        received = torch.tensor(self.signal or 0, device=self.fabric.device)
        torch.distributed.all_reduce(received, op=torch.distributed.ReduceOp.MAX)
        if agreed := int(received):  # a signal that arrives meanwhile is handled at the next check
            self.signal = agreed
        return agreed != 0
