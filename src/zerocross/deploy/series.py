"""Represent series as images one pixel high: 1-d convolutions become 2-d, and the packed graph contains images only."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from zerocross.deploy.steps import Eager, Step, StepGraph

WINDOWED = ("conv2d", "avg_pool2d", "max_pool2d", "global_avg_pool", "subsample", "pad2d")


def series_to_images(program: StepGraph) -> StepGraph:
    """Change the shape of every activation from (C, L) to (C, 1, L) if at least one of them is convolved or pooled.

    The packed network then takes inputs of shape (C, 1, L); the runtime also accepts (C, L).
    """
    series = {name: step for name, step in program.steps.items() if len(step.shape) == 2}
    if not any(step.op in WINDOWED and step.inputs[0] in series for step in program.steps.values()):
        return program
    if program.output in series:
        raise ValueError(
            f"cannot pack a network that returns a series {series[program.output].shape} per sample: pool or flatten it"
        )
    return program.replaced({name: _lifted(step) for name, step in series.items()})


def _lifted(step: Step) -> Step:
    return replace(step, shape=(step.shape[0], 1, step.shape[1]), eager=tuple(_on_series(each) for each in step.eager))


def _on_series(operation: Eager) -> Eager:
    """Adapt an elementwise operation whose constants are shaped for (N, C, L) to inputs of shape (N, C, H, W)."""

    def compute(x: Tensor) -> Tensor:
        return operation(x.flatten(2)).view_as(x)

    return compute
