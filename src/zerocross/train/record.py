"""The record of a run: metrics line by line as JSON, passed on to loggers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zerocross.train.loggers import MetricLogger, numbers, open_loggers


class Record:
    """Metrics of a run, in memory and, if there is a folder, in metrics.jsonl.

    Args:
        folder: The run folder; None keeps the metrics in memory only.
        seen: The state of the record in a checkpoint, from `Record.seen`. Later lines are dropped: a resumed run writes
            them again.
        log: Names of loggers ("tensorboard", "wandb", "mlflow"), or loggers; see zerocross.train.loggers.
    """

    def __init__(
        self,
        folder: Path | None,
        seen: dict[str, Any] | None = None,
        *,
        log: Sequence[str | MetricLogger] = (),
    ) -> None:
        seen = seen or {"bytes": 0, "seconds": 0.0, "updates": 0}
        self.lines: list[dict[str, Any]] = []
        self._started = time.monotonic() - seen["seconds"]
        self._file = None
        self._loggers = open_loggers(log, folder, seen["updates"])
        if folder is None:
            return
        path = folder / "metrics.jsonl"
        if path.exists():
            self.lines = parse_lines(path.read_bytes()[: seen["bytes"]])
        folder.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        self._file.truncate(min(seen["bytes"], self._file.tell()))

    @property
    def seconds(self) -> float:
        """Duration of the run so far, including the time before it was resumed."""
        return time.monotonic() - self._started

    def seen(self, updates: int) -> dict[str, Any]:
        """Return the state of the record after `updates` updates, for a checkpoint."""
        size = self._file.seek(0, os.SEEK_END) if self._file is not None else 0
        return {"bytes": size, "seconds": self.seconds, "updates": updates}

    def write(self, kind: str, **values: Any) -> None:
        """Append one line; kind is "train" (an update) or "eval" (the end of an epoch)."""
        line = {"kind": kind, **values}
        self.lines.append(line)
        if self._file is not None:
            self._file.write(f"{json.dumps(line)}\n".encode())
            self._file.flush()
        for logger in self._loggers:
            logger.log(numbers(kind, values), values["update"])

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return all lines of one kind."""
        return [line for line in self.lines if line["kind"] == kind]

    def close(self) -> None:
        """Close files and loggers."""
        if self._file is not None:
            self._file.close()
        for logger in self._loggers:
            logger.close()


def parse_lines(text: bytes) -> list[dict[str, Any]]:
    """Parse the lines of a metrics.jsonl; a truncated last line, as a killed process leaves it, is ignored."""
    lines = []
    for line in text.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the lines of a metrics.jsonl file; an empty list if it does not exist yet."""
    return parse_lines(path.read_bytes()) if path.exists() else []
