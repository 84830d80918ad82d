"""One job in a process of its own, as submitit starts it on this machine or on a cluster.

It leaves its result in the cache. Told to stop, it saves at the next update: on a cluster by SIGTERM (cancelled,
preempted) or by the signal that Slurm sends some minutes before the time limit, after which it is requeued; on this
machine when the command that started it lets go of a lock, or is gone.
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

_AGAIN = 1.0  # seconds after which a request to stop is repeated: a first one may come before training begins


def run_job(request: Mapping[str, Any]) -> None:
    """Do a job, and leave its result in the cache, or an answer that says why there is none.

    Args:
        request: The job, the folders, and how to stop; plain JSON (see handle.request).
    """
    stop = _Stop()
    if held := request.get("while_held"):
        threading.Thread(target=_wait_for, args=(held, stop.request), daemon=True).start()
    logging.getLogger("lightning_fabric.utilities").setLevel(logging.WARNING)  # who is which rank
    answer = _answer(request, stop)
    if answer is None:
        stop.end()
    else:
        from zerocross.files import write_json

        write_json(answer_path(Path(request["answers"]), request["job"]["key"]), answer)


def again(request: Mapping[str, Any]) -> Any:
    """What submitit is to run when the job is requeued: the same, which resumes what it has saved."""
    from submitit.core.utils import DelayedSubmission

    return DelayedSubmission(run_job, request)


run_job.checkpoint = again  # type: ignore[attr-defined] - where submitit looks for it


def answer_path(folder: Path, key: str) -> Path:
    """Where a job says why it has no result."""
    return folder / f"{key}.answer.json"


def _answer(request: Mapping[str, Any], stop: _Stop) -> dict[str, Any] | None:
    """Do the job; why it has no result, if it has none; None if it was stopped, and has saved."""
    from zerocross import train
    from zerocross.sweep.cache import RunCache
    from zerocross.sweep.kinds import job_from

    try:
        cache = RunCache(Path(request["results"]), Path(request["work"]), request["keep"])
        cache.finish(job_from(request["job"]), show=request["show"], say=_say, stopping=lambda: stop.requested)
    except (train.Stopped, SystemExit):
        return None
    except train.RunError as failed:
        return {"failed": str(failed)}
    except OSError as failed:
        known = failed.errno is not None  # errors of ours have no number
        return {"os_error": [failed.errno, failed.strerror]} if known else {"refused": str(failed)}
    except ValueError as refused:
        return {"refused": str(refused)}
    except Exception:
        return {"broke": traceback.format_exc()}
    return {"done": True}


class _Stop:
    """Turns every request to stop into SIGTERM, once a second until the process ends.

    train.Stop notes the first one that comes during training, and has a checkpoint written; here all others are
    passed over, so that none of them cuts the writing short.
    """

    def __init__(self) -> None:
        self.requested = False
        self._requeue: Callable[[], object] | None = None
        self._submitits: dict[int, Callable[..., object]] = {}
        signal.signal(signal.SIGTERM, self._on_term)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            if callable(handler := signal.getsignal(number)):  # submitit's: it requeues the job
                self._submitits[number] = handler
                signal.signal(number, self._on_limit)

    def request(self) -> None:
        """Ask this process to stop."""
        if not self.requested:
            self.requested = True
            threading.Thread(target=self._repeat, daemon=True).start()

    def end(self) -> None:
        """End the process, which has saved; requeued first if it was Slurm's time limit."""
        if self._requeue is not None:
            self._requeue()
        raise SystemExit(128 + signal.SIGTERM)

    def _on_term(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.request()

    def _on_limit(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._requeue = lambda: self._submitits[number](number, None)
        self.request()

    def _repeat(self) -> None:
        while True:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(_AGAIN)


def _wait_for(lock: str, then: Callable[[], None]) -> None:
    """Wait until the command that started this process lets go of a lock, or is gone."""
    from filelock import FileLock

    with FileLock(lock, poll_interval=0.25):
        then()


def _say(text: str) -> None:
    print(text, flush=True)
