"""Panels on an HTML page, drawn by Plotly: an element per panel, the data as JSON, and the scripts that draw them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from zerocross.figures.panel import Panel


def place(panel: Panel, number: int) -> str:
    """Return the HTML element in which charts.js draws the panel with this number."""
    title = f"<figcaption>{escape(panel.title)}</figcaption>" if panel.title else ""
    return f'<figure data-panel="{number}">{title}<div class="legend"></div><div class="chart"></div></figure>'


def data(panels: Sequence[Panel]) -> str:
    """Return the JSON that charts.js reads: all panels of a page, in the order of their numbers."""
    return script_json(rounded([panel.to_dict() for panel in panels]))


def charts_script() -> str:
    """Return the script that draws panels with Plotly."""
    return files("zerocross.figures").joinpath("charts.js").read_text(encoding="utf-8")


def plotly_script() -> str:
    """Return the source of Plotly.

    Raises:
        ValueError: if Plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ValueError("Plotly, which draws the figures, is not installed: pip install 'zerocross[report]'") from None
    return get_plotlyjs()


def script_json(value: Any) -> str:
    """Return JSON that is safe inside a script element."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def rounded(value: Any) -> Any:
    """Return the same containers with floats rounded to six digits, more than a picture can show."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
