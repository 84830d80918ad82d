"""What trainings will cost, before they are begun: by the time of similar ones, or else by their arithmetic."""

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

# Images to train on and to evaluate on, without reading them: (all, with a validation part held out).
_IMAGES = {
    "digits": ((1_437, 360), (1_150, 287)),
    "cifar10": ((50_000, 10_000), (45_000, 5_000)),
    "audiomnist": ((18_000, 6_000), (18_000, 6_000)),
    "imagenet": ((1_281_167, 50_000), (1_230_000, 51_000)),
}
# Measured on one core of a common server CPU: multiply-accumulates a second, and what a run takes besides.
_EAGER, _COMPILED, _COMPILED_BF16 = 17e9, 39e9, 80e9
_BESIDES, _BESIDES_COMPILED = 2.0, 30.0


@dataclass(frozen=True)
class Cost:
    """Of the trainings of an artefact.

    Args:
        runs: How many there are.
        there: How many of them are finished already.
        seconds: What the others will take on this machine, on all its threads.
    """

    runs: int
    there: int
    seconds: float


def estimate(configs: Sequence[Config], cache: RunCache, place: train.Placement, parallel: int = 1) -> Cost:
    """What configs will cost, all of them together, `parallel` at a time."""
    due = [config for config in configs if cache.find(training(config, place)) is None]
    known = _finished(cache) if due else []
    threads = torch.get_num_threads()
    seconds = 0.0
    for config in due:
        guess = guessed_seconds(config, known)
        seconds += by_arithmetic(config) / threads if guess is None else guess / parallel
    return Cost(len(configs), len(configs) - len(due), seconds)


def by_arithmetic(config: Config) -> float:
    """Seconds of a training on one core of a CPU; a GPU takes far less."""
    trained, evaluated = _IMAGES[config.data.name][config.data.validate]
    size = config.data.options.get("train_size")
    trained = int(size) if isinstance(size, int) else trained
    epochs = sum(stage.epochs for stage in config.stages)
    macs = (3 * trained + evaluated) * epochs * _macs(config.model.name, tuple(sorted(config.model.options.items())))
    compiled = config.compile == "on" or (config.compile == "auto" and macs / _EAGER > 400)
    if not compiled:
        return macs / _EAGER + _BESIDES
    return macs / (_COMPILED_BF16 if config.precision == "bf16" else _COMPILED) + _BESIDES_COMPILED


@cache
def _macs(name: str, options: tuple[tuple[str, Any], ...]) -> int:
    """Multiply-accumulates of one forward pass of one image."""
    own = {key: value for key, value in options if key in {"width", "depth"}}
    total = summary(models.create(name, **own), (1, *MODELS[name].input_shape)).total
    return (total.binary_macs or 0) + (total.real_macs or 0)


def _finished(cache: RunCache) -> list[dict[str, Any]]:
    """Results to judge by; what cannot be read is left to whoever needs it."""
    found = []
    for path in cache.results.glob("*.json"):
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue
        if isinstance(result, dict) and {"config", "seconds"} <= set(result):
            found.append(result)
    return found
