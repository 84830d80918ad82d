"""What `zerocross report` shows of a result of the suite: these keys beside the result's own, in the same JSON file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zerocross.figures.panel import Panel, Table

KIND = "zerocross suite"


def section(
    name: str,
    title: str,
    caption: str,
    command: str,
    *,
    claims: Sequence[Mapping[str, Any]] = (),
    panels: Sequence[Panel] = (),
    tables: Sequence[Table] = (),
    picture: bool = False,
) -> dict[str, Any]:
    """Return the section of a result on the page.

    Args:
        name: Anchor of the section.
        title: Its heading.
        caption: A paragraph below the heading.
        command: The command that writes the result.
        claims: As in an artefact: `sentence`, `holds` and `figures`.
        panels: Drawn by Plotly.
        tables: Shown below the panels.
        picture: Show the SVG beside the JSON file.
    """
    return {
        "kind": KIND,
        "name": name,
        "title": title,
        "caption": caption,
        "command": command,
        "claims": [dict(claim) for claim in claims],
        "show_picture": picture,
        "data": {
            "panels": [panel.to_dict() for panel in panels],
            "tables": [table.to_dict() for table in tables],
        },
    }
