"""Convert steps to the graph of a file: names, and tensors in their stored dtypes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor, nn

from zerocross.deploy.steps import Step, StepGraph
from zerocross.runtime.format import Graph, Node

REAL_TYPES = ("float32", "float16", "int8")
_VECTORS = ("bias", "scale", "shift", "slope", "weight_scale")


def to_graph(
    program: StepGraph, model: nn.Module, input_size: tuple[int, ...], real: str
) -> tuple[Graph, dict[str, Step]]:
    """Return the packed graph, and the step from which each of its nodes was created.

    Args:
        program: Steps after all folding passes.
        model: The model whose modules name the nodes.
        input_size: Input size of one sample.
        real: Data type of the weights of real layers, one of `REAL_TYPES`; vectors are always float32.
    """
    names = _names(program, model)
    nodes, arrays, steps_of_nodes = [], {}, {}
    seen: dict[tuple[str, tuple[int, ...], bytes], str] = {}
    for step in program.steps.values():
        name = names[step.name]
        stored = _stored(step, real)
        keys = {role: f"{name}.{role}" for role in stored}
        if "weight" in stored:  # a weight that two layers share is stored once
            weight = stored["weight"]
            keys["weight"] = seen.setdefault((weight.dtype.name, weight.shape, weight.tobytes()), keys["weight"])
        arrays |= {keys[role]: array for role, array in stored.items()}
        nodes.append(Node(step.op, tuple(names[each] for each in step.inputs), name, dict(step.attrs), keys))
        steps_of_nodes[name] = step
    return Graph(tuple(nodes), names[program.output], input_size, arrays), steps_of_nodes


def _names(program: StepGraph, model: nn.Module) -> dict[str, str]:
    """Return a name for each step: the path of its module, plus the op if the module may contain several."""
    simple = {
        path
        for path, module in model.named_modules()
        if path and (not any(True for _ in module.children()) or any(True for _ in module.parameters(recurse=False)))
    }
    names: dict[str, str] = {}
    used_names: set[str] = set()
    # Name layers first: if a layer takes the sign of its input itself, the layer gets the plain name, not the sign.
    for step in sorted(program.steps.values(), key=lambda step: not step.tensors.keys() & {"weight", "signs"}):
        what = step.module
        if what not in simple or what in used_names:
            what = f"{step.module}.{step.op}".lstrip(".")
        name, count = what, 1
        while name in used_names:
            count += 1
            name = f"{what}_{count}"
        used_names.add(name)
        names[step.name] = name
    return names


def _stored(step: Step, real: str) -> dict[str, np.ndarray]:
    tensors: Mapping[str, Tensor] = step.tensors
    stored = {role: _vector(step, tensors[role]) for role in _VECTORS if role in tensors}
    if "signs" in tensors:
        stored["weight"] = np.packbits(tensors["signs"].numpy().ravel() > 0, bitorder="little")
        if (stored.get("weight_scale", np.zeros(1)) == 1).all():
            del stored["weight_scale"]
    elif "weight" in tensors:
        stored |= _weight(tensors["weight"].double().numpy(), real)
    for role in ("threshold", "direction"):
        if role in tensors:
            stored[role] = tensors[role].numpy()
    return stored


def _vector(step: Step, values: Tensor) -> np.ndarray:
    array = values.double().numpy().astype(np.float32)
    if not np.isfinite(array).all():
        raise ValueError(f"the {step.label} of {step.module} is not finite: training has diverged")
    return array


def _weight(weight: np.ndarray, real: str) -> dict[str, np.ndarray]:
    if real == "int8":
        largest = np.abs(weight).reshape(len(weight), -1).max(axis=1)
        scale = np.where(largest > 0, largest / 127, 1.0).astype(np.float32)
        levels = np.rint(weight / scale.astype(np.float64).reshape(-1, *(1,) * (weight.ndim - 1)))
        return {"weight": np.clip(levels, -127, 127).astype(np.int8), "weight_scale": scale}
    largest = float(np.abs(weight).max())
    if largest > np.finfo(real).max:
        raise ValueError(f"a weight of {largest:g} is out of range for {real}: use real='float32'")
    return {"weight": weight.astype(real)}
