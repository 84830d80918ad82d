"""A ranking as a picture (critical-difference diagram) and as a Markdown page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zerocross.figures.pictures import COLOURS, INK, LOOK, save

_TITLES = {"published": "Published settings", "tuned": "Equal tuning"}


def draw(document: Mapping[str, Any], title: str, path: Path) -> None:
    """Draw the critical-difference diagram: mean ranks on a line, and bars that join methods without a difference."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    ranks = {method: row["rank"] for method, row in document["methods"].items()}
    names, groups = list(ranks), document["groups"]
    half = (len(names) + 1) // 2
    bars = 0.35 * len(groups)
    with mpl.rc_context({**LOOK, "axes.grid": False}):
        figure, axis = plt.subplots(figsize=(9, 1.4 + 0.27 * half + 0.12 * len(groups)), layout="constrained")
        low, high = 1, max(len(names), 2)
        axis.hlines(0, low, high, color=INK, lw=1)
        for tick in range(low, high + 1):
            axis.vlines(tick, 0, 0.25, color=INK, lw=1)
            axis.text(tick, 0.4, str(tick), ha="center", va="bottom")
        pad = 0.03 * (high - low)
        for index, name in enumerate(names):
            left = index < half
            y = -(bars + 0.8 + (index if left else len(names) - 1 - index))
            end = low - pad if left else high + pad
            colour = COLOURS[1] if name.startswith("filter") or name == "flip" else INK
            axis.plot([ranks[name], ranks[name], end], [0, y, y], color=colour, lw=0.9)
            text = f"{name}  {ranks[name]:.2f}" if left else f"{ranks[name]:.2f}  {name}"
            axis.text(end, y, f" {text} ", ha="right" if left else "left", va="center", color=colour)
        for number, group in enumerate(groups):
            y = -0.35 * (number + 1)
            axis.hlines(y, ranks[group[0]] - pad / 4, ranks[group[-1]] + pad / 4, color=COLOURS[0], lw=3)
        axis.set_title(f"{title}: mean rank over {len(document['tasks'])} tasks; bars: no significant difference")
        axis.set_xlim(low - 0.35 * (high - low), high + 0.35 * (high - low))
        axis.set_axis_off()
        save(figure, path)
        plt.close(figure)


def page(documents: Mapping[str, Mapping[str, Any]], pictures: str) -> str:
    """Return docs/suite.md, created from the rankings.

    Args:
        documents: Table -> ranking.
        pictures: The folder of the pictures, relative to the page.
    """
    lines = [
        "# The suite",
        "",
        (
            "All methods on many real tasks, each of which trains to convergence in seconds. `zerocross suite rank` "
            "writes this page from `results/suite/`. Accuracy is that of the last epoch on test data. A run that "
            "diverges counts as 0 %."
        ),
        "",
    ]
    for table, document in documents.items():
        lines += [f"## {_TITLES[table]}", "", *_section(table, document, pictures), ""]
    return "\n".join(lines)


def _section(table: str, document: Mapping[str, Any], pictures: str) -> list[str]:
    gaps = [f"{kind}: {', '.join(names)}" for kind, names in document["left_out"].items() if names]
    missing = ["", f"**Incomplete**. Not ranked: {'; '.join(gaps)}."] if gaps else []
    if document["friedman"] is None:
        return [f"No ranking yet: {document['why_not']}.", *missing]
    rows = document["methods"]
    best = next(iter(rows))
    significant = sum(pair["holm"] < 0.05 for pair in document["pairs"])
    text = [
        (
            f"{len(rows)} methods on {len(document['tasks'])} tasks, {document['seeds']} seeds each. "
            f"**{best}** has the best mean rank ({rows[best]['rank']:.2f}). Friedman's test: p = "
            f"{document['friedman']['p']:.2g}. Of {len(document['pairs'])} pairs, {significant} differ significantly "
            "at 5 % (Wilcoxon, Holm); these tasks "
            f"do not decide the others. Runs that diverged: {document['diverged']}."
        ),
        *missing,
        "",
        f"![Critical differences]({pictures}/rank-{table}.svg)",
        "",
        "| method | mean rank | accuracy | to the full-precision twin | wins / ties / losses |",
        "|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        twin = row["to_twin"]
        difference = "-" if twin is None else f"{twin['mean']:+.2f} ({twin['low']:+.2f} to {twin['high']:+.2f})"
        record = f"{row['wins']} / {row['ties']} / {row['losses']}"
        text.append(f"| {name} | {row['rank']:.2f} | {row['mean']:.2f} | {difference} | {record} |")
    return text
