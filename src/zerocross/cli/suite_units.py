"""`zerocross suite units`: find the unit of the flip rate that depends least on length and batch size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def units(
    tasks: Annotated[str, typer.Option(help="Comma-separated tasks.")] = "Crop,ElectricDevices",
    updates: Annotated[str, typer.Option(help="Comma-separated lengths of runs, in updates.")] = "400,1500",
    batches: Annotated[str, typer.Option(help="Comma-separated batch sizes.")] = "32",
    seeds: Annotated[int, typer.Option(min=1, help="Seeds per setting.")] = 1,
    out: Annotated[Path, typer.Option(help="JSON file of runs; continued if it exists.")] = Path(
        "results/flip-units.json"
    ),
    data_dir: Annotated[
        Path | None, typer.Option(envvar="ZEROCROSS_DATA", metavar="DIR", help="Folder of the datasets.")
    ] = None,
) -> None:
    """Train method flip over flip rates, lengths and batch sizes; print the best rate of each cell in three units.

    Runs are evaluated on held-out training data. The best values of a suitable unit agree over all cells; `spread` is
    their standard deviation in factors of two.
    """
    import json

    from zerocross.suite.units import UNITS, Cell, best, measure, spread
    from zerocross.tables import text_table

    try:
        sizes = [(int(length), int(batch)) for length in updates.split(",") for batch in batches.split(",")]
    except ValueError:
        raise ValueError(f"--updates {updates} and --batches {batches} must be comma-separated whole numbers") from None
    cells = [Cell(name.strip(), length, batch) for length, batch in sizes for name in tasks.split(",")]
    for run in measure(cells, out, data_dir, seeds=seeds):
        typer.echo(" ".join(f"{key} {value}" for key, value in run.items()))
    runs = json.loads(out.read_text(encoding="utf-8"))["runs"]
    for by in ("loss", "top1"):
        rows = best(runs, by)
        table = [[r["task"], str(r["updates"]), str(r["batch_size"]), *(f"{r[u]:.3g}" for u in UNITS)] for r in rows]
        spreads = spread(rows) if len(rows) > 1 else {}
        table.append(["spread", "", "", *(f"{spreads[u]:.2f}" if spreads else "" for u in UNITS)])
        typer.echo(f"\nbest by {by}")
        typer.echo(text_table(["task", "updates", "batch", *UNITS], table, right=1))
