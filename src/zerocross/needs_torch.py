"""Imported first by packages that need torch; without torch, the error says how to install it."""

from __future__ import annotations

from zerocross.extras import require

require("torch")
