"""A ranking as a picture (critical-difference diagram) and as a Markdown page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zerocross.figures.panel import Table
from zerocross.figures.pictures import COLOURS, INK, LOOK, save
from zerocross.suite import section
from zerocross.suite.rank import LEVEL

BASE = "filter"
_NAMED = 8  # methods that a sentence lists by name
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


def section_of(document: Mapping[str, Any], table: str) -> dict[str, Any]:
    """Return the section of a ranking on the page of `zerocross report`."""
    ranked = document["friedman"] is not None
    caption = " ".join(_summary(document)) if ranked else f"No ranking yet: {document['why_not']}."
    return section.section(
        f"suite-{table}",
        f"The suite: {_TITLES[table].lower()}",
        caption.replace("**", ""),
        "zerocross suite rank",
        tables=[Table("", _COLUMNS, [_row(name, row) for name, row in document["methods"].items()])] if ranked else [],
        picture=ranked,
    )


def page(documents: Mapping[str, Mapping[str, Any]], pictures: str, convergence: str) -> str:
    """Return docs/suite.md, created from the rankings.

    Args:
        documents: Table -> ranking.
        pictures: The folder of the pictures, relative to the page.
        convergence: The paragraph on convergence.
    """
    lines = [
        "# The suite",
        "",
        (
            "All methods on many real tasks, each of which trains in seconds. `zerocross suite rank` writes this page "
            "from `results/suite/`. Accuracy is that of the last epoch on test data. A run that diverges counts as 0 %."
        ),
        "",
    ]
    for table, document in documents.items():
        lines += [f"## {_TITLES[table]}", "", *_section(table, document, pictures), ""]
    return "\n".join([*lines, "## Convergence", "", convergence, ""])


_COLUMNS = ("method", "mean rank", "accuracy", "to the full-precision twin", "wins / ties / losses")


def _row(name: str, row: Mapping[str, Any]) -> list[str]:
    twin = row["to_twin"]
    difference = "-" if twin is None else f"{twin['mean']:+.2f} ({twin['low']:+.2f} to {twin['high']:+.2f})"
    record = f"{row['wins']} / {row['ties']} / {row['losses']}"
    return [name, f"{row['rank']:.2f}", f"{row['mean']:.2f}", difference, record]


def _section(table: str, document: Mapping[str, Any], pictures: str) -> list[str]:
    gaps = [f"{kind}: {', '.join(names)}" for kind, names in document["left_out"].items() if names]
    missing = ["", f"**Incomplete**. Not ranked: {'; '.join(gaps)}."] if gaps else []
    if document["friedman"] is None:
        return [f"No ranking yet: {document['why_not']}.", *missing]
    text = [
        " ".join(_summary(document)),
        *missing,
        "",
        f"![Critical differences]({pictures}/rank-{table}.svg)",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        "|" + "---|" * len(_COLUMNS),
    ]
    return text + [f"| {' | '.join(_row(name, row))} |" for name, row in document["methods"].items()]


def _summary(document: Mapping[str, Any]) -> list[str]:
    """Return five sentences: what was compared, who leads, where the filter stands, and what nobody can tell."""
    rows = document["methods"]
    best = next(iter(rows))
    apart = [frozenset(pair["methods"]) for pair in document["pairs"] if pair["holm"] < LEVEL]
    equal = [name for name in rows if name != best and frozenset((best, name)) not in apart]
    worse = [name for name in rows if frozenset((best, name)) in apart]
    sentences = [
        (
            f"{len(rows)} methods on {len(document['tasks'])} tasks, {document['seeds']} seeds each; Friedman's test: "
            f"p = {document['friedman']['p']:.2g}."
        ),
        (
            f"**{best}** has the best mean rank ({rows[best]['rank']:.2f})"
            + (f", and is significantly better than {_listed(worse)} (Wilcoxon, Holm, 5 %)." if worse else ".")
        ),
    ]
    if BASE in rows and best != BASE:
        place = list(rows).index(BASE) + 1
        ahead = [name for name in list(rows)[: place - 1] if frozenset((BASE, name)) in apart]
        behind = [name for name in list(rows)[place:] if frozenset((BASE, name)) in apart]
        sentences.append(
            f"The **{BASE}** is number {place} ({rows[BASE]['rank']:.2f})"
            + (f"; significantly behind {_listed(ahead)}" if ahead else "")
            + (f"; significantly ahead of {_listed(behind)}" if behind else "")
            + "."
        )
    tasks, pairs = len(document["tasks"]), len(document["pairs"])
    if 2 / 2**tasks * pairs >= LEVEL:  # the smallest p-value of Wilcoxon's test, corrected
        tell = f"Nobody can tell the methods apart: with {tasks} tasks, not even a win on every task is significant."
    elif equal:
        others = _listed(equal) if len(equal) <= _NAMED else f"{len(equal)} of the others"
        tell = (
            f"Nobody can tell {best} from {others} on these tasks: of {pairs} pairs, {len(apart)} differ significantly."
        )
    else:
        tell = f"Of {pairs} pairs, {len(apart)} differ significantly."
    return [*sentences, tell, f"Runs that diverged: {document['diverged']}."]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) < 2 else f"{', '.join(names[:-1])} and {names[-1]}"
