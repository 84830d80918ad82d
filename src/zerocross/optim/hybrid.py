"""One optimizer for a whole model: one for its binary weights, any torch optimizers for the rest."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from zerocross.optim.base import BinaryOptimizer, copy_state
from zerocross.optim.claims import refuse_gaps, refuse_overlap, refuse_theta_by_value, refuse_wrong_kind
from zerocross.optim.finite import NonFinite, check_finite, check_policy
from zerocross.optim.flips import ff_ratio, unwrapped
from zerocross.optim.signs import BeforeSign, flips_counted
from zerocross.optim.split import binary_kinds


def _before_sign(model: nn.Module) -> BeforeSign:
    """Map each weight to what its layer takes the sign of, for layers that transform their weight first."""
    layers = (m for m in model.modules() if getattr(m, "binarizer", None) is not None)
    return {layer.weight: layer.before_sign for layer in layers}  # type: ignore[misc]


class HybridOptimizer(Optimizer):
    """Combine optimizers into a single `torch.optim.Optimizer`: one for binary weights, one or more for the rest.

    Schedulers, GradScaler, checkpoints and training frameworks see one object with the param groups of all parts, in
    their order, and one flat state_dict in torch's usual form, plus `parts` with the types of the parts. OneCycleLR and
    CyclicLR cycle the momentum (or beta1) of real parts; gamma is not changed.

    Two parts are given as ``HybridOptimizer(binary, real, model)``, any number as a mapping::

        binary, real, no_decay = split_params(model)
        HybridOptimizer(
            {
                "binary": GradientFilter(binary),
                "real": torch.optim.AdamW(real, weight_decay=1e-2),
                "no_decay": torch.optim.SGD(no_decay, lr=0.1),
            },
            model=model,
        )

    Args:
        binary: GradientFilter, another optimizer of this package or, for latent weights, any torch optimizer. Or all
            parts, name -> optimizer. A part trains binary weights if its optimizer is one of this package (and its name
            does not begin with "real"), or if its name begins with "binary".
        real: Any torch optimizer; left out if `binary` is a mapping.
        model: The model (recommended). Every trainable parameter must then belong to exactly one optimizer, and to one
            that trains its kind; errors name the parameters. `frozen` lists parameters that are not trained. Without a
            model, theta weights are recognized by their values only.
        ff_every: How often to count flips of binary weights under a torch optimizer, which does not count them itself.
        nonfinite: What to do if any gradient, binary or real, contains NaN or infinity, before any optimizer steps:
            "raise", "skip" or "ignore", see BinaryOptimizer ("skip" synchronizes with the device here, which torch's
            optimizers require). None: the setting of the first binary part, or "ignore" if that is a torch optimizer.


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
        binary: Optimizer | Mapping[str, Optimizer],
        real: Optimizer | None = None,
        model: nn.Module | None = None,
        *,
        ff_every: int = 50,
        nonfinite: NonFinite | None = None,
    ) -> None:
        self.parts = _named_parts(binary, real)
        self.binary_parts = tuple(name for name, part in self.parts.items() if _trains_binary(name, part))
        if not self.binary_parts:
            raise ValueError(
                f"no part trains binary weights: {', '.join(self.parts)}; use an optimizer of zerocross.optim, or call "
                "the part with latent weights 'binary'"
            )
        self.ff_every = ff_every
        self.nonfinite: NonFinite = nonfinite or getattr(unwrapped(self.binary), "nonfinite", "ignore")
        check_policy(self.nonfinite)
        self.frozen: list[str] = []
        self.before_sign: BeforeSign = {}
        self.trained = model is not None and any(getattr(module, "loaded", False) for module in model.modules())
        names = {id(p): n for n, p in model.named_parameters()} if model is not None else {}
        refuse_overlap(self.parts, names)
        leaves = list(self._leaves())
        if self.nonfinite != "ignore" and any(getattr(leaf, "capturable", False) for leaf, _ in leaves):
            raise ValueError(
                f"nonfinite is {self.nonfinite!r}, which waits for the device, but a part is capturable: construct the "
                "HybridOptimizer with nonfinite='ignore'"
            )
        if model is None:
            refuse_theta_by_value(leaves)
        else:
            self.frozen = [n for n, p in model.named_parameters() if not p.requires_grad]
            refuse_gaps(self.parts, model)
            refuse_wrong_kind(leaves, binary_kinds(model), names)
            self.before_sign = _before_sign(model)
            for leaf, _ in leaves:
                if isinstance(leaf, BinaryOptimizer):
                    leaf.before_sign = self.before_sign
            for group in self._groups():
                group.setdefault("param_names", [names.get(id(p), "(not in the model)") for p in group["params"]])
        # Share the group dicts of the parts (no copies), so that what a scheduler writes reaches its owner.
        super().__init__(self._groups(), {})
        self._offer_momentum()
        self._gather()

    @property
    def binary(self) -> Optimizer:
        """The first part that trains binary weights."""
        return self.parts[self.binary_parts[0]]

    @property
    def real(self) -> Optimizer:
        """The first part that trains real weights."""
        names = [name for name in self.parts if name not in self.binary_parts]
        if not names:
            raise AttributeError(f"no part of this HybridOptimizer trains real weights: {', '.join(self.parts)}")
        return self.parts[names[0]]

    def _leaves(self) -> Iterator[tuple[Optimizer, bool]]:
        """Yield the optimizers inside wrappers and nested hybrids, and whether each trains binary weights."""
        for name, part in self.parts.items():
            inner = unwrapped(part)
            if isinstance(inner, HybridOptimizer):
                yield from inner._leaves()
            else:
                yield inner, name in self.binary_parts

    def _groups(self) -> list[dict[str, Any]]:
        return [group for part in self.parts.values() for group in part.param_groups]

    def _offer_momentum(self) -> None:
        """Offer OneCycleLR and CyclicLR, which read `defaults` and write to every group, a momentum to cycle."""
        real = [part.defaults for name, part in self.parts.items() if name not in self.binary_parts]
        for name in ("momentum", "betas"):
            offered = [defaults[name] for defaults in real if name in defaults]
            if offered:
                self.defaults[name] = offered[0]
                for group in self._groups() if name == "betas" else ():
                    group.setdefault(name, offered[0])  # they change the first and keep the rest

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group at construction; later on raise ValueError, since it could belong to any of the optimizers."""
        if len(self.param_groups) >= len(self._groups()):
            raise ValueError(
                "cannot add a param group to a HybridOptimizer, since it could belong to either optimizer; "
                "add it to .binary or .real and construct a new HybridOptimizer from its parts"
            )
        super().add_param_group(param_group)

    # ---- a step

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Perform one step of each optimizer, after checking the gradients of all."""
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
        with ExitStack() as checked:
            for part in self.parts.values():
                checked.enter_context(_already_checked(part))
            for name, part in self.parts.items():
                if name in self.binary_parts and not isinstance(unwrapped(part), BinaryOptimizer | HybridOptimizer):
                    self._step_and_count(part)
                else:
                    part.step()
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
        group = binary.param_groups[0]
        counting = group.setdefault("ff_step", 0) % self.ff_every == 0
        group["ff_step"] += 1
        with flips_counted(binary, self.before_sign) if counting else nullcontext():
            binary.step()

    @property
    def skipped_steps(self) -> int:
        """Number of steps skipped by `nonfinite="skip"`."""
        return int(self.binary.param_groups[0].get("skipped", 0))

    def skip_step(self) -> None:
        """Skip one step of all optimizers and count it."""
        for name, part in self.parts.items():
            inner = unwrapped(part)
            if isinstance(inner, BinaryOptimizer | HybridOptimizer):
                inner.skip_step()
            elif name in self.binary_parts:
                group = part.param_groups[0]
                group["skipped"] = int(group.get("skipped", 0)) + 1

    # ---- state: groups and state belong to the parts; this object presents them as one

    def _gather(self) -> None:
        self.param_groups[:] = self._groups()
        self.state.clear()
        for part in self.parts.values():
            self.state.update(part.state)

    def state_dict(self) -> dict[str, Any]:
        """Return a state_dict over all optimizers, plus `parts`: the type of each and anything special it saves."""
        self._gather()
        return {**super().state_dict(), "parts": {name: _tag(part) for name, part in self.parts.items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state_dict; if any optimizer rejects its share, none is changed."""
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        dicts = self._split(state_dict)
        before = [(part, part.state, part.param_groups) for part in self.parts.values()]
        try:
            for name, part in self.parts.items():
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
        """Split a state_dict between the parts; without `parts` (frameworks, older versions) types are not checked."""
        groups, state = list(state_dict["param_groups"]), state_dict["state"]
        if len(groups) != len(self.param_groups):
            raise ValueError(
                f"this state_dict has {len(groups)} parameter groups, this optimizer {len(self.param_groups)}: "
                "construct it with the same groups as the one that was saved"
            )
        if (saved := list(state_dict.get("parts", self.parts))) != list(self.parts):
            raise ValueError(
                f"this state_dict has the parts {', '.join(saved)}, this optimizer {', '.join(self.parts)}: "
                "construct it with the parts of the one that was saved, in the same order"
            )
        dicts: dict[str, dict[str, Any]] = {}
        for name, part in self.parts.items():
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
        own = ("parts", "binary_parts", "ff_every", "nonfinite", "frozen", "before_sign", "trained")
        return {**super().__getstate__(), **{name: vars(self)[name] for name in own}}

    def __repr__(self) -> str:
        frozen = f"\n  frozen: {', '.join(self.frozen)}" if self.frozen else ""
        parts = "".join(f"\n  {name}: {part}" for name, part in self.parts.items())
        return f"HybridOptimizer({parts}{frozen}\n)"


def _named_parts(binary: Optimizer | Mapping[str, Optimizer], real: Optimizer | None) -> dict[str, Optimizer]:
    """Return name -> optimizer; raise ValueError if the arguments are neither two optimizers nor one mapping."""
    if isinstance(binary, Mapping) and real is None:
        return dict(binary)
    if isinstance(binary, Mapping) or real is None or isinstance(real, nn.Module):
        raise ValueError(
            "give two optimizers, HybridOptimizer(binary, real, model), or one mapping from names to optimizers, "
            "HybridOptimizer({'binary': ..., 'real': ..., 'no_decay': ...}, model=model)"
        )
    return {"binary": binary, "real": real}


def _trains_binary(name: str, part: Optimizer) -> bool:
    inner = unwrapped(part)
    if isinstance(inner, HybridOptimizer):
        return name != "real"
    return name.startswith("binary") or (isinstance(inner, BinaryOptimizer) and not name.startswith("real"))


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
