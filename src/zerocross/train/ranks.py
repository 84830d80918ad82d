"""Coordination of the processes of one run: rendezvous, work that rank 0 does for all, and lost peers."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from lightning_fabric import Fabric

T = TypeVar("T")

RENDEZVOUS_SECONDS = 60.0  # how long a process waits for rank 0 to open its port


class RunError(RuntimeError):
    """A run failed for a reason that its user can fix; the message says how.

    Examples:
        >>> from zerocross import train
        >>> issubclass(train.LostPeerError, train.RunError)
        True
    """


class LostPeerError(RunError):
    """Another process of the run has exited, and this one cannot continue without it.

    Examples:
        >>> from zerocross import train
        >>> issubclass(train.RendezvousError, train.LostPeerError)
        True
    """


class RendezvousError(LostPeerError):
    """Rank 0 cannot be reached: it has exited or not started. Every other process reports this itself.

    Examples:
        >>> from zerocross import train
        >>> issubclass(train.RendezvousError, train.RunError)
        True
    """


def launch(fabric: Fabric) -> None:
    """Call fabric.launch(), but fail within a minute if rank 0 cannot be reached.

    torch itself keeps trying for half an hour, even if rank 0 was killed before it opened its port.
    """
    environment: Any = getattr(fabric.strategy, "cluster_environment", None)
    initialized = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not initialized and environment is not None and (environment.local_rank() or environment.node_rank()):
        _wait_for_rank_zero(environment.main_address, environment.main_port)
    fabric.launch()


def _wait_for_rank_zero(address: str, port: int) -> None:
    deadline, parent = time.monotonic() + RENDEZVOUS_SECONDS, os.getppid()
    while True:
        try:
            socket.create_connection((address, port), timeout=5.0).close()
        except OSError as error:
            if os.getppid() != parent or time.monotonic() > deadline:
                raise RendezvousError(
                    f"the first process (rank 0) cannot be reached at {address}:{port} ({error.strerror or error})"
                ) from error
            time.sleep(0.1)
        else:
            return


def from_rank_zero(fabric: Fabric, make: Callable[[], T]) -> T:
    """Call `make` on rank 0 and return its result on every rank; if it raises, every rank raises."""
    result: Any = None
    failed: Exception | None = None
    if fabric.is_global_zero:
        try:
            result = make()
        except Exception as error:
            failed = error
    result, message = fabric.broadcast((result, None if failed is None else str(failed) or type(failed).__name__))
    if failed is not None:
        raise failed
    if message is not None:
        raise RunError(message)
    return result


def is_lost_peer(error: RuntimeError) -> bool:
    """Return True if a collective operation failed: NCCL has an error class for it, gloo only a name in the message."""
    return isinstance(error, torch.distributed.DistError) or "gloo" in str(error)
