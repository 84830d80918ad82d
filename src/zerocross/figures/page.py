"""Panels on an HTML page, by Plotly: a place for each, their data as JSON, and the scripts that draw them there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from zerocross.figures.panel import Panel


def place(panel: Panel, number: int) -> str:
    """The HTML element in which charts.js draws the panel of that number."""
    title = f"<figcaption>{escape(panel.title)}</figcaption>" if panel.title else ""
    return f'<figure data-panel="{number}">{title}<div class="legend"></div><div class="chart"></div></figure>'


def data(panels: Sequence[Panel]) -> str:
    """The JSON that charts.js draws from: all panels of a page, in the order of their numbers."""
    return script_json(rounded([panel.to_dict() for panel in panels]))


def charts_script() -> str:
    """The script that draws panels, with Plotly."""
    return files("zerocross.figures").joinpath("charts.js").read_text(encoding="utf-8")


def plotly_script() -> str:
    """Plotly itself.

    Raises:
        ValueError: if it is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ValueError("the page's figures are drawn by Plotly: pip install 'zerocross[report]'") from None
    return get_plotlyjs()


def script_json(value: Any) -> str:
    """JSON that is safe inside a script element."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def rounded(value: Any) -> Any:
    """The same containers with floats of six digits: more than a picture can show."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
