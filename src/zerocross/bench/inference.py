"""Packed networks beside OpenVINO, Larq Compute Engine, ONNX Runtime and PyTorch: a layer, networks, 1 thread and 2."""

from __future__ import annotations

import importlib.util
import logging
import os
import statistics
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zerocross import compiler, models
from zerocross.bench.inference_c import c_contenders
from zerocross.bench.inference_footprint import Footprints, measure_footprints
from zerocross.bench.inference_layer import LayerTimes, measure_layer
from zerocross.bench.inference_lce import NETWORKS, SETTING, THREADS, LarqComputeEngine
from zerocross.bench.inference_limit import LimitTimes, measure_limit
from zerocross.bench.inference_openvino import SETTING as OPENVINO_SETTING
from zerocross.bench.inference_openvino import OpenVINO
from zerocross.bench.inference_random import randomize
from zerocross.bench.inference_turns import Contender, in_turn, timed
from zerocross.bench.target import Target
from zerocross.deploy import pack
from zerocross.models.registry import MODELS
from zerocross.runtime.model import Model

CASES = (("birealnet20", 1), ("birealnet20", 256), ("birealnet18", 1), ("reactnet_a", 1))
TARGET_NETWORK = {"birealnet20": 4.0, "birealnet18": 5.0, "reactnet_a": 3.0}  # x compiled float PyTorch, one thread
TARGET_LCE = {"birealnet18": 4.0}  # x Larq Compute Engine, one thread
TARGET_OPENVINO = {"zerocross": 1.5, "zerocross-int8": 2.0}  # x OpenVINO, one thread; its real layers are float32
TARGET_LAYER = 6.0  # x PyTorch's float convolution alone
TARGET_THREADS = 1.7  # two threads over one
TARGET_SHARE = 0.70  # of the popcount limit, by the product of bit matrices
TARGET_MEMORY = 0.25  # of what PyTorch takes above its imports

LABELS = {
    "zerocross": "zerocross, packed",
    "zerocross-int8": "zerocross, packed, real layers int8",
    "zerocross-1": "zerocross, packed, 1 thread",
    "c": "zerocross, C file",
    "c-native": "zerocross, C file, -march=native",
    "openvino": "OpenVINO",
    "lce": "Larq Compute Engine",
    "eager": "PyTorch, eager",
    "compiled": "PyTorch, compiled",
    "twin-eager": "full-precision twin, eager",
    "twin-compiled": "full-precision twin, compiled",
    "twin-onnx": "full-precision twin, ONNX Runtime",
}
_FLOAT_COMPILED = ("compiled", "twin-compiled")


@dataclass(frozen=True)
class NetworkTimes:
    """Seconds of a call of each contender in each turn, and how far the packed network's logits are from others'."""

    model: str
    batch: int
    threads: int
    seconds: dict[str, list[float]]
    difference: float  # from PyTorch's, the largest of a logit
    openvino_difference: float | None = None  # from OpenVINO's

    def median(self, key: str) -> float:
        """The median of a contender's seconds."""
        return statistics.median(self.seconds[key])

    def speedup(self, of: Callable[[list[float]], float] = statistics.median) -> float | None:
        """How many times faster than the faster of the compiled float networks; None where nothing was compiled."""
        rivals = [of(self.seconds[key]) for key in _FLOAT_COMPILED if key in self.seconds]
        return min(rivals) / of(self.seconds["zerocross"]) if rivals else None


