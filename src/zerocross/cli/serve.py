"""zerocross serve: serve a packed network over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A packed network (.zcb), or zoo:NAME.")],
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; 0.0.0.0 for all interfaces.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 uses a free one.")] = 8000,
    threads: Annotated[int, typer.Option(metavar="N", min=1, help="Threads per batch.")] = 1,
    max_batch: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of samples per batch.")] = 64,
    max_bytes: Annotated[
        int, typer.Option(metavar="N", min=1, help="Maximum size of a request; larger ones return 413.")
    ] = 10_000_000,
    max_requests: Annotated[
        int, typer.Option(metavar="N", min=1, help="Maximum number of concurrent requests; more return 503.")
    ] = 256,
    seconds: Annotated[
        float, typer.Option(metavar="S", help="Time limit of a request; longer ones return 504.")
    ] = 30.0,
) -> None:
    """Serve a packed network over HTTP: POST /predict, GET /health, GET /metrics; /docs describes them.

    Upload files as a form (curl -F file=@cat.png ADDRESS/predict) or as the body, with their content type. Concurrent
    requests are computed in one batch. On Ctrl-C or SIGTERM the server finishes open requests, then stops. There is no
    authentication: run it behind a proxy.
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
        say=lambda address: typer.echo(f"serving {model} at {address}; stop with Ctrl-C"),
    )
