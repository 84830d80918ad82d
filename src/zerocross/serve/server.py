"""The server's process: a socket, uvicorn, and an end without loss."""

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
    """Answer requests until SIGINT or SIGTERM; requests that are under way then are answered first.

    Args:
        model: a packed network.
        host: address to listen at; 0.0.0.0 is every one of this machine. There is no authentication and no encryption:
            put a proxy before it.
        port: 0 takes a free one.
        name: of the model, for /health.
        limits: of requests.
        say: told the address once requests are taken.

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
    except OSError as wrong:
        raise ValueError(f"cannot listen at {host}:{port}: {wrong.strerror or wrong}; choose another --port") from None
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=limits.max_requests,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=max(1, int(limits.seconds)),
    )
    # uvicorn sends itself the signal that stopped it once more when all is answered; by then it has been heard.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        say(f"http://{host}:{listener.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        listener.close()
        for number, handler in before.items():
            signal.signal(number, handler)
