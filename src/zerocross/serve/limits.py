"""Limits on the size and duration of requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True)
class RequestLimits:
    """Limits of the server.

    Args:
        max_bytes: Size of a request's body.
        seconds: Duration of a request, including its upload.
        max_files: Files per request.
        max_batch: Samples per batch.
        max_requests: Concurrent requests; more are rejected with status 503.

    Examples:
        >>> from zerocross.serve import RequestLimits
        >>> RequestLimits(max_batch=16).seconds
        30.0
    """

    max_bytes: int = 10_000_000
    seconds: float = 30.0
    max_files: int = 64
    max_batch: int = 64
    max_requests: int = 256

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_files", "max_batch", "max_requests"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: it must be at least 1")
        if not 0 < self.seconds <= 3600:
            raise ValueError(f"seconds = {self.seconds}: it must be above 0 and at most 3600")


class LimitsMiddleware:
    """ASGI middleware that rejects large bodies with status 413 and ends slow requests with status 504.

    Args:
        app: The wrapped application.
        limits: See `RequestLimits`.
        on_end: Called with path, status and seconds of every request.
    """

    def __init__(self, app: ASGIApp, limits: RequestLimits, on_end: Callable[[str, int, float], object]) -> None:
        self.app, self.limits, self.on_end = app, limits, on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, received = time.perf_counter(), 0, 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.limits.max_bytes:
                raise HTTPException(413, self._too_large)
            return message

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if _length(scope) > self.limits.max_bytes:
                await _refuse(413, self._too_large)(scope, receive, watched)
                return
            with anyio.fail_after(self.limits.seconds):
                await self.app(scope, counted, watched)
        except TimeoutError:
            if not status:
                late = f"the request took longer than {self.limits.seconds:g} s"
                await _refuse(504, late)(scope, receive, watched)
        finally:
            self.on_end(scope["path"], status or 500, time.perf_counter() - began)

    @property
    def _too_large(self) -> str:
        return f"the request is larger than {self.limits.max_bytes:,} bytes"


def _refuse(status: int, reason: str) -> Any:
    return JSONResponse({"detail": reason}, status, {"Connection": "close"})


def _length(scope: Scope) -> int:
    stated = dict(scope["headers"]).get(b"content-length", b"0")
    return int(stated) if stated.isdigit() else 0
