"""Profile of a packed network: the time of every step, its share, and the share of the machine's limit it reaches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import njit, types
from numba.extending import intrinsic

from zerocross import models
from zerocross.bench.inference_limit import measure_limit
from zerocross.bench.inference_random import randomize
from zerocross.deploy import pack
from zerocross.models.registry import MODELS
from zerocross.runtime.kernels import vector_ir as v
from zerocross.runtime.kernels.byte_tiles import emit_dot
from zerocross.runtime.kernels.points import COLOURS, OUTPUTS, POINTS
from zerocross.runtime.kernels.steps import LANES, StepKind
from zerocross.runtime.model import Model

_CHAINS = 12  # independent running sums: enough to hide the latency of each operation
_TURNS = 20_000
_MEGABYTES = 8  # size of a copy: larger than the L2 cache, like the activations of a large layer
NAMES = {
    StepKind.BINARY: "bits", StepKind.REAL: "real", StepKind.BYTES: "bytes", StepKind.WINDOW: "pooling",
    StepKind.MOVE: "move", StepKind.UNPACK: "unpack", StepKind.QUANTIZE: "to bytes", StepKind.TRANSFORM: "transform",
    StepKind.WINOGRAD: "winograd",
}  # fmt: skip
_PORTS = {
    StepKind.BINARY: "popcount", StepKind.REAL: "FMA", StepKind.BYTES: "VNNI", StepKind.WINOGRAD: "FMA",
}  # fmt: skip


@dataclass(frozen=True)
class MachineLimits:
    """Measured limits of one thread: billions of products per second, and of bytes read or written per second."""

    binary: float
    real: float
    bytes: float
    memory: float


@dataclass(frozen=True)
class StepTime:
    """Time of one step of a program."""

    kind: StepKind
    what: str
    seconds: float
    port: float  # seconds that its products would take at the limit
    memory: float  # seconds that its bytes would take from beyond the L2 cache

    @property
    def limit(self) -> str:
        """The resource that limits the step: an execution port of the processor, or memory."""
        if self.port < self.memory:
            return "memory"
        return _PORTS[self.kind]

    @property
    def reached(self) -> float:
        """Share of the limit that the step reaches; above 1 if its data were in a faster cache."""
        return max(self.port, self.memory) / self.seconds


@dataclass(frozen=True)
class StepProfile:
    """All steps of a network for one image on one thread, in the order of the program."""

    model: str
    real: str
    limits: MachineLimits
    steps: list[StepTime]

    @property
    def seconds(self) -> float:
        """Total time of all steps."""
        return sum(step.seconds for step in self.steps)

    @property
    def limit_seconds(self) -> float:
        """Total time if every step reached its limit."""
        return sum(max(step.port, step.memory) for step in self.steps)

    def kinds(self) -> dict[StepKind, float]:
        """Return the seconds of each kind of step, longest first."""
        kinds = {kind: sum(step.seconds for step in self.steps if step.kind is kind) for kind in StepKind}
        return {kind: kinds[kind] for kind in sorted(kinds, key=lambda kind: -kinds[kind]) if kinds[kind]}


def measure_profile(name: str, real: str = "float32", rounds: int = 200) -> StepProfile:
    """Time every step of a network of the registry; the fastest of many rounds is used, also for the limits.

    Args:
        name: Name of the model.
        real: Data type of its real weights.
        rounds: Rounds per step, >= 1.
    """
    torch.manual_seed(0)
    size = MODELS[name].input_shape
    model = Model(pack(randomize(models.create(name), size), size, real=real).graph)
    x = np.random.default_rng(0).standard_normal((1, *size), np.float32)
    limits = measure_limits(rounds)
    seconds = model.step_seconds(x, rounds)
    steps = [_step_time(step, each, limits) for step, (_, each) in zip(model.steps(), seconds, strict=True)]
    return StepProfile(name, real, limits, steps)


def _step_time(step: Any, seconds: float, limits: MachineLimits) -> StepTime:
    kind = StepKind(step["kind"])
    pixels, channels, terms, panels = (int(step[name]) for name in ("pixels", "channels", "terms", "panels"))
    per_term, rate = {
        StepKind.BINARY: (32, limits.binary), StepKind.REAL: (1, limits.real), StepKind.BYTES: (4, limits.bytes),
        StepKind.WINOGRAD: (1, limits.real),
    }.get(kind, (0, 1.0))  # fmt: skip
    port = pixels * panels * LANES * terms * per_term / rate / 1e9
    width = int(step["width"])
    what = f"{channels} x {pixels // width} x {width}"
    if terms:
        what += f" of {per_term * terms}"
    return StepTime(kind, what, seconds, port, _bytes_moved(step) / limits.memory / 1e9)


def _bytes_moved(step: Any) -> int:
    """Return the bytes of weights and activations that a step reads and writes; overlapping taps count once."""
    kind = StepKind(step["kind"])
    pixels, channels, panels = (int(step[name]) for name in ("pixels", "channels", "panels"))
    values = 4 * pixels * LANES * panels
    if kind in (StepKind.MOVE, StepKind.UNPACK, StepKind.QUANTIZE):
        return 4 * pixels * channels + (1 if kind is StepKind.QUANTIZE else 4) * pixels * channels
    if kind is StepKind.TRANSFORM:
        return 4 * COLOURS * pixels * (2 * OUTPUTS + 2 * POINTS - 1)
    written = values * (step["real"] >= 0) + values // 32 * (step["least"] >= 0)
    lines = max(1, pixels // int(step["width"]))
    if kind is StepKind.WINDOW:
        source = values * int(step["stride_y"]) ** 2
    elif kind is StepKind.WINOGRAD:
        source = int(step["source_image"])
    else:
        source = int(step["source_line"]) * lines
    return int(written + source + panels * int(step["panel"]) + values * (step["stage_count"] > 0))


def measure_limits(rounds: int) -> MachineLimits:
    """Measure the limits of one thread; the fastest of many short rounds is used."""
    source = np.zeros(_MEGABYTES << 20, np.uint8)
    target = np.empty_like(source)
    calls: dict[str, tuple[Callable[[], Any], float]] = {
        "real": (lambda: _real_loop(_TURNS), _TURNS * _CHAINS * LANES),
        "bytes": (lambda: _byte_loop(_TURNS), _TURNS * _CHAINS * 4 * LANES),
        "memory": (lambda: np.copyto(target, source), 2 * source.nbytes),
    }
    fastest = dict.fromkeys(calls, float("inf"))
    for _ in range(1 + rounds):  # the first compiles
        for key, (call, _) in calls.items():
            began = time.perf_counter()
            call()
            fastest[key] = min(fastest[key], time.perf_counter() - began)
    rates = {key: amount / fastest[key] / 1e9 for key, (_, amount) in calls.items()}
    return MachineLimits(binary=measure_limit(rounds, ()).limit, **rates)


def _register_loop(typ: Any, start: Callable[[int], Any], turn: Callable[[Any, Any], Any]) -> Any:
    """Return a function that applies `turn` to vectors in registers for a number of turns."""

    def typed(typingctx: Any, turns: Any) -> Any:  # noqa: ARG001 - Numba's protocol
        def codegen(context: Any, b: Any, signature: Any, args: list[Any]) -> Any:  # noqa: ARG001
            starts = [v.constant(start(number), typ) for number in range(_CHAINS)]
            total, *rest = v.loop(b, args[0], starts, lambda _, sums: [turn(b, each) for each in sums])
            for each in rest:
                total = b.fadd(total, each) if typ == v.REALS else b.add(total, each)
            first = b.extract_element(total, v.I32(0))
            return b.bitcast(first, v.I32) if typ == v.REALS else first

        return types.int32(types.int64), codegen

    function: Any = intrinsic(typed)

    @njit
    def loop(turns: int) -> int:
        return function(turns)

    return loop


_real_loop = _register_loop(
    v.REALS, lambda number: 1.0 + number, lambda b, each: v.multiply_add(b, each, each, v.constant(0.5, v.REALS))
)
_byte_loop = _register_loop(v.WORDS, lambda number: 1 + number, lambda b, each: emit_dot(b, each, each, each))
