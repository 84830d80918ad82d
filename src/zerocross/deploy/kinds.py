"""The kind of value that each op returns: "bits" (-1 and +1), "sums" (integers, of a binary layer) or "real"."""

from __future__ import annotations

from collections.abc import Iterable

from zerocross.deploy.steps import Step

LAYERS = ("conv2d", "linear")
"""Layers with weights; the binary form of each has the prefix "binary_"."""

GIVES = {"sign": "bits", "threshold": "bits", **{f"binary_{op}": "sums" for op in LAYERS}}
"""Ops that return bits or sums for any kind of input; all ops not listed here or in `KEEPS` return real values."""

KEEPS = {"flatten": {"bits", "sums"}, "max_pool2d": {"sums"}, "subsample": {"sums"}}
"""Ops that return a value of the same kind as their input, for these kinds of input."""

MONOTONE = ("max_pool2d", "subsample", "concat")
"""Ops that select among values, so that a sign may be taken before or after them."""


def value_kinds(steps: Iterable[Step]) -> dict[str, str]:
    """Return the kind of each step's value by the name of the step.

    Args:
        steps: Steps in execution order.
    """
    kinds: dict[str, str] = {}
    for step in steps:
        kind = kinds[step.inputs[0]] if step.inputs else "real"
        kinds[step.name] = GIVES.get(step.op) or (kind if kind in KEEPS.get(step.op, ()) else "real")
    return kinds
