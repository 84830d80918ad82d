"""Compilation targets: levels of processor features, and the tile sizes that follow from them.

A level is chosen once per process, before anything is compiled, since Numba caches compiled functions.
"""

from __future__ import annotations

from dataclasses import dataclass

import llvmlite.binding as llvm


@dataclass(frozen=True)
class Level:
    """A set of processor features that code is compiled for.

    Args:
        name: Name of the level and of its object code.
        cpu: LLVM's name of the processor family.
        needs: Required features beyond those of the whole family.
        registers: Number of vector registers in which a tile may keep sums.
        width: Number of registers for sixteen 32-bit numbers.
    """

    name: str
    cpu: str
    needs: tuple[str, ...]
    registers: int
    width: int

    def has(self, feature: str) -> bool:
        """Return True if code may use a feature."""
        return feature in self.needs

    @property
    def features(self) -> str:
        """Features to pass to LLVM; 512-bit registers are used if available."""
        wide = ["-prefer-256-bit"] * self.has("avx512f")
        return ",".join([*(f"+{feature}" for feature in self.needs), *wide])

    def missing(self) -> list[str]:
        """Return the required features that this processor lacks."""
        host = llvm.get_host_cpu_features()
        return [feature for feature in self.needs if not host.get(feature)]


_AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd")
_AVX2 = ("avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe", "popcnt")

LEVELS = (
    Level("avx512", "x86-64-v4", (*_AVX512, *_AVX2, "avx512vpopcntdq", "avx512vnni"), 24, 1),
    Level("avx2", "x86-64-v3", _AVX2, 10, 2),
    Level("portable", "", (), 10, 4),  # for the current processor, without special instructions
)
"""All levels, fastest first; the last one runs on every processor."""

_chosen: list[Level] = []


def best_level() -> Level:
    """Return the fastest level that this processor supports."""
    return next(level for level in LEVELS if not level.missing())


def level_named(name: str, *, here: bool = True) -> Level:
    """Return the level of this name; raise a ValueError if it is unknown or, with `here`, not supported."""
    levels = {level.name: level for level in LEVELS}
    if name not in levels:
        raise ValueError(f"level = {name!r}: it must be one of {', '.join(levels)}")
    if here and (missing := levels[name].missing()):
        lacks = ", ".join(missing)
        raise ValueError(f"level = {name!r}: this processor lacks {lacks}; it supports {best_level().name!r}")
    return levels[name]


def choose_level(level: Level) -> None:
    """Compile for this level from now on."""
    if _chosen and _chosen[0] != level:
        raise RuntimeError(
            f"code for {_chosen[0].name} has been compiled in this process; use another process for {level.name}"
        )
    _chosen[:] = [level]


def chosen_level() -> Level:
    """Return the level to compile for."""
    if not _chosen:
        _chosen.append(best_level())
    return _chosen[0]


def rows_at_once(vectors: int) -> int:
    """Return the number of pixels to process at a time, if each takes `vectors` vectors of sixteen numbers."""
    level = chosen_level()
    rows = 1
    while 2 * rows * vectors * level.width <= level.registers:
        rows *= 2
    return rows
