"""A Slurm cluster of one node on this machine: munged, slurmctld and slurmd on loopback, in its own folder."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from typing_extensions import Self

from forks import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel")
_SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin")  # folders of daemons, which are not on every user's PATH


def missing() -> str:
    """Return the reason why no cluster can be started on this machine; empty if one can."""
    if lost := [name for name in PROGRAMS if _find(name) is None]:
        return f"no Slurm here, without {', '.join(lost)}: .ci/slurm installs it (Debian, root)"
    return ""


class Cluster:
    """A cluster as a context manager; it stops only processes that it has started itself.

    Args:
        folder: Empty folder with a short path, since it contains a socket.
        cpus: Number of processors that the node claims to have.
    """

    def __init__(self, folder: Path, cpus: int = 4) -> None:
        self.folder = folder
        self.user = pwd.getpwuid(os.getuid()).pw_name
        self.host = socket.gethostname().partition(".")[0]
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("state", "spool"):
            (folder / name).mkdir()
        (folder / "munge.key").write_bytes(os.urandom(64))
        (folder / "munge.key").chmod(0o400)
        (folder / "slurm.conf").write_text(_CONFIG.format(
            folder=folder, user=self.user, host=self.host, cpus=cpus, controller=free_port(), node=free_port()
        ))  # fmt: skip

    def __enter__(self) -> Self:
        try:
            key, log = self.folder / "munge.key", self.folder / "munged.log"
            self._start(
                "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder / 'munge.sock'}",
                f"--pid-file={self.folder / 'munged.pid'}", f"--log-file={log}", f"--seed-file={self.folder / 'seed'}",
            )  # fmt: skip
            _until((self.folder / "munge.sock").exists)
            self.start_controller()
            self._start("slurmd", "-D", "-N", "node1")
            _until(lambda: "idle" in self.ask("sinfo", "--noheader", "--format=%t"))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if "slurmd" in self._running and "slurmctld" in self._running:  # jobs of a failed test end with the cluster
            self.ask("scancel", "--me")
            with suppress(TimeoutError):
                _until(lambda: not self.ask("squeue", "--noheader").strip())
        for name in ("slurmd", "slurmctld", "munged"):
            self.stop(name)

    def start_controller(self) -> None:
        """Start slurmctld, which reads the state that an earlier one has saved."""
        self._start("slurmctld", "-D")
        _until(lambda: "UP" in self.ask("scontrol", "ping"))

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        """Stop one of the daemons."""
        process = self._running.pop(name, None)
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def ask(self, *words: str) -> str:
        """Return the output of a Slurm command."""
        program = _find(words[0]) or words[0]
        done = subprocess.run(
            [program, *words[1:]], env={**os.environ, **self.environment}, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    def output(self) -> str:
        """Return the output of the daemons, for the message of a failed test."""
        return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in self.folder.glob("*.out"))

    def _start(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self._running[name] = subprocess.Popen(
                [_find(name) or name, *words], stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env={**os.environ, **self.environment}, start_new_session=True,
            )  # fmt: skip
        time.sleep(0.2)
        if (code := self._running[name].poll()) is not None:
            raise RuntimeError(f"{name} ended with {code}: {self.output()}")


_CONFIG = """\
ClusterName=zerocross
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=100000
JobRequeue=1
KillWait=20
ReturnToService=2
MessageTimeout=60
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node} CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes=node1 Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def _find(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(_SBIN))


def _until(condition: Callable[[], object], timeout: float = 60.0) -> None:
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("Slurm did not start in time")
        time.sleep(0.1)
