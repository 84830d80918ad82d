"""The contents of a results folder for the page: artefacts, comparisons, the suite, and files that cannot be shown."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerocross.figures import page
from zerocross.figures.panel import Panel
from zerocross.report import sections
from zerocross.report.comparison import as_artefact

_SCALES = ("smoke", "reduced", "paper")
_KINDS = ("fig", "table")  # the order on the page; anything else comes last


@dataclass(frozen=True)
class Results:
    """The contents of a results folder.

    Args:
        artefacts: The JSON of each artefact at its largest scale, figures first, with `picture` (a data URI or None).
        comparisons: The JSON of each `zerocross compare`, with `name`, the name of its file.
        left_out: One line per result file that is not on the page.
        studies: The JSON of each result of `zerocross suite`, with `picture` (a data URI or None).
    """

    artefacts: tuple[dict[str, Any], ...]
    comparisons: tuple[dict[str, Any], ...]
    left_out: tuple[str, ...]
    studies: tuple[dict[str, Any], ...] = ()


def read(folder: Path) -> Results:
    """Read the JSON files of a folder; other files are ignored.

    Raises:
        FileNotFoundError: if the folder does not exist or holds nothing to report.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder; name one that `zerocross reproduce` has written to")
    largest: dict[str, tuple[Path, dict[str, Any]]] = {}
    comparisons, left_out = [], []
    for path, document in _documents(folder, left_out):
        if document.get("kind") == "zerocross compare":
            comparison = {**document, "name": path.stem}
            if _can_be_shown(path, lambda comparison=comparison: as_artefact(comparison), left_out):
                comparisons.append(comparison)
        elif isinstance(document.get("name"), str) and isinstance(document.get("claims"), list) and "scale" in document:
            if not _can_be_shown(path, lambda document=document: document, left_out):
                continue
            earlier = largest.get(document["name"])
            if earlier and _rank(earlier[1]) > _rank(document):
                left_out.append(f"{path.name}: {earlier[0].name} has the larger scale")
                continue
            if earlier:
                left_out.append(f"{earlier[0].name}: {path.name} has the larger scale")
            largest[document["name"]] = path, document
    studies = [
        {**document, "picture": _picture(path) if document.get("show_picture") else None}
        for path, document in _documents(folder / "suite", left_out)
        if document.get("kind") == "zerocross suite"
        and _can_be_shown(path, lambda document=document: document, left_out)
    ]
    if not largest and not comparisons and not studies:
        reasons = f" ({'; '.join(left_out)})" if left_out else ""
        raise FileNotFoundError(
            f"{folder}: nothing to report{reasons}; run first: zerocross reproduce all --scale smoke --out {folder}"
        )
    artefacts = [{**document, "picture": _picture(path)} for path, document in largest.values()]
    return Results(tuple(sorted(artefacts, key=_order)), tuple(comparisons), tuple(left_out), tuple(studies))


def _can_be_shown(path: Path, build: Callable[[], dict[str, Any]], left_out: list[str]) -> bool:
    """Return True if a section can be built from a file; otherwise note the reason, and leave out this file only."""
    try:
        panels: list[Panel] = []
        artefact = build()
        sections.section(artefact, panels)
        sections.summary([artefact] if "scale" in artefact else [])
        page.data(panels)
    except Exception as error:  # the file may hold anything
        left_out.append(f"{path.name}: cannot be shown ({type(error).__name__}: {error})")
        return False
    return True


def _documents(folder: Path, left_out: list[str]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(folder.glob("*.json")):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            left_out.append(f"{path.name}: not JSON ({error})")
            continue
        if isinstance(document, dict):
            yield path, finite(document)


def finite(value: Any) -> Any:
    """Return the same containers with None in place of nan and infinities, which JSON cannot express."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _rank(artefact: dict[str, Any]) -> int:
    return _SCALES.index(artefact["scale"]) if artefact["scale"] in _SCALES else -1


def _order(artefact: dict[str, Any]) -> tuple[int, int, str]:
    """Sort key: figures by number, then tables by number, then the rest by name."""
    parts = re.fullmatch(r"([a-z]+)(\d+)", artefact["name"])
    if not parts or parts[1] not in _KINDS:
        return len(_KINDS), 0, artefact["name"]
    return _KINDS.index(parts[1]), int(parts[2]), artefact["name"]


def _picture(path: Path) -> str | None:
    """Return the SVG beside a JSON file as a data URI; as an image it can neither run scripts nor restyle the page."""
    picture = path.with_suffix(".svg")
    if not picture.is_file():
        return None
    return "data:image/svg+xml;base64," + base64.b64encode(picture.read_bytes()).decode()
