"""Convert results of runs to panels; every curve has mean, extremes and number of seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from zerocross.figures.panel import Curve, Line, Panel
from zerocross.paper.judge import percent
from zerocross.paper.session import Result

__all__ = [
    "accuracy", "curve", "final", "flips", "flips_and_accuracy", "last_flips", "mean_flips", "panel",
    "percent", "run_rows",
]  # fmt: skip
POINTS = 120  # of a curve over updates; each point is the mean over a block of updates


def curve(
    label: str,
    x: Sequence[Any],
    values: Sequence[Sequence[float]],
    style: Literal["line", "points"] = "line",
    **more: Any,
) -> Curve:
    """Return a curve with the mean and the extremes over seeds at each x.

    Args:
        label: Label in the legend.
        x: Numbers or names.
        values: For each x, one value per seed.
        style: "line" or "points".
        more: Further arguments of Curve: n (if the values are means themselves), dash, muted.
    """
    counts = [len(each) for each in values]
    spread = max(counts) > 1
    return Curve(
        label,
        list(x),
        mean=[statistics.fmean(each) for each in values],
        low=[min(each) for each in values] if spread else None,
        high=[max(each) for each in values] if spread else None,
        style=style,
        **{"n": counts[0] if len(set(counts)) == 1 else counts, **more},
    )


def panel(
    title: str,
    x: str,
    y: str,
    curves: Sequence[Curve],
    *,
    log: str = "",
    lines: Sequence[Line] = (),
) -> Panel:
    """Return a panel of curves that share axes.

    Args:
        title: Title above the panel.
        x: Name of the x axis.
        y: Name of the y axis.
        curves: See `curve`.
        log: The logarithmic axes: "", "x", "y" or "xy".
        lines: Reference values of the paper.
    """
    return Panel(title, x, y, "log" if "x" in log else "linear", "log" if "y" in log else "linear", curves, lines)


def accuracy(label: str, group: Sequence[Result], **more: Any) -> Curve:
    """Return the curve of accuracy over epochs, which count over all stages."""
    histories = [[line["top1"] for line in result["history"]] for result in group]
    return curve(label, range(1, len(histories[0]) + 1), list(zip(*histories, strict=True)), **more)


def flips(label: str, group: Sequence[Result], **more: Any) -> Curve:
    """Return the curve of the FF ratio over updates, averaged over blocks of equal length."""
    updates, values = np.array([result["ff_ratio"] for result in group]).transpose(2, 0, 1)
    blocks = np.array_split(np.arange(values.shape[1]), min(POINTS, values.shape[1]))
    x = [float(updates[0, block].mean()) for block in blocks]
    return curve(label, x, [values[:, block].mean(axis=1).tolist() for block in blocks], **more)


def mean_flips(result: Result) -> float:
    """Return the FF ratio, averaged over a run."""
    return statistics.fmean(value for _, value in result["ff_ratio"])


def last_flips(result: Result, share: float = 0.02) -> float:
    """Return the FF ratio, averaged over the last part of a run."""
    values = [value for _, value in result["ff_ratio"]]
    return statistics.fmean(values[-max(1, round(share * len(values))) :])


def final(group: Sequence[Result]) -> list[float]:
    """Return the accuracy after the last epoch, for each seed."""
    return [result["final"]["top1"] for result in group]


def run_rows(groups: Mapping[str, Sequence[Result]]) -> list[dict[str, Any]]:
    """Return the entry of each training in the JSON."""
    return [
        {
            "label": label,
            "seed": result["config"]["seed"],
            "hash": result["hash"],
            "top1": result["final"]["top1"],
            "evaluated_on": result["evaluated_on"],
            "epochs": sum(stage["epochs"] for stage in result["config"]["stages"]),
            "seconds": result["seconds"],
            "commit": result["provenance"]["commit"],
        }
        for label, group in groups.items()
        for result in group
    ]


def flips_and_accuracy(groups: Mapping[str, Sequence[Result]]) -> list[Panel]:
    """Return the first two panels of most figures: FF ratio over updates, accuracy over epochs."""
    on = next(iter(groups.values()))[0]["evaluated_on"]
    return [
        panel("Flips", "update", "FF ratio (flips per weight)", [flips(*item) for item in groups.items()], log="y"),
        panel("Accuracy", "epoch", f"{on} accuracy (%)", [accuracy(*item) for item in groups.items()]),
    ]
