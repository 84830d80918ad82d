"""The picture of a comparison, drawn from its JSON: accuracy over epochs, FF ratio over updates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zerocross.files import write_whole
from zerocross.suite.compare_text import score

# The colour-blind safe palette of Okabe and Ito, and a grey. Further curves repeat the colours, dashed.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A8A8A")
_LINES = ("-", "--", ":")
_MARKERS = "osD^v<>P*XphdH8|"


def draw(path: Path, summary: Mapping[str, Any]) -> None:
    """Draw to a .png or .svg file; curves are means over seeds, shaded from the lowest seed to the highest."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown = {name: row for name, row in summary["methods"].items() if row["n"]}
    figure, (accuracy, flips) = plt.subplots(
        1, 2, figsize=(13, max(4.4, 1.6 + 0.24 * len(shown))), layout="constrained"
    )
    floor = _floor(shown)
    for number, (name, row) in enumerate(shown.items()):
        style: dict[str, Any] = {
            "color": _COLOURS[number % len(_COLOURS)],
            "linestyle": _LINES[number // len(_COLOURS) % len(_LINES)],
            "marker": _MARKERS[number % len(_MARKERS)],
            "markersize": 5,
            "linewidth": 1.4,
        }
        _accuracy(accuracy, row["accuracy"], style, f"{name}  {score(row)}")
        if row["ff_ratio"]:
            _flips(flips, row["ff_ratio"], style, number, floor)
    accuracy.set(xlabel="epoch", ylabel=f"{summary['evaluated_on']} accuracy (%)")
    accuracy.xaxis.get_major_locator().set_params(integer=True)
    if not all(all(row["accuracy"]["binary"]) for row in shown.values()):
        note = {"transform": accuracy.transAxes, "ha": "right", "fontsize": "small"}
        accuracy.text(0.99, 0.02, "thin: first stage, with real weights", **note)
    flips.set(xlabel="update", ylabel="FF ratio (flips per weight; bottom: none)", yscale="log")
    flips.set_ylim(bottom=floor)
    for axis in (accuracy, flips):
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", frameon=False, title="method, last epoch %, (seeds)", alignment="left")
    figure.suptitle(f"{summary['recipe']}, {summary['epochs']} epochs: each method with its own settings")
    write_whole(path, lambda file: figure.savefig(file, format=path.suffix.lstrip("."), dpi=130))
    plt.close(figure)


def _accuracy(axis: Any, curve: Mapping[str, Any], style: Mapping[str, Any], label: str) -> None:
    epoch, mean, low, high, binary = (np.array(curve[key]) for key in ("epoch", "mean", "low", "high", "binary"))
    axis.plot(epoch[binary], mean[binary], label=label, markevery=max(1, len(epoch) // 12), **style)
    if not binary.all():  # a first stage with real weights does not compete yet
        axis.plot(epoch[~binary], mean[~binary], **{**style, "linestyle": ":", "linewidth": 0.8, "alpha": 0.5})
    _shade(axis, epoch, low, high, style)


def _flips(axis: Any, curve: Mapping[str, Any], style: Mapping[str, Any], number: int, floor: float) -> None:
    update = np.array(curve["update"])
    mean, low, high = (np.maximum(curve[key], floor) for key in ("mean", "low", "high"))
    every = max(1, len(update) // 8)
    axis.plot(update, mean, markevery=(number % every, every), **style)
    _shade(axis, update, low, high, style)


def _shade(axis: Any, x: np.ndarray, low: np.ndarray, high: np.ndarray, style: Mapping[str, Any]) -> None:
    axis.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)


def _floor(rows: Mapping[str, Any]) -> float:
    """Return where to draw a ratio of zero: below every value that a logarithmic axis can show."""
    values = [value for row in rows.values() if row["ff_ratio"] for value in row["ff_ratio"]["mean"] if value > 0]
    return min(values, default=1e-6) / 2
