"""One optimizer over a whole model: binary weights by one rule, everything else by any torch optimizer."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.optim import Optimizer

from zerocross.optim.base import BinaryOptimizer, copy_state
from zerocross.optim.claims import refuse_gaps, refuse_overlap, refuse_theta_by_value, refuse_wrong_kind
from zerocross.optim.finite import NonFinite, check_finite, check_policy
from zerocross.optim.flips import ff_ratio, unwrapped
from zerocross.optim.signs import BeforeSign, flips_counted


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


def _before_sign(model: nn.Module) -> BeforeSign:
    """weight -> what its layer takes the sign of, for layers that make something else of their weight first."""
    layers = (m for m in model.modules() if getattr(m, "binarizer", None) is not None)
    return {layer.weight: layer.before_sign for layer in layers}  # type: ignore[misc]


class HybridOptimizer(Optimizer):
    """A single `torch.optim.Optimizer` made of two: `binary` for binary weights, `real` for the rest.

    Schedulers, GradScaler, checkpoints and training frameworks see one object with the param groups of both (binary
    first) and one flat state_dict of torch's usual form, beside which `parts` names the two. OneCycleLR and CyclicLR
    cycle the momentum (or beta1) of the real optimizer; gamma stays.

    Args:
        binary: GradientFilter, another optimizer of this package, or, for latent weights, any torch optimizer.
        real: Any torch optimizer.
        model: The model. Given (do), every trainable parameter must be claimed exactly once, theta weights by an
            optimizer of binary weights and latent ones by another; errors name the parameters. `frozen` lists those
            that were left out because they are not trained. Not given, theta weights are known by their values alone.
        ff_every: How often flips are counted where `binary` is an optimizer of torch's, which does not count.
        nonfinite: What to do about NaN and infinity in any gradient, binary or real, before either optimizer steps:
            "raise", "skip" or "ignore", see BinaryOptimizer ("skip" waits for the device here, since torch's optimizers
            cannot be told on it). None: as `binary` has it; "ignore" where that is an optimizer of torch's.
    """

    def __init__(
        self,
        binary: Optimizer,
        real: Optimizer,
        model: nn.Module | None = None,
        *,
        ff_every: int = 50,
        nonfinite: NonFinite | None = None,
    ) -> None:
        self.binary = binary
        self.real = real
        self.ff_every = ff_every
        self.nonfinite: NonFinite = nonfinite or getattr(unwrapped(binary), "nonfinite", "ignore")
        check_policy(self.nonfinite)
        self.frozen: list[str] = []
        self.before_sign: BeforeSign = {}
        self.trained = model is not None and any(getattr(module, "loaded", False) for module in model.modules())
        names = {id(p): n for n, p in model.named_parameters()} if model is not None else {}
        refuse_overlap(binary, real, names)
        if model is None:
            refuse_theta_by_value(binary, real)
        else:
            self.frozen = [n for n, p in model.named_parameters() if not p.requires_grad]
            refuse_gaps(binary, real, model)
            refuse_wrong_kind(binary, real, binary_kinds(model), names)
            self.before_sign = _before_sign(model)
            for group in (*binary.param_groups, *real.param_groups):
                group.setdefault("param_names", [names.get(id(p), "(not in the model)") for p in group["params"]])
        if isinstance(binary, BinaryOptimizer):
            binary.before_sign = self.before_sign
        # The base class takes in the very dicts of both, so that what a scheduler writes reaches its owner.
        super().__init__([*binary.param_groups, *real.param_groups], {})
        self._offer_momentum()
        self._gather()

    def _offer_momentum(self) -> None:
        """OneCycleLR and CyclicLR look into `defaults` for what to cycle, and then write it to every group."""
        for name in ("momentum", "betas"):
            if name in self.real.defaults:
                self.defaults[name] = self.real.defaults[name]
                for group in self.binary.param_groups if name == "betas" else ():
                    group.setdefault(name, self.real.defaults[name])  # of which they keep the rest

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Only at construction: which of the two a new group belongs to is not ours to guess."""
        if len(self.param_groups) >= len(self.binary.param_groups) + len(self.real.param_groups):
            raise ValueError(
                "a HybridOptimizer takes no further group, since it could belong to either optimizer; "
                "add it to .binary or .real and construct a new HybridOptimizer of the two"
            )
        super().add_param_group(param_group)

    # ---- a step

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step of each, after one verdict over the gradients of both."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._gather()
        gradients = ((group, p, p.grad) for group in self.param_groups for p in group["params"] if p.grad is not None)
        finite = check_finite(gradients, self.nonfinite)
        if finite is not None and not finite:
            self.skip_step()
            return loss
        first = not unwrapped(self.binary).state
        with _already_checked(self.binary), _already_checked(self.real):
            if isinstance(unwrapped(self.binary), BinaryOptimizer | HybridOptimizer):
                self.binary.step()
            else:
                self._step_and_count(self.binary)
            self.real.step()
        self._gather()
        if first and self.trained:
            self._warn_of_lost_signs()
        return loss

    def _warn_of_lost_signs(self) -> None:
        """The first update of trained weights must not throw them away; a filter from 0 flips half of them."""
        flipped = ff_ratio(self)
        if flipped > 1 / 3:
            warnings.warn(
                f"the first update flipped {flipped:.0%} of binary weights that were trained before; give the filter a "
                "warm_start, about 3 * sqrt(alpha / 2), load its state, or use `zerocross train --init-from RUN`",
                stacklevel=3,
            )

    def _step_and_count(self, binary: Optimizer) -> None:
        group = self.param_groups[0]
        counting = group.setdefault("ff_step", 0) % self.ff_every == 0
        group["ff_step"] += 1
        with flips_counted(binary, self.before_sign) if counting else nullcontext():
            binary.step()

    @property
    def skipped_steps(self) -> int:
        """How many steps `nonfinite="skip"` has left out."""
        return int(self.param_groups[0].get("skipped", 0))

    def skip_step(self) -> None:
        """Leave out one step of both, and count it."""
        for part in (unwrapped(self.binary), unwrapped(self.real)):
            if isinstance(part, BinaryOptimizer | HybridOptimizer):
                part.skip_step()
            elif part is unwrapped(self.binary):
                self.param_groups[0]["skipped"] = self.skipped_steps + 1

    # ---- one state_dict: groups and state are the parts' own, and this object shows them together

    def _parts(self) -> dict[str, Optimizer]:
        return {"binary": self.binary, "real": self.real}

    def _gather(self) -> None:
        self.param_groups[:] = [*self.binary.param_groups, *self.real.param_groups]
        self.state.clear()
        self.state.update(self.binary.state)
        self.state.update(self.real.state)

    def state_dict(self) -> dict[str, Any]:
        """As torch's, over both optimizers, and `parts`: what each is, with what it saves in a form of its own."""
        self._gather()
        return {**super().state_dict(), "parts": {name: _tag(part) for name, part in self._parts().items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch's: each optimizer loads its own part, and refuses what it cannot use; then neither is changed."""
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        dicts = self._split(state_dict)
        before = [(part, part.state, part.param_groups) for part in self._parts().values()]
        try:
            for name, part in self._parts().items():
                part.load_state_dict(dicts[name])
                if type(part).load_state_dict is Optimizer.load_state_dict:
                    copy_state(part, dicts[name])
        except Exception:
            for part, state, groups in before:
                part.__setstate__({"state": state, "param_groups": groups})
            raise
        self._offer_momentum()
        self._gather()
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _split(self, state_dict: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The state_dict of each part; one without `parts` (of a framework, or an older version) is taken on trust."""
        groups, state = list(state_dict["param_groups"]), state_dict["state"]
        if len(groups) != len(self.param_groups):
            raise ValueError(
                f"this state_dict has {len(groups)} parameter groups, this optimizer {len(self.param_groups)}: "
                "construct it with the same groups as the one that was saved"
            )
        dicts: dict[str, dict[str, Any]] = {}
        for name, part in self._parts().items():
            tag = state_dict.get("parts", {}).get(name, {})
            if (saved := tag.get("type", type(part).__name__)) != type(part).__name__:
                raise ValueError(
                    f"this state_dict was saved with {saved} as the {name} optimizer, which is {type(part).__name__} "
                    "here: construct the same one, or start without its state"
                )
            own, groups = groups[: len(part.param_groups)], groups[len(part.param_groups) :]
            indices = {index for group in own for index in group["params"]}
            plain = {"state": {i: s for i, s in state.items() if i in indices}, "param_groups": own}
            dicts[name] = copy.deepcopy(tag["own"]) if "own" in tag else {**plain, **tag.get("more", {})}
        return dicts

    def __getstate__(self) -> dict[str, Any]:
        self._gather()
        own = ("binary", "real", "ff_every", "nonfinite", "frozen", "before_sign", "trained")
        return {**super().__getstate__(), **{name: vars(self)[name] for name in own}}

    def __repr__(self) -> str:
        frozen = f"\n  frozen: {', '.join(self.frozen)}" if self.frozen else ""
        return f"HybridOptimizer(\n  binary: {self.binary}\n  real: {self.real}{frozen}\n)"


def _tag(part: Optimizer) -> dict[str, Any]:
    """What a state_dict says of a part: its type, and what it saves besides state and groups of the usual form."""
    if type(part).state_dict is Optimizer.state_dict:
        return {"type": type(part).__name__}
    saved = part.state_dict()
    if isinstance(part, BinaryOptimizer | HybridOptimizer):
        more = {key: value for key, value in saved.items() if key not in ("state", "param_groups")}
        return {"type": type(part).__name__, "more": more}
    return {"type": type(part).__name__, "own": saved}  # a wrapper, which may save anything


@contextmanager
def _already_checked(part: Optimizer) -> Iterator[None]:
    """Spare a part its own check for non-finite gradients, and momenta that a scheduler wrote to every group."""
    inner = unwrapped(part)
    if not isinstance(inner, BinaryOptimizer | HybridOptimizer):
        yield
        return
    if isinstance(inner, BinaryOptimizer):
        for group in inner.param_groups:
            group.pop("momentum", None)
    own: NonFinite = inner.nonfinite
    inner.nonfinite = "ignore"
    try:
        yield
    finally:
        inner.nonfinite = own
