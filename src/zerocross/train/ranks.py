"""The processes of one run: they meet, rank 0 decides for all, and none waits for one that has ended."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from lightning_fabric import Fabric

T = TypeVar("T")

MEETING_SECONDS = 60.0  # for which a process waits for rank 0 to open the meeting place


class RunError(RuntimeError):
    """A run that cannot go on, for a reason that its user can understand."""


class LostPeerError(RunError):
    """Another process of the run has ended, and this one cannot go on without it."""


class RendezvousError(LostPeerError):
    """The first process of the run has ended, or is not there yet: nobody else can tell of it."""


def launch(fabric: Fabric) -> None:
    """As fabric.launch(), but a process that rank 0 does not wait for ends soon.

    torch tries for half an hour to reach rank 0, whether it is late or was killed before it opened the meeting place.
    """
    environment: Any = getattr(fabric.strategy, "cluster_environment", None)
    met = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not met and environment is not None and (environment.local_rank() or environment.node_rank()):
        _wait_for_rank_zero(environment.main_address, environment.main_port)
    fabric.launch()


def _wait_for_rank_zero(address: str, port: int) -> None:
    deadline, parent = time.monotonic() + MEETING_SECONDS, os.getppid()
    while True:
        try:
            socket.create_connection((address, port), timeout=5.0).close()
        except OSError as error:
            if os.getppid() != parent or time.monotonic() > deadline:
                raise RendezvousError(
                    f"the first process of this run does not answer at {address}:{port} ({error.strerror or error})"
                ) from error
            time.sleep(0.1)
        else:
            return


def from_rank_zero(fabric: Fabric, make: Callable[[], T]) -> T:
    """What rank 0 makes, on every rank; where it fails, every rank fails."""
    made: Any = None
    failed: Exception | None = None
    if fabric.is_global_zero:
        try:
            made = make()
        except Exception as error:
            failed = error
    made, message = fabric.broadcast((made, None if failed is None else str(failed) or type(failed).__name__))
    if failed is not None:
        raise failed
    if message is not None:
        raise RunError(message)
    return made


def is_lost_peer(error: RuntimeError) -> bool:
    """Whether a collective failed: NCCL has an error class for it, gloo only its name in the message."""
    return isinstance(error, torch.distributed.DistError) or "gloo" in str(error)
