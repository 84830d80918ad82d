"""Replace ReLUs, whose output has a constant sign, by hardtanh; detect those that cannot be replaced."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zerocross.nn.flow import Example, call

_RELUS = (F.relu, torch.relu, torch.relu_, F.relu6)


def replace_relus(model: nn.Module, skipped: set[str], new: dict[int, nn.Module]) -> list[tuple[str, str, str]]:
    """Replace ReLUs by hardtanh: modules are added to `new`, functions that are attributes are replaced in place.

    Returns:
        (name, old, new) of each.
    """
    replaced: list[tuple[str, str, str]] = []
    for name, module in model.named_modules():
        if name in skipped:
            continue
        if isinstance(module, nn.ReLU | nn.ReLU6):
            new[id(module)] = nn.Hardtanh(inplace=bool(module.inplace)).train(module.training)
            replaced.append((name, type(module).__name__, "Hardtanh"))
        for key, value in list(vars(module).items()):
            if any(value is relu for relu in _RELUS):
                setattr(module, key, F.hardtanh)
                replaced.append((f"{name}.{key}" if name else key, value.__name__, "hardtanh"))
    return replaced


def check_signs_vary(model: nn.Module, names: Iterable[str], example: Example, *, certain: bool) -> None:
    """Run a copy once; raise an error if inputs are never negative, or warn if the example was guessed."""
    constant: list[str] = []

    def watch(name: str) -> None:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            if not inputs[0].is_meta and bool((inputs[0] >= 0).all()):
                constant.append(name or "(model)")

        trial.get_submodule(name).register_forward_pre_hook(hook)

    trial = copy.deepcopy(model)
    for name in names:
        watch(name)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        call(trial.eval(), example)
    if not constant:
        return
    message = (
        f"the inputs of {', '.join(constant)} are never negative, so their signs are all +1 and carry no information: "
        "replace the ReLU before them (in the model's forward) by hardtanh, skip them, or use sign_input=None"
    )
    if certain:
        raise ValueError(message)
    warnings.warn(f"on random inputs {message}", stacklevel=3)
