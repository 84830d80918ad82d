"""Plot a study: its history, and the value over each parameter."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from zerocross.files import write_whole
from zerocross.tune.history import History
from zerocross.tune.space import Parameter, SearchSpace, short

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#999999"  # Okabe and Ito's colour-blind safe palette


def draw(path: Path, history: History, space: SearchSpace, title: str, value: str = "value") -> None:
    """Plot a history to a .png or .svg file; `value` is the label of the objective."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    panels = 1 + len(space.parameters)
    columns = min(4, panels)
    rows = math.ceil(panels / columns)
    figure, axes = plt.subplots(rows, columns, figsize=(3.6 * columns, 3.1 * rows), layout="constrained", squeeze=False)
    flat = list(axes.flat)
    _draw_history(flat[0], history)
    for axis, parameter in zip(flat[1:], space.parameters, strict=False):
        _draw_parameter(axis, history, parameter)
    for axis in flat[panels:]:
        axis.set_axis_off()
    for axis in flat[:panels]:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    for row in axes:
        row[0].set_ylabel(value)
    figure.suptitle(title)
    write_whole(path, lambda file: figure.savefig(file, format=path.suffix.lstrip("."), dpi=130))
    plt.close(figure)


def _draw_history(axis: Any, history: History) -> None:
    order = range(1, len(history.outcomes) + 1)
    complete = [(x, one.value) for x, one in zip(order, history.outcomes, strict=True) if not one.pruned]
    pruned = [(x, one.value) for x, one in zip(order, history.outcomes, strict=True) if one.pruned]
    axis.step(order, history.best_so_far(), where="post", color=ORANGE, label="best so far")
    axis.scatter(*zip(*complete, strict=True), s=16, color=BLUE, label="trial") if complete else None
    axis.scatter(*zip(*pruned, strict=True), s=16, color=GREY, marker="x", label="pruned") if pruned else None
    axis.set(xlabel="trial, in order of completion")
    axis.legend(frameon=False, fontsize="small")


def _draw_parameter(axis: Any, history: History, parameter: Parameter) -> None:
    best = history.best
    for one in history.outcomes:
        x = one.settings[parameter.name]
        x = parameter.choices.index(x) if parameter.choices else x
        mark = "x" if one.pruned else "*" if one is best else "o"
        colour = GREY if one.pruned else ORANGE if one is best else BLUE
        axis.scatter(
            x, one.value, s=90 if one is best else 16, color=colour, marker=mark, zorder=3 if one is best else 2
        )
    axis.set(xlabel=parameter.name)
    if parameter.choices:
        axis.set_xticks(range(len(parameter.choices)), [short(choice) for choice in parameter.choices])
        axis.set_xlim(-0.5, len(parameter.choices) - 0.5)
    elif parameter.log:
        low, high = parameter.ends
        axis.set_xscale("log")
        axis.set_xlim(low * (low / high) ** 0.05, high * (high / low) ** 0.05)
    else:
        low, high = parameter.ends
        axis.set_xlim(low - 0.05 * (high - low), high + 0.05 * (high - low))
