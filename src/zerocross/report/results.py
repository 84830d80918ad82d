"""What a results folder holds for the page: artefacts, comparisons, and files that it cannot use."""

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
_KINDS = ("fig", "table")  # the order of the page; anything else comes last


@dataclass(frozen=True)
class Results:
    """The contents of a results folder.

    Args:
        artefacts: The JSON of each artefact at its largest scale, figures first; `picture` added, a data URI or None.
        comparisons: The JSON of each `zerocross compare`; `name` added, that of its file.
        left_out: A line per file that looked like one of these and is not on the page.
    """

    artefacts: tuple[dict[str, Any], ...]
    comparisons: tuple[dict[str, Any], ...]
    left_out: tuple[str, ...]


def read(folder: Path) -> Results:
    """Read the JSON files that stand in a folder; files of other kinds are passed over.

    Raises:
        FileNotFoundError: if there is no such folder, or nothing in it to report.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder; name one that `zerocross reproduce` has written")
    largest: dict[str, tuple[Path, dict[str, Any]]] = {}
    comparisons, left_out = [], []
    for path, found in _documents(folder, left_out):
        if found.get("kind") == "zerocross compare":
            comparison = {**found, "name": path.stem}
            if _can_be_shown(path, lambda comparison=comparison: as_artefact(comparison), left_out):
                comparisons.append(comparison)
        elif isinstance(found.get("name"), str) and isinstance(found.get("claims"), list) and "scale" in found:
            if not _can_be_shown(path, lambda found=found: found, left_out):
                continue
            earlier = largest.get(found["name"])
            if earlier and _rank(earlier[1]) > _rank(found):
                left_out.append(f"{path.name}: {earlier[0].name} is the larger scale")
                continue
            if earlier:
                left_out.append(f"{earlier[0].name}: {path.name} is the larger scale")
            largest[found["name"]] = path, found
    if not largest and not comparisons:
        said = f" ({'; '.join(left_out)})" if left_out else ""
        raise FileNotFoundError(
            f"{folder}: nothing to report{said}; make some first: zerocross reproduce all --scale smoke --out {folder}"
        )
    artefacts = [{**found, "picture": _picture(path)} for path, found in largest.values()]
    return Results(tuple(sorted(artefacts, key=_order)), tuple(comparisons), tuple(left_out))


def _can_be_shown(path: Path, make: Callable[[], dict[str, Any]], left_out: list[str]) -> bool:
    """Whether a file becomes a section of the page; one that does not must not cost the others theirs."""
    try:
        panels: list[Panel] = []
        artefact = make()
        sections.section(artefact, panels)
        sections.summary([artefact] if "scale" in artefact else [])
        page.data(panels)
    except Exception as wrong:  # whatever is in the file
        left_out.append(f"{path.name}: cannot be shown ({type(wrong).__name__}: {wrong})")
        return False
    return True


def _documents(folder: Path, left_out: list[str]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(folder.glob("*.json")):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as wrong:
            left_out.append(f"{path.name}: not JSON ({wrong})")
            continue
        if isinstance(found, dict):
            yield path, finite(found)


def finite(value: Any) -> Any:
    """The same containers without nan and infinities, which JSON has no words for: None instead."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _rank(artefact: dict[str, Any]) -> int:
    return _SCALES.index(artefact["scale"]) if artefact["scale"] in _SCALES else -1


def _order(artefact: dict[str, Any]) -> tuple[int, int, str]:
    """Figures by number, then tables by number, then the rest by name."""
    parts = re.fullmatch(r"([a-z]+)(\d+)", artefact["name"])
    if not parts or parts[1] not in _KINDS:
        return len(_KINDS), 0, artefact["name"]
    return _KINDS.index(parts[1]), int(parts[2]), artefact["name"]


def _picture(path: Path) -> str | None:
    """The SVG beside a JSON file; as an image it can neither run scripts nor restyle the page."""
    picture = path.with_suffix(".svg")
    if not picture.is_file():
        return None
    return "data:image/svg+xml;base64," + base64.b64encode(picture.read_bytes()).decode()
