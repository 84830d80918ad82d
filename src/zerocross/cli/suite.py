"""`zerocross suite`: the benchmark's tasks, and whether their trainings have converged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Many real tasks that train in seconds.", no_args_is_help=True)


@app.command()
def tasks() -> None:
    """List the tasks: data, network, parameters, budget, and what settings are chosen on."""
    import torch

    from zerocross.data.ucr import SETS
    from zerocross.models import create
    from zerocross.nn import summary
    from zerocross.suite.tasks import TASKS
    from zerocross.tables import text_table

    classes = {name: {"classes": series.classes} for name, series in SETS.items()} | {"hapt": {"classes": 12}}
    rows = []
    for task in TASKS.values():
        with torch.device("meta"):  # shapes without memory
            total = summary(create(task.network, **{**classes.get(task.name, {}), **task.network_options})).total
        part = task.data_options.get("train_size")
        data = " ".join([task.data, str(task.data_options.get("set", ""))]).strip()
        rows.append(
            [
                task.name,
                data + (f", {part:,} training samples" if part else ""),
                task.network,
                task.held_out,
                task.metric,
                f"{total.binary:,}",
                f"{total.real:,}",
                str(task.epochs),
                str(task.batch_size),
            ]
        )
    header = ["task", "data", "network", "settings chosen on", "metric", "binary", "real", "epochs", "batch"]
    typer.echo(text_table(header, rows, right=4))
    typer.echo(f"{len(rows)} tasks. Has one converged? zerocross suite converge TASK")


@app.command()
def converge(
    name: Annotated[str, typer.Argument(metavar="TASK", help="A task of `zerocross suite tasks`.")],
    seeds: Annotated[int, typer.Option(min=2, help="How many trainings of each kind.")] = 3,
    data_dir: Annotated[
        Path | None, typer.Option(envvar="ZEROCROSS_DATA", metavar="DIR", help="Where the datasets are.")
    ] = None,
) -> None:
    """Train a task at its length and at twice that, the filter and the full-precision twin, on held-out training data.

    A task has converged where twice the length changes less than another seed does. Exit code 1: one has not.
    """
    from zerocross.suite.tasks import convergence, get
    from zerocross.tables import text_table

    task = get(name)
    found = convergence(task, data_dir, seeds)
    rows = [
        [
            row.method,
            " ".join(f"{score:.2f}" for score in row.single),
            " ".join(f"{score:.2f}" for score in row.double),
            f"{row.change:+.2f}",
            f"{row.noise:.2f}",
            "yes" if row.converged else "no",
        ]
        for row in found
    ]
    header = ["method", f"{task.epochs} epochs", f"{2 * task.epochs} epochs", "change", "seeds' noise", "converged"]
    typer.echo(text_table(header, rows, right=3))
    raise typer.Exit(0 if all(row.converged for row in found) else 1)
