"""The section of one artefact on the page, and the table of all claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zerocross.figures import page
from zerocross.figures.panel import Panel, Table, panel_from, table_from
from zerocross.report.markup import NOTHING, details, duration, pairs, table, text

_VERDICTS = {True: ("good", "✓ holds"), False: ("bad", "✗ fails"), None: ("open", "○ not judged")}


def verdict(holds: Any) -> str:
    """Return a verdict as a sign, a word and a colour: colour alone is not accessible."""
    kind, words = _VERDICTS[holds if isinstance(holds, bool) else None]
    return f'<span class="verdict {kind}">{words}</span>'


def tally(artefacts: Sequence[Mapping[str, Any]]) -> str:
    """Return the numbers of claims that hold, fail, and are not judged."""
    verdicts = [claim.get("holds") for artefact in artefacts for claim in claims_of(artefact)]
    counts = [(holds, sum(each is holds for each in verdicts)) for holds in (True, False, None)]
    listed = " ".join(f"<span>{verdict(holds)}: {count}</span>" for holds, count in counts if count)
    return f"<span>{len(verdicts)} claims</span> {listed}" if verdicts else "<span>No claims checked yet.</span>"


def summary(artefacts: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of claims: artefact, claim, verdict, figures of the paper, ours, scale, cost."""
    if not artefacts:
        return '<p class="note">There are no artefacts yet: <code>zerocross reproduce all</code> creates them.</p>'
    columns = ("artefact", "claim", "verdict", "the paper", "ours", "scale", "cost")
    head = "".join(f'<th scope="col">{name}</th>' for name in columns)
    bodies = "\n".join(f"<tbody>{_summary_rows(artefact)}</tbody>" for artefact in artefacts)
    return (
        f'<table class="claims"><caption class="hidden">Every claim, its verdict and its figures</caption>'
        f"<thead><tr>{head}</tr></thead>\n{bodies}</table>"
    )


def _summary_rows(artefact: Mapping[str, Any]) -> str:
    claims = claims_of(artefact) or [{"sentence": artefact.get("title"), "holds": None, "figures": "no claim"}]
    rows = []
    per_claim = any(claim.get("paper") for claim in claims)
    for i, claim in enumerate(claims):
        first = i == 0
        paper = claim.get("paper") or (artefact.get("paper") if first and not per_claim else None)
        cells = {
            "": text(claim.get("sentence")),
            "verdict": verdict(claim.get("holds")),
            "the paper": text(paper) if paper else "",
            "ours": text(claim.get("figures")),
            "scale": text(artefact["scale"]) if first else "",
            "cost": _cost(artefact) if first else "",
        }
        name = f'<a href="#{text(artefact["name"])}">{text(artefact["name"])}</a>' if first else ""
        body = "".join(
            f'<td data-label="{label}">{cell}</td>' if label not in {"", "verdict"} else f"<td>{cell}</td>"
            for label, cell in cells.items()
        )
        more = ' class="more"' if i + 1 < len(claims) else ""
        rows.append(f'<tr{more}><th scope="row">{name}</th>{body}</tr>')
    return "\n".join(rows)


