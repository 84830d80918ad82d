"""A worker process, started by submitit on this machine or on a cluster, that runs one job.

It writes its result to the cache. When asked to stop, it saves a checkpoint after the current update. On a cluster that
request is SIGTERM (cancelled, preempted) or the signal that Slurm sends some minutes before the time limit, after which
the job is requeued; on this machine it is the release of a lock, when the command that holds it stops or dies.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

_AGAIN = 1.0  # seconds after which a stop request is repeated: the first may arrive before training starts


def run_job(request: Mapping[str, Any]) -> None:
    """Run a job, and write its result to the cache, or an answer with the reason why there is none.

    Args:
        request: The job, the folders, and how to stop, as plain JSON (see handle.request).
    """
    stop = _Stop()
    if held := request.get("while_held"):
        threading.Thread(target=_wait_for, args=(held, stop.request), daemon=True).start()
    logging.getLogger("lightning_fabric.utilities").setLevel(logging.WARNING)  # silence its list of ranks
    answer = _answer(request, stop)
    if answer is None:
        stop.end()
    else:
        from zerocross.files import write_json

        write_json(answer_path(Path(request["answers"]), request["job"]["key"]), answer)


def again(request: Mapping[str, Any]) -> Any:
    """Return the call that submitit makes after a requeue: the same job, which resumes from its checkpoint."""
    from submitit.core.utils import DelayedSubmission

    return DelayedSubmission(run_job, request)


run_job.checkpoint = again  # type: ignore[attr-defined] - where submitit looks for it


def answer_path(folder: Path, key: str) -> Path:
    """Return the path of the file in which a job says why it has no result."""
    return folder / f"{key}.answer.json"


def _answer(request: Mapping[str, Any], stop: _Stop) -> dict[str, Any] | None:
    """Run the job. Return why it has no result, {"done": True} if it has one, or None if it was stopped and saved."""
    from zerocross import train
    from zerocross.sweep.cache import RunCache
    from zerocross.sweep.kinds import job_from

    try:
        cache = RunCache(Path(request["results"]), Path(request["work"]), request["keep"])
        cache.finish(job_from(request["job"]), show=request["show"], say=_say, stopping=lambda: stop.requested)
    except (train.Stopped, SystemExit):
        return None
    except train.RunError as error:
        return {"failed": str(error)}
    except OSError as error:
        from_system = error.errno is not None  # errors raised by zerocross have no number
        return {"os_error": [error.errno, error.strerror]} if from_system else {"refused": str(error)}
    except ValueError as error:
        return {"refused": str(error)}
    except Exception:
        return {"broke": traceback.format_exc()}
    return {"done": True}


class _Stop:
    """Turns every request to stop into SIGTERM, once a second until the process ends.

    train.Stop handles the first one that arrives during training, and saves a checkpoint; this class ignores all
    others, so that none of them interrupts the writing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._requeue: Callable[[], object] | None = None
        self._handlers: dict[int, Callable[..., object]] = {}
        signal.signal(signal.SIGTERM, self._on_term)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            if callable(handler := signal.getsignal(number)):  # submitit's: it requeues the job
                self._handlers[number] = handler
                signal.signal(number, self._on_limit)

    def request(self) -> None:
        """Ask this process to stop."""
        if not self.requested:
            self.requested = True
            threading.Thread(target=self._repeat, daemon=True).start()

    def end(self) -> None:
        """End the process, which has saved its checkpoint; requeue it first if Slurm's time limit was the reason."""
        if self._requeue is not None:
            self._requeue()
        raise SystemExit(128 + signal.SIGTERM)

    def _on_term(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.request()

    def _on_limit(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._requeue = lambda: self._handlers[number](number, None)
        self.request()

    def _repeat(self) -> None:
        while True:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(_AGAIN)


def _wait_for(lock: str, then: Callable[[], None]) -> None:
    """Wait until the command that started this process releases a lock or dies."""
    from filelock import FileLock

    with FileLock(lock, poll_interval=0.25):
        then()


def _say(text: str) -> None:
    print(text, flush=True)
