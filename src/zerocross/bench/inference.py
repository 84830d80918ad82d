"""Speed of packed networks compared with OpenVINO, Larq Compute Engine, ONNX Runtime and PyTorch."""

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
    """Seconds per call of each contender in each turn, and the largest differences of the packed network's logits."""

    model: str
    batch: int
    threads: int
    seconds: dict[str, list[float]]
    difference: float  # largest difference of a logit from PyTorch
    openvino_difference: float | None = None  # largest difference of a logit from OpenVINO

    def median(self, key: str) -> float:
        """Return the median seconds of a contender."""
        return statistics.median(self.seconds[key])

    def speedup(self, of: Callable[[list[float]], float] = statistics.median) -> float | None:
        """Return the speedup over the faster of the compiled float networks, or None if nothing was compiled."""
        rivals = [of(self.seconds[key]) for key in _FLOAT_COMPILED if key in self.seconds]
        return min(rivals) / of(self.seconds["zerocross"]) if rivals else None


@dataclass(frozen=True)
class InferenceTimes:
    """All measurements of one run."""

    rounds: int
    load: tuple[float, float]  # the machine's load average before and after
    limit: LimitTimes
    layer: LayerTimes
    networks: list[NetworkTimes]
    footprints: Footprints | None
    lce: dict[str, str] | None = None  # versions of its packages; None if it was not measured
    openvino: dict[str, str] | None = None  # versions of its packages; None if it was not measured

    def claims(self) -> list[Target]:
        """Return the targets with the medians of this run."""
        targets = [
            Target("product of bit matrices, share of the popcount limit", self.limit.share, TARGET_SHARE),
            Target("256 -> 256 layer, x PyTorch's float convolution", self.layer.speedup, TARGET_LAYER),
        ]
        for run in self.networks:
            what = f"{run.model}, batch {run.batch}"
            speedup = run.speedup()
            if run.threads == 1 and speedup is not None and run.model in TARGET_NETWORK:
                text = f"{what}, one thread, x compiled float PyTorch"
                targets.append(Target(text, speedup, TARGET_NETWORK[run.model]))
            if run.threads == 1 and "lce" in run.seconds and run.model in TARGET_LCE:
                ratio = run.median("lce") / run.median("zerocross")
                targets.append(Target(f"{what}, one thread, x Larq Compute Engine", ratio, TARGET_LCE[run.model]))
            if run.threads == 1 and "openvino" in run.seconds:
                for key in [key for key in TARGET_OPENVINO if key in run.seconds]:
                    text = f"{what}, one thread, {'float32' if key == 'zerocross' else 'int8'}, x OpenVINO"
                    ratio = run.median("openvino") / run.median(key)
                    targets.append(Target(text, ratio, TARGET_OPENVINO[key]))
            if run.threads == 2:  # both are timed in the same turns, since the load on the second core varies
                gain = run.median("zerocross-1") / run.median("zerocross")
                targets.append(Target(f"{what}, two threads, x one", gain, TARGET_THREADS))
        if self.footprints is not None:
            share = self.footprints.ours.own / self.footprints.torch.own
            text = f"{self.footprints.model}, memory above the imports, x PyTorch's"
            targets.append(Target(text, share, TARGET_MEMORY, at_least=False))
        return targets

    def as_dict(self) -> dict[str, Any]:
        """Return all measurements as plain values for a file."""
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
    c_file: bool = True,
    footprint: str | None = "birealnet18",
    lce: str | Path | None = None,
    openvino: str | Path | None = None,
    say: Callable[[str], object] = str,
) -> InferenceTimes:
    """Measure everything; contenders take turns, so that other load on the machine affects all of them.

    Args:
        cases: Names of models in the registry, with the batch size.
        rounds: Turns of each contender, >= 1.
        threads: Numbers of threads to measure with, one after the other.
        compile_: False leaves out compiled PyTorch and ONNX Runtime, for a quick look or if there is no compiler.
        c_file: Include the exported C file, with one image on one thread, if there is a C compiler.
        footprint: Name of the model whose memory and time to the first prediction are measured, or None.
        lce: Python interpreter of an environment with Larq Compute Engine, or None to leave it out.
        openvino: Python interpreter of an environment with OpenVINO, or None to leave it out.
        say: Called with progress messages.
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
                    options = {"compile_": compile_, "c_file": c_file}
                    times = measure_network(model, batch, count, rounds, **options, lce=larq, openvino=vino)
                    networks.append(times)
        finally:
            torch.set_num_threads(before)
    if footprint:
        say(f"memory and time to the first prediction of {footprint}, in separate processes")
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
    c_file: bool = True,
    lce: LarqComputeEngine | None = None,
    openvino: OpenVINO | None = None,
) -> NetworkTimes:
    """Time a network of the registry with every implementation on the same input, in turn.

    Args:
        name: Name of the model.
        batch: Images per batch.
        threads: Number of threads of every contender.
        rounds: Turns of each contender.
        compile_: Include compiled PyTorch and, if installed, ONNX Runtime.
        c_file: Include the exported C file, with one image on one thread, if there is a C compiler.
        lce: Larq Compute Engine; included for the networks that it supports, with batches of one image.
        openvino: OpenVINO; included with any batch size.
    """
    torch.compiler.reset()  # compiled code of other networks counts towards a limit; beyond it, torch runs eagerly
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    size = MODELS[name].input_shape
    x = torch.randn(batch, *size)
    network, twin = (randomize(models.create(name, binarize=how), size) for how in ("both", "none"))
    graph = pack(network, size).graph
    packed = Model(graph, threads)
    array = x.numpy()
    packed_int8 = Model(pack(network, size, real="int8").graph, threads)
    contenders: dict[str, Callable[[], Any]] = {
        "zerocross": lambda: packed(array),
        "zerocross-int8": lambda: packed_int8(array),
    }
    if threads > 1:
        single_thread = Model(graph)
        contenders["zerocross-1"] = lambda: single_thread(array)
    if threads == 1 and batch == 1 and c_file:
        contenders |= c_contenders(graph, array)
    contenders |= {"eager": lambda: network(x), "twin-eager": lambda: twin(x)}
    if compile_:
        # Freezing folds batch norm into the convolutions: the fastest option of PyTorch.
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
    """Return a call of the network in ONNX Runtime, or None if it or its exporter is not installed."""
    if not all(importlib.util.find_spec(package) for package in ("onnx", "onnxscript", "onnxruntime")):
        return None
    runtime: Any = importlib.import_module("onnxruntime")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns about missing torchvision, which is not needed
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