def section(artefact: Mapping[str, Any], panels: list[Panel]) -> str:
    """Return the section of an artefact; adds its panels to `panels`, whose indices the page refers to."""
    data = artefact.get("data")
    data = data if isinstance(data, Mapping) else {}
    name = text(artefact["name"])
    parts = [
        f'<section id="{name}" aria-labelledby="{name}-title">',
        f'<h2 id="{name}-title">{text(artefact.get("title") or artefact["name"])}</h2>',
        f'<p class="meta">{_meta(artefact)}</p>',
        f"<p>{text(artefact['caption'])}</p>" if artefact.get("caption") else "",
        _claim_list(claims_of(artefact)),
        _figures(artefact, data, panels),
        *(_table(table_from(each)) for each in _listed(data.get("tables")) if isinstance(each, Mapping)),
        *(f'<p class="note">{text(note)}</p>' for note in _listed(artefact.get("notes"))),
        f'<code class="command">{text(artefact["command"])}</code>' if artefact.get("command") else "",
        _settings(artefact.get("settings")),
        _runs(data.get("runs")),
        _provenance(artefact.get("provenance")),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _meta(artefact: Mapping[str, Any]) -> str:
    facts = {"scale": text(artefact.get("scale")), "cost": _cost(artefact)}
    facts["in the paper"] = text(artefact.get("paper") or None)
    return " · ".join(f"{name}: {value}" for name, value in facts.items() if value != NOTHING)


def _cost(artefact: Mapping[str, Any]) -> str:
    """Return the time of all trainings, or of the command if that is longer: cached runs take no time in it."""
    times = [artefact.get(key) for key in ("seconds", "wall_seconds")]
    return duration(max((time for time in times if isinstance(time, int | float)), default=None))


def claims_of(artefact: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the claims of an artefact, skipping entries that are not objects."""
    return [claim for claim in artefact["claims"] if isinstance(claim, Mapping)]


def _claim_list(claims: Sequence[Mapping[str, Any]]) -> str:
    if not claims:
        return ""
    rows = "".join(
        f"<li><span>{verdict(claim.get('holds'))} {text(claim.get('sentence'))}</span>"
        f'<span class="note">{text(claim.get("figures"))}</span></li>'
        for claim in claims
    )
    return f'<ul class="plain">{rows}</ul>'


def _figures(artefact: Mapping[str, Any], data: Mapping[str, Any], panels: list[Panel]) -> str:
    """Return the interactive panels; without valid panels the picture, unless it only repeats the tables."""
    valid = [panel for values in _listed(data.get("panels")) if (panel := _panel(values)) is not None]
    if not valid:
        repeated = data.get("tables") and not data.get("panels") and not artefact.get("show_picture")
        if not artefact.get("picture") or repeated:
            return ""
        title = text(artefact.get("title") or artefact["name"])
        return f'<p><img class="picture" src="{artefact["picture"]}" alt="{title}"></p>'
    figures = []
    for panel in valid:
        figures.append(page.place(panel, len(panels)))
        panels.append(panel)
    columns = " three" if len(valid) % 3 == 0 else ""
    return f'<div class="panels{columns}">{"".join(figures)}</div>'


def _panel(values: Any) -> Panel | None:
    try:
        return panel_from(values)
    except ValueError:
        return None


def _table(shown: Table) -> str:
    notes = "".join(f'<p class="note">{text(note)}</p>' for note in shown.notes)
    return table(shown.title, shown.columns, shown.rows) + notes


def _settings(settings: Any) -> str:
    words: dict[Any, str] = {True: "stated", False: "assumed"}
    rows = [
        [each.get("name"), each.get("value"), words.get(each.get("stated"), "own"), each.get("why")]
        for each in _listed(settings)
        if isinstance(each, Mapping)
    ]
    if not rows:
        return ""
    stated, assumed = (sum(row[2] == word for row in rows) for word in ("stated", "assumed"))
    counted = f": {stated} stated by the paper, {assumed} assumed" if stated + assumed else ""
    return details(f"Settings{counted}", table("", ["setting", "value", "source", "why"], rows))


def _runs(runs: Any) -> str:
    rows = [run for run in _listed(runs) if isinstance(run, Mapping)]
    if not rows:
        return ""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    title = f"{len(rows)} training run{'s' * (len(rows) != 1)}"
    return details(title, table("", columns, [[row.get(column) for column in columns] for row in rows]))


def _provenance(provenance: Any) -> str:
    return details("Provenance", pairs(provenance)) if isinstance(provenance, Mapping) and provenance else ""


def _listed(value: Any) -> list[Any]:
    if value is None or value == "":
        return []
    return value if isinstance(value, list) else [value]
