"""One optimizer for a whole model: one for its binary weights, any torch optimizer for the rest."""

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
    """A model's trainable parameters, each exactly once.

    Examples:
        >>> import zerocross
        >>> zerocross.split_params(zerocross.nn.BinaryLinear(8, 2)).real
        []
    """

    binary: list[nn.Parameter]
    real: list[nn.Parameter]
    real_no_decay: list[nn.Parameter]


def split_params(model: nn.Module) -> ParamSplit:
    """Split a model's trainable parameters into (binary, real, real_no_decay).

    binary: weights that their layers declare binary (`binary_kinds`: theta or latent). real_no_decay: vectors, that is
    biases, batch-norm parameters, scales, shifts and slopes, which should not be decayed. Frozen parameters
    (requires_grad=False) are left out; tied parameters appear once.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> model = torch.nn.Sequential(torch.nn.Linear(8, 8), zerocross.nn.BinaryLinear(8, 2))
        >>> binary, real, no_decay = zerocross.split_params(model)
        >>> [tuple(parameter.shape) for parameter in (*binary, *real, *no_decay)]
        [(2, 8), (8, 8), (8,)]
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
    """Map id(parameter) to "theta" or "latent", as its layer declares.

    It is a property of the layer since attributes of a Parameter do not survive deepcopy.

    Examples:
        >>> import zerocross
        >>> model = zerocross.nn.BinaryLinear(8, 2, weights="latent")
        >>> zerocross.optim.binary_kinds(model)[id(model.weight)]
        'latent'
    """
    kinds: dict[int, str] = {}
    for name, module in model.named_modules():
        for attribute, kind in getattr(module, "binary_kinds", {}).items():
            param = getattr(module, attribute)
            if kinds.setdefault(id(param), kind) != kind:
                raise ValueError(
                    f"{name}.{attribute} is tied to a weight of another kind: one is theta, the other latent"
                )
    return kinds


def _before_sign(model: nn.Module) -> BeforeSign:
    """Map each weight to what its layer takes the sign of, for layers that transform their weight first."""
    layers = (m for m in model.modules() if getattr(m, "binarizer", None) is not None)
    return {layer.weight: layer.before_sign for layer in layers}  # type: ignore[misc]


class HybridOptimizer(Optimizer):
    """Combine two optimizers into a single `torch.optim.Optimizer`: `binary` for binary weights, `real` for the rest.

    Schedulers, GradScaler, checkpoints and training frameworks see one object with the param groups of both (binary
    first) and one flat state_dict in torch's usual form, plus `parts` with the types of the two. OneCycleLR and
    CyclicLR cycle the momentum (or beta1) of the real optimizer; gamma is not changed.

    Args:
        binary: GradientFilter, another optimizer of this package or, for latent weights, any torch optimizer.
        real: Any torch optimizer.
        model: The model (recommended). Every trainable parameter must then belong to exactly one optimizer, and to one
            that trains its kind; errors name the parameters. `frozen` lists parameters that are not trained. Without a
            model, theta weights are recognized by their values only.
        ff_every: How often to count flips if `binary` is a torch optimizer, which does not count them itself.
        nonfinite: What to do if any gradient, binary or real, contains NaN or infinity, before either optimizer steps:
            "raise", "skip" or "ignore", see BinaryOptimizer ("skip" synchronizes with the device here, which torch's
            optimizers require). None: the setting of `binary`, or "ignore" if `binary` is a torch optimizer.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> model = torch.nn.Sequential(torch.nn.Linear(8, 8), zerocross.nn.BinaryLinear(8, 2))
        >>> binary, real, no_decay = zerocross.split_params(model)
        >>> flips = zerocross.GradientFilter(binary, alpha=1e-3)
        >>> sgd = torch.optim.SGD([*real, *no_decay], lr=0.1, momentum=0.9)
        >>> optimizer = zerocross.HybridOptimizer(flips, sgd, model)
        >>> torch.nn.functional.cross_entropy(model(torch.randn(4, 8)), torch.zeros(4).long()).backward()
        >>> optimizer.step()
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.001, 0.1]
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
        # Share the group dicts of both (no copies), so that what a scheduler writes reaches its owner.
        super().__init__([*binary.param_groups, *real.param_groups], {})
        self._offer_momentum()
        self._gather()

    def _offer_momentum(self) -> None:
        """Offer OneCycleLR and CyclicLR, which read `defaults` and write to every group, a momentum to cycle."""
        for name in ("momentum", "betas"):
            if name in self.real.defaults:
                self.defaults[name] = self.real.defaults[name]
                for group in self.binary.param_groups if name == "betas" else ():
                    group.setdefault(name, self.real.defaults[name])  # they change the first and keep the rest

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group at construction; later on raise ValueError, since it could belong to either optimizer."""
        if len(self.param_groups) >= len(self.binary.param_groups) + len(self.real.param_groups):
            raise ValueError(
                "cannot add a param group to a HybridOptimizer, since it could belong to either optimizer; "
                "add it to .binary or .real and construct a new HybridOptimizer from the two"
            )
        super().add_param_group(param_group)

    # ---- a step

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Perform one step of each optimizer, after checking the gradients of both."""
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
        """Warn if the first update discards trained weights: a filter that starts at zero flips half of them."""
        flipped = ff_ratio(self)
        if flipped > 1 / 3:
            warnings.warn(
                f"the first update flipped {flipped:.0%} of binary weights that were trained before; use warm_start, "
                "about 3 * sqrt(alpha / 2), load the optimizer's state, or use `zerocross train --init-from RUN`",
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
        """Number of steps skipped by `nonfinite="skip"`."""
        return int(self.param_groups[0].get("skipped", 0))

    def skip_step(self) -> None:
        """Skip one step of both optimizers and count it."""
        for part in (unwrapped(self.binary), unwrapped(self.real)):
            if isinstance(part, BinaryOptimizer | HybridOptimizer):
                part.skip_step()
            elif part is unwrapped(self.binary):
                self.param_groups[0]["skipped"] = self.skipped_steps + 1

    # ---- state: groups and state belong to the two optimizers; this object presents them as one

    def _parts(self) -> dict[str, Optimizer]:
        return {"binary": self.binary, "real": self.real}

    def _gather(self) -> None:
        self.param_groups[:] = [*self.binary.param_groups, *self.real.param_groups]
        self.state.clear()
        self.state.update(self.binary.state)
        self.state.update(self.real.state)

    def state_dict(self) -> dict[str, Any]:
        """Return a state_dict over both optimizers, plus `parts`: the type of each and anything special it saves."""
        self._gather()
        return {**super().state_dict(), "parts": {name: _tag(part) for name, part in self._parts().items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state_dict; if either optimizer rejects its share, neither is changed."""
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
        """Split a state_dict between the two; without `parts` (frameworks, older versions) types are not checked."""
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
                    f"this state_dict was saved with {saved} as the {name} optimizer, but this one is "
                    f"{type(part).__name__}: construct the same one, or start without its state"
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
    """Describe a part in a state_dict: its type, and what it saves beyond the usual state and groups."""
    if type(part).state_dict is Optimizer.state_dict:
        return {"type": type(part).__name__}
    saved = part.state_dict()
    if isinstance(part, BinaryOptimizer | HybridOptimizer):
        more = {key: value for key, value in saved.items() if key not in ("state", "param_groups")}
        return {"type": type(part).__name__, "more": more}
    return {"type": type(part).__name__, "own": saved}  # a wrapper, which may save anything


@contextmanager
def _already_checked(part: Optimizer) -> Iterator[None]:
    """Disable a part's own check for non-finite gradients, and drop a momentum that a scheduler wrote to its groups."""
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
