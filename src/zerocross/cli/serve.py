"""zerocross serve: a packed network behind HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A packed network (.zcb), or zoo:NAME.")],
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen; 0.0.0.0: everywhere.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0 takes a free one.")] = 8000,
    threads: Annotated[int, typer.Option(metavar="N", min=1, help="Threads of a batch.")] = 1,
    max_batch: Annotated[int, typer.Option(metavar="N", min=1, help="Samples computed at once.")] = 64,
    max_bytes: Annotated[int, typer.Option(metavar="N", min=1, help="Of a request; more is 413.")] = 10_000_000,
    max_requests: Annotated[int, typer.Option(metavar="N", min=1, help="At a time; more is 503.")] = 256,
    seconds: Annotated[float, typer.Option(metavar="S", help="That a request may take; longer is 504.")] = 30.0,
) -> None:
    """Serve a packed network over HTTP: POST /predict, GET /health, GET /metrics; /docs describes them.

    Upload files as a form (curl -F file=@cat.png ADDRESS/predict) or as the body, with their content type. Concurrent
    requests are computed in one batch. Ctrl-C or SIGTERM answers what is under way, then stops. There is no
    authentication: keep it behind a proxy.
    """
    from zerocross import zoo
    from zerocross.runtime import load
    from zerocross.serve import RequestLimits, serve

    limits = RequestLimits(max_bytes=max_bytes, seconds=seconds, max_batch=max_batch, max_requests=max_requests)
    network = load(zoo.located(model), threads=threads)
    serve(
        network,
        host,
        port,
        name=str(model),
        limits=limits,
        say=lambda address: typer.echo(f"{model} at {address}; stop with Ctrl-C"),
    )
