"""Imported first by parts that are made of torch: without it, the error says how to install it."""

from __future__ import annotations

from zerocross.extras import require

require("torch")
