"""Summary of a model, layer by layer: bits, multiply-accumulates, bytes in float and packed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from zerocross.nn.check import not_signs, strays
from zerocross.nn.react import RSign
from zerocross.nn.sign import Sign
from zerocross.tables import bytes_text, count_text, shape_text, text_table


@dataclass(frozen=True)
class LayerSummary:
    """One layer, or the total. Multiply-accumulates are None if unknown.

    Attributes:
        name: the module's name in the model.
        kind: its class.
        shape: the shape of its largest parameter.
        bits: bits per weight of that parameter.
        binary: number of binary parameters; tied parameters are counted once, where they first appear.
        real: number of other parameters.
        float_bytes: bytes of its parameters during training.
        packed_bytes: bytes with 1 bit per binary weight.
        binary_macs: multiply-accumulates of binary weights with binary inputs.
        real_macs: the other multiply-accumulates.
        note: a remark, such as a tied weight.

    Examples:
        >>> import zerocross
        >>> row = zerocross.summary(zerocross.nn.BinaryLinear(8, 2)).rows[0]
        >>> row.kind, row.bits, row.packed_bytes
        ('BinaryLinear', 1, 2)
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    bits: float
    binary: int
    real: int
    float_bytes: int
    packed_bytes: int
    binary_macs: int | None = None
    real_macs: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Summary:
    """The layers of a model that own parameters, and their total; print it for a table.

    `strays` maps layers that are declared binary but are not to their problem: see `check`.

    Examples:
        >>> import zerocross
        >>> zerocross.summary(zerocross.nn.BinaryLinear(8, 2)).total.binary
        16
    """

    rows: tuple[LayerSummary, ...]
    total: LayerSummary
    strays: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        header = ["layer", "type", "weight", "bits", "parameters", "binary MACs", "real MACs", "float", "packed"]
        unknown = [row.name for row in self.rows if row.note.startswith("MACs unknown")]
        table = text_table(header, [_cells(row) for row in self.rows], _cells(self.total), right=6)
        total = self.total
        smaller = total.float_bytes / max(total.packed_bytes, 1)
        lines = [table, f"{total.binary:,} binary weights, {total.real:,} real; packed {smaller:.1f} times smaller"]
        lines += [f"{name} is declared binary but is not: {what}" for name, what in self.strays.items()]
        if unknown:
            lines.append(f"MACs of {', '.join(unknown)} are unknown (?) and not included in the total")
        return "\n".join(lines)


def summary(model: nn.Module, input_size: Sequence[int] | None = None) -> Summary:
    """Summarize parameters and computations of a model, layer by layer.

    A weight counts as 1 bit if its layer declares it binary (`binary_kinds`) and it is (theta weights with values other
    than -1 and +1 count as real and are reported), or if it is a matrix or a kernel that contains only -1 and +1 (a
    plain layer trained by GradientFilter). A multiply-accumulate is binary if both weight and input are. Batch-norm
    statistics are not counted, since they can be folded into other parameters.

    Args:
        model: any model; not modified. A model on the meta device is summarized without allocating memory; an input
            then counts as binary only if it is the output of a `Sign` or an `RSign`.
        input_size: a complete input shape including the batch dimension, such as (1, 3, 32, 32): the model is run once
            on zeros to count multiply-accumulates. None: do not count them.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> model = torch.nn.Sequential(torch.nn.Linear(8, 8), zerocross.nn.BinaryLinear(8, 2, sign_input="clip"))
        >>> print(zerocross.summary(model, (1, 8)))
        layer  type          weight   bits  parameters  binary MACs  real MACs  float  packed
        -------------------------------------------------------------------------------------
        0      Linear        8 x 8      32          72            0         64  288 B   288 B
        1      BinaryLinear  2 x 8       1          16           16          0   64 B     2 B
        -------------------------------------------------------------------------------------
        total                        26.36          88           16         64  352 B   290 B
        16 binary weights, 72 real; packed 1.2 times smaller
    """
    owners = {name: module for name, module in model.named_modules() if any(True for _ in module.parameters(False))}
    macs = {} if input_size is None else _count_macs(model, owners, input_size)
    seen: dict[int, str] = {}
    rows = []
    for name, module in owners.items():
        binary, real = macs.get(name, (None, None))
        rows.append(_layer(name, module, seen, binary, real, counted=input_size is not None))
    return Summary(tuple(rows), _total(rows, counted=input_size is not None), strays(model))


def binary_names(module: nn.Module) -> set[str]:
    """Return the names of a module's own parameters that need 1 bit per weight."""
    kinds: dict[str, str] = getattr(module, "binary_kinds", {})
    marked = {name for name, kind in kinds.items() if kind != "theta" or not not_signs(getattr(module, name))}
    for name, parameter in module.named_parameters(recurse=False):
        if parameter.dim() >= 2 and not parameter.is_meta and bool((parameter.detach().abs() == 1).all()):
            marked.add(name)
    return marked


