"""Make an artefact: run what is missing, judge its claims, write JSON and pictures."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zerocross.experiments.artefact import Artefact, Scale
from zerocross.experiments.session import Session
from zerocross.files import write_json
from zerocross.provenance import provenance

KIND = "zerocross reproduce"  # tells our files from others


def paths(out: Path, name: str, scale: Scale) -> dict[str, Path]:
    """The files of an artefact."""
    return {kind: out / f"{name}-{scale}.{kind}" for kind in ("json", "svg", "png")}


def make(artefact: Artefact, scale: Scale, session: Session) -> dict[str, Any]:
    """Run an artefact, and write its JSON and pictures; an earlier version is replaced."""
    began = time.monotonic()
    data = artefact.run(scale, session)
    document = {
        "kind": KIND,
        "name": artefact.name,
        "scale": scale,
        "title": artefact.title,
        "caption": artefact.caption,
        "command": f"zerocross reproduce {artefact.name} --scale {scale}",
        "claims": judged(artefact, scale, data),
        "notes": [*artefact.notes, *(found for at, found in artefact.findings.items() if at == scale)],
        "paper": dict(artefact.paper),
        "settings": [dataclasses.asdict(setting) for setting in artefact.settings(scale)],
        "seconds": round(sum(run["seconds"] for run in data["runs"]), 1),
        "wall_seconds": round(time.monotonic() - began, 1),
        "provenance": {
            **provenance(),
            "seeds": sorted({run["seed"] for run in data["runs"]}),
            "configs": sorted({run["hash"] for run in data["runs"]}),
        },
        "data": data,
    }
    files = paths(session.out, artefact.name, scale)
    write_json(files["json"], document)
    draw(artefact, files)
    return document


def judged(artefact: Artefact, scale: Scale, data: dict[str, Any]) -> list[dict[str, Any]]:
    """The claims with their verdicts."""
    return [
        {"sentence": claim.sentence, **dataclasses.asdict(claim.verdict(data, scale)), "paper": claim.paper}
        for claim in artefact.claims
    ]


def draw(artefact: Artefact, files: Mapping[str, Path]) -> None:
    """Draw an artefact's pictures from its JSON file."""
    document = json.loads(files["json"].read_text(encoding="utf-8"))
    for kind in ("svg", "png"):
        artefact.plot(document["data"], files[kind])
