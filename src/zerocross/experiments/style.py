"""One look for all pictures, drawn from an artefact's data alone: colours that the colour-blind can tell, and print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zerocross.files import write_whole

# Okabe and Ito, and a grey. A second round of them is dashed; markers differ throughout.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A8A8A")
DASHES = ("-", "--", ":")
MARKERS = "osD^v<>P*X"
INK, MUTED = "#222222", "#777777"
LOOK: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "zerocross",  # the same data give the same file
    "svg.fonttype": "none",
}


def draw(data: Mapping[str, Any], path: Path) -> None:
    """Draw an artefact's panels, or its tables where it has no panel, to a .svg or .png file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    panels, tables = data.get("panels", []), data.get("tables", [])
    with mpl.rc_context(LOOK):
        if panels:
            columns = min(len(panels), 3 if len(panels) != 4 else 2)
            rows = -(-len(panels) // columns)
            figure, axes = plt.subplots(
                rows, columns, figsize=(4.9 * columns, 4.2 * rows), layout="constrained", squeeze=False
            )
            for axis, asked in zip(axes.flat, panels, strict=False):
                _panel(axis, asked)
            for axis in list(axes.flat)[len(panels) :]:
                axis.set_axis_off()
        else:
            heights = [len(table["rows"]) + 2 for table in tables]
            figure, axes = plt.subplots(
                len(tables), 1, figsize=(9, 0.26 * sum(heights)), height_ratios=heights, layout="constrained",
                squeeze=False,
            )  # fmt: skip
            for axis, table in zip(axes.flat, tables, strict=True):
                _table(axis, table)
        kind = path.suffix.lstrip(".")
        more: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {}
        write_whole(path, lambda file: figure.savefig(file, format=kind, dpi=130, **more))
        plt.close(figure)


def _panel(axis: Any, asked: Mapping[str, Any]) -> None:
    curves = asked["curves"]
    if curves and curves[0]["x"] and isinstance(curves[0]["x"][0], str):
        _named(axis, asked)
        return
    floor = _floor(curves) if asked["y_scale"] == "log" else None
    for number, each in enumerate(curves):
        _curve(axis, each, number, floor)
    for line in asked["lines"]:
        axis.axhline(line["y"], color=MUTED, linestyle="--", linewidth=1)
        axis.annotate(line["label"], (1, line["y"]), xycoords=("axes fraction", "data"), ha="right", va="bottom",
                      fontsize=8, color=MUTED)  # fmt: skip
    note = " (bottom: 0)" if floor is not None and _has_zero(curves) else ""
    axis.set(xlabel=asked["x"], ylabel=asked["y"] + note, xscale=asked["x_scale"], yscale=asked["y_scale"])
    axis.set_title(asked["title"], loc="left")
    if asked["x"] == "epoch":
        axis.xaxis.get_major_locator().set_params(integer=True)
    _legend(axis)


def _curve(axis: Any, each: Mapping[str, Any], number: int, floor: float | None) -> None:
    x = np.array(each["x"], dtype=float)
    mean, low, high = (None if each[key] is None else _raised(each[key], floor) for key in ("mean", "low", "high"))
    thin = len(x) > 40
    style: dict[str, Any] = {
        "color": MUTED if each.get("muted") else COLOURS[number % len(COLOURS)],
        "linestyle": "none" if each["style"] == "points" else _dashes(each, number),
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 4.5,
        "markevery": (number * 3 % max(1, len(x) // 8), max(1, len(x) // 8)) if thin else 1,
        "linewidth": 0.7 if each.get("muted") else 1.4,
        "label": _label(each),
    }
    if low is None or high is None:
        axis.plot(x, mean, **style)
    elif thin:
        axis.plot(x, mean, **style)
        axis.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    else:
        axis.errorbar(x, mean, yerr=np.clip([mean - low, high - mean], 0, None), capsize=2.5, elinewidth=1, **style)


def _named(axis: Any, asked: Mapping[str, Any]) -> None:
    """Values by name: one row each, read from the left."""
    names = list(dict.fromkeys(name for each in asked["curves"] for name in each["x"]))
    for number, each in enumerate(asked["curves"]):
        place = np.array([names.index(name) for name in each["x"]]) + 0.16 * (number - (len(asked["curves"]) - 1) / 2)
        mean = np.array(each["mean"], dtype=float)
        spread = None
        if each["low"] is not None:
            spread = np.clip([mean - np.array(each["low"]), np.array(each["high"]) - mean], 0, None)
        axis.errorbar(mean, place, xerr=spread, linestyle="none", capsize=2.5, color=COLOURS[number],
                      marker=MARKERS[number], markersize=6, label=_label(each))  # fmt: skip
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set(xlabel=asked["y"], xscale=asked["y_scale"])
    axis.set_title(asked["title"], loc="left")
    _legend(axis)


def _legend(axis: Any) -> None:
    """Below the axes, where no curve is."""
    labels = axis.get_legend_handles_labels()[1]
    columns = 1 if max(map(len, labels)) > 30 else 2
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=columns)


def _table(axis: Any, table: Mapping[str, Any]) -> None:
    """Columns as wide as their longest cell, counted in letters."""
    cells = [[str(name) for name in table["columns"]]]
    cells += [["" if cell is None else str(cell) for cell in row] for row in table["rows"]]
    widths = [max(map(len, column)) + 3 for column in zip(*cells, strict=True)]
    starts = np.cumsum([0, *widths[:-1]])
    for line, row in enumerate(cells):
        for start, cell in zip(starts, row, strict=True):
            axis.text(start, line + 0.5, cell, va="center", fontweight="normal" if line else "bold", fontsize=9)
    axis.axhline(1, color=INK, linewidth=0.8)
    axis.set(xlim=(-1, max(110, sum(widths))), ylim=(len(cells), 0))
    axis.set_title(table["title"], loc="left")
    axis.set_axis_off()


def _dashes(each: Mapping[str, Any], number: int) -> str:
    return "--" if each.get("dash") else DASHES[number // len(COLOURS) % len(DASHES)]


def _label(each: Mapping[str, Any]) -> str:
    n = each["n"]
    if n is None:
        return each["label"]
    return f"{each['label']}  (n = {n})" if isinstance(n, int) else f"{each['label']}  (n = {min(n)} to {max(n)})"


def _raised(values: Sequence[float], floor: float | None) -> np.ndarray:
    """A logarithmic axis cannot show 0: it is drawn at the bottom."""
    return np.array(values, dtype=float) if floor is None else np.maximum(np.array(values, dtype=float), floor)


def _floor(curves: Sequence[Mapping[str, Any]]) -> float:
    return min((value for each in curves for value in each["mean"] if value > 0), default=1e-6) / 2


def _has_zero(curves: Sequence[Mapping[str, Any]]) -> bool:
    return any(value <= 0 for each in curves for value in each["mean"])
