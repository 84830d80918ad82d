"""A small HTTP server on 127.0.0.1 that can misbehave: no ranges, wrong ranges, broken connections."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """The content and faults of the server, and the received requests."""

    content: bytes = b""
    status: int = 0
    ranges: bool = True
    lie: int = 0  # start a continued response that many bytes early
    dies_after: int | None = None  # bytes of a response before the connection is closed
    says_length: bool = True
    address: str = ""
    requests: list[str | None] = field(default_factory=list)


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requested = self.headers.get("Range")
            site.requests.append(requested)
            if site.status:
                self.send_error(site.status)
                return
            start = int(requested.removeprefix("bytes=").rstrip("-")) if requested and site.ranges else 0
            total = len(site.content)
            if start >= total > 0 and requested:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{total}")
                self.end_headers()
                return
            start -= site.lie if requested else 0
            self.send_response(206 if requested and site.ranges else 200)
            if requested and site.ranges:
                self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
            if site.says_length:
                self.send_header("Content-Length", str(total - start))
            self.end_headers()
            self.wfile.write(site.content[start:][: site.dies_after])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keep the test's output quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    site.address = f"http://127.0.0.1:{server.server_address[1]}/batches.tar.gz"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
