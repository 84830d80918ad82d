"""The content of the page: which files are read, what is shown, and that no text becomes markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from zerocross.figures import page
from zerocross.figures.panel import Curve, Panel
from zerocross.report import markup
from zerocross.report.page import build
from zerocross.report.results import Results, read
from zerocross.report.sections import section
from zerocross.suite.section import section as suite_section


class Text(HTMLParser):
    """The text of a page by element id, and the elements that were not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        if values.get("id"):
            self.ids.append(str(values["id"]))
        if str(values.get("href", "")).startswith("#"):
            self.targets.append(str(values["href"])[1:])
        if tag not in {"meta", "input", "img", "br", "path", "circle"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in {"path", "circle"}:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def html(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def embedded(html: str, name: str) -> Any:
    result = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', html, re.DOTALL)
    assert result
    return json.loads(result[1])


def between(html: str, start: str) -> str:
    """Return one section of the page."""
    return html[html.index(f'<section id="{start}"') :].partition("</section>")[0]


# ---- reading


def test_the_largest_scale_of_each_artefact_is_read_and_figures_come_first(results: Path) -> None:
    result = read(results)
    assert [(each["name"], each["scale"]) for each in result.artefacts] == [
        ("fig2", "reduced"),
        ("fig5", "reduced"),
        ("table9", "odd"),
    ]
    assert [each["name"] for each in result.comparisons] == ["compare-digits-2epochs"]
    assert [line.partition(":")[0] for line in result.left_out] == ["broken.json", "fig5-smoke.json"]


def test_results_of_the_suite_are_shown_with_their_picture(tmp_path: Path) -> None:
    folder = tmp_path / "suite"
    folder.mkdir()
    ranking = suite_section("suite-published", "Ranking", "Who wins.", "zerocross suite rank", picture=True)
    claim = {"sentence": "One rate serves all.", "holds": False, "figures": "0.9 points"}
    curves = [Curve("digits", [0.01, 0.1], [0.0, -1.0])]
    panels = [Panel("sensitivity", "flip rate", "points", x_scale="log", curves=curves)]
    number = suite_section("one-number", "One number", "", "zerocross suite one-number", claims=[claim], panels=panels)
    (folder / "rank-published.json").write_text(json.dumps({"pairs": [], **ranking}), encoding="utf-8")
    (folder / "rank-published.svg").write_text("<svg/>", encoding="utf-8")
    (folder / "one-number.json").write_text(json.dumps(number), encoding="utf-8")
    (folder / "units.json").write_text("{}", encoding="utf-8")
    (folder / "spoilt.json").write_text(json.dumps({"kind": "zerocross suite"}), encoding="utf-8")
    result = read(tmp_path)
    assert [each["name"] for each in result.studies] == ["one-number", "suite-published"]
    assert [line.partition(":")[0] for line in result.left_out] == ["spoilt.json"]
    html = build(result)
    assert 'href="#suite-published"' in html
    assert html.count('<img class="picture" src="data:image/svg+xml;base64,PHN2Zy8+"') == 1
    assert "✗ fails</span> One rate serves all." in html
    assert "<span>No claims checked yet.</span>" in html  # those of the paper


def test_figures_are_ordered_by_number(tmp_path: Path) -> None:
    for name in ("fig10", "fig9", "table1", "appendix"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"name": name, "scale": "smoke", "claims": []}))
    assert [each["name"] for each in read(tmp_path).artefacts] == ["fig9", "fig10", "table1", "appendix"]


def test_invalid_files_are_left_out_and_the_others_shown(results: Path, tmp_path: Path) -> None:
    whole = json.loads((results / "compare-digits-2epochs.json").read_text(encoding="utf-8"))
    method = next(iter(whole["methods"]))
    spoilt: dict[str, Any] = {
        "empty": {"kind": "zerocross compare"},
        "of-another-kind": {**whole, "methods": [1, 2]},
        "without-a-mean": {**whole, "methods": {method: {**whole["methods"][method], "mean": "high"}}},
        "without-curves": {**whole, "methods": {method: {**whole["methods"][method], "accuracy": {"epoch": 3}}}},
    }
    for name, values in spoilt.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(values), encoding="utf-8")
    (tmp_path / "whole.json").write_text(json.dumps(whole), encoding="utf-8")
    (tmp_path / "fig9.json").write_text(json.dumps({"name": "fig9", "scale": "smoke", "claims": []}), encoding="utf-8")
    result = read(tmp_path)
    assert [each["name"] for each in result.comparisons] == ["whole"]
    assert [each["name"] for each in result.artefacts] == ["fig9"]
    assert [line.partition(": cannot be shown (")[0] for line in result.left_out] == [
        f"{n}.json" for n in sorted(spoilt)
    ]
    assert 'id="whole"' in build(result)


