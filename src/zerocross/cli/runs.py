"""zerocross runs: a table of the runs in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that holds run folders.")] = Path("runs"),
) -> None:
    """List the runs in a folder: what was trained, how far it is, and how well it did."""
    from zerocross.nn.tables import text_table

    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; runs are made by: zerocross train")
    found = sorted({path.parent for path in folder.rglob("config.json")})
    if not found:
        raise FileNotFoundError(f"{folder} holds no run; make one by: zerocross train")
    rows = [_row(run, str(run.relative_to(folder))) for run in found]
    header = ["run", "data", "model", "method", "state", "seed", "epochs", "accuracy %", "FF ratio"]
    typer.echo(text_table(header, rows, right=4))


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
