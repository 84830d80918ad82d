"""zerocross bench state: bfloat16 beside float32 state of GradientFilter, in accuracy, FF ratio and signs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from zerocross.cli.train import DATA_DIR

_SEEDS = {"digits": 10, "audiomnist": 5, "ECG5000": 5, "ItalyPowerDemand": 5, "TwoPatterns": 5, "Wafer": 5}


def command(
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A task of `zerocross suite tasks`. Repeatable. Default: six of them."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="Seeds of each task. Default: 10 of digits, else 5.", min=1)
    ] = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", help="Default: those of the task.", min=1)] = None,
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the results to this file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Train tasks of the suite with float32 and with bfloat16 state, same seeds, and compare.

    Signs are compared on the same gradients: each training also filters its gradients with the other state.
    """
    if out is not None and out.exists() and not force:
        raise FileExistsError(f"{out} already exists: choose another file, or use --force to replace it")
    from zerocross.bench.state import compare
    from zerocross.files import write_json
    from zerocross.provenance import provenance
    from zerocross.suite import tasks

    counts = {name: seeds or _SEEDS.get(name, 5) for name in task or _SEEDS}
    configs = {
        name: [tasks.get(name).config(seed=seed, epochs=epochs) for seed in range(count)]
        for name, count in counts.items()
    }
    results = compare(configs, data_dir=data_dir, say=lambda line: sys.stdout.write(f"{line}\n"))
    if out is not None:
        write_json(out, {"tasks": results, "provenance": provenance()})
        sys.stdout.write(f"Figures: {out}\n")
