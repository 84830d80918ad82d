"""Panels, curves and tables: round trips through JSON, and invalid panels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zerocross.figures import page, pictures
from zerocross.figures.panel import Curve, Line, Panel, Table, panel_from, table_from

RESULTS = sorted((Path(__file__).parents[2] / "results").glob("*-reduced.json"))
CURVE = {"label": "a", "x": [1, 2], "mean": [3.0, 4.0], "low": None, "high": None, "n": 1, "style": "line"}


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_committed_panels_and_tables_survive_a_round_trip(path: Path) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))["data"]
    for values in data.get("panels", []):
        assert json.dumps(panel_from(values).to_dict()) == json.dumps(values)
    for values in data["tables"]:
        assert json.dumps(table_from(values).to_dict()) == json.dumps(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("another form", "an object with a non-empty list of curves"),
        ({"curves": []}, "an object with a non-empty list of curves"),
        ({"curves": ["a"]}, "a curve must be an object, not str"),
        ({"curves": [{**CURVE, "mean": [3.0]}]}, "curve 'a': mean must be a list with as many values as x"),
        ({"curves": [{**CURVE, "low": [3.0]}]}, "curve 'a': low must be"),
        ({"curves": [{**CURVE, "x": None}]}, "curve 'a': x must be"),
        ({"curves": [CURVE, {**CURVE, "x": ["a", "b"]}]}, "must be all numbers or all names"),
        ({"curves": [CURVE], "y_scale": "cubic"}, "y_scale is 'cubic'; it must be 'linear' or 'log'"),
    ],
)
def test_invalid_panels_are_refused_with_the_reason(values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        panel_from(values)


def test_both_renderers_draw_the_same_panel(tmp_path: Path) -> None:
    panel = Panel("T & U", "x", "y", "linear", "log", [Curve("a", [1, 2], [0.0, 1 / 3])], [Line("the paper", 0.5)])
    pictures.draw([panel], [], tmp_path / "a.svg")
    drawn = (tmp_path / "a.svg").read_text()
    assert "y (bottom: 0)" in drawn
    assert "the paper" in drawn
    assert "T &amp; U" in page.place(panel, 7)
    (sent,) = json.loads(page.data([panel]))
    assert sent["curves"][0]["mean"] == [0.0, 0.333333]
    assert sent["lines"] == [{"label": "the paper", "y": 0.5}]


def test_tables_are_drawn_without_panels(tmp_path: Path) -> None:
    pictures.draw([], [Table("Accuracy", ["method", "%"], [["filter", 86.5]])], tmp_path / "a.svg")
    assert "86.5" in (tmp_path / "a.svg").read_text()
