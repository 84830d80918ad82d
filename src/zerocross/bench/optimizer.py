"""Time and memory of an optimizer step: GradientFilter compared with torch's SGD and Adam in the same run."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Adam, Optimizer

from zerocross import models
from zerocross.bench.target import Target
from zerocross.optim import GradientFilter, split_params

TARGET_COMPILED = 1.45  # the compiled step takes at most this many times the fused SGD's
TARGET_BFLOAT16 = 1.05  # the same with bfloat16 state
TARGET_DEFAULT = 1.0  # the default step takes at most this many times the foreach SGD's
TARGET_COUNTING = 0.10  # counting flips costs at most this share of a step, spread over ff_every steps

Shapes = Sequence[tuple[int, ...]]
_NEVER = sys.maxsize
_SGD: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}
_QUIET = {"nonfinite": "ignore", "ff_every": _NEVER}

BUILDERS: dict[str, Callable[[list[nn.Parameter]], Optimizer]] = {
    "sgd": lambda params: SGD(params, **_SGD, foreach=False),
    "sgd-foreach": lambda params: SGD(params, **_SGD, foreach=True),
    "sgd-fused": lambda params: SGD(params, **_SGD, fused=True),
    "adam-fused": lambda params: Adam(params, fused=True),
    "filter": GradientFilter,
    "compiled": lambda params: GradientFilter(params, compile=True),
    "bfloat16": lambda params: GradientFilter(params, compile=True, state_dtype=torch.bfloat16),
}


@dataclass(frozen=True)
class OptimizerContender:
    """One kind of step: its optimizer and options."""

    label: str
    builder: str
    settings: dict[str, Any]


CONTENDERS: dict[str, OptimizerContender] = {
    "sgd": OptimizerContender("SGD", "sgd", {}),
    "sgd-foreach": OptimizerContender("SGD, foreach", "sgd-foreach", {}),
    "sgd-fused": OptimizerContender("SGD, fused", "sgd-fused", {}),
    "adam-fused": OptimizerContender("Adam, fused", "adam-fused", {}),
    "filter": OptimizerContender("GradientFilter", "filter", _QUIET),
    "filter-raise": OptimizerContender("  nonfinite='raise'", "filter", {**_QUIET, "nonfinite": "raise"}),
    "filter-counting": OptimizerContender("  counting flips", "filter", {**_QUIET, "ff_every": 1}),
    "compiled": OptimizerContender("GradientFilter, compiled", "compiled", _QUIET),
    "compiled-raise": OptimizerContender("  nonfinite='raise'", "compiled", {**_QUIET, "nonfinite": "raise"}),
    "compiled-counting": OptimizerContender("  counting flips", "compiled", {**_QUIET, "ff_every": 1}),
    "bfloat16": OptimizerContender("  bfloat16 state", "bfloat16", _QUIET),
}


@dataclass(frozen=True)
class OptimizerTimes:
    """Measurements: for each of `CONTENDERS`, the seconds of every step and the bytes per weight."""

    weights: int
    rounds: int
    threads: int
    ff_every: int  # GradientFilter's default
    load: tuple[float, float]  # the machine's load average before and after
    seconds: dict[str, list[float]]
    state_bytes: dict[str, float]  # kept between steps
    temporary_bytes: dict[str, float | None]  # additional during a step; None: not measured

    def median(self, key: str) -> float:
        """Return the median duration of a step."""
        return statistics.median(self.seconds[key])

    def ratio(self, key: str, rival: str, of: Callable[[list[float]], float] = statistics.median) -> float:
        """Return the ratio of medians, or of another statistic."""
        return of(self.seconds[key]) / of(self.seconds[rival])

    def counting_share(self, key: str, of: Callable[[list[float]], float] = statistics.median) -> float:
        """Return the cost of counting flips as a share of a step, spread over ff_every steps."""
        return (self.ratio(f"{key}-counting", key, of) - 1) / self.ff_every

    def peak_bytes(self, key: str) -> float | None:
        """Return the bytes of weights and gradients (float32), state and temporary memory; None: not measured."""
        temporary = self.temporary_bytes[key]
        return None if temporary is None else self.weights * (4 + 4 + self.state_bytes[key] + temporary)

    def targets(self, of: Callable[[list[float]], float] = statistics.median) -> list[Target]:
        """Return the targets with the medians of this run (or another statistic, such as the fastest step)."""
        every = f"every {self.ff_every} steps"
        return [
            Target(
                "compiled step, x fused SGD", self.ratio("compiled", "sgd-fused", of), TARGET_COMPILED, at_least=False
            ),
            Target(
                "compiled step with bfloat16 state, x fused SGD",
                self.ratio("bfloat16", "sgd-fused", of),
                TARGET_BFLOAT16,
                at_least=False,
            ),
            Target(
                "default step, x foreach SGD", self.ratio("filter", "sgd-foreach", of), TARGET_DEFAULT, at_least=False
            ),
            Target(
                f"counting flips {every}, share of a step",
                self.counting_share("filter", of),
                TARGET_COUNTING,
                at_least=False,
            ),
            Target(
                "the same, of a compiled step", self.counting_share("compiled", of), TARGET_COUNTING, at_least=False
            ),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return all measurements as plain values for a file."""
        steps = {
            key: {
                "label": " ".join(contender.label.split()),
                "median_ms": 1e3 * self.median(key),
                "fastest_ms": 1e3 * min(self.seconds[key]),
                "times_sgd_fused": self.ratio(key, "sgd-fused"),
                "times_sgd_foreach": self.ratio(key, "sgd-foreach"),
                "state_bytes_per_weight": self.state_bytes[key],
                "temporary_bytes_per_weight": self.temporary_bytes[key],
                "peak_bytes": self.peak_bytes(key),
            }
            for key, contender in CONTENDERS.items()
        }
        targets = [
            {"claim": t.text, "median": t.value, "fastest": f.value, "limit": t.limit, "met": t.met}
            for t, f in zip(self.targets(), self.targets(min), strict=True)
        ]
        head = {name: getattr(self, name) for name in ("weights", "rounds", "threads", "ff_every", "load")}
        return {**head, "steps": steps, "targets": targets}


