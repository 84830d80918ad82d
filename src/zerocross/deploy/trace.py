"""Trace a network with torch.export, and evaluate everything that depends on parameters only."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from zerocross.checks import one_line

BATCH = 2  # batch size for tracing; 1 would broadcast to any shape


@dataclass(frozen=True)
class Traced:
    """A traced network.

    Args:
        model: The traced copy: in evaluation mode, float32, on the CPU.
        input_size: Input size of one sample.
        nodes: The operations on activations, in order, without those in `constants`.
        source: The node of the input.
        result: The node of the output.
        constants: Parameters, buffers, and values computed from them only, such as the sign of a latent weight.
    """

    model: nn.Module
    input_size: tuple[int, ...]
    nodes: tuple[fx.Node, ...]
    source: fx.Node
    result: fx.Node
    constants: Mapping[fx.Node, Any]

    def of(self, node: Any) -> Any:
        """Return the value of a constant node; return anything else unchanged."""
        return self.constants.get(node, node) if isinstance(node, fx.Node) else node


def trace(model: nn.Module, input_size: Sequence[int]) -> Traced:
    """Trace a network in evaluation mode.

    Args:
        model: A model that torch.export can trace, with one input and one output tensor; not modified.
        input_size: Input size of one sample, without the batch dimension.
    """
    model = copy.deepcopy(model).to("cpu", torch.float32).eval()
    size = tuple(int(each) for each in input_size)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about torch's internals
            exported = torch.export.export(model, (torch.zeros(BATCH, *size),), strict=False)
            exported = exported.run_decompositions({})  # replaces in-place operations; changes nothing else
    except Exception as error:  # export may raise anything
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
            "a packed network must take one and return one: wrap the model accordingly"
        )
    stored = {**exported.state_dict, **exported.constants}
    state_names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    constants: dict[fx.Node, Any] = {}
    active: list[fx.Node] = []
    source = result = None
    for node in exported.graph.nodes:
        if node.op == "placeholder":
            if node.name in state_names:
                constants[node] = stored[state_names[node.name]].detach()
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
        raise ValueError(f"the model computes {node.name} in a way that is not supported")
    return node.target(*args, **kwargs)


def module_path(node: fx.Node) -> str:
    """Return the path of the module whose forward contains an operation."""
    stack = node.meta.get("nn_module_stack") or {"": ("", "")}
    return str(list(stack.values())[-1][0]).split("@")[0]  # "@2" marks a module's second call


def sample_shape(node: fx.Node) -> tuple[int, ...]:
    """Return the shape of a node's value without the batch dimension."""
    return tuple(int(size) for size in _value(node).shape[1:])


def keeps_batch(node: fx.Node) -> bool:
    """Return True if a node's value has the batch dimension and at least one more."""
    value = _value(node)
    return value.dim() >= 2 and value.shape[0] == BATCH


def _value(node: fx.Node) -> Tensor:
    value = node.meta["val"]
    return value[0] if isinstance(value, tuple | list) else value
