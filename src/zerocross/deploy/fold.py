"""Simplifying passes: fold padding into convolutions, move signs behind pools, merge affine steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from zerocross.deploy.kinds import LAYERS, MONOTONE
from zerocross.deploy.series import series_to_images
from zerocross.deploy.steps import Step, StepGraph


def fold_reshapes(program: StepGraph) -> StepGraph:
    """Merge consecutive reshapes; the result must flatten or change nothing."""
    new: dict[str, Step] = {}
    removed: dict[str, str] = {}
    origin: dict[str, str] = {}
    for step in program.steps.values():
        if step.op == "reshape":
            source = origin[step.name] = origin.get(step.inputs[0], step.inputs[0])
            if step.shape == program.steps[source].shape:
                removed[step.name] = source
            elif len(step.shape) == 1:
                new[step.name] = replace(step, op="flatten", label="flatten", inputs=(source,))
    folded = program.replaced(new, removed).alive()
    for step in folded.steps.values():
        if step.op == "reshape":
            before = folded.steps[step.inputs[0]].shape
            raise ValueError(
                f"cannot pack module {step.module!r}: an activation {before} is reshaped to {step.shape}; "
                "only flattening is supported"
            )
    return folded


def fold_pads(program: StepGraph) -> StepGraph:
    """Fold padding of height and width by a constant into the convolution; 1 is allowed for bits."""
    new = {}
    for step in program.steps.values():
        pad = program.steps[step.inputs[0]] if step.op == "conv2d" else step
        if step.op == "conv2d" and pad.op == "pad2d":
            if any(step.attrs["padding"]) or pad.attrs["value"] not in {0.0, 1.0}:
                raise ValueError(
                    f"cannot pack module {step.module!r}: its input is padded twice, or by a value other than 0 or 1"
                )
            attrs = {**step.attrs, "padding": pad.attrs["padding"]}
            if pad.attrs["value"]:
                attrs["pad_value"] = 1
            new[step.name] = replace(step, inputs=pad.inputs, attrs=attrs)
    folded = program.replaced(new).alive()
    for step in folded.steps.values():
        if step.op == "pad2d":
            raise ValueError(f"cannot pack module {step.module!r}: only the input of a convolution can be padded")
    return folded


def hoist_signs(program: StepGraph) -> StepGraph:
    """Move signs behind pools, subsampling and concatenation: the same bits, which can then be packed.

    The sign is monotone, so it can be taken before or after a maximum.
    """
    steps = dict(program.steps)
    order = []
    for name in program.steps:
        step = steps[name]
        signs = [steps[source] for source in step.inputs]
        order.append(name)
        if step.op in MONOTONE and all(sign.op == "sign" for sign in signs):
            inner = replace(step, name=f"{name}.real", inputs=tuple(sign.inputs[0] for sign in signs))
            steps[inner.name] = inner
            order.insert(-1, inner.name)
            steps[name] = Step("sign", (inner.name,), name, step.shape, signs[0].module, "sign")
    return StepGraph({name: steps[name] for name in order}, program.output).alive()


def merge_affine(program: StepGraph) -> StepGraph:
    """Merge affine steps into neighbouring affine steps, real layers, sums or signs, until nothing changes."""
    while True:
        merged = _merged_once(program)
        if merged is None:
            return program
        program = merged.alive()


def _merged_once(program: StepGraph) -> StepGraph | None:
    uses = program.uses()
    for step in program.steps.values():
        before = program.steps[step.inputs[0]] if len(step.inputs) == 1 else None
        if before is not None and step.op == "affine" and _changes_nothing(step):
            return program.replaced({}, {step.name: before.name})
        if before is None or uses[before.name] != 1:
            continue
        if step.op == "affine" and (changed := _absorbed(program, uses, before.name, step)) is not None:
            return program.replaced(changed, {step.name: before.name})
        if step.op == "sign" and before.op == "affine" and _only_shifts(before):
            labels = (*before.folded, before.label)
            shift = before.tensors["shift"]
            changed = replace(step, inputs=before.inputs, tensors={"shift": shift}, folded=(*step.folded, *labels))
            return program.replaced({step.name: changed})
    return None


def _absorbed(program: StepGraph, uses: Counter[str], name: str, affine: Step) -> dict[str, Step] | None:
    """Return the steps to replace so that the value `name` includes `affine`; None if this is impossible."""
    step = program.steps[name]
    if uses[name] != 1:
        return None
    scale, shift = affine.tensors["scale"], affine.tensors["shift"]
    folded = (*step.folded, *affine.folded, affine.label)
    if step.op == "affine":
        tensors = {"scale": step.tensors["scale"] * scale, "shift": step.tensors["shift"] * scale + shift}
        return {name: replace(step, tensors=tensors, eager=(), folded=folded)}
    if step.op in LAYERS:
        return {name: replace(step, tensors=_layer_tensors(step, scale, shift), folded=folded)}
    if not _only_shifts(affine):
        return None
    if step.op == "add":
        options = (_absorbed(program, uses, each, affine) for each in step.inputs)
        return next((each for each in options if each is not None), None)
    if step.op == "concat":
        return _absorbed_by_all(program, uses, step, affine)
    return None


def _absorbed_by_all(program: StepGraph, uses: Counter[str], step: Step, affine: Step) -> dict[str, Step] | None:
    changed: dict[str, Step] = {}
    first = 0
    for name in step.inputs:
        part = slice(first, first + program.steps[name].shape[0])
        first = part.stop
        tensors = {role: values[part] for role, values in affine.tensors.items()}
        one = _absorbed(program, uses, name, replace(affine, tensors=tensors))
        if one is None or changed.keys() & one.keys():
            return None
        changed |= one
    return changed


def _layer_tensors(step: Step, scale: Tensor, shift: Tensor) -> dict[str, Tensor]:
    """Return weight and bias of a layer whose outputs are multiplied by `scale` and shifted by `shift`."""
    tensors = dict(step.tensors)
    if "signs" in tensors:
        tensors["weight_scale"] = tensors["weight_scale"] * scale
    else:
        weight = tensors["weight"].double()
        tensors["weight"] = weight * scale.view(-1, *(1,) * (weight.dim() - 1))
    tensors["bias"] = (tensors["bias"] * scale if "bias" in tensors else 0) + shift
    return tensors


def _only_shifts(affine: Step) -> bool:
    return bool((affine.tensors["scale"] == 1).all())


def _changes_nothing(affine: Step) -> bool:
    return _only_shifts(affine) and not bool(affine.tensors["shift"].any())


def pool_and_flatten(program: StepGraph) -> StepGraph:
    """Replace an average pool over the whole image followed by flatten by a global average pool."""
    uses = program.uses()
    new = {}
    for step in program.steps.values():
        pool = program.steps[step.inputs[0]] if step.op == "flatten" else step
        if step.op == "flatten" and pool.op == "avg_pool2d" and uses[pool.name] == 1 and pool.shape[1:] == (1, 1):
            size = program.steps[pool.inputs[0]].shape[1:]
            if pool.attrs["kernel"] == size and not any(pool.attrs.get("padding", (0, 0))):
                new[step.name] = replace(step, op="global_avg_pool", inputs=pool.inputs, module=pool.module)
    return program.replaced(new).alive()


PASSES: tuple[Callable[[StepGraph], StepGraph], ...] = (
    series_to_images, fold_reshapes, fold_pads, hoist_signs, pool_and_flatten,
)  # fmt: skip
"""Passes that run before binary layers are detected."""
