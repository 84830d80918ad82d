"""zerocross runs: list the runs in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A folder of run folders. Default: runs.")
    ] = None,
    stale: Annotated[
        bool,
        typer.Option(
            "--stale", metavar="", help="List results (DIR/HASH.json) that the current code would compute differently."
        ),
    ] = False,
    migrate: Annotated[
        bool,
        typer.Option("--migrate", metavar="", help="Rename results whose config has new fields but the same meaning."),
    ] = False,
) -> None:
    """List the runs in a folder with their settings, progress and accuracy.

    With --stale or --migrate, DIR is a folder of finished results, by default results/runs.
    """
    from zerocross.tables import text_table

    if stale or migrate:
        results = folder or Path("results/runs")
        if not results.is_dir():
            raise FileNotFoundError(f"there is no folder {results}; create results with: zerocross train --results DIR")
        _migrate(results) if migrate else _stale(results)
        return
    folder = folder or Path("runs")
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; create runs with: zerocross train")
    runs = sorted({path.parent for path in folder.rglob("config.json")})
    if not runs:
        raise FileNotFoundError(f"{folder} contains no runs; create one with: zerocross train")
    rows = [_row(run, str(run.relative_to(folder))) for run in runs]
    header = ["run", "data", "model", "method", "state", "seed", "epochs", "accuracy %", "FF ratio"]
    typer.echo(text_table(header, rows, right=4))


def _stale(results: Path) -> None:
    from zerocross.sweep.stale import stale
    from zerocross.tables import text_table

    entries = stale(results)
    count = len(list(results.glob("*.json")))
    if entries:
        rows = [[e.path.name, e.method or "-", "-" if e.seed is None else str(e.seed), e.reason] for e in entries]
        typer.echo(text_table(["result", "method", "seed", "reason"], rows, right=4))
    hint = "; rename them with: zerocross runs --migrate" if any(e.migratable for e in entries) else ""
    typer.echo(f"{len(entries)} of {count} results in {results} are stale{hint}")


def _migrate(results: Path) -> None:
    from zerocross.sweep.stale import migrate, stale

    moved = list(migrate(results))
    for old, new in moved:
        typer.echo(f"{old.name} -> {new.name}")
    left = len(stale(results))
    typer.echo(f"{len(moved)} results renamed; {left} have another revision and must be trained again")


def _row(run: Path, name: str) -> list[str]:
    from zerocross.train import read_config
    from zerocross.train.record import read_lines

    try:
        config = read_config(run)
    except ValueError:
        return [name, "", "", "", "unreadable", "", "", "", ""]
    lines = read_lines(run / "metrics.jsonl")
    evals = [line for line in lines if line["kind"] == "eval"]
    flips = [line["ff_ratio"] for line in lines if "ff_ratio" in line]
    part = " (validation)" if config.data.validate else ""
    return [
        name, config.data.name + part, config.model.name, config.method,
        "finished" if (run / "result.json").exists() else "unfinished", str(config.seed),
        f"{len(evals)}/{sum(stage.epochs for stage in config.stages)}",
        f"{evals[-1]['top1']:.2f}" if evals else "-", f"{flips[-1]:.1e}" if flips else "-",
    ]  # fmt: skip
