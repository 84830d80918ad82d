"""Run many jobs: read finished ones from the cache, run the rest here, in local processes, or on a cluster."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from zerocross import train
from zerocross.sweep.cache import RunCache
from zerocross.sweep.execution import Execution
from zerocross.sweep.job import Job, Result, failure
from zerocross.sweep.progress import Progress

ATTEMPTS = 3  # for a job whose process ends without a result: it was killed or cancelled, or its node failed
_POLL = 0.2  # seconds between two polls of jobs in other processes


class Interrupted(Exception):  # noqa: N818 - not an error
    """Raised when jobs are stopped: local jobs have saved a checkpoint, cluster jobs keep running.

    Attributes:
        exit_code: 128 + the signal: 130 for SIGINT, 143 for SIGTERM.
    """

    def __init__(self, number: int, status: str) -> None:
        super().__init__(f"{status}; run the same command again to continue")
        self.exit_code = 128 + number


def run_jobs(
    jobs: Sequence[Job], cache: RunCache, execution: Execution | None = None, *, show: bool = True
) -> list[Result]:
    """Return the results of all jobs, in their order.

    Each result is cached as soon as its job finishes, and the next call reads it from the cache. A failing job does not
    stop the others; in place of its result it returns a dict with the reason under "failed", which is not cached.

    Args:
        jobs: Jobs of one kind. Jobs with equal keys run once.
        cache: The cache of results.
        execution: How many jobs run at a time, and where; by default one, in this process.
        show: Show progress on the terminal.

    Raises:
        Interrupted: on SIGINT or SIGTERM. Local jobs save a checkpoint first; cluster jobs keep running. The same call
            continues from there.
    """
    execution = execution or Execution()
    wanted = {job.key: job for job in jobs}
    outcomes = {key: result for key, job in wanted.items() if (result := cache.find(job)) is not None}
    todo = [job for key, job in wanted.items() if key not in outcomes]
    finished = [(wanted[key], result) for key, result in outcomes.items()]
    parallel = max(1, min(execution.parallel, len(todo)))
    noun = jobs[0].kind.noun if jobs else "run"
    progress = Progress(todo, finished, cache.results, parallel=parallel, noun=noun, show=show)
    if not todo:
        return [outcomes[job.key] for job in jobs]
    here = execution.cluster == "local" and parallel == 1
    outcomes |= _one_by_one(todo, cache, progress) if here else _elsewhere(todo, cache, execution, progress)
    return [outcomes[job.key] for job in jobs]


def _one_by_one(todo: Sequence[Job], cache: RunCache, progress: Progress) -> dict[str, Result]:
    """Run jobs in this process, on all its threads."""
    outcomes = {}
    for job in todo:
        progress.begin(job)
        try:
            with stoppable():
                outcome = cache.finish(job, show=progress.show, say=progress.say)
        except train.RunError as error:
            outcome = failure(job, str(error))
        except train.Stopped as stopped:
            raise Interrupted(stopped.exit_code - 128, f"{stopped}, {progress.standing()}") from stopped
        except (KeyboardInterrupt, SystemExit) as stopped:  # for example while data are read, or in a search
            number = int(stopped.code or 128) - 128 if isinstance(stopped, SystemExit) else signal.SIGINT
            raise Interrupted(number, f"stopped, {progress.standing()}") from stopped
        outcomes[job.key] = outcome
        progress.end(job, outcome)
    return outcomes


def _elsewhere(todo: Sequence[Job], cache: RunCache, execution: Execution, progress: Progress) -> dict[str, Result]:
    """Run jobs in other processes: submit as many as the pool takes, and watch the shared folder for results."""
    from zerocross.sweep.handle import Handle
    from zerocross.sweep.pools import pool_for

    outcomes: dict[str, Result] = {}
    attempts = dict.fromkeys((job.key for job in todo), 0)
    with pool_for(execution, cache, progress) as pool:
        running: list[Handle] = pool.adopt(todo)
        known = {handle.job.key for handle in running}
        waiting = [job for job in todo if job.key not in known]
        try:
            with stoppable(signal.SIGINT, signal.SIGTERM):
                while waiting or running:
                    room = pool.room(len(running))
                    batch, waiting = waiting[:room], waiting[room:]
                    running += pool.submit(batch)
                    ended = pool.ended(running)
                    for handle in running:
                        handle.relay(progress)
                    for handle in ended:
                        running.remove(handle)
                        attempts[handle.job.key] += 1
                        outcome = _outcome(handle, cache)
                        if outcome is None and attempts[handle.job.key] < ATTEMPTS:
                            progress.relay(handle.job, "ended without a result; it resumes from its last checkpoint")
                            handle.tidy(keep_log=False)
                            waiting.append(handle.job)
                            continue
                        outcomes[handle.job.key] = outcome or failure(handle.job, _lost(handle))
                        progress.end(handle.job, outcomes[handle.job.key])
                        handle.tidy(keep_log="failed" in outcomes[handle.job.key])
                    if running:
                        time.sleep(_POLL)
        except SystemExit as stopped:
            status = pool.stop(running)
            raise Interrupted(int(stopped.code or 128) - 128, f"{status}, {progress.standing()}") from None
        except BaseException:
            pool.stop(running)
            raise
    return outcomes


def _outcome(handle: Any, cache: RunCache) -> Result | None:
    """Return the result or the failure of an ended job, or None if its process left neither; raise its error here."""
    if (result := cache.find(handle.job)) is not None:
        return result
    answer = handle.answer()
    if "refused" in answer:
        raise ValueError(answer["refused"])
    if "os_error" in answer:
        raise OSError(*answer["os_error"])
    if "broke" in answer:
        raise RuntimeError(f"the process of {handle.job.label} ({handle.job.key}) raised:\n{answer['broke']}")
    return failure(handle.job, answer["failed"]) if "failed" in answer else None


def _lost(handle: Any) -> str:
    tail = "; ".join(handle.tail(3)) or "nothing"
    return f"its process ended {ATTEMPTS} times without a result (killed, or out of memory?); its last output: {tail}"


@contextmanager
def stoppable(*numbers: int) -> Iterator[None]:
    """Make signals (by default SIGTERM) raise SystemExit(128 + number) within this context.

    Only the main thread receives signals; in any other thread this does nothing.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        sys.exit(128 + number)

    before: dict[int, Any] = {}
    try:
        for number in numbers or (signal.SIGTERM,):
            before[number] = signal.signal(number, stop)
    except ValueError:  # not in the main thread
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
