"""Variants of a config: other epochs, another method, its authors' network, two-step training."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from zerocross import methods
from zerocross.checks import check_choice
from zerocross.filters.flips import alpha_for_flips
from zerocross.train.config import Config, RealConfig, Stage, build_part, default_options

NETWORKS = ("common", "published")


def with_epochs(config: Config, epochs: int) -> Config:
    """Return the config with `epochs` epochs in total; stages and warm-up keep their shares."""
    total = sum(stage.epochs for stage in config.stages)
    shares = _shared_out(epochs, [stage.epochs / total for stage in config.stages])
    stages = (dataclasses.replace(stage, epochs=n) for stage, n in zip(config.stages, shares, strict=True))
    return dataclasses.replace(config, stages=tuple(stages), warmup_epochs=config.warmup_epochs * epochs / total)


def with_method(config: Config, name: str) -> Config:
    """Return the config with another method: same number of epochs, that method's own hyperparameters and stages.

    A method that prescribes settings of the real parameters or a warm-up overrides those of the config. The batch size
    is kept, so that methods are compared at equal batch size and budget; see with_network. If the config already uses
    this method, it is returned unchanged.

    Examples:
        >>> from zerocross import train
        >>> train.with_method(train.RECIPES["digits"].config, "bop").optimizer["tau"]
        1e-08
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
    # Drop options of the network that `resolved` filled in for the old method.
    default = default_options(config)
    options = {k: v for k, v in config.model.options.items() if k not in default or default[k] != v}
    model = dataclasses.replace(config.model, options=options)
    return dataclasses.replace(
        config, method=name, model=model, optimizer={}, real=real, stages=stages, warmup_epochs=warmup
    )


def with_network(config: Config, network: str) -> Config:
    """Return the config with the "common" network (unchanged), or with the one that the method's authors "published".

    A published network is a set of options of birealnet20, with the authors' batch size. Methods without one keep the
    common network.
    """
    check_choice("network", network, NETWORKS)
    if network == "common":
        return config
    method = methods.get(config.method)
    if config.model.name != "birealnet20":
        raise ValueError(
            f"network = 'published' with model {config.model.name!r}: published networks are variants of "
            "birealnet20; use the recipe cifar10-birealnet20, or network common"
        )
    model = dataclasses.replace(config.model, options={**config.model.options, **method.network})
    batch_size = int(method.run.get("batch_size", config.batch_size))
    return dataclasses.replace(config, model=model, batch_size=batch_size)


def two_step(config: Config) -> Config:
    """Return the config with two stages: binary activations with real weights, then both binary, from those weights.

    Each stage gets half of the epochs. In the second stage the filter starts warm: otherwise its first update would
    discard the weights.
    """
    return warm_started(in_two_stages(config))


def in_two_stages(config: Config) -> Config:
    """Return the config with the stages of `two_step`, without the warm start, which depends on other settings."""
    start = config.stages[0].init_from
    if len(config.stages) > 1:
        raise ValueError(f"this run already has {len(config.stages)} stages: two-step training needs a run with one")
    parts = (methods.StageTemplate(0.5, "activations"), methods.StageTemplate(0.5, "both"))
    first, second = _stages_of(parts, sum(stage.epochs for stage in config.stages))
    first = dataclasses.replace(first, init_from=start)
    return dataclasses.replace(config, stages=(first, second))


def warm_started(config: Config) -> Config:
    """Return the config with a warm start of the filter in each stage that starts from trained weights.

    warm_start = 3 sqrt(alpha / 2), at the stage's own alpha: three times the standard deviation of g under
    pure noise (see GradientFilter). Call it last, when all other settings are known; explicit values are kept.
    """
    return dataclasses.replace(config, stages=tuple(_warm(config, stage) for stage in config.stages))


def _warm(config: Config, stage: Stage) -> Stage:
    values = config.optimizer_of(stage)
    if stage.init_from is None or stage.binarize != "both" or values.get("warm_start"):
        return stage
    if "warm_start" in values:
        warm = {"warm_start": 3 * math.sqrt(_alpha(methods.first_values(values)) / 2)}
        return dataclasses.replace(stage, optimizer={**warm, **stage.optimizer})
    if methods.get(config.method).kind == "theta":
        raise ValueError(
            f"method {config.method!r} cannot start from trained weights: two-step training and --init-from work with "
            "latent weights and with the filter"
        )
    return stage


def _alpha(values: Mapping[str, Any]) -> float:
    """The alpha of a filter, which may be given by its flip rate."""
    return float(values["alpha"]) if "alpha" in values else alpha_for_flips(values["flip_rate"], values["gamma"])


def _stages_of(parts: tuple[methods.StageTemplate, ...], epochs: int) -> tuple[Stage, ...]:
    counts = _shared_out(epochs, [part.share for part in parts])
    stages = []
    for part, count in zip(parts, counts, strict=True):
        binarize: Any = part.binarize
        stages.append(Stage(count, binarize, "previous" if stages else None, part.optimizer, part.real))
    return tuple(stages)


def _shared_out(epochs: int, shares: list[float]) -> list[int]:
    """Divide epochs by shares, at least one each; the remainder goes to the last stage."""
    if epochs < len(shares):
        raise ValueError(f"epochs is {epochs}; this run has {len(shares)} stages, each of which needs at least one")
    counts = [max(1, int(epochs * share)) for share in shares[:-1]]
    counts.append(epochs - sum(counts))
    if counts[-1] < 1:
        raise ValueError(f"epochs is {epochs}; too few for stages of {', '.join(f'{share:.0%}' for share in shares)}")
    return counts
