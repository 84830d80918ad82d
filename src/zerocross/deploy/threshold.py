"""Integer thresholds that map the sums of a binary layer directly to bits, exactly as the network computes them.

Between the sums and the sign are elementwise operations (scale, bias, batch norm, shift, activation). All possible sums
of a layer, -K..K, are passed through these operations in float32, as the network computes them, so that rounding and
ties are identical. If the bit changes at most once along the sums, an integer threshold and a direction are equivalent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from zerocross.deploy.kinds import GIVES, value_kinds
from zerocross.deploy.steps import Eager, Step, StepGraph

MAX_TABLE = 1 << 26  # maximum number of sums times channels to try


def thresholds(program: StepGraph) -> StepGraph:
    """Fold every chain of elementwise steps between a binary layer and a sign whose values are not used elsewhere."""
    uses = program.uses()
    limits = sum_limits(program)
    new: dict[str, Step] = {}
    removed: dict[str, str] = {}
    for sign in program.steps.values():
        if sign.op != "sign":
            continue
        chain, source = _chain(program, sign)
        if source not in limits:
            new[sign.name] = replace(sign, kept="its input is real")
            continue
        if shared := [step for step in chain if uses[step.name] > 1]:
            new[sign.name] = replace(sign, kept=f"the value of {shared[0].label} is also used elsewhere")
            continue
        folded = fold([step.eager[0] for step in chain], limits[source], sign.shape)
        if folded is None:
            new[sign.name] = replace(sign, kept="no single threshold is equivalent")
            continue
        labels = tuple(step.label for step in chain)
        tensors = dict(zip(("threshold", "direction"), folded, strict=True))
        new[sign.name] = replace(sign, op="threshold", inputs=(source,), tensors=tensors, folded=(*labels, "sign"))
        removed |= {step.name: source for step in chain}
    return program.replaced(new, removed)


def sum_limits(program: StepGraph) -> dict[str, int]:
    """Return K for each value that consists of sums -K..K."""
    kinds = value_kinds(program.steps.values())
    limits: dict[str, int] = {}
    for step in program.steps.values():
        if kinds[step.name] == "sums":
            is_layer = step.op in GIVES
            limits[step.name] = math.prod(step.attrs["shape"][1:]) if is_layer else limits[step.inputs[0]]
    return limits


def _chain(program: StepGraph, sign: Step) -> tuple[list[Step], str]:
    """Return the elementwise steps before a sign, in order, and the input of the first."""
    chain: list[Step] = []
    source = sign.inputs[0]
    while program.steps[source].eager:
        chain.insert(0, program.steps[source])
        source = chain[0].inputs[0]
    return chain, source


@torch.no_grad()
def fold(operations: Sequence[Eager], limit: int, shape: Sequence[int]) -> tuple[Tensor, Tensor] | None:
    """Return thresholds (int32) and directions (int8) per channel, or None if no single threshold is equivalent.

    With direction +1 the bit is [sum >= threshold], with -1 it is [sum <= threshold].

    Args:
        operations: The elementwise operations from the sums to the input of the sign.
        limit: K, the largest sum.
        shape: Shape of the value, without N.
    """
    channels = shape[0]
    if (2 * limit + 1) * channels > MAX_TABLE:
        return None
    sums = torch.arange(-limit, limit + 1, dtype=torch.float32)
    # Use the memory layout of real activations, so that the operations take the same code path.
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
