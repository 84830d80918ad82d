"""One optimizer over a whole model: binary weights by one rule, everything else by any torch optimizer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from zerocross.optim.base import BinaryOptimizer, copy_state
from zerocross.optim.signs import flips_counted


class ParamSplit(NamedTuple):
    """A model's trainable parameters, each exactly once."""

    binary: list[nn.Parameter]
    real: list[nn.Parameter]
    real_no_decay: list[nn.Parameter]


def split_params(model: nn.Module) -> ParamSplit:
    """Sort a model's trainable parameters into (binary, real, real_no_decay).

    binary: the weights that their layers declare binary (`binary_kinds`: theta or latent). real_no_decay: vectors, that
    is biases, batch-norm parameters, scales, shifts and slopes, which weight decay would only harm. Frozen parameters
    (requires_grad off) are left out; a tied parameter appears once.
    """
    kinds = binary_kinds(model)
    split = ParamSplit([], [], [])
    for param in model.parameters():
        if not param.requires_grad:
            continue
        if id(param) in kinds:
            split.binary.append(param)
        elif sum(size > 1 for size in param.shape) <= 1:
            split.real_no_decay.append(param)
        else:
            split.real.append(param)
    return split


def binary_kinds(model: nn.Module) -> dict[int, str]:
    """id(parameter) -> "theta" or "latent", as the layers declare; a layer's property, since Parameters forget."""
    kinds: dict[int, str] = {}
    for name, module in model.named_modules():
        for attribute, kind in getattr(module, "binary_kinds", {}).items():
            param = getattr(module, attribute)
            if kinds.setdefault(id(param), kind) != kind:
                raise ValueError(
                    f"{name}.{attribute} is tied to another layer's weight of another kind: theta and latent"
                )
    return kinds


def _before_sign(model: nn.Module) -> dict[int, Callable[[], Tensor]]:
    """id(weight) -> what its layer takes the sign of, for layers that make something else of their weight first."""
    layers = (m for m in model.modules() if getattr(m, "binarizer", None) is not None)
    return {id(layer.weight): layer.before_sign for layer in layers}  # type: ignore[misc]


class HybridOptimizer(Optimizer):
    """A single `torch.optim.Optimizer` made of two: `binary` for binary weights, `real` for the rest.

    Schedulers, GradScaler, checkpoints and training frameworks see one object with the param groups of both (binary
    first) and one flat state_dict of torch's usual form.

    Args:
        binary: GradientFilter, another optimizer of this package, or, for latent weights, any torch optimizer.
        real: Any torch optimizer. The check for non-finite gradients is `binary`'s, over its own parameters.
        model: The model. Given (do), every trainable parameter must be claimed exactly once, theta weights by an
            optimizer of binary weights and latent ones by another; errors name the parameters. `frozen` lists those
            that were left out because they are not trained.
        ff_every: How often flips are counted where `binary` is an optimizer of torch's, which does not count.
    """

    def __init__(
        self, binary: Optimizer, real: Optimizer, model: nn.Module | None = None, *, ff_every: int = 50
    ) -> None:
        self.binary = binary
        self.real = real
        self.ff_every = ff_every
        self.frozen: list[str] = []
        names = {id(p): n for n, p in model.named_parameters()} if model is not None else {}
        _refuse_overlap(binary, real, names)
        if model is not None:
            self.frozen = [n for n, p in model.named_parameters() if not p.requires_grad]
            _refuse_gaps(binary, real, model)
            _refuse_wrong_kind(binary, real, binary_kinds(model), names)
            binary.before_sign = _before_sign(model)  # type: ignore[attr-defined]  # for flips_counted
            for group in (*binary.param_groups, *real.param_groups):
                group.setdefault("param_names", [names.get(id(p), "(not in the model)") for p in group["params"]])
        # The base class takes in the very dicts of both, so that what a scheduler writes reaches its owner.
        super().__init__([*binary.param_groups, *real.param_groups], {})
        self._gather()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Only at construction: which of the two a new group belongs to is not ours to guess."""
        if len(self.param_groups) >= len(self.binary.param_groups) + len(self.real.param_groups):
            raise ValueError(
                "a HybridOptimizer takes no further group, since it could belong to either optimizer; "
                "add it to .binary or .real and construct a new HybridOptimizer of the two"
            )
        super().add_param_group(param_group)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step of each; the binary one goes first, so that its check for non-finite gradients comes before both."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if isinstance(self.binary, BinaryOptimizer):
            self.binary.step()
        else:
            self._step_and_count(self.binary)
        self.real.step()
        self._gather()
        return loss

    def _step_and_count(self, binary: Optimizer) -> None:
        group = self.param_groups[0]
        counting = group.setdefault("ff_step", 0) % self.ff_every == 0
        group["ff_step"] += 1
        with flips_counted(binary) if counting else nullcontext():
            binary.step()

    # ---- one state_dict: groups and state are the parts' own, and this object shows them together

    def _gather(self) -> None:
        self.param_groups[:] = [*self.binary.param_groups, *self.real.param_groups]
        self.state.update(self.binary.state)
        self.state.update(self.real.state)

    def state_dict(self) -> dict[str, Any]:
        """As torch's, over both optimizers."""
        self._gather()
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch's; both optimizers go on from it, with every state tensor in the precision it was saved in."""
        super().load_state_dict(state_dict)
        copy_state(self, state_dict)
        count = len(self.binary.param_groups)
        for part, groups in ((self.binary, self.param_groups[:count]), (self.real, self.param_groups[count:])):
            state = {p: self.state[p] for group in groups for p in group["params"] if p in self.state}
            part.__setstate__({"param_groups": groups, "state": defaultdict(dict, state)})

    def __getstate__(self) -> dict[str, Any]:
        self._gather()
        return {**super().__getstate__(), **{k: vars(self)[k] for k in ("binary", "real", "ff_every", "frozen")}}

    def __repr__(self) -> str:
        frozen = f"\n  frozen: {', '.join(self.frozen)}" if self.frozen else ""
        return f"HybridOptimizer(\n  binary: {self.binary}\n  real: {self.real}{frozen}\n)"


