"""Find the unit of the flip rate whose best value depends least on the length of a run and the batch size.

Method `flip` is trained over flip rates, lengths and batch sizes, and evaluated on held-out training data. For each
cell (task, length, batch size) the best rate is converted to three units. The right unit is the one in which the best
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
from zerocross.suite.table import COMPILED, Find, SuiteRun, suite_run
from zerocross.suite.tasks import Task
from zerocross.train.variants import with_epochs

METHOD = "flip"
RATES = (2.5e-3, 5e-3, 1e-2, 2e-2, 4e-2)
GAMMA = 0.1
COSINE_MEAN = 0.5  # mean of the schedule over a run


@dataclass(frozen=True)
class Cell:
    """The settings of a run, except its flip rate and seed.

    Args:
        task: The task.
        length: Epochs, as a multiple of those of the task.
        batch_size: Samples per update.
    """

    task: Task
    length: float
    batch_size: int

    def run(self, rate: float, seed: int) -> SuiteRun:
        """Return one training with a flip rate."""
        if not self.length > 0 or self.batch_size < 1:
            raise ValueError(f"length is {self.length:g} and batch size {self.batch_size}; both must be positive")
        settings = {"optimizer.flip_rate": rate, "optimizer.gamma": GAMMA, "batch_size": self.batch_size, **COMPILED}
        run = suite_run(self.task, METHOD, "units", seed, settings, validate=True)
        epochs = max(1, round(self.length * self.task.epochs))
        return dataclasses.replace(run, config=with_epochs(run.config, epochs), settings={**settings, "epochs": epochs})


UNITS = {
    "flips per update": lambda rate, _: rate,
    "flips per weight over the run": lambda rate, updates: COSINE_MEAN * rate * updates,
    "memory 1 / alpha, share of the run": lambda rate, updates: 1 / (alpha_for_flips(rate, GAMMA) * updates),
}


def runs(cells: Sequence[Cell], seeds: int, rates: Sequence[float] = RATES) -> list[SuiteRun]:
    """Return all trainings of the cells."""
    return [cell.run(rate, seed) for cell in cells for seed in range(seeds) for rate in rates]


def best(cells: Sequence[Cell], seeds: int, find: Find, by: str = "loss") -> list[dict[str, Any]]:
    """Return the best flip rate of each cell whose runs are all finished, in every unit.

    Args:
        cells: The cells.
        seeds: Number of seeds per rate.
        find: Returns the result of a run, or None.
        by: The value to compare: the mean "loss" or "score" on held-out data.
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
    """Return the standard deviation of the best values of all cells, in factors of two of the flip rate, by unit.

    Memory is proportional to the inverse square of the rate, so that its logarithm counts half.
    """
    if len(rows) < 2:
        raise ValueError(f"a spread needs at least two cells, not {len(rows)}")
    return {
        unit: statistics.stdev(math.log2(row[unit]) * (0.5 if unit.startswith("memory") else 1.0) for row in rows)
        for unit in UNITS
    }
