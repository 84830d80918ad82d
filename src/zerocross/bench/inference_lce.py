"""Larq Compute Engine in a process of its own, because TensorFlow and its other packages do not share ours."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from torch import nn
from typing_extensions import Self

from zerocross.bench.inference_process import RivalProcess, layers
from zerocross.bench.inference_turns import Contender

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
        # Larq needs Keras 2, and TensorFlow less talk.
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
        model = self._rival.ask({"build": same | {"threads": threads, "setting": SETTING}}, "model")
        return lambda warm_up, calls: self._rival.ask(
            {"time": {"model": model, "warm_up": warm_up, "calls": calls}}, "seconds"
        )
