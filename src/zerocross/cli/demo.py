"""zerocross demo: train a binary network on embedded data with three seeds, and suggest what to try next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerocross.cli.train import carry_out


def command(
    seeds: Annotated[int, typer.Option(metavar="N", help="Number of runs.", min=1)] = 3,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", help="Epochs of each run. Default: the recipe's.", min=1)
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Parent of the run folders.")] = Path("runs"),
) -> int:
    """Train a binary convolutional network on scikit-learn's digits with GradientFilter, once per seed."""
    import dataclasses
    import functools
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
        run, seeded = folder / f"seed{seed}", dataclasses.replace(config, seed=seed)
        ended = carry_out(run, functools.partial(train.begin, seeded, run))
        if isinstance(ended, int):
            return ended
        done.append(ended)
    accuracies = [run.result["final"]["top1"] for run in done]
    seconds = statistics.median(run.result["seconds"] for run in done)
    flips = done[-1].result["ff_ratio"]
    model = done[-1].model
    total = summary(model, (1, 1, 8, 8)).total  # type: ignore[arg-type]
    binary_macs, real_macs = total.binary_macs or 0, total.real_macs or 0
    share = 100 * binary_macs / (binary_macs + real_macs)
    spread, runs = "", "one seed"
    if seeds > 1:
        spread, runs = f" +- {statistics.stdev(accuracies):.2f}", f"mean and standard deviation of {seeds} seeds"
    last = folder / f"seed{seeds - 1}"
    report = {
        "Accuracy": f"{statistics.mean(accuracies):.2f}{spread} % on the test digits ({runs}, {seconds:.0f} s each)",
        "Binary": f"{total.binary:,} of {total.binary + total.real:,} weights are -1 or +1; they do "
        f"{share:.0f} % of all multiply-accumulates",
        "Flips": f"flips per weight and update fell from {flips[0][1]:.2f} to {flips[-1][1]:.4f} as alpha "
        f"decayed: {last / 'curves.png'}",
        "Files": f"config.json, metrics.jsonl, checkpoints/ and model.safetensors in {last}",
        "Try next": "zerocross train digits --set optimizer.alpha=1e-2; zerocross filter --alpha 3e-3 --gamma 0.1",
    }
    console.print()
    for what, text in report.items():
        console.print(f"{what}: {text}", markup=False)
    return 0


def _fresh(folder: Path) -> Path:
    """Return the first of demo-1, demo-2, ... that does not exist, so that no run is overwritten."""
    number = 1
    while (candidate := folder.with_name(f"{folder.name}-{number}")).exists():
        number += 1
    return candidate