@dataclass(frozen=True)
class InferenceTimes:
    """All that one run measured."""

    rounds: int
    load: tuple[float, float]  # the machine's load average before and after
    limit: LimitTimes
    layer: LayerTimes
    networks: list[NetworkTimes]
    footprints: Footprints | None
    lce: dict[str, str] | None = None  # versions of its packages, where it took part
    openvino: dict[str, str] | None = None  # likewise

    def claims(self) -> list[Target]:
        """The promises, with the medians of this run."""
        found = [
            Target("product of bit matrices, share of the popcount limit", self.limit.share, TARGET_SHARE),
            Target("256 -> 256 layer, x PyTorch's float convolution", self.layer.speedup, TARGET_LAYER),
        ]
        for run in self.networks:
            what = f"{run.model}, batch {run.batch}"
            speedup = run.speedup()
            if run.threads == 1 and speedup is not None and run.model in TARGET_NETWORK:
                text = f"{what}, one thread, x compiled float PyTorch"
                found.append(Target(text, speedup, TARGET_NETWORK[run.model]))
            if run.threads == 1 and "lce" in run.seconds and run.model in TARGET_LCE:
                ratio = run.median("lce") / run.median("zerocross")
                found.append(Target(f"{what}, one thread, x Larq Compute Engine", ratio, TARGET_LCE[run.model]))
            if run.threads == 1 and "openvino" in run.seconds:
                for key in [key for key in TARGET_OPENVINO if key in run.seconds]:
                    text = f"{what}, one thread, {'float32' if key == 'zerocross' else 'int8'}, x OpenVINO"
                    ratio = run.median("openvino") / run.median(key)
                    found.append(Target(text, ratio, TARGET_OPENVINO[key]))
            if run.threads == 2:  # both in the same turns: what the machine has left for a second thread varies
                gain = run.median("zerocross-1") / run.median("zerocross")
                found.append(Target(f"{what}, two threads, x one", gain, TARGET_THREADS))
        if self.footprints is not None:
            share = self.footprints.ours.own / self.footprints.torch.own
            text = f"{self.footprints.model}, memory above the imports, x PyTorch's"
            found.append(Target(text, share, TARGET_MEMORY, at_least=False))
        return found

    def as_dict(self) -> dict[str, Any]:
        """Everything, in plain values for a file."""
        networks = [
            {
                "model": run.model, "batch": run.batch, "threads": run.threads, "difference": run.difference,
                "openvino_difference": run.openvino_difference,
                "median_ms": {key: 1e3 * run.median(key) for key in run.seconds},
                "fastest_ms": {key: 1e3 * min(times) for key, times in run.seconds.items()},
            }
            for run in self.networks
        ]  # fmt: skip
        products = [{"shape": list(shape), "gmacs": rate} for shape, rate in self.limit.products.items()]
        return {
            "rounds": self.rounds,
            "load": list(self.load),
            "popcount_limit": {"gmacs": self.limit.limit, "products": products, "share": self.limit.share},
            "layer_ms": self.layer.milliseconds(),
            "networks": networks,
            "openvino": None if self.openvino is None else {"versions": self.openvino, **OPENVINO_SETTING},
            "lce": None if self.lce is None else {"versions": self.lce, **SETTING},
            "footprints": None if self.footprints is None else self.footprints.as_dict(),
            "claims": [asdict(claim) | {"met": claim.met} for claim in self.claims()],
        }


def measure(
    cases: Sequence[tuple[str, int]] = CASES,
    rounds: int = 30,
    threads: Sequence[int] = (1, 2),
    *,
    compile_: bool = True,
    footprint: str | None = "birealnet18",
    lce: str | Path | None = None,
    openvino: str | Path | None = None,
    say: Callable[[str], object] = str,
) -> InferenceTimes:
    """Measure everything; contenders take turns, so that whatever else the machine does hits all of them.

    Args:
        cases: models of the registry, and images in a batch.
        rounds: turns of each contender, >= 1.
        threads: how many threads to measure with, one after the other.
        compile_: False leaves out compiled PyTorch and ONNX Runtime (a quick look, or where there is no compiler).
        footprint: a model whose memory and time to the first prediction are measured, or None.
        lce: the python of an environment that has Larq Compute Engine, or None to leave that out.
        openvino: likewise of one that has OpenVINO.
        say: told what is going on.
    """
    if rounds < 1:
        raise ValueError(f"rounds = {rounds}: it must be at least 1")
    before, load = torch.get_num_threads(), _load()
    with (
        LarqComputeEngine(lce) if lce else nullcontext() as larq,
        OpenVINO(openvino) if openvino else nullcontext() as vino,
    ):
        try:
            say("the popcount limit, and products of bit matrices")
            limit = measure_limit(max(20, 4 * rounds))
            say("one layer")
            layer = measure_layer(max(20, 4 * rounds), larq, vino)
            networks = []
            for model, batch in cases:
                for count in threads:
                    plural = "s" if count > 1 else ""
                    say(f"{model}, batch {batch}, {count} thread{plural}")
                    times = measure_network(model, batch, count, rounds, compile_=compile_, lce=larq, openvino=vino)
                    networks.append(times)
        finally:
            torch.set_num_threads(before)
    if footprint:
        say(f"memory and time to the first prediction of {footprint}, in processes of their own")
    footprints = measure_footprints(footprint) if footprint else None
    versions = (rival.versions if rival else None for rival in (larq, vino))
    return InferenceTimes(rounds, (load, _load()), limit, layer, networks, footprints, *versions)


