"""The graph of a network by torch.export, with everything computed from parameters alone already computed."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from zerocross.checks import one_line

BATCH = 2  # samples in the traced batch: not 1, which would fit every shape


@dataclass(frozen=True)
class Traced:
    """A traced network.

    Args:
        model: the copy that was traced: in evaluation mode, float32, on the CPU.
        input_size: of one sample.
        nodes: the operations on activations, in order, without those in `constants`.
        source: the node of the input.
        result: the node of the output.
        constants: parameters, buffers, and all that is computed from them alone, such as the sign of a latent weight.
    """

    model: nn.Module
    input_size: tuple[int, ...]
    nodes: tuple[fx.Node, ...]
    source: fx.Node
    result: fx.Node
    constants: Mapping[fx.Node, Any]

    def of(self, node: Any) -> Any:
        """The value of a constant node; anything else as it is."""
        return self.constants.get(node, node) if isinstance(node, fx.Node) else node


def trace(model: nn.Module, input_size: Sequence[int]) -> Traced:
    """Trace a network in evaluation mode.

    Args:
        model: any model that torch.export can trace, with one tensor in and one out; it is left as it was.
        input_size: of one sample, without the batch dimension.
    """
    model = copy.deepcopy(model).to("cpu", torch.float32).eval()
    size = tuple(int(each) for each in input_size)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about torch's own internals
            exported = torch.export.export(model, (torch.zeros(BATCH, *size),), strict=False)
            exported = exported.run_decompositions({})  # in-place operations become plain ones; no other change
    except Exception as error:  # export raises whatever the model raises, and a dozen classes of its own
        reason = one_line(error, 300)
        raise ValueError(
            f"torch.export cannot trace the model on an input of shape {(BATCH, *size)}: {reason}"
        ) from error
    return _traced(model, size, exported)


def _traced(model: nn.Module, size: tuple[int, ...], exported: Any) -> Traced:
    signature = exported.graph_signature
    if len(signature.user_inputs) != 1 or len(signature.user_outputs) != 1:
        raise ValueError(
            f"the model takes {len(signature.user_inputs)} and returns {len(signature.user_outputs)} tensors; "
            "a packed network takes one and returns one: wrap the model in one that does"
        )
    stored = {**exported.state_dict, **exported.constants}
    homes = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    constants: dict[fx.Node, Any] = {}
    active: list[fx.Node] = []
    source = result = None
    for node in exported.graph.nodes:
        if node.op == "placeholder":
            if node.name in homes:
                constants[node] = stored[homes[node.name]].detach()
            else:
                source = node
        elif node.op == "output":
            result = node.args[0][0]
        elif all(each in constants for each in node.all_input_nodes):
            constants[node] = _evaluated(node, constants)
        else:
            active.append(node)
    if not isinstance(source, fx.Node) or not isinstance(result, fx.Node) or result in constants:
        raise ValueError("the model's output does not depend on its input")
    return Traced(model, size, tuple(active), source, result, constants)


@torch.no_grad()
def _evaluated(node: fx.Node, constants: Mapping[fx.Node, Any]) -> Any:
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda each: constants[each])
    if not callable(node.target):
        raise ValueError(f"the model computes {node.name} in a way that cannot be packed")
    return node.target(*args, **kwargs)


def module_path(node: fx.Node) -> str:
    """The path of the module in whose forward an operation stands."""
    stack = node.meta.get("nn_module_stack") or {"": ("", "")}
    return str(list(stack.values())[-1][0]).split("@")[0]  # "@2" marks a module's second call


def sample_shape(node: fx.Node) -> tuple[int, ...]:
    """The shape of a node's value without the batch dimension."""
    return tuple(int(size) for size in _value(node).shape[1:])


def keeps_batch(node: fx.Node) -> bool:
    """Whether a node's value has the batch dimension, and more."""
    value = _value(node)
    return value.dim() >= 2 and value.shape[0] == BATCH


def _value(node: fx.Node) -> Tensor:
    value = node.meta["val"]
    return value[0] if isinstance(value, tuple | list) else value
