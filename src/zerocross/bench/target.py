"""Targets of benchmarks, and whether a run meets them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A measured value and its target."""

    text: str
    value: float
    limit: float
    at_least: bool = True

    @property
    def met(self) -> bool:
        """True if this run meets the target."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit
