"""The page: results as one HTML file with everything in it, Plotly and the filter explorer included.

The page knows no single artefact. It shows what paper/artefact.py lets an artefact's JSON carry: claims,
settings, and in "data" the `panels` (drawn by zerocross.figures.page), `tables` and `runs`; where panels are missing
or of another form, the SVG beside the JSON. One key is for the explorer: `trace`, {label, gradients} or a list of such,
is the recorded gradient of one weight, a number per update, whose flips are drawn live (explorer.js, on filters.js).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from zerocross.figures import page as figures
from zerocross.figures.panel import Panel
from zerocross.files import write_text
from zerocross.report import markup, sections
from zerocross.report.comparison import as_artefact
from zerocross.report.results import Results

_MADE_BY_US = (
    '<meta name="generator" content="zerocross report">'  # stands in page.html, and tells our files from others
)

# name on the page, name in explorer.js, the slider's positions, the values of the number field
_FILTER_SLIDERS = (("alpha", "alpha", (-6, 0), (1e-6, 1)), ("gamma", "gamma", (-4, 0), (1e-4, 1)))
_SGD_SLIDERS = (
    ("lr", "lr", (-4, 0), (1e-4, 1)),
    ("momentum", "momentum", (0, 3), (0, 0.999)),
    ("weight decay", "weightDecay", (-7, -1), (0, 0.1)),
)


def build(results: Results) -> str:
    """The HTML page of these results.

    Raises:
        ValueError: if Plotly is not installed.
    """
    compared = [as_artefact(summary) for summary in results.comparisons]
    panels: list[Panel] = []
    shown = [sections.section(artefact, panels) for artefact in [*results.artefacts, *compared]]
    traces = _traces(results.artefacts)
    return Template(_part("page.html")).substitute(
        style=_part("style.css"),
        tally=sections.tally(results.artefacts),
        contents=_contents(results.artefacts, compared),
        summary=sections.summary(results.artefacts),
        filter_sliders="\n".join(_slider(*each) for each in _FILTER_SLIDERS),
        sgd_sliders="\n".join(_slider(*each) for each in _SGD_SLIDERS),
        trace=_trace_panel(traces),
        sections="\n".join(shown),
        footer=_footer(results),
        panels=figures.data(panels),
        traces=figures.script_json(traces),
        plotly=figures.plotly_script(),
        filters_js=_part("filters.js"),
        charts_js=figures.charts_script(),
        explorer_js=_part("explorer.js"),
    )


def write(path: Path, page: str) -> None:
    """Write the page; an earlier one is replaced, any other file refused.

    Raises:
        FileExistsError: if a file is in the way that is no page of ours.
    """
    check(path)
    write_text(path, page)


def check(path: Path) -> None:
    """Refuse a path where something stands that is no page of ours."""
    if path.is_dir():
        raise IsADirectoryError(f"--out {path} is a folder: name a file, such as {path / 'report.html'}")
    if not path.exists():
        return
    with path.open("rb") as file:
        ours = _MADE_BY_US.encode() in file.read(2000)
    if not ours:
        raise FileExistsError(f"{path}: in the way, and no earlier report; move it, or name another place by --out")


def _part(name: str) -> str:
    return files("zerocross.report").joinpath(name).read_text(encoding="utf-8")


def _contents(artefacts: Sequence[Mapping[str, Any]], compared: Sequence[Mapping[str, Any]]) -> str:
    links = [("summary", "Claims"), ("explorer", "Filter explorer")]
    links += [(artefact["name"], artefact["name"]) for artefact in artefacts]
    links += [(each["name"], each["name"]) for each in compared]
    return "\n".join(f'<li><a href="#{markup.text(to)}">{markup.text(name)}</a></li>' for to, name in links)


def _slider(label: str, name: str, positions: tuple[float, float], values: tuple[float, float]) -> str:
    low, high = positions
    return (
        f'<div class="slider"><label for="slider-{name}">{label}</label>'
        f'<input type="range" id="slider-{name}" name="{name}" min="{low}" max="{high}" step="0.01">'
        f'<input type="number" name="{name}" min="{values[0]}" max="{values[1]}" step="any" '
        f'aria-label="{label}, exactly"></div>'
    )


def _traces(artefacts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The recorded gradients that artefacts carry."""
    found: list[dict[str, Any]] = []
    for artefact in artefacts:
        data = artefact.get("data")
        carried = data.get("trace") if isinstance(data, Mapping) else None
        for trace in carried if isinstance(carried, list) else [carried]:
            if not isinstance(trace, Mapping):
                continue
            gradients = trace.get("gradients")
            if isinstance(gradients, list) and len(gradients) > 1 and all(_is_number(each) for each in gradients):
                label = str(trace.get("label") or f"from {artefact['name']}")
                found.append({"label": label, "gradients": gradients, "artefact": artefact["name"]})
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _trace_panel(traces: Sequence[Mapping[str, Any]]) -> str:
    if not traces:
        return (
            '<p class="note">No recorded gradient: none of these results carries one. '
            "<code>zerocross reproduce fig2</code> records one, whose flips are then drawn here.</p>"
        )
    artefact = markup.text(traces[0]["artefact"])
    options = "".join(f'<option value="{i}">{markup.text(trace["label"])}</option>' for i, trace in enumerate(traces))
    label = markup.text(traces[0]["label"])
    which = f'<select data-role="which" aria-label="recorded gradient">{options}</select>' if len(traces) > 1 else label
    return (
        f"<figure><figcaption>Flips of a recorded gradient: {which}</figcaption>"
        f'<p class="note">Real gradients of one weight (<a href="#{artefact}">{artefact}</a>), grey, as each filter '
        "smooths them from a start at zero; below, the sign that the weight takes.</p>"
        '<div class="chart trace" data-role="trace"></div></figure>'
    )


def _footer(results: Results) -> str:
    """Which code made the results."""
    made = [each["provenance"] for each in [*results.artefacts, *results.comparisons] if each.get("provenance")]
    commits = sorted({str(each["commit"])[:12] for each in made if isinstance(each, Mapping) and each.get("commit")})
    at = f" from results of commit{'s' * (len(commits) != 1)} {', '.join(commits)}" if commits else ""
    return f"Made by <code>zerocross report</code>{markup.text(at) if at else ''}. Drawn with Plotly.js (MIT licence)."
