"""Translate the operations of a traced network into steps; errors name unsupported operations and their module."""

from __future__ import annotations

import operator as python_operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, fx

from zerocross.deploy.patterns import Match, aten_name, matches
from zerocross.deploy.steps import Eager, Step, StepGraph
from zerocross.deploy.trace import Traced, keeps_batch, module_path, sample_shape

HandlerResult = str | list[Step]
"""The result of a handler: steps, the last of which is the node's value, or the name of an equal value."""


@dataclass(frozen=True)
class OperatorContext:
    """One operation of a traced network, and the names of the previous steps."""

    traced: Traced
    node: fx.Node
    names: Mapping[fx.Node, str]

    @cached_property
    def args(self) -> dict[str, Any]:
        """The arguments by name, including defaults; constants as values, activations as nodes."""
        schema: Any = getattr(self.node.target, "_schema")  # noqa: B009 - not part of the target's declared type
        bound = {each.name: each.default_value for each in schema.arguments if each.has_default_value()}
        bound |= {each.name: value for each, value in zip(schema.arguments, self.node.args, strict=False)}
        return {name: self.traced.of(value) for name, value in (bound | dict(self.node.kwargs)).items()}

    def source(self, name: str = "self") -> fx.Node:
        """Return the argument of this name, which must be an activation."""
        value = self.args[name]
        if not isinstance(value, fx.Node):
            raise ValueError(f"operator {aten_name(self.node)} of a constant is not supported")
        return value

    def step(self, op: str, *sources: fx.Node, label: str = "", **fields: Any) -> Step:
        """Create the step that computes this operation from these activations."""
        inputs = tuple(self.names[source] for source in sources)
        step = Step(op, inputs, self.node.name, sample_shape(self.node), module_path(self.node), label or op)
        return replace(step, **fields)

    def eager(self) -> tuple[Eager]:
        """Return the operation itself as a function of its single activation."""
        node, constants = self.node, self.traced.constants

        def compute(x: Tensor) -> Tensor:
            args, kwargs = fx.map_arg((node.args, node.kwargs), lambda each: constants.get(each, x))
            value = node.target(*args, **kwargs)  # type: ignore[operator] - an operator of torch
            return value[0] if isinstance(value, tuple) else value

        return (compute,)


Handler = Callable[[OperatorContext], HandlerResult]


def translate(traced: Traced, handlers: Mapping[str, Handler]) -> StepGraph:
    """Translate a network into steps, without folding.

    Args:
        traced: The network.
        handlers: A function for every supported ATen operator.
    """
    patterns, inner_nodes = matches(traced)
    source = Step("input", (), "input", traced.input_size, label="input")
    steps, names = {source.name: source}, {traced.source: source.name}
    for node in traced.nodes:
        if node in inner_nodes:
            continue
        try:
            translation = _translate_node(OperatorContext(traced, node, names), patterns.get(node), handlers)
        except ValueError as error:
            where = module_path(node)
            kind = type(traced.model.get_submodule(where)).__name__
            place = f"module {where!r} ({kind})" if where else f"the forward of {kind}"
            raise ValueError(f"cannot pack {place}: {error}; docs/deploy.md lists what can be packed") from None
        if isinstance(translation, list):
            steps |= {step.name: step for step in translation}
            names[node] = translation[-1].name
        else:
            names[node] = translation
    return StepGraph(steps, names[traced.result])


def _translate_node(context: OperatorContext, match: Match | None, handlers: Mapping[str, Handler]) -> HandlerResult:
    node, name = context.node, aten_name(context.node)
    if match is not None:
        return [_matched(context, match)]
    if node.target is python_operator.getitem:
        if node.args[1] != 0:
            raise ValueError(
                "the second result of an operator (indices of a pool, statistics of a norm) is not supported"
            )
        return context.names[node.args[0]]  # type: ignore[index] - an activation
    if name not in handlers:
        hint = ": torch.sign(0) is 0; use zerocross.nn.sign, which is -1 or +1" if name == "sign" else ""
        raise ValueError(f"operator {name or node.target} is not supported{hint}")
    if not keeps_batch(node):
        raise ValueError(f"operator {name} mixes samples, or does not return one value per sample")
    return handlers[name](context)


def _matched(context: OperatorContext, match: Match) -> Step:
    if match.op == "sign":
        return context.step("sign", match.source)
    slope = channel_values(match.slope, sample_shape(context.node))
    return context.step("prelu", match.source, tensors={"slope": slope}, eager=(_bend(slope),))


def _bend(slope: Tensor) -> Eager:
    def compute(x: Tensor) -> Tensor:
        return torch.where(x >= 0, x, slope.float().view(-1, *(1,) * (x.dim() - 2)) * x)

    return compute


def channel_values(value: Any, shape: tuple[int, ...]) -> Tensor:
    """Return one float64 number per channel from a number or a tensor that broadcasts along channels only."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return torch.full((shape[0],), float(value), dtype=torch.float64)
    if isinstance(value, Tensor) and value.dim() <= len(shape) + 1:
        full = value.detach().double().reshape((1,) * (len(shape) + 1 - value.dim()) + tuple(value.shape))
        if full.numel() == full.shape[1] and full.shape[1] in {1, shape[0]}:
            return full.flatten().expand(shape[0]).clone()
    description = f"of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"{value!r}"
    raise ValueError(f"a constant {description} is not one number per channel of an activation {shape}")