def reactnet_shapes() -> list[tuple[int, ...]]:
    """Return the shapes of ReActNet-A's binary weights: 31 tensors, 28,253,184 weights."""
    with torch.device("meta"):  # shapes without memory
        return [tuple(p.shape) for p in split_params(models.create("reactnet_a")).binary]


def measure(
    shapes: Shapes | None = None,
    rounds: int = 40,
    *,
    threads: int = 2,
    memory: bool = True,
    say: Callable[[str], object] = str,
) -> OptimizerTimes:
    """Time a step of every contender in each round, in random order.

    Args:
        shapes: Shapes of the weights; by default those of ReActNet-A.
        rounds: Timed steps of each contender, >= 1.
        threads: Number of torch threads during the measurement.
        memory: Measure temporary memory, too, in a separate process for each contender (Linux only).
        say: Called with progress messages.
    """
    if rounds < 1 or threads < 1:
        raise ValueError(f"{rounds} rounds on {threads} threads: both must be at least 1")
    shapes = reactnet_shapes() if shapes is None else shapes
    weights = sum(torch.Size(shape).numel() for shape in shapes)
    before, load = torch.get_num_threads(), _load()
    torch.set_num_threads(threads)
    try:
        say("building and compiling the contenders (up to a minute)")
        optimizers = _build(shapes)
        ff_every = optimizers["filter"].ff_every  # type: ignore[attr-defined]
        say(f"timing {rounds} steps of each, in turn")
        seconds = _interleaved(optimizers, rounds)
    finally:
        torch.set_num_threads(before)
    temporary: dict[str, float | None] = dict.fromkeys(CONTENDERS)
    if memory:
        say("measuring memory, each contender in a separate process")
        temporary = {key: _in_new_process(key, shapes, weights) for key in CONTENDERS}
    states = {key: _state_bytes(optimizer) / weights for key, optimizer in optimizers.items()}
    return OptimizerTimes(
        weights=weights,
        rounds=rounds,
        threads=threads,
        ff_every=ff_every,
        load=(load, _load()),
        seconds=seconds,
        state_bytes={key: states[contender.builder] for key, contender in CONTENDERS.items()},
        temporary_bytes=temporary,
    )


def _build(shapes: Shapes, names: Sequence[str] = tuple(BUILDERS)) -> dict[str, Optimizer]:
    generator = torch.Generator().manual_seed(0)
    # No step changes a gradient, so that all optimizers can share them.
    grads = [1e-3 * torch.randn(shape, generator=generator) for shape in shapes]
    built = {}
    for name in names:
        params = [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad
        built[name] = BUILDERS[name](params)
    return built


def _step(optimizer: Optimizer, contender: OptimizerContender) -> float:
    """Return the duration of one step."""
    for name, value in contender.settings.items():
        setattr(optimizer, name, value)
    began = time.perf_counter()
    optimizer.step()
    return time.perf_counter() - began


def _interleaved(optimizers: dict[str, Optimizer], rounds: int) -> dict[str, list[float]]:
    order, shuffle = list(CONTENDERS), random.Random(0).shuffle  # noqa: S311 - not for cryptography
    for _ in range(2):  # creates state, compiles, and touches all memory
        for contender in CONTENDERS.values():
            _step(optimizers[contender.builder], contender)
    seconds: dict[str, list[float]] = {key: [] for key in CONTENDERS}
    for _ in range(rounds):
        shuffle(order)
        for key in order:
            seconds[key].append(_step(optimizers[CONTENDERS[key].builder], CONTENDERS[key]))
    return seconds


def _load() -> float:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


# ---- memory


def _state_bytes(optimizer: Optimizer) -> int:
    kept = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in kept)


def _in_new_process(key: str, shapes: Shapes, weights: int) -> float | None:
    """Run `temporary_memory` per weight in a new process, since freed memory may not be returned to the system."""
    code = f"from zerocross.bench.optimizer import temporary_memory as t; print(t({key!r}, {list(shapes)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return None if (output := done.stdout.strip()) == "None" else int(output) / weights


def temporary_memory(key: str, shapes: Shapes) -> int | None:
    """Return by how many bytes this process grows temporarily during one step; None if Linux does not report it."""
    if not Path("/proc/self/clear_refs").exists():
        return None
    torch.set_num_threads(1)
    contender = CONTENDERS[key]
    optimizer = _build(shapes, [contender.builder])[contender.builder]
    for _ in range(2):
        _step(optimizer, contender)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # free memory held by the allocator would hide the growth
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    kept = _status("VmRSS")
    _step(optimizer, contender)
    return max(0, _status("VmHWM") - kept)


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
