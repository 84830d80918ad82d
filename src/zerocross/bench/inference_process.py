"""A rival in a process of its own, with a python of its own: its packages need not fit ours."""

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
    """A worker script that answers requests, one line of JSON each; close it when it is no longer needed.

    Args:
        label: what it is called in errors.
        package: what its python must have.
        python: of an environment that has the package.
        worker: the script.
        setting: variables of its environment, as NAME=value.
    """

    def __init__(
        self, label: str, package: str, python: str | Path, worker: Path, setting: tuple[str, ...] = ()
    ) -> None:
        found = shutil.which(python)
        if found is None:
            raise FileNotFoundError(f"{python}: no such python; give one that has {package} (docs/deploy.md)")
        self.label, self.python = label, str(python)
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed in close()
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)  # for files that are exchanged, and those that it would leave behind
        # env: it adds to the environment, which is not for the library to read. -I: nothing but that environment's own
        # packages.
        self.process = subprocess.Popen(
            ["env", *setting, f"TMPDIR={self.folder}", found, "-I", str(worker)],
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
        """Return the field `what` of the answer to a request; ValueError with the reason where there is none."""
        with suppress(BrokenPipeError):  # where it has ended there is no answer, and that is told
            self._requests.write(json.dumps(request) + "\n")
            self._requests.flush()
        return self._answer(what)

    def _answer(self, what: str) -> Any:
        line = self._answers.readline()
        if not line:
            raise ValueError(f"{self.python}: {self.label}'s process has ended ({self._last_words()})")
        try:
            answer = json.loads(line)
            if "error" in answer:
                raise ValueError(f"{self.python}: {self.label}: {answer['error']}")
            return answer[what]
        except (json.JSONDecodeError, KeyError, TypeError):
            raise ValueError(f"{self.python}: expected {what!r} from the worker, not {line.strip()[:200]!r}") from None

    def _last_words(self) -> str:
        code = self.process.wait()
        self._errors.seek(0)
        said = [line.strip() for line in self._errors if line.strip()]
        return f"exit code {code}" + (f": {said[-1][:300]}" if said else "")


def layers(network: nn.Module, size: tuple[int, ...]) -> list[list[Any]]:
    """Return a network's convolutions and linear layers: binary, channels in and out, kernel, stride, size out."""
    found: list[list[Any]] = []

    def note(layer: nn.Module, _: Any, output: torch.Tensor) -> None:
        if isinstance(layer, nn.Conv2d):
            shape = [layer.in_channels, layer.out_channels, layer.kernel_size[0], layer.stride[0], output.shape[2]]
            found.append([isinstance(layer, BinaryConv2d), *shape])
        elif isinstance(layer, nn.Linear):
            found.append([False, layer.in_features, layer.out_features, 1, 1, 1])

    handles = [layer.register_forward_hook(note) for layer in network.modules()]
    with torch.no_grad():
        network(torch.zeros(1, *size))
    for handle in handles:
        handle.remove()
    return found
