"""The origin of a result, besides its config: commit, package versions, machine, date."""

from __future__ import annotations

import datetime as dt
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch


def provenance() -> dict[str, Any]:
    """Return the commit, package versions, machine and date, to store beside a result."""
    packages = ("zerocross", "torch", "numpy", "scipy", "lightning-fabric")
    return {
        "commit": _commit(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in packages}},
        "machine": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
            "system": platform.system(),
        },
        "date": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _commit() -> str | None:
    """Return the commit of this source, with "+" if there are uncommitted changes; None outside a git checkout."""
    here = Path(__file__).resolve().parent
    try:
        run = [
            subprocess.run(
                ["git", "-C", str(here), *words], capture_output=True, text=True, timeout=10, check=True
            ).stdout
            for words in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "--", str(here)))
        ]
    except (OSError, subprocess.SubprocessError):
        return None
    return run[0].strip() + ("+" if run[1].strip() else "")
