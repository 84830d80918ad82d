"""The server process: a socket, uvicorn and a graceful shutdown."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable

import uvicorn

from zerocross.runtime import Model
from zerocross.serve.app import create_app
from zerocross.serve.limits import RequestLimits


def serve(
    model: Model,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    name: str = "model",
    limits: RequestLimits | None = None,
    say: Callable[[str], object] = print,
) -> None:
    """Serve requests until SIGINT or SIGTERM; requests in progress are completed first.

    Args:
        model: A packed network.
        host: Address to listen on; 0.0.0.0 stands for all interfaces. There is no authentication and no encryption: use
            a proxy in front of the server.
        port: Port to listen on; 0 selects a free port.
        name: Name of the model, for /health.
        limits: Limits of requests.
        say: Called with the address as soon as the server accepts requests.

    Examples:
        >>> from zerocross import zoo
        >>> from zerocross.serve import serve
        >>> try:
        ...     serve(zoo.load("digits"), host="256.0.0.1")  # runs until SIGINT or SIGTERM
        ... except ValueError:
        ...     print("cannot listen there")
        ...
        cannot listen there
    """
    limits = limits or RequestLimits()
    app = create_app(model, name, limits)
    try:
        listener = socket.create_server((host, port), backlog=1024)
    except OSError as error:
        raise ValueError(f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port") from None
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=limits.max_requests,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=max(1, int(limits.seconds)),
    )
    # After its shutdown, uvicorn sends itself the signal again; ignore it, since it has already been handled.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        say(f"http://{host}:{listener.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        listener.close()
        for number, handler in before.items():
            signal.signal(number, handler)
