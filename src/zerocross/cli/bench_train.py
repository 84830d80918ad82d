"""`zerocross bench train`: training speed compared with a full-precision twin and with the bare step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console


def command(
    model: Annotated[str, typer.Option(help="A network for 3 x 32 x 32 images.")] = "birealnet20",
    batch_size: Annotated[int, typer.Option(help="Images per update.", min=2)] = 256,
    rounds: Annotated[int, typer.Option(help="Timed updates of each contender.", min=2)] = 15,
    threads: Annotated[int, typer.Option(help="Number of torch threads.", min=1)] = 2,
    no_compile: Annotated[bool, typer.Option("--no-compile", help="Measure eager mode only (faster).")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the results to this file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Measure the training speed of a binary network and of its full-precision twin: forward, backward and step.

    Also compares the whole loop (input, FF ratio, logging) with the bare step, and reports the share of peak FLOP/s.
    """
    import dataclasses
    import os

    from rich import box
    from rich.console import Console
    from rich.table import Table

    if out is not None and out.exists() and not force:
        raise FileExistsError(f"{out} already exists: choose another file, or use --force to replace it")
    import torch

    from zerocross.bench.train import TARGET_INPUT, TARGET_LOOP, TARGET_TWIN, measure
    from zerocross.files import write_json
    from zerocross.provenance import provenance

    torch.set_num_threads(threads)
    console = Console(highlight=False)
    say = Console(stderr=True, highlight=False).print
    before = os.getloadavg()[0]
    times = measure(model, batch_size, rounds, say=say, compile_=not no_compile)
    how = "eager" if no_compile else "compiled"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("one update", "ms", "images/s", "x twin", "of float peak"):
        table.add_column(name, justify="left" if name == "one update" else "right")
    rows = {
        "binary, eager": (times.binary_eager, times.twin_eager),
        "full-precision twin, eager": (times.twin_eager, times.twin_eager),
        f"binary, {how}": (times.binary_compiled, times.twin_compiled),
        f"full-precision twin, {how}": (times.twin_compiled, times.twin_compiled),
        f"binary, {how}, whole loop": (times.loop, times.twin_compiled),
    }
    for label, (seconds, twin) in rows.items():
        table.add_row(
            label, f"{1e3 * seconds:.0f}", f"{batch_size / seconds:,.0f}", f"{seconds / twin:.2f}",
            f"{times.peak_share(seconds):.0%}",
        )  # fmt: skip
    console.print(table)
    console.print(
        f"{model}, batch {batch_size}, {threads} threads, medians of {rounds} rounds in turn; float peak "
        f"{times.peak_flops / 1e9:.0f} GFLOP/s (a large matrix product); load average {before:.1f} before.",
        soft_wrap=True,
    )
    _verdict(console, f"binary over twin, {how}", f"{times.twin_ratio:.2f}", f"at most {TARGET_TWIN}",
             met=times.twin_ratio <= TARGET_TWIN)  # fmt: skip
    _verdict(console, "whole loop's share of the bare speed", f"{times.loop_share:.0%}", f"at least {TARGET_LOOP:.0%}",
             met=times.loop_share >= TARGET_LOOP)  # fmt: skip
    _verdict(console, "input path's share of an update", f"{times.input_share:.1%}", f"at most {TARGET_INPUT:.0%}",
             met=times.input_share <= TARGET_INPUT)  # fmt: skip
    if out is not None:
        figures = {**dataclasses.asdict(times), "threads": threads, "rounds": rounds, "load_before": before}
        write_json(out, {**figures, "provenance": provenance()})
        console.print(f"Figures: {out}", soft_wrap=True)


def _verdict(console: Console, claim: str, value: str, target: str, *, met: bool) -> None:
    console.print(f"{claim}: {value}, target {target}: {'met' if met else 'missed'}", soft_wrap=True)
