"""Panels and tables as .svg and .png files, drawn by matplotlib in one style and a colour-blind safe palette."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from zerocross.figures.panel import Curve, Panel, Table
from zerocross.files import write_whole

# The palette of Okabe and Ito, and a grey. Further curves repeat the colours, dashed; markers change with every curve.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A8A8A")
DASHES = ("-", "--", ":")
MARKERS = "osD^v<>P*X"
INK, MUTED = "#222222", "#777777"
_LISTED = 6  # grey curves that the legend lists; more of them are a background
LOOK: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "zerocross",  # the same data produce the same file
    "svg.fonttype": "none",
}


def draw(panels: Sequence[Panel], tables: Sequence[Table], path: Path, *, columns: int | None = None) -> None:
    """Draw panels, or tables if there are no panels, to a .svg or .png file.

    Args:
        panels: The panels.
        tables: The tables.
        path: The file.
        columns: Number of panels side by side; None: up to three.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    with mpl.rc_context(LOOK):
        if panels:
            columns = min(len(panels), columns or (3 if len(panels) != 4 else 2))
            rows = -(-len(panels) // columns)
            figure, axes = plt.subplots(
                rows, columns, figsize=(4.9 * columns, 4.2 * rows), layout="constrained", squeeze=False
            )
            for axis, panel in zip(axes.flat, panels, strict=False):
                _panel(axis, panel)
            for axis in list(axes.flat)[len(panels) :]:
                axis.set_axis_off()
        else:
            heights = [len(table.rows) + 2 for table in tables]
            figure, axes = plt.subplots(
                len(tables), 1, figsize=(9, 0.26 * sum(heights)), height_ratios=heights, layout="constrained",
                squeeze=False,
            )  # fmt: skip
            for axis, table in zip(axes.flat, tables, strict=True):
                _table(axis, table)
        save(figure, path)
        plt.close(figure)


def save(figure: Any, path: Path) -> None:
    """Write a matplotlib figure atomically, without a date: the same data produce the same file."""
    kind = path.suffix.lstrip(".")
    more: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {}
    write_whole(path, lambda file: figure.savefig(file, format=kind, dpi=130, **more))


def _panel(axis: Any, panel: Panel) -> None:
    curves = panel.curves
    if panel.named:
        _named(axis, panel)
        return
    floor = _floor(curves) if panel.y_scale == "log" else None
    background = sum(bool(each.muted) for each in curves) > _LISTED
    for number, each in enumerate(curves):
        # Matplotlib leaves labels that begin with an underscore out of the legend.
        _curve(axis, replace(each, label="_") if background and each.muted else each, number, floor)
    for line in panel.lines:
        axis.axhline(line.y, color=MUTED, linestyle="--", linewidth=1)
        axis.annotate(line.label, (1, line.y), xycoords=("axes fraction", "data"), ha="right", va="bottom",
                      fontsize=8, color=MUTED)  # fmt: skip
    note = " (bottom: 0)" if floor is not None and _has_zero(curves) else ""
    axis.set(xlabel=panel.x, ylabel=panel.y + note, xscale=panel.x_scale, yscale=panel.y_scale)
    axis.set_title(panel.title, loc="left")
    if panel.y_scale == "log":
        _label_short_log_axis(axis)
    if panel.x == "epoch":
        axis.xaxis.get_major_locator().set_params(integer=True)
    _legend(axis)


def _curve(axis: Any, curve: Curve, number: int, floor: float | None) -> None:
    x = np.array(curve.x, dtype=float)
    mean, low, high = (
        None if values is None else _raised(values, floor) for values in (curve.mean, curve.low, curve.high)
    )
    thin = len(x) > 40
    style: dict[str, Any] = {
        "color": MUTED if curve.muted else COLOURS[number % len(COLOURS)],
        "linestyle": "none" if curve.style == "points" else _dashes(curve, number),
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 4.5,
        "markevery": (number * 3 % max(1, len(x) // 8), max(1, len(x) // 8)) if thin else 1,
        "linewidth": 0.7 if curve.muted else 1.4,
        "label": _label(curve),
    }
    if low is None or high is None:
        axis.plot(x, mean, **style)
    elif thin:
        axis.plot(x, mean, **style)
        axis.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    else:
        axis.errorbar(x, mean, yerr=np.clip([mean - low, high - mean], 0, None), capsize=2.5, elinewidth=1, **style)


def _named(axis: Any, panel: Panel) -> None:
    """Draw values by name, one row per name."""
    names = list(dict.fromkeys(name for each in panel.curves for name in each.x))
    for number, each in enumerate(panel.curves):
        place = np.array([names.index(name) for name in each.x]) + 0.16 * (number - (len(panel.curves) - 1) / 2)
        mean = np.array(each.mean, dtype=float)
        spread = None
        if each.low is not None:
            spread = np.clip([mean - np.array(each.low), np.array(each.high) - mean], 0, None)
        axis.errorbar(mean, place, xerr=spread, linestyle="none", capsize=2.5, color=COLOURS[number],
                      marker=MARKERS[number], markersize=6, label=_label(each))  # fmt: skip
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set(xlabel=panel.y, xscale=panel.y_scale)
    axis.set_title(panel.title, loc="left")
    _legend(axis)


def _label_short_log_axis(axis: Any) -> None:
    """Label 1, 2 and 5 of each decade with plain numbers if there are fewer than two: otherwise few labels are left."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_ylim()
    if high / low < 100:
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.yaxis.set_minor_formatter(NullFormatter())


def _legend(axis: Any) -> None:
    """Draw the legend below the axes, clear of the curves."""
    labels = axis.get_legend_handles_labels()[1]
    columns = 1 if max(map(len, labels)) > 30 else 2
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=columns)


def _table(axis: Any, table: Table) -> None:
    """Draw a table; each column is as wide as its longest cell, in characters."""
    cells = [[str(name) for name in table.columns]]
    cells += [["" if cell is None else str(cell) for cell in row] for row in table.rows]
    widths = [max(map(len, column)) + 3 for column in zip(*cells, strict=True)]
    starts = np.cumsum([0, *widths[:-1]])
    for line, row in enumerate(cells):
        for start, cell in zip(starts, row, strict=True):
            axis.text(start, line + 0.5, cell, va="center", fontweight="normal" if line else "bold", fontsize=9)
    axis.axhline(1, color=INK, linewidth=0.8)
    axis.set(xlim=(-1, max(110, sum(widths))), ylim=(len(cells), 0))
    axis.set_title(table.title, loc="left")
    axis.set_axis_off()


def _dashes(curve: Curve, number: int) -> str:
    return "--" if curve.dash else DASHES[number // len(COLOURS) % len(DASHES)]


def _label(curve: Curve) -> str:
    n = curve.n
    if n is None:
        return curve.label
    return f"{curve.label}  (n = {n})" if isinstance(n, int) else f"{curve.label}  (n = {min(n)} to {max(n)})"


def _raised(values: Sequence[float], floor: float | None) -> np.ndarray:
    """Raise values to the floor: a logarithmic axis cannot show 0, which is drawn at the bottom."""
    return np.array(values, dtype=float) if floor is None else np.maximum(np.array(values, dtype=float), floor)


def _floor(curves: Sequence[Curve]) -> float:
    return min((value for each in curves for value in each.mean if value > 0), default=1e-6) / 2


def _has_zero(curves: Sequence[Curve]) -> bool:
    return any(value <= 0 for each in curves for value in each.mean)
