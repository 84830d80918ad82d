"""What the code is compiled for: levels of processor features, and what the tiles make of them.

A level is chosen once in a process, before anything is compiled: what Numba has compiled it keeps.
"""

from __future__ import annotations

from dataclasses import dataclass

import llvmlite.binding as llvm


@dataclass(frozen=True)
class Level:
    """A set of processor features that code is compiled for.

    Args:
        name: of the level, and of its object code.
        cpu: LLVM's name of the kind of processor.
        needs: the features that a processor must have beyond those that all of its family have.
        registers: vector registers that a tile may keep sums in.
        width: how many registers sixteen numbers of 32 bits take.
    """

    name: str
    cpu: str
    needs: tuple[str, ...]
    registers: int
    width: int

    def has(self, feature: str) -> bool:
        """Whether code may use a feature."""
        return feature in self.needs

    @property
    def features(self) -> str:
        """The features passed to LLVM; registers of 512 bits where there are any."""
        wide = ["-prefer-256-bit"] * self.has("avx512f")
        return ",".join([*(f"+{feature}" for feature in self.needs), *wide])

    def missing(self) -> list[str]:
        """What this processor lacks of it."""
        host = llvm.get_host_cpu_features()
        return [feature for feature in self.needs if not host.get(feature)]


_AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd")
_AVX2 = ("avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe", "popcnt")

LEVELS = (
    Level("avx512", "x86-64-v4", (*_AVX512, *_AVX2, "avx512vpopcntdq", "avx512vnni"), 24, 1),
    Level("avx2", "x86-64-v3", _AVX2, 10, 2),
    Level("portable", "", (), 10, 4),  # for whatever processor this is, without anything special
)
"""From the fastest to the one that every processor runs."""

_chosen: list[Level] = []


def best_level() -> Level:
    """The fastest level that this processor runs."""
    return next(level for level in LEVELS if not level.missing())


def level_named(name: str, *, here: bool = True) -> Level:
    """The level of this name; ValueError where there is none or, unless `here` is False, this processor lacks some."""
    levels = {level.name: level for level in LEVELS}
    if name not in levels:
        raise ValueError(f"level = {name!r}: it must be one of {', '.join(levels)}")
    if here and (missing := levels[name].missing()):
        lacks = ", ".join(missing)
        raise ValueError(f"level = {name!r}: this processor lacks {lacks}; {best_level().name!r} runs here")
    return levels[name]


def choose_level(level: Level) -> None:
    """Compile for this level from now on."""
    if _chosen and _chosen[0] != level:
        raise RuntimeError(
            f"code for {_chosen[0].name} has been compiled in this process; use another for {level.name}"
        )
    _chosen[:] = [level]


def chosen_level() -> Level:
    """The level to compile for."""
    if not _chosen:
        _chosen.append(best_level())
    return _chosen[0]


def rows_at_once(vectors: int) -> int:
    """How many pixels of a tile to work on at a time, if each takes so many vectors of sixteen numbers."""
    level = chosen_level()
    rows = 1
    while 2 * rows * vectors * level.width <= level.registers:
        rows *= 2
    return rows