@pytest.mark.parametrize("there", [False, True], ids=["no folder", "empty folder"])
def test_an_empty_folder_gives_an_error_with_a_hint(tmp_path: Path, there: bool) -> None:
    with pytest.raises(FileNotFoundError, match="zerocross reproduce"):
        read(tmp_path if there else tmp_path / "none")


# ---- the page


def test_the_page_is_well_formed_and_its_links_are_valid(html: str) -> None:
    page = Text(html)
    assert not page.open
    assert len(set(page.ids)) == len(page.ids)
    assert set(page.targets) <= set(page.ids)
    assert len(html.encode()) < 6e6


def test_the_page_is_self_contained(html: str) -> None:
    assert not re.search(r'<(script|img|link|iframe)[^>]+(src|href)="(?!data:)', html)
    assert "default-src 'none'" in html


def test_texts_never_become_markup(html: str) -> None:
    assert "a &lt; b &amp; c" in html
    assert "<td>&lt;i&gt;x&lt;/i&gt;</td>" in html
    assert "<b>bold</b>" not in html
    assert embedded(html, "panels")[0]["curves"][1]["label"] == "a <b>bold</b> name"  # charts.js escapes it for Plotly


def test_the_summary_lists_claims_by_verdict(html: str) -> None:
    summary = between(html, "summary")
    assert [summary.count(words) for words in ("✓ holds", "✗ fails", "○ not judged")] == [
        2,
        1,
        2,
    ]  # table9 has no claim
    for text in ("12 against 31", "best at the edge", "figure: Fig. 5; best alpha: 0.001", "reduced", "12.6 min"):
        assert text in summary


def test_a_section_shows_command_settings_table_and_runs(html: str) -> None:
    shown = between(html, "fig5")
    for text in (
        "zerocross reproduce fig5 --scale reduced",
        "Settings: 1 stated by the paper, 1 assumed",
        "86.04",
        "cited where marked",
        "0123456789abcdef",
        "What is seen, in a sentence.",
    ):
        assert text in shown


def test_panels_are_drawn_and_other_data_are_shown_as_a_picture(html: str) -> None:
    panels = embedded(html, "panels")
    assert [panel["title"] for panel in panels[:2]] == ["Accuracy", "By method"]
    assert panels[0]["curves"][1]["mean"][4] is None  # NaN is not valid JSON
    assert 'data-panel="0"' in between(html, "fig5")
    assert 'data-panel="1"' in between(html, "fig5")
    assert "data-panel" not in between(html, "fig2")
    assert 'src="data:image/svg+xml;base64,' in between(html, "fig2")


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"panels": [None, {}, {"curves": []}, {"curves": [{"x": [1], "mean": [1, 2]}]}]},
        {"panels": [{"curves": [{"x": [1], "mean": [1], "low": 3, "high": [1]}]}], "tables": 5, "runs": "none"},
        {"tables": [{"rows": [[1, 2], 3]}, "x"], "trace": "gone"},
    ],
)
def test_data_in_other_forms_are_ignored(data: Any) -> None:
    odd = {"name": "odd", "scale": "smoke", "claims": [None, {"holds": "maybe"}], "settings": 3, "data": data}
    panels: list[Any] = []
    assert "○ not judged" in section(odd, panels)
    assert not panels
    build(Results((odd,), (), ()))


def test_the_comparison_has_curves_a_table_and_failures(html: str) -> None:
    shown = between(html, "compare-digits-2epochs")
    assert "bop, seed 0 failed: diverged" in shown
    assert re.search(r'<td>filter</td><td class="number">90\.50</td><td class="number">0\.71</td>', shown)
    accuracy = embedded(html, "panels")[2]
    assert [(curve["label"], curve["mean"], curve["n"]) for curve in accuracy["curves"]] == [
        ("filter", [60.5, 90.5], 2),
        ("latent-sgd", [60.0, 90.0], 1),
    ]


def test_without_a_recorded_gradient_the_explorer_gives_the_reason(results: Path, html: str) -> None:
    result = read(results)
    without = build(Results(result.artefacts[1:], (), ()))
    assert "None of these results has a recorded gradient" in without
    assert 'data-role="trace"' not in without
    assert 'data-role="trace"' in html


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, markup.NOTHING),
        (True, "yes"),
        (0.000123456, "0.0001235"),
        (12345.6, "12,346"),
        ([1, "<"], "1, &lt;"),
        ({"a": {}}, "a: "),
    ],
)
def test_values_as_text(value: Any, words: str) -> None:
    assert markup.text(value) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "below 1 s"), (42, "42 s"), (306, "5.1 min"), (9000, "2.5 h"), (None, markup.NOTHING)]
)
def test_durations(seconds: Any, words: str) -> None:
    assert markup.duration(seconds) == words


def test_embedded_data_cannot_end_the_script() -> None:
    assert "<" not in page.script_json(["</script><script>alert(1)</script>"])
