"""Memory and time to the first prediction of a packed network and of PyTorch, each in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from zerocross import models
from zerocross.deploy import pack
from zerocross.models.registry import MODELS

_STATUS = """
import json, time
def status(field):
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))
"""
_OURS = """
import numpy
from zerocross.runtime import load
from zerocross.runtime.kernels.native import load_run
load_run(str)  # load the kernels, as importing torch does
imported = status("VmRSS")
model = load({path!r})
model(numpy.zeros((1, *{size!r}), numpy.float32))
"""
_TORCH = """
import torch
from zerocross import models
torch.set_num_threads(1)
imported = status("VmRSS")
model = models.create({name!r}, binarize={binarize!r})
model.load_state_dict(torch.load({path!r}, weights_only=True, mmap=True))
model.eval()
with torch.no_grad():
    model(torch.zeros((1, *{size!r})))
"""
_END = """
print(json.dumps({"done": time.time(), "imported": imported, "resident": status("VmRSS"), "peak": status("VmHWM")}))
"""


@dataclass(frozen=True)
class Footprint:
    """Seconds and memory of a process that imports the library, loads a network and predicts once."""

    seconds: float  # from the start of the process
    imported: int  # bytes resident after the imports
    resident: int  # bytes resident at the end
    peak: int  # peak of resident bytes

    @property
    def own(self) -> int:
        """Bytes that the network takes in addition to the imports."""
        return self.resident - self.imported


@dataclass(frozen=True)
class Footprints:
    """Footprints of the packed network, and of PyTorch with the same network and with its full-precision twin."""

    model: str
    ours: Footprint
    torch: Footprint
    twin: Footprint

    def as_dict(self) -> dict[str, Any]:
        """Return all measurements as plain values for a file."""
        return asdict(self)


def measure_footprints(name: str = "birealnet18") -> Footprints | None:
    """Measure a network of the registry with warm disk caches; return None if /proc is not available.

    Args:
        name: Name of a model in `zerocross.models`.
    """
    if not Path("/proc/self/status").exists():
        return None
    size = MODELS[name].input_shape
    with tempfile.TemporaryDirectory() as folder:
        packed, state, twin = (Path(folder) / file for file in ("packed.zcb", "binary.pt", "twin.pt"))
        network, float_network = models.create(name), models.create(name, binarize="none")
        pack(network, size).save(packed)
        _save(network, state)
        _save(float_network, twin)
        ours = _OURS.format(path=str(packed), size=size)
        _run(ours)  # compiles if necessary
        return Footprints(
            model=name,
            ours=_run(ours),
            torch=_run(_TORCH.format(path=str(state), size=size, name=name, binarize="both")),
            twin=_run(_TORCH.format(path=str(twin), size=size, name=name, binarize="none")),
        )


def _save(network: nn.Module, path: Path) -> None:
    torch.save(network.state_dict(), path)


def _run(code: str) -> Footprint:
    began = time.time()
    done = subprocess.run([sys.executable, "-c", _STATUS + code + _END], capture_output=True, text=True, check=True)
    values = json.loads(done.stdout.splitlines()[-1])
    return Footprint(values["done"] - began, values["imported"], values["resident"], values["peak"])
