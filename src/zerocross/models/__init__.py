"""Binary networks of the literature, each with its full-precision twin: `create(name, binarize=...)`."""

from __future__ import annotations

import zerocross.needs_torch  # noqa: F401
from zerocross.models.registry import create, names, options

__all__ = ["create", "names", "options"]
