"""Serve a packed network over HTTP; concurrent requests are computed in shared batches (extra `serve`)."""

from __future__ import annotations

from zerocross.extras import named

with named():
    from zerocross.serve.app import RequestLimits, create_app
    from zerocross.serve.server import serve

__all__ = ["RequestLimits", "create_app", "serve"]
