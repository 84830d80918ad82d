"""Rankings of made-up tables with known answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zerocross.suite.rank import complete, groups, holm, rank
from zerocross.suite.rank_output import draw, page, section_of


def fake_table(tasks: int = 12) -> dict[str, dict[str, list[float]]]:
    """Return a table in which b is 5 points above a, c equals b on average, and the twin is 10 above a."""
    random = np.random.default_rng(0)
    scores = {}
    for number in range(tasks):
        level = 50.0 + number
        turn = 0.5 if number % 2 else -0.5
        values = {"a": level, "b": level + 5, "c": level + 5 + turn, "real": level + 10}
        scores[f"t{number}"] = {name: list(value + 0.01 * random.standard_normal(3)) for name, value in values.items()}
    return scores


def test_holm() -> None:
    """Holm (1979): 4 p1, 3 p2, ... in order, never falling, at most 1."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_ranks_tests_and_differences() -> None:
    document = rank(fake_table())
    rows = document["methods"]
    assert rows["a"]["rank"] == 3.0
    assert rows["b"]["rank"] == rows["c"]["rank"] == 1.5
    assert (rows["a"]["wins"], rows["a"]["ties"], rows["a"]["losses"]) == (0, 0, 24)
    assert rows["a"]["to_twin"]["mean"] == pytest.approx(-10, abs=0.02)
    assert rows["a"]["to_twin"]["high"] < -9.9
    assert "real" not in rows
    assert document["friedman"]["p"] < 1e-3
    p = {frozenset(pair["methods"]): pair for pair in document["pairs"]}
    assert p[frozenset("ab")]["p"] == pytest.approx(2 / 2**12)  # all twelve signs equal, by the exact test
    assert p[frozenset("ab")]["holm"] == pytest.approx(3 * 2 / 2**12)
    assert p[frozenset("bc")]["holm"] > 0.5
    assert [set(group) for group in document["groups"]] == [{"b", "c"}]


def test_the_interval_is_wider_where_tasks_differ() -> None:
    scores = fake_table()
    for number, row in enumerate(scores.values()):
        row["a"] = [value + number for value in row["a"]]
    twin = rank(scores)["methods"]["a"]["to_twin"]
    assert twin["mean"] == pytest.approx(-4.5, abs=0.02)
    standard_error = np.std(np.arange(12)) / np.sqrt(12)
    assert twin["high"] - twin["low"] == pytest.approx(2 * 1.96 * standard_error, rel=0.1)


def test_gaps_are_left_out_and_named() -> None:
    scores = fake_table()
    del scores["t3"]["b"], scores["t3"]["c"], scores["t3"]["real"]
    for row in scores.values():
        row["d"] = [1.0, 1.0, 1.0]
    for name in list(scores)[:8]:
        del scores[name]["d"]
    document = rank(scores, ["a", "e"])
    assert document["left_out"] == {"tasks": ["t3"], "methods": ["e", "d"]}
    assert set(document["methods"]) == {"a", "b", "c"}
    assert complete({"t": {}})[1] == []
    small = rank({"t": {"a": [1.0]}})
    assert small["friedman"] is None
    assert "at least 3" in small["why_not"]


def test_groups_are_maximal_stretches() -> None:
    apart = {frozenset("ac"), frozenset("ad"), frozenset("bd")}
    assert groups("abcd", apart) == [["a", "b"], ["b", "c"], ["c", "d"]]
    assert groups("abc", set()) == [["a", "b", "c"]]
    assert groups("ab", {frozenset("ab")}) == []


def test_picture_and_page(tmp_path: Path) -> None:
    scores = fake_table()
    del scores["t0"]["b"]
    document = {**rank(scores), "seeds": 3, "diverged": 2}
    for kind in ("svg", "png"):
        draw(document, "published", tmp_path / f"rank.{kind}")
    assert "mean rank over" in (tmp_path / "rank.svg").read_text()
    text = page({"published": document, "tuned": {**rank({}), "seeds": 3, "diverged": 0}}, "../results/suite", "All.")
    assert "**Incomplete**. Not ranked: tasks: t0." in text
    assert "Runs that diverged: 2" in text
    assert "No ranking yet" in text
    assert "| a | 3.00 |" in text
    assert text.endswith("## Convergence\n\nAll.\n")
    shown = section_of(document, "published")
    assert shown["show_picture"]
    assert shown["data"]["tables"][0]["rows"][-1][:2] == ["a", "3.00"]
    assert "**" not in shown["caption"]


def test_the_page_says_who_wins_and_what_nobody_can_tell() -> None:
    scores = {
        task: {"filter" if name == "c" else name: s for name, s in row.items()} for task, row in fake_table().items()
    }
    text = page({"published": {**rank(scores), "seeds": 3, "diverged": 0}}, "x", "All.")
    assert "**b** has the best mean rank (1.50), and is significantly better than a (Wilcoxon, Holm, 5 %)." in text
    assert "The **filter** is number 2 (1.50); significantly ahead of a." in text
    assert "Nobody can tell b from filter on these tasks: of 3 pairs, 2 differ significantly." in text


def test_the_page_says_if_tasks_are_too_few() -> None:
    text = page({"published": {**rank(fake_table(5)), "seeds": 3, "diverged": 0}}, "x", "All.")
    assert "**b** has the best mean rank (1.40)." in text or "**c** has the best mean rank (1.40)." in text
    assert "Nobody can tell the methods apart: with 5 tasks, not even a win on every task is significant." in text
