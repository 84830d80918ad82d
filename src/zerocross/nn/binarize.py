"""Convert an existing model to a binary one, and report what was done to every layer."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized

from zerocross.checks import check_choice, did_you_mean
from zerocross.nn.binarizers import BINARIZERS
from zerocross.nn.check import takes_fast_path
from zerocross.nn.flow import Example, Flow, guess_example, is_chain, trace, weight_layers
from zerocross.nn.layers import BinaryConv1d, BinaryConv2d, BinaryLinear
from zerocross.nn.relus import check_signs_vary, replace_relus
from zerocross.nn.sign import sign
from zerocross.tables import text_table


@dataclass(frozen=True)
class BinarizedLayer:
    """What was done to one layer: `done` is ``"binary"``, ``"kept real"``, ``"already binary"`` or ``"replaced"``.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
        >>> row = zerocross.binarize(net, example=torch.randn(4, 8)).report.rows[0]
        >>> row.name, row.done, row.why
        ('0', 'kept real', 'first layer')
    """

    name: str
    kind: str
    weights: int
    done: str
    why: str


@dataclass(frozen=True)
class BinarizeReport:
    """All layers with a matrix or a kernel, and what was done to each; print it for a table.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
        >>> zerocross.binarize(net, example=torch.randn(4, 8)).report.weights("binary")
        64
    """

    rows: tuple[BinarizedLayer, ...]

    def __str__(self) -> str:
        cells = [
            (row.name, row.kind, row.done, row.why, f"{row.weights:,}" if row.weights else "") for row in self.rows
        ]
        table = text_table(("layer", "type", "done", "why", "weights"), cells, right=1)
        totals = (f"{self.weights(done):,} weights {done}" for done in ("binary", "already binary", "kept real"))
        return f"{table}\n" + ", ".join(text for text in totals if not text.startswith("0 "))

    def weights(self, done: str) -> int:
        """Return the number of weights in layers with this value of `done`."""
        return sum(row.weights for row in self.rows if row.done == done)


class Binarized(NamedTuple):
    """The converted model and the report.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
        >>> type(zerocross.binarize(net, example=torch.randn(4, 8)).model[1]).__name__
        'BinaryLinear'
    """

    model: nn.Module
    report: BinarizeReport


def binarize(
    model: nn.Module,
    skip: str | Iterable[str] = (),
    *,
    weights: str = "theta",
    scale: str = "none",
    weight_surrogate: str = "identity",
    binarizer: str | None = None,
    sign_input: str | None = "polynomial",
    first_last_real: bool = True,
    shortcuts_real: bool = True,
    relu: str = "hardtanh",
    example: Example | None = None,
) -> Binarized:
    """Return a copy of a model with binary convolutions and linear layers, and a report; the given one is not changed.

    The binary weights start as the signs of the model's weights (exact zeros get a random sign). The output of a ReLU
    is never negative, so its sign is always +1 and carries no information: ReLUs that are modules or attributes
    (``self.activation = F.relu``) are therefore replaced by hardtanh if inputs are binarised. ReLUs called in a forward
    method cannot be replaced; they are detected by running the model on an `example`.

    Passing an `example` is recommended: the order in which data pass through layers, weighted shortcuts and inputs that
    are never negative can only be found by running the model. Without one, common input sizes are tried; if none fits,
    the order of registration is used, with a warning.

    Args:
        model: any model; not modified.
        skip: names of modules, or patterns (``"encoder.*"``), that stay real, including everything they contain.
        weights: ``"theta"`` or ``"latent"``, see `BinaryConv2d`; latent weights start as the weights of the model.
        scale: ``"none"``, ``"channel_mean"`` or ``"magnitude_aware"`` (latent weights only), or ``"learned"``, starting
            at the mean of abs(w).
        weight_surrogate: see `BinaryConv2d`.
        binarizer: see `BinaryConv2d`.
        sign_input: the surrogate with which every new layer binarises its input, or None to leave inputs real.
        first_last_real: keep the first and the last weight layer real. Embeddings, and modules that merely own a
            matrix, do not count as weight layers.
        shortcuts_real: keep weighted shortcuts real: single layers parallel to a longer branch, such as the 1 x 1
            convolutions of a ResNet.
        relu: ``"hardtanh"`` or ``"keep"``: what to do with ReLUs that are modules or attributes.
        example: a batch of inputs (a tensor, a tuple of arguments, or a dict of keyword arguments), on which copies of
            the old and of the new model are run once. Layers whose inputs are never negative, so that all their signs
            are +1, raise an error that names them; layers that are not called as modules stay real.

    Returns:
        (model, report): ``model, report = binarize(model); print(report)``.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
        >>> model, report = zerocross.binarize(net, example=torch.randn(4, 8))
        >>> print(report)
        layer  type    done       why          weights
        ----------------------------------------------
        0      Linear  kept real  first layer       64
        1      Linear  binary                       64
        2      Linear  kept real  last layer        16
        64 weights binary, 80 weights kept real
    """
    check_choice("relu", relu, ("hardtanh", "keep"))
    settings = {
        "weights": weights, "scale": scale, "weight_surrogate": weight_surrogate, "binarizer": binarizer,
        "sign_input": sign_input,
    }  # fmt: skip
    model = copy.deepcopy(model)
    skipped = _skipped(model, [skip] if isinstance(skip, str) else list(skip))
    layers = {name: module for name, module in model.named_modules() if _owns_weights(module)}
    given, example = example, example if example is not None else guess_example(model)
    flow = _traced(model, example) if example is not None else _registered(model)
    kept = _kept(layers, flow, first_last=first_last_real, shortcuts=shortcuts_real, called=example is not None)
    reasons = _reasons(layers, skipped, kept)
    chosen = [name for name in layers if name not in reasons]
    if not chosen:
        why = "; ".join(f"{name or 'the model itself'}: {reason}" for name, reason in reasons.items())
        raise ValueError(
            f"binarize found no layer to convert ({why or 'the model has no Conv1d, Conv2d or Linear layer'})"
        )

    tied: dict[int, nn.Parameter] = {}
    new: dict[int, nn.Module] = {id(layers[name]): _convert(layers[name], tied, settings) for name in chosen}
    rows = [_row(name, module, reasons.get(name)) for name, module in layers.items()]
    if sign_input is not None and relu == "hardtanh":
        for name, was, now in replace_relus(model, skipped, new):
            rows.append(BinarizedLayer(name, was, 0, "replaced", f"by {now}, whose sign varies"))
    model = _replace(model, new)
    for module in model.modules():
        if takes_fast_path(module):
            # Disables torch's fast path, which would bypass the binary layers; has no other effect.
            module.activation_relu_or_gelu = 0  # type: ignore[assignment]
    if example is not None and sign_input is not None:
        check_signs_vary(model, chosen, example, certain=given is not None)
    return Binarized(model, BinarizeReport(tuple(rows)))


def _owns_weights(module: nn.Module) -> bool:
    if isinstance(module, ParametrizationList):
        return False  # part of the module whose weight it computes
    return is_parametrized(module) or isinstance(module, LazyModuleMixin) or bool(_weights(module))


def _weights(module: nn.Module) -> list[nn.Parameter]:
    """Return a module's own matrices and kernels, including the originals of parametrized ones."""
    own = module.parameters(recurse=is_parametrized(module))
    return [p for p in own if not isinstance(p, UninitializedParameter) and p.dim() >= 2]


