"""zerocross demo: a binary network on embedded data, three seeds, and what to try next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    seeds: Annotated[int, typer.Option(help="How many runs.", min=1)] = 3,
    epochs: Annotated[int | None, typer.Option(help="Epochs of each run. Default: the recipe's.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="Where the run folders go.")] = Path("runs"),
) -> None:
    """Train a binary convolutional network on scikit-learn's digits with GradientFilter, once per seed."""
    import dataclasses
    import statistics

    from rich.console import Console

    from zerocross import train
    from zerocross.nn import summary

    console = Console(highlight=False, soft_wrap=True)
    config = train.RECIPES["digits"].config
    if epochs is not None:
        config = dataclasses.replace(config, stages=(dataclasses.replace(config.stages[0], epochs=epochs),))
    folder = _fresh(out / "demo")
    console.print(f"{seeds} runs of the recipe 'digits' into {folder}", markup=False)
    done = []
    for seed in range(seeds):
        console.print(f"seed {seed}", markup=False)
        done.append(train.begin(dataclasses.replace(config, seed=seed), folder / f"seed{seed}", show=True))
    accuracies = [run.result["final"]["top1"] for run in done]
    seconds = statistics.median(run.result["seconds"] for run in done)
    flips = done[-1].result["ff_ratio"]
    model = done[-1].model
    total = summary(model, (1, 1, 8, 8)).total  # type: ignore[arg-type]
    spread = f" +- {statistics.stdev(accuracies):.2f}" if seeds > 1 else ""
    share = 100 * (total.binary_macs or 0) / ((total.binary_macs or 0) + (total.real_macs or 1))
    last = folder / f"seed{seeds - 1}"
    for line in (
        "",
        f"What happened: {statistics.mean(accuracies):.2f}{spread} % of the held-out digits right, after the last epoch "
        f"(mean{' and standard deviation' if seeds > 1 else ''} of {seeds} seed{'s' * (seeds > 1)}, {seconds:.0f} s each).",
        f"What is binary: {total.binary:,} of {total.binary + total.real:,} weights are -1 or +1 and were flipped, never "
        f"scaled; with binary activations that is {share:.0f} % of all multiply-accumulates.",
        f"How it learned: flips per weight and update fell from {flips[0][1]:.2f} to {flips[-1][1]:.4f} as alpha decayed; "
        f"see {last / 'curves.png'}",
        f"What is there: config.json, metrics.jsonl, checkpoints/, model.safetensors in {last}",
        "What next: zerocross train digits --set optimizer.alpha=1e-2 --out runs/fast | zerocross filter --alpha 3e-3 "
        "--gamma 0.1 | zerocross train cifar10-birealnet20 --epochs 15",
    ):
        console.print(line, markup=False)


def _fresh(folder: Path) -> Path:
    """The first of demo-1, demo-2, ... that does not exist: a demo never writes over another."""
    number = 1
    while (found := folder.with_name(f"{folder.name}-{number}")).exists():
        number += 1
    return found
