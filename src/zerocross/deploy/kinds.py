"""What each op gives: "bits" (-1 and +1), "sums" (integers, of a binary layer) or "real" values."""

from __future__ import annotations

from collections.abc import Iterable

from zerocross.deploy.steps import Step

LAYERS = ("conv2d", "linear")
"""Layers with weights; the binary form of each has the prefix "binary_"."""

GIVES = {"sign": "bits", "threshold": "bits", **{f"binary_{op}": "sums" for op in LAYERS}}
"""Ops whose value is of one kind, whatever goes in; real values are not listed."""

KEEPS = {"flatten": {"bits", "sums"}, "max_pool2d": {"sums"}, "subsample": {"sums"}}
"""Ops whose value is of their input's kind, for these kinds."""

MONOTONE = ("max_pool2d", "subsample", "concat")
"""Ops that select among values, so that a sign may be taken before or after them."""


def value_kinds(steps: Iterable[Step]) -> dict[str, str]:
    """The kind of each step's value, by the step's name.

    Args:
        steps: In an order in which they can be run.
    """
    kinds: dict[str, str] = {}
    for step in steps:
        kind = kinds[step.inputs[0]] if step.inputs else "real"
        kinds[step.name] = GIVES.get(step.op) or (kind if kind in KEEPS.get(step.op, ()) else "real")
    return kinds
