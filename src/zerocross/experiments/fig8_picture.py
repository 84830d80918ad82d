"""Figure 8's picture: the main sampler large, its single trials faint behind the curves, the other samplers small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zerocross.experiments import style
from zerocross.files import write_whole


def draw(data: Mapping[str, Any], path: Path) -> None:
    """Draw the panels (best so far, every trial, then best so far of each other sampler) to a .svg or .png file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    best, trials, *others = data["panels"]
    shape: list[Any] = [["main", f"other {number}"] for number in range(len(others))] or [["main"]]
    with mpl.rc_context(style.LOOK):
        figure, axes = plt.subplot_mosaic(
            shape, figsize=(9.8 if others else 6.5, 5.6), width_ratios=[2, 1][: len(shape[0])], layout="constrained"
        )
        _panel(axes["main"], best, trials["curves"])
        axes["main"].legend(loc="lower right")
        for number, other in enumerate(others):
            title = f"{other['title']}  (n = {other['curves'][0]['n']})"
            _panel(axes[f"other {number}"], {**other, "y": "(%)", "title": title}, [])
        kind = path.suffix.lstrip(".")
        more: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {}
        write_whole(path, lambda file: figure.savefig(file, format=kind, dpi=130, **more))
        plt.close(figure)


def _panel(axis: Any, asked: Mapping[str, Any], points: Sequence[Mapping[str, Any]]) -> None:
    """Curves with their band, from the lowest mean on: single trials can be so bad that nothing else would be seen."""
    means = [value for each in asked["curves"] for value in each["mean"]]
    tops = [max(each["high"] or each["mean"]) for each in asked["curves"]]
    room = max(max(tops) - min(means), 1.0)
    bottom = min(means) - 0.5 * room
    for number, each in enumerate(points):
        apart = (number - (len(points) - 1) / 2) * 0.24
        axis.scatter(
            np.array(each["x"]) + apart, each["mean"], s=9, color=style.COLOURS[number], alpha=0.3, linewidth=0
        )
    for number, each in enumerate(asked["curves"]):
        colour = style.COLOURS[number]
        label = f"{each['label']}  (n = {each['n']})"
        axis.plot(each["x"], each["mean"], color=colour, marker=style.MARKERS[number], markersize=4, label=label)
        if each["low"] is not None:
            axis.fill_between(each["x"], each["low"], each["high"], color=colour, alpha=0.15, linewidth=0)
    axis.set(xlabel=asked["x"], ylabel=asked["y"], ylim=(bottom, max(tops) + 0.1 * room))
    axis.xaxis.get_major_locator().set_params(integer=True)
    below = [value < bottom for each in points for value in each["mean"]]
    note = f"{sum(below)} of {len(below)} trials lie below" if any(below) else ""
    axis.annotate(note, (0.01, 0.01), xycoords="axes fraction", fontsize=8, color=style.MUTED)
    axis.set_title(asked["title"], loc="left")
