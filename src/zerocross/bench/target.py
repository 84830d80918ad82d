"""What a bench promises, and whether this run keeps it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A figure that was promised, and what it is."""

    text: str
    value: float
    limit: float
    at_least: bool = True

    @property
    def met(self) -> bool:
        """Whether the promise holds in this run."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit
