"""Estimate the time of trainings before they start, from finished similar runs or else from their arithmetic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from zerocross import models, train
from zerocross.models.registry import MODELS
from zerocross.nn import summary
from zerocross.sweep.cache import RunCache
from zerocross.sweep.trainings import guessed_seconds, training
from zerocross.train.config import Config

# Training and evaluation images per epoch, without reading the data: (all, with a validation part held out).
_IMAGES = {
    "digits": ((1_437, 360), (1_150, 287)),
    "cifar10": ((50_000, 10_000), (45_000, 5_000)),
    "audiomnist": ((18_000, 6_000), (18_000, 6_000)),
    "imagenet": ((1_281_167, 50_000), (1_230_000, 51_000)),
}
# Measured on one core of a common server CPU: multiply-accumulates per second, and the overhead of a run in seconds.
_EAGER, _COMPILED, _COMPILED_BF16 = 17e9, 39e9, 80e9
_OVERHEAD, _OVERHEAD_COMPILED = 2.0, 30.0


@dataclass(frozen=True)
class Cost:
    """The estimated cost of an artefact's trainings.

    Args:
        runs: Number of runs.
        finished: Number of runs that are finished already.
        seconds: Estimated time of the other runs on this machine, using all its threads.
    """

    runs: int
    finished: int
    seconds: float


def estimate(configs: Sequence[Config], cache: RunCache, place: train.Placement, parallel: int = 1) -> Cost:
    """Estimate the total cost of configs, run `parallel` at a time."""
    missing = [config for config in configs if cache.find(training(config, place)) is None]
    known = _finished(cache) if missing else []
    threads = torch.get_num_threads()
    seconds = 0.0
    for config in missing:
        guess = guessed_seconds(config, known)
        seconds += by_arithmetic(config) / threads if guess is None else guess / parallel
    return Cost(len(configs), len(configs) - len(missing), seconds)


def by_arithmetic(config: Config) -> float:
    """Estimate the seconds that a training takes on one CPU core; a GPU takes far less."""
    trained, evaluated = _IMAGES[config.data.name][config.data.validate]
    size = config.data.options.get("train_size")
    trained = int(size) if isinstance(size, int) else trained
    epochs = sum(stage.epochs for stage in config.stages)
    macs = (3 * trained + evaluated) * epochs * _macs(config.model.name, tuple(sorted(config.model.options.items())))
    compiled = config.compile == "on" or (config.compile == "auto" and macs / _EAGER > 400)
    if not compiled:
        return macs / _EAGER + _OVERHEAD
    return macs / (_COMPILED_BF16 if config.precision == "bf16" else _COMPILED) + _OVERHEAD_COMPILED


@cache
def _macs(name: str, options: tuple[tuple[str, Any], ...]) -> int:
    """Count the multiply-accumulates of the forward pass of one image."""
    size = {key: value for key, value in options if key in {"width", "depth"}}
    total = summary(models.create(name, **size), (1, *MODELS[name].input_shape)).total
    return (total.binary_macs or 0) + (total.real_macs or 0)


def _finished(cache: RunCache) -> list[dict[str, Any]]:
    """Read the finished results of a cache, skipping unreadable files."""
    results = []
    for path in cache.results.glob("*.json"):
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue
        if isinstance(result, dict) and {"config", "seconds"} <= set(result):
            results.append(result)
    return results