def ff_ratio(optimizer: Any, per: Literal["total", "group", "parameter"] = "total") -> Any:
    """The flip ratio of the last counted update: flips / binary weights (Eq. 18).

    Reading it waits for the device; counting does not. Frozen weights and weights that got no gradient yet are left
    out of both flips and weights.

    Args:
        optimizer: A HybridOptimizer, any optimizer of binary weights, or a wrapper with an `.optimizer`.
        per: "total": one float. "group": a list, one float per param group. "parameter": a dict, name -> float (or
            the index, where names are unknown).

    Returns:
        NaN where nothing has been counted yet.
    """
    while (inner := getattr(optimizer, "optimizer", None)) is not None:
        optimizer = inner
    counted = list(_counted(optimizer))
    if per == "total":
        return _ratio(counted)
    if per == "group":
        binary = optimizer.binary if isinstance(optimizer, HybridOptimizer) else optimizer
        return [_ratio([c for c in counted if c[0] == index]) for index in range(len(binary.param_groups))]
    if per == "parameter":
        return {name: _ratio([(0, name, size, flips)]) for _, name, size, flips in counted}
    raise ValueError(f"per is {per!r}; it can be 'total', 'group' or 'parameter'")


def _counted(optimizer: Optimizer) -> Iterator[tuple[int, str | int, int, Tensor]]:
    binary = optimizer.binary if isinstance(optimizer, HybridOptimizer) else optimizer
    position = 0
    for index, group in enumerate(binary.param_groups):
        for place, param in enumerate(group["params"]):
            flips = binary.state[param].get("flips") if param in binary.state else None
            if param.requires_grad and flips is not None:
                yield index, group["param_names"][place] if "param_names" in group else position, param.numel(), flips
            position += 1


def _ratio(counted: list[tuple[int, str | int, int, Tensor]]) -> float:
    if not counted:
        return float("nan")
    flips = torch.stack([flips.to(torch.int64).reshape(()) for *_, flips in counted]).sum().item()
    return flips / sum(size for _, _, size, _ in counted)


# ---- what is refused


def _all_params(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _name(param: Tensor, names: dict[int, str]) -> str:
    return names.get(id(param), f"a parameter of shape {tuple(param.shape)}")


def _refuse_overlap(binary: Optimizer, real: Optimizer, names: dict[int, str]) -> None:
    taken = {id(p) for p in _all_params(binary)}
    if both := [_name(p, names) for p in _all_params(real) if id(p) in taken]:
        raise ValueError(f"given to both optimizers: {', '.join(both)}; split_params(model) gives each exactly once")


def _refuse_gaps(binary: Optimizer, real: Optimizer, model: nn.Module) -> None:
    taken = {id(p) for p in (*_all_params(binary), *_all_params(real))}
    if missed := [name for name, p in model.named_parameters() if p.requires_grad and id(p) not in taken]:
        raise ValueError(
            f"given to neither optimizer: {', '.join(missed)}; add them, or freeze them with requires_grad_(False)"
        )


_ADVICE = {
    "latent": "build their layers with weights='theta', or train them with LatentSGD or a torch optimizer",
    "theta": "a real-valued update would take them off -1 and +1: train them with GradientFilter, or build their "
    "layers with weights='latent'",
    "real": "their layers do not take signs: give them to the real optimizer, or build layers with weights='latent'",
}


def _refuse_wrong_kind(binary: Optimizer, real: Optimizer, kinds: dict[int, str], names: dict[int, str]) -> None:
    for optimizer in (binary, real):
        takes = optimizer.kind if isinstance(optimizer, BinaryOptimizer) else "latent"
        wrong = {"theta"} if takes == "latent" else {"latent"}
        if takes == "latent" and optimizer is binary:
            wrong.add("real")  # theta's optimizers make any layer binary; with latent weights the layer must do it
        for kind in sorted(wrong):
            if found := [_name(p, names) for p in _all_params(optimizer) if kinds.get(id(p), "real") == kind]:
                raise ValueError(
                    f"{type(optimizer).__name__} was given {kind} weights: {', '.join(found)}; {_ADVICE[kind]}"
                )
