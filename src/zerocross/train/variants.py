"""The same run, otherwise: over other epochs, by another method, on its authors' network, in two steps."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from zerocross import methods
from zerocross.checks import check_choice
from zerocross.train.config import Config, RealConfig, Stage, build_part, default_options

NETWORKS = ("common", "published")


def with_epochs(config: Config, epochs: int) -> Config:
    """The same run over so many epochs in all; stages and warm-up keep their shares."""
    total = sum(stage.epochs for stage in config.stages)
    shares = _shared_out(epochs, [stage.epochs / total for stage in config.stages])
    stages = (dataclasses.replace(stage, epochs=n) for stage, n in zip(config.stages, shares, strict=True))
    return dataclasses.replace(config, stages=tuple(stages), warmup_epochs=config.warmup_epochs * epochs / total)


def with_method(config: Config, name: str) -> Config:
    """The same run by another method: over as many epochs, at that method's own hyperparameters and stages.

    Settings of the real parameters and a warm-up that are a part of the method replace the run's. The batch size stays
    the run's, so that methods are compared at equal batches and budget; see with_network. The run's own method keeps
    what the run says about it.
    """
    name = methods.current_name(name)
    if name == config.method:
        return config
    method = methods.get(name)
    stages = tuple(dataclasses.replace(stage, optimizer={}) for stage in config.stages)
    if method.parts:
        stages = _stages_of(method.parts, sum(stage.epochs for stage in stages))
    real = build_part(RealConfig, {**dataclasses.asdict(config.real), **method.real}, "real.")
    warmup = config.warmup_epochs
    if "warmup" in method.run:
        warmup = method.run["warmup"] * sum(stage.epochs for stage in stages)
    # What the old method asked of the network, written out by `resolved`, does not go along.
    default = default_options(config)
    options = {k: v for k, v in config.model.options.items() if k not in default or default[k] != v}
    model = dataclasses.replace(config.model, options=options)
    return dataclasses.replace(
        config, method=name, model=model, optimizer={}, real=real, stages=stages, warmup_epochs=warmup
    )


def with_network(config: Config, network: str) -> Config:
    """The same run on the "common" network, as it is, or on the one that the method's authors "published".

    The published form is a set of options of birealnet20, and the authors' batch size. A method without one of its own
    keeps the common network.
    """
    check_choice("network", network, NETWORKS)
    if network == "common":
        return config
    method = methods.get(config.method)
    if config.model.name != "birealnet20":
        raise ValueError(
            f"network = 'published' with model {config.model.name!r}: methods have published forms of birealnet20 "
            "only; take the recipe cifar10-birealnet20, or network common"
        )
    model = dataclasses.replace(config.model, options={**config.model.options, **method.network})
    batch_size = int(method.run.get("batch_size", config.batch_size))
    return dataclasses.replace(config, model=model, batch_size=batch_size)


def two_step(config: Config) -> Config:
    """The same run in two stages: binary activations with real weights first, then both binary, from those weights.

    Half of the epochs each. The filter starts on its weights' side, or its first update would lose them.
    """
    return warm_started(in_two_stages(config))


def in_two_stages(config: Config) -> Config:
    """The stages of `two_step`, without a warm start yet: it follows from settings that may still change."""
    start = config.stages[0].init_from
    if len(config.stages) > 1:
        raise ValueError(f"this run has {len(config.stages)} stages already: two-step training divides one")
    parts = (methods.StageTemplate(0.5, "activations"), methods.StageTemplate(0.5, "both"))
    first, second = _stages_of(parts, sum(stage.epochs for stage in config.stages))
    first = dataclasses.replace(first, init_from=start)
    return dataclasses.replace(config, stages=(first, second))


def warm_started(config: Config) -> Config:
    """The same run, where each stage that starts from trained weights starts the filter on their side.

    warm_start = 3 sqrt(alpha / 2), at the stage's own alpha: what noise alone moves g by, three times (GradientFilter).
    It is derived last, when all other settings are known, and only where the run does not say it itself.
    """
    return dataclasses.replace(config, stages=tuple(_warm(config, stage) for stage in config.stages))


def _warm(config: Config, stage: Stage) -> Stage:
    values = config.optimizer_of(stage)
    if stage.init_from is None or stage.binarize != "both" or values.get("warm_start"):
        return stage
    if "warm_start" in values:
        warm = {"warm_start": 3 * math.sqrt(float(methods.first_values(values)["alpha"] or 0) / 2)}
        return dataclasses.replace(stage, optimizer={**warm, **stage.optimizer})
    if methods.get(config.method).kind == "theta":
        raise ValueError(
            f"method {config.method!r} starts from no weights: two-step training and --init-from are for latent "
            "weights, or the filter"
        )
    return stage


def _stages_of(parts: tuple[methods.StageTemplate, ...], epochs: int) -> tuple[Stage, ...]:
    counts = _shared_out(epochs, [part.share for part in parts])
    stages = []
    for part, count in zip(parts, counts, strict=True):
        binarize: Any = part.binarize
        stages.append(Stage(count, binarize, "previous" if stages else None, part.optimizer, part.real))
    return tuple(stages)


def _shared_out(epochs: int, shares: list[float]) -> list[int]:
    """Whole epochs by shares, at least one each; what is left over goes to the last stage."""
    if epochs < len(shares):
        raise ValueError(f"epochs is {epochs}; this run has {len(shares)} stages and needs at least one for each")
    counts = [max(1, int(epochs * share)) for share in shares[:-1]]
    counts.append(epochs - sum(counts))
    if counts[-1] < 1:
        raise ValueError(f"epochs is {epochs}; too few for stages of {', '.join(f'{share:.0%}' for share in shares)}")
    return counts