def _layer(
    name: str, module: nn.Module, seen: dict[int, str], binary_macs: int | None, real_macs: int | None, *, counted: bool
) -> LayerSummary:
    names = binary_names(module)
    parameters = dict(module.named_parameters(recurse=False))
    largest = max(parameters, key=lambda key: parameters[key].numel())
    binary = real = float_bytes = packed_bytes = 0
    note = "" if real_macs is not None or not counted else "MACs unknown: not called as a module"
    for key, parameter in parameters.items():
        if id(parameter) in seen:
            note = f"{key} tied to {seen[id(parameter)]}"
            continue
        seen[id(parameter)] = f"{name}.{key}" if name else key
        size = parameter.numel() * parameter.element_size()
        float_bytes += size
        packed_bytes += -(-parameter.numel() // 8) if key in names else size
        binary += parameter.numel() * (key in names)
        real += parameter.numel() * (key not in names)
    bits = 1 if largest in names else parameters[largest].element_size() * 8
    shape, kind = tuple(parameters[largest].shape), type(module).__name__
    return LayerSummary(
        name or "(model)", kind, shape, bits, binary, real, float_bytes, packed_bytes, binary_macs, real_macs, note
    )


def _total(rows: Sequence[LayerSummary], *, counted: bool) -> LayerSummary:
    binary, real, packed = (sum(getattr(row, key) for row in rows) for key in ("binary", "real", "packed_bytes"))
    return LayerSummary(
        name="total",
        kind="",
        shape=(),
        bits=8 * packed / max(binary + real, 1),
        binary=binary,
        real=real,
        float_bytes=sum(row.float_bytes for row in rows),
        packed_bytes=packed,
        binary_macs=sum(row.binary_macs or 0 for row in rows) if counted else None,
        real_macs=sum(row.real_macs or 0 for row in rows) if counted else None,
    )


def _cells(row: LayerSummary) -> list[str]:
    def macs(count: int | None) -> str:
        return ("?" if row.note.startswith("MACs unknown") else "-") if count is None else count_text(count)

    return [
        row.name,
        row.kind,
        shape_text(row.shape) + (f" ({row.note})" if "tied" in row.note else ""),
        f"{row.bits:g}" if row.shape else f"{row.bits:.2f}",
        f"{row.binary + row.real:,}",
        macs(row.binary_macs),
        macs(row.real_macs),
        bytes_text(row.float_bytes),
        bytes_text(row.packed_bytes),
    ]


def _count_macs(
    model: nn.Module, owners: dict[str, nn.Module], input_size: Sequence[int]
) -> dict[str, tuple[int, int]]:
    """Run the model on zeros; return the (binary, real) multiply-accumulates of layers for which they are known."""
    counts: dict[str, tuple[int, int]] = {}
    signs: list[Tensor] = []

    def keep(_: nn.Module, __: tuple[Any, ...], output: Tensor) -> None:
        signs.append(output)

    handles = [m.register_forward_hook(keep) for m in model.modules() if isinstance(m, Sign | RSign)]

    def watch(name: str, module: nn.Module) -> None:
        def hook(_: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            binary, real = counts.get(name, (0, 0))
            macs = _macs(module, inputs[0], output)
            if is_binary_weight and _binary_input(module, inputs[0], signs):
                binary += macs
            else:
                real += macs
            counts[name] = (binary, real)

        is_binary_weight = "weight" in binary_names(module)
        handles.append(module.register_forward_hook(hook))

    for name, module in owners.items():
        if all(parameter.dim() < 2 for parameter in module.parameters(recurse=False)):
            counts[name] = (0, 0)
        elif isinstance(module, _ConvNd | nn.Linear | nn.Embedding):
            watch(name, module)
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(()))
    try:
        with torch.no_grad(), _unchanged(model):
            model.eval()(torch.zeros(*input_size, device=like.device, dtype=like.dtype))
    finally:
        for handle in handles:
            handle.remove()
    return counts


def _macs(module: nn.Module, x: Tensor, output: Tensor) -> int:
    if isinstance(module, nn.Linear):
        return output.numel() * module.in_features
    if isinstance(module, _ConvNd):
        ends = x if isinstance(module, _ConvTransposeNd) else output
        return ends.numel() * module.weight[0].numel()
    return 0  # an Embedding only looks up


def _binary_input(module: nn.Module, x: Tensor, signs: list[Tensor]) -> bool:
    if getattr(module, "sign_input", None) is not None or any(x is output for output in signs):
        return True
    return not x.is_meta and bool((x.abs() == 1).all())


@contextmanager
def _unchanged(model: nn.Module) -> Iterator[None]:
    """Restore training flags, buffers and random state on exit."""
    training = {module: module.training for module in model.modules()}
    buffers = [
        (module, name, buffer, buffer.clone())
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
    ]
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        for module, flag in training.items():
            module.training = flag
        for module, name, buffer, before in buffers:
            module._buffers[name] = buffer  # a forward may have put another tensor in its place
            buffer.copy_(before)