def measure_network(
    name: str,
    batch: int,
    threads: int,
    rounds: int,
    *,
    compile_: bool = True,
    lce: LarqComputeEngine | None = None,
    openvino: OpenVINO | None = None,
) -> NetworkTimes:
    """Time a network of the registry in all its forms on the same input, in turn.

    Args:
        name: of the model.
        batch: images in a batch.
        threads: of every contender.
        rounds: turns of each.
        compile_: whether compiled PyTorch and, where it is installed, ONNX Runtime take part.
        lce: takes part where it knows the network, with one image.
        openvino: takes part with any batch.
    """
    torch.compiler.reset()  # compiled code of other networks counts against a limit, beyond which all is eager
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    size = MODELS[name].input_shape
    x = torch.randn(batch, *size)
    network, twin = (randomize(models.create(name, binarize=how), size) for how in ("both", "none"))
    graph = pack(network, size).graph
    packed = Model(graph, threads)
    array = x.numpy()
    octets = Model(pack(network, size, real="int8").graph, threads)
    contenders: dict[str, Callable[[], Any]] = {
        "zerocross": lambda: packed(array),
        "zerocross-int8": lambda: octets(array),
    }
    if threads > 1:
        alone = Model(graph)
        contenders["zerocross-1"] = lambda: alone(array)
    if threads == 1 and batch == 1 and compile_:
        contenders |= c_contenders(graph, array)
    contenders |= {"eager": lambda: network(x), "twin-eager": lambda: twin(x)}
    if compile_:
        # Freezing folds batch norm into the convolutions: the best that PyTorch offers here.
        fast, fast_twin = (compiler.compiled(model, options={"freezing": True}) for model in (network, twin))
        contenders |= {"compiled": lambda: fast(x), "twin-compiled": lambda: fast_twin(x)}
    with torch.no_grad():
        session = _onnx_session(twin, x, threads) if compile_ else None
        if session is not None:
            contenders["twin-onnx"] = lambda: session(array)
        turns: dict[str, Contender] = {key: timed(call) for key, call in contenders.items()}
        if lce is not None and batch == 1 and name in NETWORKS and threads in THREADS:
            turns["lce"] = lce.build(name, network, size, threads)
        rival = None if openvino is None else openvino.build(graph, network, batch, threads)
        if rival is not None:
            turns["openvino"] = rival.contender
        for contender in turns.values():
            contender(1, 1)
        seconds = in_turn(turns, rounds)
        y = packed(array)
        difference = float(np.abs(y - network(x).numpy()).max())
        from_openvino = None if rival is None else float(np.abs(y - rival(array)).max())
    order = [key for key in LABELS if key in seconds]
    return NetworkTimes(name, batch, threads, {key: seconds[key] for key in order}, difference, from_openvino)


def _onnx_session(model: nn.Module, x: Tensor, threads: int) -> Callable[[np.ndarray], Any] | None:
    """ONNX Runtime on a network, or None where it, or what exports to it, is not installed."""
    if not all(importlib.util.find_spec(package) for package in ("onnx", "onnxscript", "onnxruntime")):
        return None
    runtime: Any = importlib.import_module("onnxruntime")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it misses torchvision, which nothing here needs
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(model, (x,), path, dynamo=True, verbose=False)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda array: session.run(None, {name: array})


def _load() -> float:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
