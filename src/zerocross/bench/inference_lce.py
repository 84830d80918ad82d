"""Larq Compute Engine in its own process, since it needs other versions of packages than zerocross."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from torch import nn
from typing_extensions import Self

from zerocross.bench.inference_process import RivalProcess, layers
from zerocross.bench.inference_turns import Contender

WORKER = Path(__file__).with_name("lce_worker.py")
NETWORKS = ("birealnet18", "birealnet20", "reactnet_a")
THREADS = (1, 2)  # LCE has crashed with more threads
SETTING = {"use_indirect_bgemm": True, "use_xnnpack": True}  # its fastest on x86; the default takes 6 times as long


class LarqComputeEngine:
    """A worker that builds, converts and times networks with Larq Compute Engine; a context manager.

    Args:
        python: Interpreter of an environment with larq-compute-engine, larq, tensorflow and tf-keras.
        worker: The script that it runs.
    """

    def __init__(self, python: str | Path, worker: Path = WORKER) -> None:
        # Larq needs Keras 2; the log level silences TensorFlow's messages.
        setting = ("TF_USE_LEGACY_KERAS=1", "TF_CPP_MIN_LOG_LEVEL=3")
        self._rival = RivalProcess("Larq Compute Engine", "larq-compute-engine", python, worker, setting)
        self.versions = self._rival.versions

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker."""
        self._rival.close()

    def build(self, name: str, network: nn.Module, size: tuple[int, ...], threads: int) -> Contender:
        """Return a contender: this network, as built by Larq, on one image.

        The worker raises an error if the layers or the number of parameters differ, or if LCE would not run the binary
        convolutions on bits.

        Args:
            name: One of `NETWORKS`, or layers-N.
            network: The same network in PyTorch.
            size: Shape (C, H, W) of an image.
            threads: Threads of the interpreter, one of `THREADS`.
        """
        parameters = sum(parameter.numel() for parameter in network.parameters())
        same = {"network": name, "layers": layers(network, size), "parameters": parameters}
        model = self._rival.ask({"build": same | {"threads": threads, "setting": SETTING}}, "model")
        return lambda warm_up, calls: self._rival.ask(
            {"time": {"model": model, "warm_up": warm_up, "calls": calls}}, "seconds"
        )
