"""Training speed: a binary network compared with its full-precision twin, and the whole loop with the bare step."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zerocross import compiler, models
from zerocross.data import from_tensors
from zerocross.data.dataset import Dataset
from zerocross.nn import summary
from zerocross.train.build import build_optimizer
from zerocross.train.config import Config
from zerocross.train.loop import fit
from zerocross.train.recipes import RECIPES

TARGET_TWIN = 1.25  # the compiled binary step takes at most this many times its full-precision twin's
TARGET_LOOP = 0.90  # the whole loop runs at least at this share of the bare compiled step's speed
TARGET_INPUT = 0.05  # the input path takes at most this share of a training step


@dataclass(frozen=True)
class TrainTimes:
    """Median durations of one update, and the reference values."""

    model: str
    batch_size: int
    binary_eager: float
    twin_eager: float
    binary_compiled: float
    twin_compiled: float
    loop: float
    input_path: float
    macs: int  # multiply-accumulates of one image, forward
    peak_flops: float  # of a large matrix product, in the same run

    @property
    def twin_ratio(self) -> float:
        """Ratio of the compiled binary step to the compiled full-precision step."""
        return self.binary_compiled / self.twin_compiled

    @property
    def loop_share(self) -> float:
        """Speed of the whole loop as a share of the bare compiled step's."""
        return self.binary_compiled / self.loop

    @property
    def input_share(self) -> float:
        """The input path's share of a compiled step."""
        return self.input_path / self.binary_compiled

    def peak_share(self, seconds: float) -> float:
        """Return the share of peak FLOP/s of an update of this duration (three passes, two operations per MAC)."""
        return 3 * 2 * self.macs * self.batch_size / seconds / self.peak_flops


def measure(
    name: str = "birealnet20",
    batch_size: int = 256,
    rounds: int = 15,
    *,
    say: Callable[[str], object] = str,
    compile_: bool = True,
) -> TrainTimes:
    """Time forward + backward + step of a binary network and its twin, interleaved, then the whole loop.

    Args:
        name: A model for 3 x 32 x 32 images.
        batch_size: Images per update.
        rounds: Timed updates of each contender; medians are reported.
        say: Called with progress messages.
        compile_: False leaves the compiled contenders eager (for a quick look, or where there is no compiler).
    """
    dataset = _images(batch_size * (2 * rounds + 10))
    config = replace(
        RECIPES["cifar10-birealnet20"].config,
        batch_size=batch_size,
        compile="on" if compile_ else "off",
        precision="32",
    )
    config = replace(config, model=replace(config.model, name=name), stages=(replace(config.stages[0], epochs=1),))
    say("building and compiling the contenders (a minute or two)")
    contenders = {
        "binary_eager": _step(config, "both", dataset, compiling=False),
        "twin_eager": _step(config, "none", dataset, compiling=False),
        "binary_compiled": _step(config, "both", dataset, compiling=compile_),
        "twin_compiled": _step(config, "none", dataset, compiling=compile_),
    }
    for step in contenders.values():
        step()
        step()
    say(f"timing {rounds} updates of each, in turn")
    first = _interleaved(contenders, rounds)
    say("timing the whole loop: input, FF ratio, logging")
    with tempfile.TemporaryDirectory() as folder:
        fitted = fit(config, dataset, folder=Path(folder), show=False)
    rates = [line["images_per_second"] for line in fitted.record.of("train")[1:]]
    # The speed of the machine may change over time: time the bare step before and after the loop.
    again = _interleaved({key: contenders[key] for key in ("binary_compiled", "twin_compiled")}, rounds)
    times = {key: statistics.median(first[key] + again.get(key, [])) for key in contenders}
    total = summary(models.create(name), (1, *dataset.input_size)).total
    return TrainTimes(
        model=name,
        batch_size=batch_size,
        **times,
        loop=batch_size / statistics.median(rates),
        input_path=_input_path(dataset, batch_size, rounds),
        macs=(total.binary_macs or 0) + (total.real_macs or 0),
        peak_flops=_peak_flops(),
    )


def _images(count: int) -> Dataset:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (count, 3, 32, 32), generator=generator, dtype=torch.uint8)
    y = torch.randint(0, 10, (count,), generator=generator)
    return from_tensors(x, y, x[:256], y[:256], class_names=[str(n) for n in range(10)], augment="crop-flip")


def _step(config: Config, binarize: str, dataset: Dataset, *, compiling: bool) -> Callable[[], None]:
    stage = replace(config.stages[0], binarize=binarize)  # type: ignore[arg-type]
    torch.manual_seed(0)
    model = models.create(config.model.name, binarize=binarize).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = build_optimizer(model, config, stage)
    x, y = next(iter(dataset.train_batches(config.batch_size, seed=0, channels_last=True).epoch(0)))
    called: nn.Module = compiler.compiled(model) if compiling else model

    def step(x: Tensor = x, y: Tensor = y) -> None:
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


def _peak_flops(size: int = 2048, rounds: int = 7) -> float:
    a, b = torch.randn(size, size), torch.randn(size, size)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        torch.mm(a, b)
        times.append(time.perf_counter() - began)
    return 2 * size**3 / min(times)
