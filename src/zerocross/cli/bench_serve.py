"""`zerocross bench serve`: requests per second and latency of a packed network behind HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A packed network (.zcb), or zoo:NAME.")
    ] = "zoo:cifar10",
    clients: Annotated[int, typer.Option(metavar="N", min=1, help="Number of concurrent clients.")] = 16,
    seconds: Annotated[float, typer.Option(metavar="S", help="Duration of a round.")] = 3.0,
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="Rounds of each server.")] = 3,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the results to this file, e.g. results/bench_serve.json."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Replace an existing file.")] = False,
) -> None:
    """Measure `zerocross serve` over loopback, with batches of concurrent requests and with one request at a time.

    Two server processes take turns; clients are threads of this process and share the cores with them.
    """
    import os

    from rich import box
    from rich.console import Console
    from rich.table import Table

    if out is not None and out.exists() and not force:
        raise FileExistsError(f"{out} already exists: choose another file, or use --force to replace it")
    from zerocross import runtime, zoo
    from zerocross.bench.serve import measure
    from zerocross.files import write_json
    from zerocross.provenance import provenance

    console = Console(highlight=False)
    before = os.getloadavg()[0]
    network = runtime.load(zoo.located(model))
    say = Console(stderr=True, highlight=False).print
    times = measure(model, network, clients=clients, seconds=seconds, rounds=rounds, say=say)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("server", "requests per second", "median ms", "99th percentile ms", "mean batch"):
        table.add_column(name, justify="left" if name == "server" else "right")
    for label, server in times.items():
        values = server.as_dict()
        figures = (values["requests_per_second"], 1e3 * values["p50_seconds"], 1e3 * values["p99_seconds"])
        table.add_row(label, *(f"{value:.1f}" for value in figures), f"{server.mean_batch:.1f}")
    console.print(table)
    console.print(f"{model}, {clients} clients; load average {before:.1f} before, {os.getloadavg()[0]:.1f} after")
    if out is not None:
        settings = {"model": model, "clients": clients, "seconds": seconds, "load": [before, os.getloadavg()[0]]}
        servers = {label: server.as_dict() for label, server in times.items()}
        write_json(out, {**settings, "servers": servers, "provenance": provenance()})
        console.print(f"Figures: {out}", soft_wrap=True)
