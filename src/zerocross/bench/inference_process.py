"""Another engine in its own process and Python environment, so that its packages need not be compatible with ours."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

import torch
from torch import nn

from zerocross.nn import BinaryConv2d


class RivalProcess:
    """A worker script that answers requests, one line of JSON each; close it after use.

    Args:
        label: Name of the engine in error messages.
        package: Package that its environment must have.
        python: Interpreter of an environment with the package.
        worker: The script.
        setting: Environment variables of the process, as NAME=value.
    """

    def __init__(
        self, label: str, package: str, python: str | Path, worker: Path, setting: tuple[str, ...] = ()
    ) -> None:
        interpreter = shutil.which(python)
        if interpreter is None:
            raise FileNotFoundError(
                f"{python}: no such Python interpreter; pass one whose environment has {package} (docs/deploy.md)"
            )
        self.label, self.python = label, str(python)
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed in close()
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)  # for exchanged files and the worker's temporary files
        # `env` extends the environment without reading it here; -I restricts imports to that environment's packages.
        self.process = subprocess.Popen(
            ["env", *setting, f"TMPDIR={self.folder}", interpreter, "-I", str(worker)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
        )  # fmt: skip
        self._requests, self._answers = (cast("IO[str]", pipe) for pipe in (self.process.stdin, self.process.stdout))
        try:
            self.versions: dict[str, str] = self._answer("versions")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the worker."""
        self.process.kill()
        self.process.communicate()
        self._errors.close()
        self._folder.cleanup()

    def ask(self, request: dict[str, Any], what: str) -> Any:
        """Return the field `what` of the answer to a request; raise a ValueError with the reason if there is none."""
        with suppress(BrokenPipeError):  # the process has ended: `_answer` reports it
            self._requests.write(json.dumps(request) + "\n")
            self._requests.flush()
        return self._answer(what)

    def _answer(self, what: str) -> Any:
        line = self._answers.readline()
        if not line:
            raise ValueError(f"{self.python}: the process of {self.label} has ended ({self._exit_message()})")
        try:
            answer = json.loads(line)
            if "error" in answer:
                raise ValueError(f"{self.python}: {self.label}: {answer['error']}")
            return answer[what]
        except (json.JSONDecodeError, KeyError, TypeError):
            raise ValueError(f"{self.python}: expected {what!r} from the worker, not {line.strip()[:200]!r}") from None

    def _exit_message(self) -> str:
        code = self.process.wait()
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors if line.strip()]
        return f"exit code {code}" + (f": {lines[-1][:300]}" if lines else "")


def layers(network: nn.Module, size: tuple[int, ...]) -> list[list[Any]]:
    """Return a network's convolutions and linear layers: binary, channels in and out, kernel, stride, output size."""
    rows: list[list[Any]] = []

    def note(layer: nn.Module, _: Any, output: torch.Tensor) -> None:
        if isinstance(layer, nn.Conv2d):
            shape = [layer.in_channels, layer.out_channels, layer.kernel_size[0], layer.stride[0], output.shape[2]]
            rows.append([isinstance(layer, BinaryConv2d), *shape])
        elif isinstance(layer, nn.Linear):
            rows.append([False, layer.in_features, layer.out_features, 1, 1, 1])

    handles = [layer.register_forward_hook(note) for layer in network.modules()]
    with torch.no_grad():
        network(torch.zeros(1, *size))
    for handle in handles:
        handle.remove()
    return rows
