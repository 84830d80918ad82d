"""Plot a run: loss, accuracy and FF ratio over updates, from its recorded metrics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zerocross.files import write_whole

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"  # Okabe and Ito's colour-blind safe palette


def draw(path: Path, lines: Sequence[dict[str, Any]], title: str, part: str = "test") -> None:
    """Plot the lines of metrics.jsonl to a .png or .svg file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    train = [line for line in lines if line["kind"] == "train"]
    evals = [line for line in lines if line["kind"] == "eval"]
    flips = [(line["update"], line["ff_ratio"]) for line in train if line.get("ff_ratio") is not None]
    panels = 3 if flips else 2
    figure, axes = plt.subplots(1, panels, figsize=(4.2 * panels, 3.4), layout="constrained")
    loss, accuracy = axes[:2]

    updates = np.array([line["update"] for line in train])
    values = np.array([line["loss"] for line in train])
    loss.plot(updates, values, color=BLUE, alpha=0.25, linewidth=0.8)
    loss.plot(updates, _smooth(values), color=BLUE, label="training (smoothed)")
    loss.plot([e["update"] for e in evals], [e["loss"] for e in evals], color=ORANGE, marker=".", label=part)
    loss.set(xlabel="update", ylabel="loss")
    loss.legend(frameon=False)

    top1 = [e["top1"] for e in evals]
    accuracy.plot([e["update"] for e in evals], top1, color=ORANGE, marker=".")
    accuracy.set(xlabel="update", ylabel=f"{part} accuracy (%)")
    if top1:
        accuracy.set_title(f"last epoch: {top1[-1]:.2f} %", fontsize="medium")

    if flips:
        x, y = np.array(flips).T
        axes[2].semilogy(x[y > 0], y[y > 0], color=GREEN, linewidth=1)
        axes[2].set(xlabel="update", ylabel="FF ratio (flips per weight)")
    for axis in axes:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    write_whole(path, lambda file: figure.savefig(file, format=path.suffix.lstrip("."), dpi=130))
    plt.close(figure)


def _smooth(values: np.ndarray) -> np.ndarray:
    """Centred moving average over a tenth of the run, with shorter windows at both ends."""
    width = min(max(1, len(values) // 20), (len(values) - 1) // 2)  # the window must not exceed the run
    if width < 1:
        return values
    ones = np.ones(2 * width + 1)
    return np.convolve(values, ones, "same") / np.convolve(np.ones_like(values), ones, "same")
