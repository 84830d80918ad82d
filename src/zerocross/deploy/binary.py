"""Detect binary layers by the values of their weights, however these were computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from zerocross.deploy.kinds import LAYERS, value_kinds
from zerocross.deploy.steps import Step, StepGraph
from zerocross.nn.sign import sign


@torch.no_grad()
def resigned(model: nn.Module) -> None:
    """Replace each theta weight by its sign, in place."""
    for module in model.modules():
        for name, kind in getattr(module, "binary_kinds", {}).items():
            weight = getattr(module, name)
            if kind == "theta":
                weight.copy_(sign(weight))


def refuse_not_packable(model: nn.Module) -> None:
    """Raise ValueError for the first layer that says why it cannot be packed (`not_packable`)."""
    for name, module in model.named_modules():
        if reason := getattr(module, "not_packable", ""):
            raise ValueError(f"cannot pack module {name!r} ({type(module).__name__}): {reason}")


def split(weight: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return (signs, scale per output) with weight = scale * signs, or None if magnitudes differ within an output."""
    magnitude = weight.abs().flatten(1)
    scale = magnitude[:, 0]
    if not bool((magnitude == scale[:, None]).all()):
        return None
    return torch.where(weight >= 0, 1.0, -1.0), scale


def binary_layers(program: StepGraph, model: nn.Module) -> StepGraph:
    """Turn layers with binary weights into binary ops if their inputs are bits as well.

    A layer has binary weights if it declares so (`binary_kinds`), or if they are all -1 or +1. Its scale becomes a
    separate affine step. With a real input it stays a real layer, whose weights are stored as bits.
    """
    bits = {name for name, kind in value_kinds(program.steps.values()).items() if kind == "bits"}
    steps: dict[str, Step] = {}
    for step in program.steps.values():
        for each in _layer(step, model, bits) if step.op in LAYERS else (step,):
            steps[each.name] = each
    return StepGraph(steps, program.output)


def _layer(step: Step, model: nn.Module, bits: set[str]) -> list[Step]:
    weight = step.tensors["weight"]
    declared = "weight" in getattr(model.get_submodule(step.module), "binary_kinds", {})
    if not bool(torch.isfinite(weight).all()):
        raise ValueError(f"the weights of {step.module} are not finite: training has diverged")
    parts = split(weight)
    if declared and parts is None:
        raise ValueError(
            f"the weights of {step.module} are not -1 and +1 (times a scale per output); averaged weights are not, for "
            "example: pass resign=True (--resign) to pack their signs"
        )
    binary_weights = parts is not None and (declared or bool((parts[1] == 1).all()))
    if step.attrs.get("pad_value") and not (binary_weights and step.inputs[0] in bits):
        raise ValueError(f"cannot pack module {step.module!r}: only a binary convolution of bits may be padded by ones")
    if parts is None or not binary_weights:
        return [step]
    signs, scale = parts
    if step.inputs[0] not in bits:
        return [replace(step, tensors={"signs": signs, "weight_scale": scale.double()}, label="binary weights")]
    binary = replace(step, op=f"binary_{step.op}", tensors={"signs": signs})
    if bool((scale == 1).all()):
        return [binary]
    # The scale keeps the layer's name, so that the following steps need not change.
    inner = replace(binary, name=f"{step.name}.sums")
    tensors = {"scale": scale.double(), "shift": torch.zeros_like(scale, dtype=torch.float64)}
    outer = Step("affine", (inner.name,), step.name, step.shape, step.module, "scale", {}, tensors, (_times(scale),))
    return [inner, outer]


def _times(scale: Tensor) -> Callable[[Tensor], Tensor]:
    def compute(x: Tensor) -> Tensor:
        return x * scale.view(-1, *(1,) * (x.dim() - 2))

    return compute
