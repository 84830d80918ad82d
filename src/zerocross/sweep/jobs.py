"""Runs side by side: a process each (worker.py), held by its standard input; when that closes, it saves and stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO, Any

import torch

from zerocross.sweep.cache import RunCache, failure
from zerocross.sweep.progress import Progress
from zerocross.train.config import Config, to_dict


class Interrupted(Exception):  # noqa: N818 - not an error
    """Runs that were asked to stop and have saved themselves.

    Attributes:
        exit_code: 128 + the signal: 130 for SIGINT, 143 for SIGTERM.
    """

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"{what}; the same command goes on from there")
        self.exit_code = 128 + number


class _Signalled(BaseException):
    """A signal has come: raised where the main thread waits."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Fleet:
    """The processes that run, so that all of them can be told to stop; none begins after that."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.stopping = False
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()

    def start(self) -> subprocess.Popen[str] | None:
        """A new process that awaits its request; None when stopping."""
        with self._lock:
            if self.stopping:
                return None
            process = subprocess.Popen(
                [sys.executable, "-m", "zerocross.sweep.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": str(self.threads)},
                start_new_session=True,  # a Ctrl-C is for the parent, which tells its children once
            )
            self._running.add(process)
            return process

    def stop(self) -> None:
        """Tell all processes to save and stop."""
        with self._lock:
            self.stopping = True
            for process in self._running:
                with suppress(OSError):
                    _input(process).close()

    def kill(self) -> None:
        """End all processes at once."""
        with self._lock:
            for process in self._running:
                process.kill()

    def ended(self, process: subprocess.Popen[str]) -> int:
        """Take leave of a process; its exit code."""
        code = process.wait()
        with self._lock:
            self._running.discard(process)
            with suppress(OSError):
                _input(process).close()
        return code


def side_by_side(todo: Sequence[Config], shelf: RunCache, progress: Progress, jobs: int) -> dict[str, dict[str, Any]]:
    """Train `jobs` runs at a time, in processes that share this one's threads."""
    fleet = Fleet(threads=max(1, torch.get_num_threads() // jobs))
    outcomes = {}
    pool = ThreadPoolExecutor(jobs)
    try:
        with _signals_raised():
            for future in as_completed([pool.submit(_run, config, shelf, fleet, progress) for config in todo]):
                outcome = future.result()
                outcomes[outcome["hash"]] = outcome
    except BaseException as wrong:
        pool.shutdown(wait=False, cancel_futures=True)
        fleet.stop()
        if isinstance(wrong, _Signalled):
            raise Interrupted(wrong.number, f"stopped and saved, {progress.standing()}") from None
        raise
    finally:
        try:
            pool.shutdown()
        except KeyboardInterrupt:  # a second signal is obeyed
            fleet.kill()
            raise
    return outcomes


def _run(config: Config, shelf: RunCache, fleet: Fleet, progress: Progress) -> dict[str, Any]:
    """One run in a process of its own, from a thread that listens to it."""
    process = fleet.start()
    if process is None:
        return failure(config, "not begun")
    progress.begin(config)
    request = {"config": to_dict(config), "shelf": shelf.as_dict(), "show": progress.show}
    with suppress(OSError, ValueError):  # it has ended, or been told to stop, already: see below
        _input(process).write(json.dumps(request) + "\n")
        _input(process).flush()
    talk: deque[str] = deque(maxlen=40)
    for line in process.stderr or ():
        talk.append(line.rstrip())
        progress.relay(config, talk[-1])
    answer = process.stdout.read() if process.stdout else ""
    code = fleet.ended(process)
    outcome = _outcome(config, shelf, json.loads(answer or "{}"), code, talk)
    if not fleet.stopping:
        progress.end(config, outcome)
    return outcome


def _outcome(config: Config, shelf: RunCache, answer: dict[str, Any], code: int, talk: Sequence[str]) -> dict[str, Any]:
    """What a process's answer means here; it gives none where it was killed or broke."""
    if "done" in answer and (result := shelf.find(config)) is not None:
        return result
    if "refused" in answer:
        raise ValueError(answer["refused"])
    if "os_error" in answer:
        raise OSError(*answer["os_error"])
    if reason := answer.get("failed"):
        return failure(config, reason)
    if code < 0:
        return failure(config, f"its process was ended by signal {-code} ({signal.strsignal(-code)})")
    raise RuntimeError("\n".join([f"the process of the run {config.hash} broke, with exit code {code}:", *talk]))


def _input(process: subprocess.Popen[str]) -> IO[str]:
    if process.stdin is None:
        raise ValueError("a process without standard input cannot be told to stop")
    return process.stdin


@contextmanager
def _signals_raised() -> Iterator[None]:
    """SIGINT and SIGTERM become exceptions in the main thread; afterwards they are obeyed as before."""

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        raise _Signalled(number)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # signals reach no other
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
