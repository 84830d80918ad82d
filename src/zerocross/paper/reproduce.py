"""Create an artefact: run the missing trainings, judge its claims, write JSON and pictures."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zerocross.figures.panel import panel_from, table_from
from zerocross.files import write_json
from zerocross.paper.artefact import Artefact, Content, Scale
from zerocross.paper.session import Session
from zerocross.provenance import provenance

KIND = "zerocross reproduce"  # identifies files written by this command


def paths(out: Path, name: str, scale: Scale) -> dict[str, Path]:
    """Return the files of an artefact."""
    return {kind: out / f"{name}-{scale}.{kind}" for kind in ("json", "svg", "png")}


def make(artefact: Artefact, scale: Scale, session: Session) -> dict[str, Any]:
    """Run an artefact, and write its JSON and pictures, replacing an earlier version."""
    start = time.monotonic()
    content = artefact.run(scale, session)
    document = {
        "kind": KIND,
        "name": artefact.name,
        "scale": scale,
        "title": artefact.title,
        "caption": artefact.caption,
        "command": f"zerocross reproduce {artefact.name} --scale {scale}",
        "claims": judged(artefact, scale, content),
        "notes": [*artefact.notes, *(text for at, text in artefact.findings.items() if at == scale)],
        "paper": dict(artefact.paper),
        "settings": [dataclasses.asdict(setting) for setting in artefact.settings(scale)],
        "seconds": round(sum(run["seconds"] for run in content.runs), 1),
        "wall_seconds": round(time.monotonic() - start, 1),
        "provenance": {
            **provenance(),
            "seeds": sorted({run["seed"] for run in content.runs}),
            "configs": sorted({run["hash"] for run in content.runs}),
        },
        "data": content.to_dict(),
    }
    files = paths(session.out, artefact.name, scale)
    write_json(files["json"], document)
    draw(artefact, files)
    return document


def judged(artefact: Artefact, scale: Scale, content: Content) -> list[dict[str, Any]]:
    """Return the claims with their verdicts."""
    return [
        {"sentence": claim.sentence, **dataclasses.asdict(claim.verdict(content.measured, scale)), "paper": claim.paper}
        for claim in artefact.claims
    ]


def draw(artefact: Artefact, files: Mapping[str, Path]) -> None:
    """Draw the pictures of an artefact from its JSON file."""
    data = json.loads(files["json"].read_text(encoding="utf-8"))["data"]
    panels = [panel_from(values) for values in data.get("panels", [])]
    tables = [table_from(values) for values in data["tables"]]
    for kind in ("svg", "png"):
        artefact.plot(panels, tables, files[kind])
