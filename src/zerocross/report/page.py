"""The report: all results in one self-contained HTML file, including Plotly and the filter explorer.

No code here is specific to one artefact. The page shows the JSON that paper/artefact.py defines: claims, settings, and
in "data" the `panels` (drawn by zerocross.figures.page), `tables` and `runs`; without valid panels, it shows the SVG
beside the JSON. The explorer reads one more key, `trace`: {label, gradients} or a list of these, the recorded gradients
of one weight, one number per update, whose flips are drawn live (explorer.js, filters.js).
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

_GENERATOR = '<meta name="generator" content="zerocross report">'  # in page.html; identifies our own pages

# (name on the page, name in explorer.js, range of slider positions, range of the number field)
_FILTER_SLIDERS = (("alpha", "alpha", (-6, 0), (1e-6, 1)), ("gamma", "gamma", (-4, 0), (1e-4, 1)))
_SGD_SLIDERS = (
    ("lr", "lr", (-4, 0), (1e-4, 1)),
    ("momentum", "momentum", (0, 3), (0, 0.999)),
    ("weight decay", "weightDecay", (-7, -1), (0, 0.1)),
)


def build(results: Results) -> str:
    """Return the HTML page of these results.

    Raises:
        ValueError: if Plotly is not installed.
    """
    comparisons = [as_artefact(summary) for summary in results.comparisons]
    panels: list[Panel] = []
    shown = [sections.section(artefact, panels) for artefact in [*results.artefacts, *results.studies, *comparisons]]
    traces = _traces(results.artefacts)
    return Template(_part("page.html")).substitute(
        style=_part("style.css"),
        tally=sections.tally(results.artefacts),
        contents=_contents([*results.artefacts, *results.studies, *comparisons]),
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
    """Write the page, replacing an earlier report.

    Raises:
        FileExistsError: if the path is a file other than a report.
    """
    check(path)
    write_text(path, page)


def check(path: Path) -> None:
    """Raise an error if the path is a folder, or a file other than a report."""
    if path.is_dir():
        raise IsADirectoryError(f"--out {path} is a folder: name a file, such as {path / 'report.html'}")
    if not path.exists():
        return
    with path.open("rb") as file:
        ours = _GENERATOR.encode() in file.read(2000)
    if not ours:
        raise FileExistsError(f"{path} exists and is not a report; move it, or name another file with --out")


def _part(name: str) -> str:
    return files("zerocross.report").joinpath(name).read_text(encoding="utf-8")


def _contents(shown: Sequence[Mapping[str, Any]]) -> str:
    links = [("summary", "Claims"), ("explorer", "Filter explorer")]
    links += [(artefact["name"], artefact["name"]) for artefact in shown]
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
    """Return the recorded gradients of the artefacts."""
    traces: list[dict[str, Any]] = []
    for artefact in artefacts:
        data = artefact.get("data")
        recorded = data.get("trace") if isinstance(data, Mapping) else None
        for trace in recorded if isinstance(recorded, list) else [recorded]:
            if not isinstance(trace, Mapping):
                continue
            gradients = trace.get("gradients")
            if isinstance(gradients, list) and len(gradients) > 1 and all(_is_number(each) for each in gradients):
                label = str(trace.get("label") or f"from {artefact['name']}")
                traces.append({"label": label, "gradients": gradients, "artefact": artefact["name"]})
    return traces


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _trace_panel(traces: Sequence[Mapping[str, Any]]) -> str:
    if not traces:
        return (
            '<p class="note">None of these results has a recorded gradient. '
            "<code>zerocross reproduce fig2</code> records one; this page then draws its flips.</p>"
        )
    artefact = markup.text(traces[0]["artefact"])
    options = "".join(f'<option value="{i}">{markup.text(trace["label"])}</option>' for i, trace in enumerate(traces))
    label = markup.text(traces[0]["label"])
    which = f'<select data-role="which" aria-label="recorded gradient">{options}</select>' if len(traces) > 1 else label
    return (
        f"<figure><figcaption>Flips of a recorded gradient: {which}</figcaption>"
        f'<p class="note">In grey, real gradients of one weight (<a href="#{artefact}">{artefact}</a>); in colour, '
        "the output of each filter from a start at zero; below, the sign of the weight.</p>"
        '<div class="chart trace" data-role="trace"></div></figure>'
    )


def _footer(results: Results) -> str:
    """Return the footer: the commits that produced the results."""
    origins = [each["provenance"] for each in [*results.artefacts, *results.comparisons] if each.get("provenance")]
    commits = sorted({str(each["commit"])[:12] for each in origins if isinstance(each, Mapping) and each.get("commit")})
    at = f" from results of commit{'s' * (len(commits) != 1)} {', '.join(commits)}" if commits else ""
    return f"Created by <code>zerocross report</code>{markup.text(at) if at else ''}. Uses Plotly.js (MIT licence)."
