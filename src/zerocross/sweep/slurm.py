"""Run jobs on a Slurm cluster."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from zerocross.files import write_text
from zerocross.sweep.cache import RunCache
from zerocross.sweep.execution import Execution
from zerocross.sweep.handle import Handle, request
from zerocross.sweep.job import Job
from zerocross.sweep.progress import Progress
from zerocross.sweep.worker import answer_path, run_job

_ARRAY = 1000  # jobs per Slurm array, whose usual limit is 1001
_QUEUE_POLL = 3.0  # seconds between two queries of Slurm's queue
_GRACE = 6.0  # seconds for a result to reach this machine through the shared folder


class SlurmPool:
    """Jobs on a Slurm cluster, in arrays. They keep running when this command ends; a later command adopts them."""

    def __init__(self, execution: Execution, cache: RunCache, progress: Progress, folder: Path) -> None:
        import submitit

        self.cache = cache
        self.progress = progress
        self.folder = folder
        try:
            self.executor = submitit.SlurmExecutor(folder, max_num_timeout=10_000)
        except RuntimeError:
            raise ValueError(
                "--cluster slurm: srun is not available on this machine; run the command on a login node of the cluster"
            ) from None
        more = {"partition": execution.partition} if execution.partition else {}
        self.executor.update_parameters(
            **more,
            job_name="zerocross",
            time=execution.time,
            gpus_per_node=execution.gpus or None,
            cpus_per_task=execution.cpus,
            array_parallelism=execution.array,
            signal_delay_s=min(120, execution.time * 60 // 4),
            stderr_to_stdout=True,
            setup=[f"export OMP_NUM_THREADS={execution.cpus}", *execution.setup],
            srun_args=["--cpus-per-task", str(execution.cpus)],
            additional_parameters={"requeue": True, **execution.slurm},
        )
        self._looked = 0.0
        self._queued: set[str] | None = None
        self._silent = False
        self._ours: set[str] = set()
        self._held: set[str] = set()  # jobs that Slurm holds, and that have been reported

    def adopt(self, todo: Sequence[Job]) -> list[Handle]:
        """Return the jobs that an earlier command submitted and that are still on the cluster."""
        handles = []
        submitted = {job.key: path for job in todo if (path := self.folder / f"{job.key}.submitted").exists()}
        queued = self._queue() if submitted else set()
        for job in todo:
            if job.key in submitted:
                number = submitted[job.key].read_text(encoding="utf-8").strip()
                if queued is None or number in queued:
                    handles.append(Handle(job, number, self.folder))
        self._ours |= {handle.id for handle in handles}
        if handles:
            self.progress.say(f"{self.progress.count(len(handles))} still on the cluster from an earlier command")
        return handles

    def room(self, running: int) -> int:
        """Return the size of one Slurm array, however many jobs are running."""
        del running
        return _ARRAY

    def submit(self, jobs: Sequence[Job]) -> list[Handle]:
        """Submit jobs as one array."""
        if not jobs:
            return []
        from submitit.core.utils import FailedJobError

        requests = [request(job, self.cache, self.folder, self.progress) for job in jobs]
        try:
            submitted = self.executor.map_array(run_job, requests)
        except (subprocess.CalledProcessError, FailedJobError) as error:
            raise ValueError(f"sbatch refused the jobs: {_message(error)}") from None
        handles = [Handle(job, each.job_id, self.folder) for job, each in zip(jobs, submitted, strict=True)]
        self._ours |= {handle.id for handle in handles}
        for handle in handles:
            write_text(self.folder / f"{handle.job.key}.submitted", handle.id)
        script = submitted[0].paths.submission_file
        for link in self.folder.glob(".submission_file_*.sh"):
            if link.is_symlink() and link.readlink().name == script.name:
                link.unlink(missing_ok=True)
        script.unlink(missing_ok=True)  # Slurm has its own copy
        ids = sorted({handle.id.partition("_")[0] for handle in handles})
        self.progress.say(f"submitted {self.progress.count(len(jobs))} to Slurm as job {', '.join(ids)}")
        self._looked = 0.0
        return handles

    def ended(self, running: Sequence[Handle]) -> list[Handle]:
        """Return the jobs that have left the queue, and whose results have had time to reach the shared folder."""
        now = time.monotonic()
        if now - self._looked >= _QUEUE_POLL:
            self._queued = self._queue()
            self._looked = now
        if self._queued is None:  # Slurm does not respond: rely on the results alone
            return [handle for handle in running if self.cache.holds(handle.job)]
        ended = []
        for handle in running:
            if handle.id in self._queued:
                handle.gone = None
                continue
            handle.gone = handle.gone or now
            complete = self.cache.holds(handle.job) or answer_path(self.folder, handle.job.key).exists()
            if complete or now - handle.gone >= _GRACE:
                ended.append(handle)
        return ended

    def stop(self, running: Sequence[Handle]) -> str:
        """Leave the jobs running on the cluster."""
        ids = " ".join(sorted({handle.id.partition("_")[0] for handle in running}))
        return f"left {self.progress.count(len(running))} running on the cluster (to cancel them: scancel {ids})"

    def _queue(self) -> set[str] | None:
        """Return the pending and running jobs of this user, or None while Slurm does not respond."""
        command = ["squeue", "--me", "--noheader", "--array", "--format=%i %r"]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            if not self._silent:
                self.progress.say(f"Slurm does not respond ({shlex.join(command)}: {_message(error)}); waiting for it")
            self._silent = True
            return None
        if self._silent:
            self.progress.say("Slurm responds again")
            self._silent = False
        reasons = {line.split()[0]: line.partition(" ")[2] for line in answer.stdout.splitlines() if line.strip()}
        for number, reason in reasons.items():
            if "held" in reason.lower() and number in self._ours and number not in self._held:
                self._held.add(number)
                self.progress.say(
                    f"Slurm holds job {number} ({reason}); to run it after fixing the cause: scontrol release {number}"
                )
        return set(reasons)


def _message(error: Exception) -> str:
    """Return the error output of a command on one line."""
    return " ".join(str(getattr(error, "stderr", None) or error).split())
