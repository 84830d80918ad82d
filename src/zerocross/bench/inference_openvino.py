"""OpenVINO in its own process; its CPU plugin runs binary convolutions with vector xnor and popcount."""

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
    """A worker that builds, compiles and times networks with OpenVINO; a context manager.

    Args:
        python: Interpreter of an environment with openvino.
        worker: The script that it runs.
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
        """Return a packed network as built by OpenVINO, with the same weights.

        The worker raises an error if the layers differ from those of the network in PyTorch, or if OpenVINO would not
        run the binary convolutions on bits.

        Args:
            graph: The packed network.
            network: The same network in PyTorch.
            batch: Images per call.
            threads: Threads of OpenVINO.
        """
        setting = SETTING | {"INFERENCE_NUM_THREADS": str(threads)}
        nodes = [[node.op, node.inputs, node.output, dict(node.attrs), dict(node.tensors)] for node in graph.nodes]
        request = {
            "nodes": nodes, "arrays": self._arrays(graph), "output": graph.output,
            "layers": layers(network, graph.input_size), "batch": batch, "setting": setting,
        }  # fmt: skip
        return OpenVINONetwork(self._rival, self._rival.ask({"build": request}, "model"))

    def _arrays(self, graph: Graph) -> str:
        """Write the tensors to a file and return its path: bits unchanged, real weights as float32."""
        tensors: dict[str, Any] = dict(graph.tensors)
        for node in graph.nodes:
            if "weight" in node.tensors and not node.op.startswith("binary"):
                tensors[node.tensors["weight"]] = real_weight(graph, node)
        self._files += 1
        path = self._rival.folder / f"network-{self._files}.npz"
        np.savez(path, **tensors, input_size=np.array(graph.input_size))
        return str(path)


class OpenVINONetwork:
    """A network in OpenVINO's process, which can be timed and called."""

    def __init__(self, rival: RivalProcess, model: int) -> None:
        self._rival, self._model = rival, model

    @property
    def contender(self) -> Contender:
        """The network as a contender; it is timed inside its process, without the cost of the pipes."""
        return lambda warm_up, calls: self._rival.ask(
            {"time": {"model": self._model, "warm_up": warm_up, "calls": calls}}, "seconds"
        )

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the output for a batch; later timings use the same batch."""
        paths = [self._rival.folder / name for name in ("x.npy", "y.npy")]
        np.save(paths[0], x)
        written = {"model": self._model, "x": str(paths[0]), "y": str(paths[1])}
        return np.load(self._rival.ask({"output": written}, "written"))
