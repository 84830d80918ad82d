"""zerocross runs: a table of the runs in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[Path, typer.Argument(help="A folder that holds run folders.")] = Path("runs"),
) -> None:
    """List the runs in a folder: what was trained, how far it is, and how well it did."""
    import json

    from rich.console import Console
    from rich.table import Table

    from zerocross.train.record import read_lines
    from zerocross.train.run import read_config

    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; runs are made by: zerocross train")
    found = sorted({path.parent for path in folder.rglob("config.json")})
    if not found:
        raise FileNotFoundError(f"{folder} holds no run; make one by: zerocross train")
    table = Table(box=None, pad_edge=False)
    for header in ("run", "model", "method", "seed", "epochs", "accuracy %", "on", "FF ratio", "state"):
        table.add_column(header, justify="right" if header in {"seed", "epochs", "accuracy %", "FF ratio"} else "left")
    for run in found:
        try:
            config = read_config(run)
        except ValueError as wrong:
            table.add_row(str(run.relative_to(folder)), "", "", "", "", "", "", "", f"unreadable: {wrong}")
            continue
        lines = read_lines(run / "metrics.jsonl") if (run / "metrics.jsonl").exists() else []
        evals = [line for line in lines if line["kind"] == "eval"]
        flips = [line["ff_ratio"] for line in lines if line.get("ff_ratio") is not None]
        result = run / "result.json"
        on = json.loads(result.read_text(encoding="utf-8"))["evaluated_on"] if result.exists() else ""
        table.add_row(
            str(run.relative_to(folder)), config.model.name, config.method, str(config.seed),
            f"{len(evals)} of {sum(stage.epochs for stage in config.stages)}",
            f"{evals[-1]['top1']:.2f}" if evals else "-", on or ("validation" if config.data.validate else "test"),
            f"{flips[-1]:.1e}" if flips else "-", "finished" if result.exists() else "unfinished",
        )  # fmt: skip
    Console(highlight=False).print(table)
