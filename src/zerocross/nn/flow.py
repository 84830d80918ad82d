"""The order in which data pass through the weight layers of a model, and which of them are shortcuts."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import UninitializedParameter

Example = Tensor | tuple[Any, ...] | dict[str, Any]
# Layers that multiply data by a weight; not Embeddings, which are tables, nor modules that only have a matrix.
_WEIGHT_LAYERS = (_ConvNd, nn.Linear, nn.Bilinear, nn.RNNBase, nn.MultiheadAttention)
_IMAGE_SIZES = (32, 8, 28, 64, 224)
_LENGTHS = (64, 1024, 16000)
_LONGEST_BRANCH = 16  # weight layers parallel to a shortcut


@dataclass
class Flow:
    """The names of weight layers in order of execution, and of those that are weighted shortcuts."""

    order: list[str]
    shortcuts: set[str] = field(default_factory=set)


def weight_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Return the layers that multiply data by a weight, in the order of registration."""
    return {name: module for name, module in model.named_modules() if isinstance(module, _WEIGHT_LAYERS)}


def call(model: nn.Module, example: Example) -> Any:
    """Call a model with a tensor, a tuple of arguments, or a dict of keyword arguments."""
    if isinstance(example, dict):
        return model(**example)
    return model(*example) if isinstance(example, tuple) else model(example)


def is_chain(model: nn.Module) -> bool:
    """Return True if modules certainly run in the order of registration (only nested Sequentials)."""
    return all(isinstance(m, nn.Sequential) for m in model.modules() if any(True for _ in m.children()))


def guess_example(model: nn.Module) -> Tensor | None:
    """Return an input that the model accepts, found by trying common sizes; None if none fits."""
    parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
    if parameter is None:
        return None
    generator = torch.Generator().manual_seed(0)
    for size in _sizes(model):
        x = torch.randn(4, *size, generator=generator).to(parameter.device, parameter.dtype)
        try:
            with torch.no_grad(), _trial(model) as trial:
                call(trial, x)
        except Exception:  # noqa: S112 - a model may raise anything for an unsuitable input
            continue
        return x
    return None


def _sizes(model: nn.Module) -> Iterator[tuple[int, ...]]:
    if given := getattr(model, "input_size", None):
        yield tuple(given)
    first = next(iter(weight_layers(model).values()), None)
    if isinstance(first, nn.Conv2d):
        yield from ((first.in_channels, side, side) for side in _IMAGE_SIZES)
    elif isinstance(first, nn.Conv1d):
        yield from ((first.in_channels, length) for length in _LENGTHS)
    elif isinstance(first, nn.Linear):
        yield from ((first.in_features,), (6, first.in_features))
    elif isinstance(first, nn.MultiheadAttention):
        yield 6, first.embed_dim


@contextmanager
def _trial(model: nn.Module) -> Iterator[nn.Module]:
    """Yield a copy in evaluation mode that can be run without side effects on buffers, random state and warnings."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield copy.deepcopy(model).eval()


def trace(model: nn.Module, example: Example) -> Flow:
    """Run a copy of a model once and follow data through its weight layers along autograd's graph."""
    order: list[str] = []
    ends: dict[Any, str] = {}  # node of a layer's output -> the layer
    inputs: dict[str, list[Any]] = {}  # layer -> the nodes of its inputs
    with torch.enable_grad(), _trial(model) as trial:
        for parameter in trial.parameters():
            if not isinstance(parameter, UninitializedParameter):
                parameter.requires_grad_(parameter.is_floating_point())
        for name, layer in weight_layers(trial).items():

            def before(_: nn.Module, args: Any, kwargs: Any, name: str = name) -> None:
                order.append(name)
                inputs.setdefault(name, []).extend(_nodes((args, kwargs)))

            def after(_: nn.Module, __: Any, output: Any, name: str = name) -> None:
                ends.update(dict.fromkeys(_nodes(output), name))

            layer.register_forward_pre_hook(before, with_kwargs=True)
            layer.register_forward_hook(after)
        outputs = _nodes(call(trial, example))
        once = list(dict.fromkeys(order))
        shortcuts = _shortcuts(outputs, ends, inputs, weight_layers(trial))
    return Flow(once, shortcuts)


def _nodes(values: Any) -> list[Any]:
    """Return the autograd nodes of all tensors in nested arguments or outputs."""
    if isinstance(values, Tensor):
        return [values.grad_fn] if values.grad_fn is not None else []
    if isinstance(values, dict):
        values = tuple(values.values())
    return [node for value in values for node in _nodes(value)] if isinstance(values, tuple | list) else []


def _shortcuts(
    outputs: list[Any], ends: dict[Any, str], inputs: dict[str, list[Any]], layers: dict[str, nn.Module]
) -> set[str]:
    """Return single layers that form a branch between a fork and a sum whose other branch has more layers.

    If the other branch also has a single layer, a 1 x 1 convolution parallel to a larger one is the shortcut.
    """
    parents = {name: _nearest(nodes, ends) for name, nodes in inputs.items()}
    shortcuts: set[str] = set()
    for node in _reachable(outputs):
        ways = [fn for fn, _ in node.next_functions if fn is not None]
        if not type(node).__name__.startswith("AddBackward") or len(ways) != 2:
            continue
        for way, other in (ways, ways[::-1]):
            near, far = _nearest([way], ends), _nearest([other], ends)
            if len(near) == 1 and not near & far:
                (single,) = near
                if _is_beside(single, far, parents, layers):
                    shortcuts.add(single)
    return shortcuts


def _is_beside(
    single: str, far: frozenset[str], parents: dict[str, frozenset[str]], layers: dict[str, nn.Module]
) -> bool:
    """Return True if the branch that ends in `far` starts at the same fork as `single`."""
    level, seen = set(far), {single}
    for length in range(1, _LONGEST_BRANCH + 1):
        level -= seen
        seen |= level
        for name in level:
            if parents.get(name) == parents.get(single) and (length > 1 or _side(layers[single]) < _side(layers[name])):
                return True
        level = {parent for name in level for parent in parents.get(name, ())}
    return False


def _side(layer: nn.Module) -> int:
    return max(layer.kernel_size) if isinstance(layer, _ConvNd) else 1


def _nearest(nodes: Iterable[Any], ends: dict[Any, str]) -> frozenset[str]:
    """Return the layers that are reached first when walking back from these nodes."""
    return frozenset(ends[node] for node in _reachable(nodes, ends) if node in ends)


def _reachable(nodes: Iterable[Any], stops: Iterable[Any] = ()) -> list[Any]:
    """Return all nodes reachable by walking back, not beyond `stops`."""
    seen, waiting = dict.fromkeys(nodes), list(nodes)
    while waiting:
        node = waiting.pop()
        if node in stops:
            continue
        for parent, _ in node.next_functions:
            if parent is not None and parent not in seen:
                seen[parent] = None
                waiting.append(parent)
    return list(seen)