def _skipped(model: nn.Module, patterns: list[str]) -> set[str]:
    """Return the names of all modules that a pattern names, with everything they contain."""
    names = [name for name, _ in model.named_modules(remove_duplicate=False)]
    skipped: set[str] = set()
    for pattern in patterns:
        roots = [name for name in names if fnmatchcase(name, pattern)]
        if not roots:
            raise ValueError(f"skip = {pattern!r} matches no module of this model{did_you_mean(pattern, names)}")
        skipped.update(name for name in names for root in roots if name == root or name.startswith(f"{root}."))
    return skipped


def _traced(model: nn.Module, example: Example) -> Flow:
    try:
        return trace(model, example)
    except Exception as error:  # a model may raise anything for an unsuitable input
        raise ValueError(
            f"the model does not accept this example ({type(error).__name__}: {error}): pass a batch as in training, a "
            "tuple of arguments, or a dict of keyword arguments"
        ) from error


def _registered(model: nn.Module) -> Flow:
    """Return the order of registration, with a warning if it may differ from the order of execution."""
    if not is_chain(model):
        warnings.warn(
            "binarize could not run this model and assumes that its layers run in the order in which they were "
            "registered; weighted shortcuts and ReLUs called as functions are not detected. Pass a batch of inputs: "
            "binarize(model, example=batch)",
            stacklevel=3,
        )
    return Flow(list(weight_layers(model)))


def _kept(
    layers: dict[str, nn.Module], flow: Flow, *, first_last: bool, shortcuts: bool, called: bool
) -> dict[str, str]:
    """Return the layers that stay real because of their position, with the reason."""
    kept = dict.fromkeys(set(layers) - set(flow.order), "not called as a module on the example") if called else {}
    kept |= dict.fromkeys(flow.shortcuts, "weighted shortcut") if shortcuts else {}
    if first_last and flow.order:
        kept |= {flow.order[-1]: "last layer"} | {flow.order[0]: "first layer"}
    return kept


