"""Larq Compute Engine in a process of its own, because TensorFlow and its other packages do not share ours."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

import torch
from torch import nn

from zerocross.bench.inference_turns import Contender
from zerocross.nn import BinaryConv2d

WORKER = Path(__file__).with_name("lce_worker.py")
NETWORKS = ("birealnet18", "birealnet20", "reactnet_a")
THREADS = (1, 2)  # with more of them LCE has been seen to crash
SETTING = {"use_indirect_bgemm": True, "use_xnnpack": True}  # its best on x86; by default it takes 6 times as long


class LarqComputeEngine:
    """A worker that builds, converts and times networks with Larq Compute Engine; close it, or use it in a `with`.

    Args:
        python: of an environment that has larq-compute-engine, larq, tensorflow and tf-keras.
        worker: the script that it runs.
    """

    def __init__(self, python: str | Path, worker: Path = WORKER) -> None:
        found = shutil.which(python)
        if found is None:
            raise FileNotFoundError(f"{python}: no such python; give one that has larq-compute-engine (docs/deploy.md)")
        self.python = str(python)
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed in close()
        self._folder = tempfile.TemporaryDirectory()  # for the files that TensorFlow would leave behind
        # env: it adds to the environment, which is not for the library to read. Larq needs Keras 2, and TensorFlow
        # less talk. -I: nothing but that environment's own packages.
        setting = ("TF_USE_LEGACY_KERAS=1", "TF_CPP_MIN_LOG_LEVEL=3", f"TMPDIR={self._folder.name}")
        self._process = subprocess.Popen(
            ["env", *setting, found, "-I", str(worker)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
        )  # fmt: skip
        self._requests, self._answers = (cast("IO[str]", pipe) for pipe in (self._process.stdin, self._process.stdout))
        try:
            self.versions: dict[str, str] = self._answer("versions")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()
        self._folder.cleanup()

    def build(self, name: str, network: nn.Module, size: tuple[int, ...], threads: int) -> Contender:
        """Return a contender: this network, as Larq builds it, on one image.

        The worker refuses what does not have the same layers and the same number of parameters, and what LCE would not
        run with bits.

        Args:
            name: one of `NETWORKS`, or layers-N.
            network: the same in PyTorch.
            size: (C, H, W) of an image.
            threads: of the interpreter, one of `THREADS`.
        """
        parameters = sum(parameter.numel() for parameter in network.parameters())
        same = {"network": name, "layers": layers(network, size), "parameters": parameters}
        model = self._ask({"build": same | {"threads": threads, "setting": SETTING}}, "model")
        return lambda warm_up, calls: self._ask(
            {"time": {"model": model, "warm_up": warm_up, "calls": calls}}, "seconds"
        )

    def _ask(self, request: dict[str, Any], what: str) -> Any:
        with suppress(BrokenPipeError):  # where it has ended there is no answer, and that is told
            self._requests.write(json.dumps(request) + "\n")
            self._requests.flush()
        return self._answer(what)

    def _answer(self, what: str) -> Any:
        line = self._answers.readline()
        if not line:
            raise ValueError(f"{self.python}: Larq Compute Engine's process has ended ({self._last_words()})")
        try:
            answer = json.loads(line)
            if "error" in answer:
                raise ValueError(f"{self.python}: Larq Compute Engine: {answer['error']}")
            return answer[what]
        except (json.JSONDecodeError, KeyError, TypeError):
            raise ValueError(f"{self.python}: expected {what!r} from the worker, not {line.strip()[:200]!r}") from None

    def _last_words(self) -> str:
        code = self._process.wait()
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
