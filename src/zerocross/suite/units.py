"""The unit of the flip rate: which one means the same in short and long runs, with small and large batches?

Method `flip` is trained over flip rates, lengths and batch sizes on held-out training data. For each cell (task,
length, batch size) the best rate is found and expressed in three units. The right unit is the one in which the best
values of all cells agree most closely.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zerocross.filters.flips import alpha_for_flips
from zerocross.suite.table import Find, SuiteRun, suite_run
from zerocross.suite.tasks import Task
from zerocross.train.variants import with_epochs

METHOD = "flip"
RATES = (2.5e-3, 5e-3, 1e-2, 2e-2, 4e-2)
GAMMA = 0.1
COSINE_MEAN = 0.5  # of the schedule, over a run


@dataclass(frozen=True)
class Cell:
    """The settings of a run apart from its flip rate and seed.

    Args:
        task: The task.
        length: Epochs, as a multiple of the task's own.
        batch_size: Samples per update.
    """

    task: Task
    length: float
    batch_size: int

    def run(self, rate: float, seed: int) -> SuiteRun:
        """One training at a flip rate."""
        if not self.length > 0 or self.batch_size < 1:
            raise ValueError(f"length is {self.length:g} and batch size {self.batch_size}; both must be positive")
        settings = {"optimizer.flip_rate": rate, "optimizer.gamma": GAMMA, "batch_size": self.batch_size}
        run = suite_run(self.task, METHOD, "units", seed, settings, validate=True)
        epochs = max(1, round(self.length * self.task.epochs))
        return dataclasses.replace(run, config=with_epochs(run.config, epochs), settings={**settings, "epochs": epochs})


UNITS = {
    "flips per update": lambda rate, _: rate,
    "flips per weight over the run": lambda rate, updates: COSINE_MEAN * rate * updates,
    "memory 1 / alpha, share of the run": lambda rate, updates: 1 / (alpha_for_flips(rate, GAMMA) * updates),
}


def runs(cells: Sequence[Cell], seeds: int, rates: Sequence[float] = RATES) -> list[SuiteRun]:
    """All trainings of some cells."""
    return [cell.run(rate, seed) for cell in cells for seed in range(seeds) for rate in rates]


def best(cells: Sequence[Cell], seeds: int, find: Find, by: str = "loss") -> list[dict[str, Any]]:
    """The best flip rate of each cell whose runs are all finished, in every unit.

    Args:
        cells: What was trained.
        seeds: Number of seeds of each rate.
        find: The result of a run, or None.
        by: What is compared: the mean "loss" or "score" on held-out data.
    """
    if by not in {"loss", "score"}:
        raise ValueError(f"by is {by!r}; it must be 'loss' or 'score'")
    rows = []
    for cell in cells:
        results = {rate: [find(cell.run(rate, seed)) for seed in range(seeds)] for rate in RATES}
        if any(result is None or by not in result for group in results.values() for result in group):
            continue
        mean = {rate: statistics.fmean(r[by] for r in group if r is not None) for rate, group in results.items()}
        rate = min(mean, key=lambda each: mean[each] if by == "loss" else -mean[each])
        updates = next(r["updates"] for r in results[rate] if r is not None)
        units = {unit: value(rate, updates) for unit, value in UNITS.items()}
        edge = rate in (min(RATES), max(RATES))
        rows.append({"task": cell.task.name, "updates": updates, "batch_size": cell.batch_size, "edge": edge, **units})
    return rows


def spread(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The standard deviation of the best values of all cells, in factors of two of the flip rate, by unit.

    Memory goes with the square of the rate, and counts half.
    """
    if len(rows) < 2:
        raise ValueError(f"a spread takes at least two cells, there are {len(rows)}")
    return {
        unit: statistics.stdev(math.log2(row[unit]) * (0.5 if unit.startswith("memory") else 1.0) for row in rows)
        for unit in UNITS
    }
