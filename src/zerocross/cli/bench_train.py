"""`zerocross bench train`: training speed compared with the full-precision twin and the bare step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from zerocross.bench.train import Precision, TrainTimes

_NAMES = {"32": "float32", "bf16": "bfloat16"}


def command(
    model: Annotated[str, typer.Option(help="A network for 3 x 32 x 32 images.")] = "birealnet20",
    batch_size: Annotated[int, typer.Option(help="Images per update.", min=2)] = 256,
    rounds: Annotated[int, typer.Option(help="Timed updates of each contender.", min=2)] = 15,
    threads: Annotated[int, typer.Option(help="Number of torch threads.", min=1)] = 2,
    out: Annotated[Path | None, typer.Option(help="Also write the results to this file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Measure training of a binary network (forward, backward, step), compared with its full-precision twin.

    In float32 and, if the processor supports it natively, in bfloat16, with the share of the matrix-product peak of
    that precision. Also compares the full training loop (input, FF ratio, logging) with the bare step.
    """
    import dataclasses
    import os

    from rich.console import Console

    if out is not None and out.exists() and not force:
        raise FileExistsError(f"{out} already exists: choose another file, or use --force to replace it")
    import torch

    from zerocross.bench.train import measure
    from zerocross.files import write_json
    from zerocross.provenance import provenance

    torch.set_num_threads(threads)
    console = Console(highlight=False)
    say = Console(stderr=True, highlight=False).print
    before = os.getloadavg()[0]
    times = measure(model, batch_size, rounds, say=say)
    console.print(_table(times))
    peaks = " and ".join(f"{value / 1e9:.0f} GFLOP/s in {_NAMES[key]}" for key, value in times.peak_flops.items())
    console.print(
        f"{model}, batch {batch_size}, {threads} threads, medians of {2 * rounds} rounds in turn; peak {peaks} (a "
        f"large matrix product); load average {before:.1f} before.",
        soft_wrap=True,
    )
    for target in times.targets:
        bound = f"{'at least' if target.at_least else 'at most'} {target.limit:.2f}"
        verdict = "met" if target.met else "missed"
        console.print(f"{target.text}: {target.value:.2f}, target {bound}: {verdict}", soft_wrap=True)
    if out is not None:
        figures = {**dataclasses.asdict(times), "threads": threads, "rounds": rounds, "load_before": before}
        write_json(out, {**figures, "provenance": provenance()})
        console.print(f"Figures: {out}", soft_wrap=True)


def _table(times: TrainTimes) -> Table:
    from rich import box
    from rich.table import Table

    from zerocross.bench.train import contenders

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("one update", "ms", "images/s", "x float32 twin", "share of peak"):
        table.add_column(name, justify="left" if name == "one update" else "right")
    rows: list[tuple[str, float, Precision]] = [
        *((each.label, times.updates[each.label], each.precision) for each in contenders(times.precision)),
        (f"binary, {_NAMES[times.precision]}, full loop", times.loop, times.precision),
    ]
    twin = times.seconds("none", "32")
    for label, seconds, precision in rows:
        table.add_row(
            label, f"{1e3 * seconds:.0f}", f"{times.batch_size / seconds:,.0f}", f"{seconds / twin:.2f}",
            f"{times.peak_share(seconds, precision):.0%}",
        )  # fmt: skip
    return table
