"""Training speed: a binary network compared with its full-precision twin, and the whole loop with the bare step."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zerocross import compiler, models
from zerocross.bench.target import Target
from zerocross.data import from_tensors
from zerocross.data.dataset import Dataset
from zerocross.memory import keep_freed_memory
from zerocross.nn import summary
from zerocross.train.build import build_optimizer
from zerocross.train.config import Config
from zerocross.train.loop import fit
from zerocross.train.precision import best
from zerocross.train.recipes import RECIPES

TARGET_TWIN = 0.50  # a compiled binary update in bfloat16 takes at most this share of its float32 twin's time
TARGET_LOOP = 0.97  # the whole loop runs at least at this share of the bare compiled step's speed
TARGET_INPUT = 0.05  # the input path takes at most this share of a training step

Precision = Literal["32", "bf16"]
_DTYPES = {"32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class TrainContender:
    """One way to compute an update."""

    binarize: Literal["both", "none"]
    precision: Precision
    compiled: bool

    @property
    def label(self) -> str:
        """Name in tables and files."""
        network = "binary" if self.binarize == "both" else "full-precision twin"
        return f"{network}, {'bfloat16' if self.precision == 'bf16' else 'float32'}" + ", eager" * (not self.compiled)


@dataclass(frozen=True)
class TrainTimes:
    """Median seconds per update, and reference values from the same run.

    Args:
        model: Name of the network.
        batch_size: Images per update.
        precision: Precision of the whole loop: the fastest that the machine supports.
        updates: Seconds for forward, backward and step, by the label of the contender.
        loop: Seconds per update of the whole loop: input, FF ratio, logging.
        input_path: Seconds to prepare a batch.
        macs: Multiply-accumulates per image in the forward pass.
        peak_flops: Operations per second of a large matrix product, by precision.
    """

    model: str
    batch_size: int
    precision: Precision
    updates: dict[str, float]
    loop: float
    input_path: float
    macs: int
    peak_flops: dict[str, float]

    def seconds(self, binarize: Literal["both", "none"], precision: Precision, *, compiled: bool = True) -> float:
        """Return the seconds per update of a contender."""
        return self.updates[TrainContender(binarize, precision, compiled).label]

    @property
    def bare(self) -> float:
        """Seconds of the compiled binary update without the rest of the loop."""
        return self.seconds("both", self.precision)

    def peak_share(self, seconds: float, precision: Precision) -> float:
        """Return the share of the peak that an update reaches (three passes, two operations per MAC)."""
        return 3 * 2 * self.macs * self.batch_size / seconds / self.peak_flops[precision]

    @property
    def targets(self) -> list[Target]:
        """The targets with the values of this run."""
        ratio = self.bare / self.seconds("none", "32")
        name = "bfloat16" if self.precision == "bf16" else "float32"
        return [
            Target(f"binary {name} over the float32 twin, compiled", ratio, TARGET_TWIN, at_least=False),
            Target("whole loop's share of the bare speed", self.bare / self.loop, TARGET_LOOP),
            Target("input path's share of an update", self.input_path / self.bare, TARGET_INPUT, at_least=False),
        ]


def contenders(precision: Precision) -> list[TrainContender]:
    """Return the contenders for a machine whose fastest precision is `precision`."""
    every = [TrainContender("both", "32", compiled=False), TrainContender("both", "32", compiled=True)]
    every.append(TrainContender("none", "32", compiled=True))
    if precision == "bf16":
        every += [TrainContender("both", "bf16", compiled=True), TrainContender("none", "bf16", compiled=True)]
    return every


def measure(
    name: str = "birealnet20",
    batch_size: int = 256,
    rounds: int = 15,
    *,
    say: Callable[[str], object] = str,
) -> TrainTimes:
    """Time forward + backward + step of a binary network and its twin, interleaved, then the whole loop.

    Args:
        name: A model for 3 x 32 x 32 images.
        batch_size: Images per update.
        rounds: Timed updates of each contender; medians are reported.
        say: Called with progress messages.
    """
    keep_freed_memory()  # as training does, for all contenders alike
    precision = best("cpu")
    dataset = _images(batch_size * (2 * rounds + 10))
    config = replace(
        RECIPES["cifar10-birealnet20"].config, batch_size=batch_size, compile="on", precision=precision, log_every=5
    )
    config = replace(config, model=replace(config.model, name=name), stages=(replace(config.stages[0], epochs=1),))
    say("building and compiling the contenders (a few minutes)")
    steps = {each.label: _step(config, each, dataset) for each in contenders(precision)}
    for step in steps.values():
        step()
        step()
    say(f"timing {rounds} updates of each, in turn")
    first = _interleaved(steps, rounds)
    say("timing the whole loop: input, FF ratio, logging")
    with tempfile.TemporaryDirectory() as folder:
        result = fit(config, dataset, folder=Path(folder), show=False)
    rates = [line["images_per_second"] for line in result.record.of("train")[1:]]
    # The speed of the machine may drift: the bare steps are timed before and after the loop.
    again = _interleaved(steps, rounds)
    total = summary(models.create(name), (1, *dataset.input_size)).total
    return TrainTimes(
        model=name,
        batch_size=batch_size,
        precision=precision,
        updates={label: statistics.median(first[label] + again[label]) for label in steps},
        loop=batch_size / statistics.median(rates),
        input_path=_input_path(dataset, batch_size, rounds),
        macs=(total.binary_macs or 0) + (total.real_macs or 0),
        peak_flops={each: _peak_flops(_DTYPES[each]) for each in ("32", "bf16") if each in {"32", precision}},
    )


def _images(count: int) -> Dataset:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (count, 3, 32, 32), generator=generator, dtype=torch.uint8)
    y = torch.randint(0, 10, (count,), generator=generator)
    return from_tensors(x, y, x[:256], y[:256], class_names=[str(n) for n in range(10)], augment="crop-flip")


def _step(config: Config, contender: TrainContender, dataset: Dataset) -> Callable[[], None]:
    stage = replace(config.stages[0], binarize=contender.binarize)
    torch.manual_seed(0)
    model = models.create(config.model.name, binarize=contender.binarize)
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = build_optimizer(model, config, stage)
    x, y = next(iter(dataset.train_batches(config.batch_size, seed=0, channels_last=True).epoch(0)))
    called: nn.Module = compiler.compiled(model) if contender.compiled else model

    def step(x: Tensor = x, y: Tensor = y) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=contender.precision == "bf16"):
            loss = F.cross_entropy(called(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _interleaved(contenders: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, step in contenders.items():
            began = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - began)
    return times


def _input_path(dataset: Dataset, batch_size: int, rounds: int) -> float:
    batches = dataset.train_batches(batch_size, seed=0, channels_last=True).epoch(0)
    next(batches)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        next(batches)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _peak_flops(dtype: torch.dtype, size: int = 2048, rounds: int = 7) -> float:
    a, b = torch.randn(size, size).to(dtype), torch.randn(size, size).to(dtype)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        torch.mm(a, b)
        times.append(time.perf_counter() - began)
    return 2 * size**3 / min(times)
