"""Start real `zerocross` processes quickly: one process imports everything once, and forks for each command.

A forked command is an ordinary process (it can be killed with SIGKILL, stopped with SIGTERM, fill a disk), but does
not spend five seconds on imports. `Forks` is used by tests; this file, run as a script, is the server.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Command:
    """A running `zerocross` command."""

    forks: Forks
    pid: int
    log: Path

    def wait(self, timeout: float = 600.0) -> int:
        """Return the exit code, or minus the signal that ended the process."""
        code = self.forks.ask(wait=self.pid, timeout=timeout)
        if code is None:
            self.kill(signal.SIGKILL)
            raise TimeoutError(f"still running after {timeout} s; its output: {self.output()}")
        return code

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def is_running(self) -> bool:
        return self.forks.ask(wait=self.pid, timeout=0.0) is None

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")


class Forks:
    """Starts commands in separate processes."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        self.server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._started: list[Command] = []

    def ask(self, **request: Any) -> Any:
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        return json.loads(self.server.stdout.readline())

    def start(self, folder: Path, *argv: object, patch: str = "", **environment: str) -> Command:
        """Start `zerocross argv...` in a folder; `patch` is Python code that runs first in the process."""
        output = folder / f"output-{len(self._started)}.txt"
        pid = self.ask(
            argv=[str(word) for word in argv], cwd=str(folder), output=str(output), patch=patch, environment=environment
        )
        self._started.append(Command(self, pid, output))
        return self._started[-1]

    def start_two(self, folder: Path, *argv: object, patch: str = "") -> list[Command]:
        """Start the two processes of a run as torchrun would."""
        port = str(free_port())
        return [
            self.start(
                folder, *argv, patch=patch, RANK=rank, LOCAL_RANK=rank, WORLD_SIZE="2", LOCAL_WORLD_SIZE="2",
                GROUP_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=port, TORCHELASTIC_RUN_ID="test",
            )
            for rank in ("0", "1")
        ]  # fmt: skip

    def close(self) -> None:
        """Stop the server, and every command that a failed test has left running."""
        for command in self._started:
            if command.is_running():
                command.kill(signal.SIGKILL)
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait(timeout=600)


# A run of 33 updates in a second: one line of metrics per update, a checkpoint every 4.
SMALL = (
    "--epochs", "3", "--compile", "off", "--set", "model.options.width=4", "--set", "batch_size=128",
    "--set", "log_every=1", "--set", "checkpoint_every=4",
)  # fmt: skip


# Each update takes a little longer, so that a signal arrives during the intended update.
UNHURRIED = """
import time
from zerocross.train.record import Record
write = Record.write
def unhurried(self, *words, **values):
    write(self, *words, **values)
    time.sleep(0.02)
Record.write = unhurried
"""


def updates(run: Path) -> int:
    """Return the number of updates that a run has logged."""
    path = run / "metrics.jsonl"
    return path.read_text(encoding="utf-8").count('"train"') if path.exists() else 0


def metrics(run: Path) -> list[dict[str, Any]]:
    """Return the lines of metrics without the one value that differs between equal runs."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in line.items() if key != "images_per_second"} for line in lines]


def bits(run: Path) -> tuple[bytes, list[dict[str, Any]]]:
    """Return all of a finished run that a repetition must reproduce bit-exactly."""
    return (run / "model.safetensors").read_bytes(), metrics(run)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition: Any, timeout: float = 600.0) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.002)


def _serve() -> None:
    ended: dict[int, int] = {}
    answers = os.fdopen(os.dup(1), "w")
    for text in sys.stdin:
        request = json.loads(text)
        if "wait" in request:
            answer = _wait(ended, request["wait"], request["timeout"])
        else:
            answer = os.fork()
            if answer == 0:
                _become(request)
                return
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _wait(ended: dict[int, int], pid: int, timeout: float) -> int | None:
    deadline = time.monotonic() + timeout
    while pid not in ended:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            ended[pid] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() > deadline:
            return None
        else:
            time.sleep(0.005)
    return ended[pid]


def _become(request: dict[str, Any]) -> None:
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    sys.argv = ["zerocross", *request["argv"]]
    exec(request["patch"], {})
    code = app.run(request["argv"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # an ordinary exit would tear down, and copy, everything that was imported


if __name__ == "__main__":
    import torch

    from zerocross.cli import app

    for module in ("matplotlib.pyplot", "sklearn.datasets", "zerocross.train.run"):
        importlib.import_module(module)
    torch.set_num_threads(1)
    _serve()
