"""Integer thresholds: a binary layer's sums straight to bits, exactly as the network's own arithmetic decides.

Between the sums and the sign stand operations on single values (scale, bias, batch norm, shift, activation). All sums
that a layer can give, -K..K, go through them as the network computes them, in float32: rounding and ties are the
network's. Where the bit changes at most once along the sums, one integer and a direction say the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from zerocross.deploy.kinds import GIVES, value_kinds
from zerocross.deploy.steps import Eager, Step, StepGraph

MAX_TABLE = 1 << 26  # sums times channels that are tried


def thresholds(program: StepGraph) -> StepGraph:
    """Fold every chain of elementwise steps between a binary layer and a sign, where nothing else uses its values."""
    uses = program.uses()
    limits = sum_limits(program)
    new: dict[str, Step] = {}
    gone: dict[str, str] = {}
    for sign in program.steps.values():
        if sign.op != "sign":
            continue
        chain, source = _chain(program, sign)
        if source not in limits:
            new[sign.name] = replace(sign, kept="its input is real")
            continue
        if shared := [step for step in chain if uses[step.name] > 1]:
            new[sign.name] = replace(sign, kept=f"something else uses the value of {shared[0].label}, too")
            continue
        found = fold([step.eager[0] for step in chain], limits[source], sign.shape)
        if found is None:
            new[sign.name] = replace(sign, kept="no single threshold gives the same bits")
            continue
        labels = tuple(step.label for step in chain)
        tensors = dict(zip(("threshold", "direction"), found, strict=True))
        new[sign.name] = replace(sign, op="threshold", inputs=(source,), tensors=tensors, folded=(*labels, "sign"))
        gone |= {step.name: source for step in chain}
    return program.replaced(new, gone)


def sum_limits(program: StepGraph) -> dict[str, int]:
    """K for each value that holds sums -K..K."""
    kinds = value_kinds(program.steps.values())
    limits: dict[str, int] = {}
    for step in program.steps.values():
        if kinds[step.name] == "sums":
            is_layer = step.op in GIVES
            limits[step.name] = math.prod(step.attrs["shape"][1:]) if is_layer else limits[step.inputs[0]]
    return limits


def _chain(program: StepGraph, sign: Step) -> tuple[list[Step], str]:
    """The elementwise steps before a sign, first one first, and the value that goes into the first."""
    chain: list[Step] = []
    source = sign.inputs[0]
    while program.steps[source].eager:
        chain.insert(0, program.steps[source])
        source = chain[0].inputs[0]
    return chain, source


@torch.no_grad()
def fold(operations: Sequence[Eager], limit: int, shape: Sequence[int]) -> tuple[Tensor, Tensor] | None:
    """Thresholds (int32) and directions (int8) per channel, or None where no single step gives the bits.

    With direction +1 the bit is [sum >= threshold], with -1 it is [sum <= threshold].

    Args:
        operations: from the sums to what the sign is taken of, elementwise.
        limit: K, the largest sum.
        shape: of the value, without N.
    """
    channels = shape[0]
    if (2 * limit + 1) * channels > MAX_TABLE:
        return None
    sums = torch.arange(-limit, limit + 1, dtype=torch.float32)
    # In the layout of real activations: channels apart, values of a channel side by side.
    x = sums.view(-1, 1).expand(-1, channels) if len(shape) == 1 else sums.view(1, 1, -1, 1).expand(1, channels, -1, 1)
    x = x.contiguous()
    for operation in operations:
        x = operation(x)
    bits = (x >= 0).T if len(shape) == 1 else (x >= 0).reshape(channels, -1)
    rises = bits[:, 1:].int() - bits[:, :-1].int()
    if bool((rises.abs().sum(1) > 1).any()) or bool(x.isnan().any()):
        return None
    ones = bits.sum(1)
    falling = bits[:, 0] & ~bits[:, -1]
    threshold = torch.where(falling, ones - limit - 1, limit + 1 - ones)
    return threshold.int(), torch.where(falling, -1, 1).to(torch.int8)
