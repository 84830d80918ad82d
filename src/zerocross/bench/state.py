"""bfloat16 beside float32 state of GradientFilter: accuracy, FF ratio, and signs on the same gradients."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from zerocross import data
from zerocross.data.dataset import Dataset
from zerocross.optim import GradientFilter, HybridOptimizer, ff_ratio
from zerocross.train.build import StageParts, build_stage
from zerocross.train.config import Config
from zerocross.train.evaluation import evaluate

DTYPES: Mapping[str, torch.dtype | None] = {"float32": None, "bfloat16": torch.bfloat16}


def compare(
    configs: Mapping[str, Sequence[Config]],
    *,
    data_dir: Path | str | None = None,
    say: Callable[[str], object] = str,
) -> dict[str, Any]:
    """Train each task with each state, same seeds; return accuracies, FF ratios and differing signs by task.

    Args:
        configs: Name of a task -> its config with each seed.
        data_dir: The folder of the datasets.
        say: Called with progress messages.
    """
    results = {}
    for name, seeded in configs.items():
        source = seeded[0].data
        dataset = data.load(source.name, data_dir, validate=source.validate, **dict(source.options))
        runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in DTYPES}
        for config in seeded:
            for kind in DTYPES:
                runs[kind].append(train(config, dataset, kind))
        results[name] = _summary(runs)
        say(_line(name, results[name]))
    return results


def train(config: Config, dataset: Dataset, kind: str) -> dict[str, float]:
    """Train once; also filter the same gradients with the other state, and count the signs that differ."""
    parts = build_stage(config, 0, dataset)
    optimizer = _with_state(parts, DTYPES[kind])
    real = [p for group in optimizer.binary.param_groups for p in group["params"]]
    shadows = [nn.Parameter(p.detach().clone()) for p in real]
    other = next(dtype for key, dtype in DTYPES.items() if key != kind)
    shadow = _filter_like(optimizer.binary.param_groups[0], shadows, other)
    step, flips, differing = 0, [], []
    parts.network.train()
    for epoch in range(parts.stage.epochs):
        for x, y in parts.train.epoch(epoch):
            parts.schedules.apply(optimizer, step)
            optimizer.zero_grad()
            F.cross_entropy(parts.network(x), y).backward()
            for p, twin in zip(real, shadows, strict=True):
                twin.grad = p.grad
            shadow.param_groups[0]["lr"] = optimizer.binary.param_groups[0]["lr"]
            optimizer.step()
            shadow.step()
            flips.append(ff_ratio(optimizer))
            differing.append(_share(real, shadows))
            step += 1
    score = evaluate(parts.network, parts.evaluation)
    return {
        "top1": score["top1"],
        "ff_ratio": statistics.fmean(flips[1:]),  # the first update flips half of all weights
        "differing_mean": statistics.fmean(differing),
        "differing_last": differing[-1],
    }


def _with_state(parts: StageParts, dtype: torch.dtype | None) -> HybridOptimizer:
    """Return the optimizer of a stage with the filter replaced by one with this state."""
    built = parts.optimizer
    if not isinstance(built, HybridOptimizer) or not isinstance(built.binary, GradientFilter):
        name = type(getattr(built, "binary", built)).__name__
        raise TypeError(f"{name} has no state_dtype: only the filter is compared")
    group = built.binary.param_groups[0]
    filt = _filter_like(group, group["params"], dtype)
    return HybridOptimizer(filt, built.real, parts.network)


def _filter_like(group: dict[str, Any], params: list[nn.Parameter], dtype: torch.dtype | None) -> GradientFilter:
    return GradientFilter(params, float(group["lr"]), group["gamma"], state_dtype=dtype, ff_every=1)


def _share(one: list[nn.Parameter], other: list[nn.Parameter]) -> float:
    differing = sum(int((a != b).sum()) for a, b in zip(one, other, strict=True))
    return differing / sum(p.numel() for p in one)


def _summary(runs: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    summary: dict[str, Any] = {"seeds": len(next(iter(runs.values()))), "runs": runs}
    for kind, results in runs.items():
        summary[kind] = {
            f"{key}_{what}": of([run[key] for run in results])
            for key in ("top1", "ff_ratio", "differing_mean")
            for what, of in (("mean", statistics.fmean), ("std", _deviation))
        }
    gaps = [b["top1"] - a["top1"] for a, b in zip(runs["float32"], runs["bfloat16"], strict=True)]
    summary["top1_difference"] = {"mean": statistics.fmean(gaps), "std": _deviation(gaps)}
    summary["ff_ratio_quotient"] = summary["bfloat16"]["ff_ratio_mean"] / summary["float32"]["ff_ratio_mean"]
    return summary


def _deviation(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _line(name: str, result: dict[str, Any]) -> str:
    one, other, gap = result["float32"], result["bfloat16"], result["top1_difference"]
    return (
        f"{name}: {one['top1_mean']:.2f} +- {one['top1_std']:.2f} % with float32 state, {other['top1_mean']:.2f} +- "
        f"{other['top1_std']:.2f} % with bfloat16 (difference {gap['mean']:+.2f} +- {gap['std']:.2f}, "
        f"{result['seeds']} seeds); FF ratio x {result['ff_ratio_quotient']:.3f}; on the same gradients "
        f"{one['differing_mean_mean']:.3%} of signs differ"
    )
