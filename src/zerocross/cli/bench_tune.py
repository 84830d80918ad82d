"""`zerocross bench tune`: trials per minute with one and two workers, and the time of the samplers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerocross.cli.train import DATA_DIR


def command(
    recipe: Annotated[str, typer.Option(metavar="NAME", help="The recipe that a trial trains.")] = "audiomnist-mlp",
    epochs: Annotated[int, typer.Option(metavar="N", help="Epochs of a trial.", min=1)] = 1,
    trials: Annotated[int, typer.Option(metavar="N", help="Trials of each search.", min=1)] = 12,
    rounds: Annotated[int, typer.Option(metavar="N", help="Searches with each number of workers.", min=1)] = 3,
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the results to this file, e.g. results/bench_tune.json."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Replace an existing file.")] = False,
) -> None:
    """Measure a search with one worker (on one thread and on all) and with two, and the time of each sampler.

    Workers are processes that share the cores. Their startup time is not included.
    """
    import os

    from rich import box
    from rich.console import Console
    from rich.table import Table

    if out is not None and out.exists() and not force:
        raise FileExistsError(f"{out} already exists: choose another file, or use --force to replace it")
    from zerocross.bench.tune import TARGET, TWO, measure
    from zerocross.files import write_json
    from zerocross.provenance import provenance
    from zerocross.train import recipes
    from zerocross.train.variants import with_epochs

    console = Console(highlight=False)
    config = with_epochs(recipes.get(recipe).config, epochs)
    before = os.getloadavg()[0]
    where = str(data_dir.resolve()) if data_dir else None
    times = measure(config, where, trials=trials, rounds=rounds, say=Console(stderr=True, highlight=False).print)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("workers", "trials per minute", "x the first"):
        table.add_column(name, justify="left" if name == "workers" else "right")
    for crew in times.rates:
        table.add_row(crew.label, f"{times.rate(crew):.1f}", f"{times.gain(crew):.2f}")
    console.print(table)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("sampler", "ms per suggestion, filter (2)", "latent (6)"):
        table.add_column(name, justify="left" if name == "sampler" else "right")
    for sampler, seconds in times.suggestions.items():
        table.add_row(sampler, *(f"{1e3 * seconds[space]:.0f}" for space in ("filter", "latent")))
    console.print(table)
    verdict = "met" if times.gain(TWO) >= TARGET else "missed"
    console.print(f"load average {before:.1f} before, {os.getloadavg()[0]:.1f} after")
    console.print(
        f"two workers, x one worker, one thread each: {times.gain(TWO):.2f}, target at least {TARGET}: {verdict}"
    )
    if out is not None:
        settings = {"recipe": recipe, "epochs": epochs, "load": [before, os.getloadavg()[0]]}
        write_json(out, {**settings, **times.as_dict(), "provenance": provenance()})
        console.print(f"Figures: {out}", soft_wrap=True)
