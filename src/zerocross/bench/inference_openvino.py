"""OpenVINO in a process of its own: its CPU plugin runs binary convolutions as vector xnor and popcount."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from torch import nn
from typing_extensions import Self

from zerocross.bench.inference_process import RivalProcess, layers
from zerocross.bench.inference_turns import Contender
from zerocross.runtime.format import real_weight
from zerocross.runtime.graph import Graph

WORKER = Path(__file__).with_name("openvino_worker.py")
SETTING = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"}


class OpenVINO:
    """A worker that builds, compiles and times networks with OpenVINO; close it, or use it in a `with`.

    Args:
        python: of an environment that has openvino.
        worker: the script that it runs.
    """

    def __init__(self, python: str | Path, worker: Path = WORKER) -> None:
        self._rival = RivalProcess("OpenVINO", "openvino", python, worker)
        self.versions = self._rival.versions
        self._files = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker."""
        self._rival.close()

    def build(self, graph: Graph, network: nn.Module, batch: int, threads: int) -> OpenVINONetwork:
        """Return a packed network as OpenVINO builds it, with the same weights.

        The worker refuses what does not have the same layers as the network in PyTorch, and what OpenVINO would not run
        with bits.

        Args:
            graph: the packed network.
            network: the same in PyTorch.
            batch: images of a call.
            threads: of OpenVINO.
        """
        setting = SETTING | {"INFERENCE_NUM_THREADS": str(threads)}
        nodes = [[node.op, node.inputs, node.output, dict(node.attrs), dict(node.tensors)] for node in graph.nodes]
        request = {
            "nodes": nodes, "arrays": self._arrays(graph), "output": graph.output,
            "layers": layers(network, graph.input_size), "batch": batch, "setting": setting,
        }  # fmt: skip
        return OpenVINONetwork(self._rival, self._rival.ask({"build": request}, "model"))

    def _arrays(self, graph: Graph) -> str:
        """Write the tensors to a file: bits as they are, real weights as float32."""
        tensors: dict[str, Any] = dict(graph.tensors)
        for node in graph.nodes:
            if "weight" in node.tensors and not node.op.startswith("binary"):
                tensors[node.tensors["weight"]] = real_weight(graph, node)
        self._files += 1
        path = self._rival.folder / f"network-{self._files}.npz"
        np.savez(path, **tensors, input_size=np.array(graph.input_size))
        return str(path)


class OpenVINONetwork:
    """A network in OpenVINO's process: a contender, and a function of batches."""

    def __init__(self, rival: RivalProcess, model: int) -> None:
        self._rival, self._model = rival, model

    @property
    def contender(self) -> Contender:
        """It times itself inside its process: pipes do not count."""
        return lambda warm_up, calls: self._rival.ask(
            {"time": {"model": self._model, "warm_up": warm_up, "calls": calls}}, "seconds"
        )

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return its output for a batch, on which it is timed from then on."""
        paths = [self._rival.folder / name for name in ("x.npy", "y.npy")]
        np.save(paths[0], x)
        written = {"model": self._model, "x": str(paths[0]), "y": str(paths[1])}
        return np.load(self._rival.ask({"output": written}, "written"))