def _reasons(layers: dict[str, nn.Module], skipped: set[str], kept: dict[str, str]) -> dict[str, str]:
    """Return the reason for each layer that is not converted."""
    reasons: dict[str, str] = {}
    for name, module in layers.items():
        if name in skipped:
            reasons[name] = "skipped"
        elif isinstance(module, BinaryConv1d | BinaryConv2d | BinaryLinear):
            reasons[name] = "already binary"
        elif not isinstance(module, nn.Conv1d | nn.Conv2d | nn.Linear):
            reasons[name] = f"unsupported: {type(module).__name__}"
        elif name in kept:
            reasons[name] = kept[name]
        elif problem := _unready(module):
            raise ValueError(f"layer {name or '(the model itself)'} {problem}, or pass skip=[{name!r}]")
        elif type(module) not in {nn.Conv1d, nn.Conv2d, nn.Linear}:
            base = next(kind.__name__ for kind in (nn.Conv1d, nn.Conv2d, nn.Linear) if isinstance(module, kind))
            reasons[name] = f"unsupported: a subclass of {base}, whose forward may differ"
    _spread_over_ties(layers, reasons)
    return reasons


def _unready(module: nn.Module) -> str | None:
    """Return what must be fixed before this layer can be converted; None if nothing."""
    if isinstance(module, LazyModuleMixin):
        return "is uninitialised (lazy): run the model on a batch first"
    if is_parametrized(module):
        return "has a parametrization: remove it first (torch.nn.utils.parametrize.remove_parametrizations)"
    if "weight" not in dict(module.named_parameters(recurse=False)):
        return "computes its weight (weight_norm or spectral_norm): remove that first"
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    if any(getattr(module, name) for name in hooks):
        return "has hooks, which would be lost: remove them first"
    return None


def _spread_over_ties(layers: dict[str, nn.Module], reasons: dict[str, str]) -> None:
    """Keep a layer real if it shares a weight with a layer that stays real."""
    owners: dict[int, list[str]] = {}
    for name, module in layers.items():
        for parameter in _weights(module):
            owners.setdefault(id(parameter), []).append(name)
    for names in owners.values():
        real = [name for name in names if name in reasons]
        for name in names:
            if real:
                reasons.setdefault(name, f"weight tied to {real[0]}, which is not converted")


def _convert(module: nn.Module, tied: dict[int, nn.Parameter], settings: dict[str, Any]) -> nn.Module:
    """Return the binary version of a layer; `tied` maps old weights to new ones, so that shared ones stay shared."""
    old, bias = cast("nn.Parameter", module.weight), cast("nn.Parameter | None", module.bias)
    if isinstance(module, nn.Conv1d | nn.Conv2d):
        kind: Any = BinaryConv1d if isinstance(module, nn.Conv1d) else BinaryConv2d
        layer = kind(
            module.in_channels, module.out_channels, module.kernel_size, module.stride, module.padding,
            module.dilation, module.groups, bias is not None, **settings, padding_mode=module.padding_mode,
            device="meta",
        )  # fmt: skip
    else:
        layer = BinaryLinear(old.shape[1], old.shape[0], bias is not None, **settings, device="meta")
    if id(old) not in tied:
        tied[id(old)] = nn.Parameter(_start(old.detach(), settings["weights"]), requires_grad=old.requires_grad)
    layer.register_parameter("weight", tied[id(old)])
    layer.register_parameter("bias", bias)
    if layer.scale is not None:
        layer.scale = nn.Parameter(old.detach().abs().flatten(1).mean(1))
    if binarizer := settings["binarizer"]:
        layer.binarizer = BINARIZERS[binarizer](layer.weight)
        layer.binarizer.load_state_dict(layer.binarizer.start(layer.weight))
    return layer.train(module.training)


def _start(w: Tensor, weights: str) -> Tensor:
    """Return the initial binary or latent weight; exact zeros get a random sign, the same on every rank."""
    drawn = torch.randint(0, 2, w.shape, generator=torch.Generator().manual_seed(0)).to(w) * 2 - 1
    if weights == "theta":
        return torch.where(w == 0, drawn, sign(w))
    return torch.where(w == 0, drawn * torch.finfo(w.dtype).tiny, w)


def _row(name: str, module: nn.Module, reason: str | None) -> BinarizedLayer:
    done = "binary" if reason is None else "already binary" if reason == "already binary" else "kept real"
    why = "" if reason in {None, "already binary"} else str(reason)
    return BinarizedLayer(name or "(model)", type(module).__name__, sum(p.numel() for p in _weights(module)), done, why)


def _replace(model: nn.Module, new: dict[int, nn.Module]) -> nn.Module:
    """Replace old modules by new ones, under every name of an old one."""
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):  # named_children() lists a shared child only once
            if id(child) in new:
                setattr(parent, name, new[id(child)])
    return new.get(id(model), model)
