"""Draw one large panel with faint single points behind its curves, and the other panels small, with matplotlib."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zerocross.figures import pictures
from zerocross.figures.panel import Curve, Panel, Table


def draw(panels: Sequence[Panel], tables: Sequence[Table], path: Path) -> None:
    """Draw panels to a .svg or .png file: first the large one, second its single points, then the small ones."""
    del tables
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    main, points, *others = panels
    shape: list[Any] = [["main", f"other {number}"] for number in range(len(others))] or [["main"]]
    with mpl.rc_context(pictures.LOOK):
        figure, axes = plt.subplot_mosaic(
            shape, figsize=(9.8 if others else 6.5, 5.6), width_ratios=[2, 1][: len(shape[0])], layout="constrained"
        )
        _panel(axes["main"], main, points.curves)
        axes["main"].legend(loc="lower right")
        for number, other in enumerate(others):
            title = f"{other.title}  (n = {other.curves[0].n})"
            _panel(axes[f"other {number}"], dataclasses.replace(other, y="(%)", title=title), [])
        pictures.save(figure, path)
        plt.close(figure)


def _panel(axis: Any, panel: Panel, points: Sequence[Curve]) -> None:
    """Draw curves with their bands. The y axis starts below the lowest mean: far outliers would squeeze the curves."""
    means = [value for each in panel.curves for value in each.mean]
    tops = [max(each.high or each.mean) for each in panel.curves]
    room = max(max(tops) - min(means), 1.0)
    bottom = min(means) - 0.5 * room
    for number, each in enumerate(points):
        apart = (number - (len(points) - 1) / 2) * 0.24
        axis.scatter(np.array(each.x) + apart, each.mean, s=9, color=pictures.COLOURS[number], alpha=0.3, linewidth=0)
    for number, each in enumerate(panel.curves):
        colour = pictures.COLOURS[number]
        label = f"{each.label}  (n = {each.n})"
        axis.plot(each.x, each.mean, color=colour, marker=pictures.MARKERS[number], markersize=4, label=label)
        if each.low is not None:
            axis.fill_between(each.x, each.low, each.high, color=colour, alpha=0.15, linewidth=0)
    axis.set(xlabel=panel.x, ylabel=panel.y, ylim=(bottom, max(tops) + 0.1 * room))
    axis.xaxis.get_major_locator().set_params(integer=True)
    below = [value < bottom for each in points for value in each.mean]
    note = f"{sum(below)} of {len(below)} trials lie below" if any(below) else ""
    axis.annotate(note, (0.01, 0.01), xycoords="axes fraction", fontsize=8, color=pictures.MUTED)
    axis.set_title(panel.title, loc="left")
