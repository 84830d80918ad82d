"""Base class of the optimizers of binary weights: initial signs, check for non-finite gradients, flip counts, state."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from zerocross.optim.finite import Group, NonFinite, check_finite, check_policy, state_dtype
from zerocross.optim.shards import placed_as
from zerocross.optim.signs import BeforeSign, flips_counted

# A param group, its parameters, and their gradients in the state's precision.
GroupGradients = list[tuple[Group, list[Tensor], list[Tensor]]]
# Keys that torch, its schedulers and we put into a param group besides an optimizer's own hyperparameters.
_BOOKKEEPING = {
    "params", "param_names", "initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum", "step", "skipped",
    "vectors",
}  # fmt: skip
# Labels, and a factor that schedulers read: kept in a group, without a meaning here.
_INERT = {"name", "group_name", "tag", "lr_scale"}


class BinaryOptimizer(Optimizer, ABC):
    """A `torch.optim.Optimizer` whose parameters are binary weights, or the latent weights behind them.

    Subclasses implement `_start` (initialise a new parameter), `_new_state` and `_update` (the arithmetic, group by
    group); this class does the rest.

    Args:
        params: Parameters, named parameters, or param groups, as in torch.
        defaults: The hyperparameters that a group may override; other keys raise ValueError.
        nonfinite: What to do if a gradient contains NaN or infinity. "raise": raise an error that names the parameter,
            before any state changes (costs one read of the gradients, and a sync on CUDA). "skip": skip the whole step,
            decided on the device without a sync (except in a parameter's first step), and count it in `skipped_steps`.
            "ignore": do not check.
        ff_every: Count flips every ff_every steps, starting with the first (1: each step).
        maximize: Maximize the objective instead of minimizing it.
        seed: Seed of the signs drawn for weights that are exactly zero. Use the same on all ranks.
        vectors: Whether vectors are accepted as binary weights. Biases and batch-norm parameters are vectors and should
            usually stay real, so vectors raise ValueError by default; a group may set this for itself.
        capturable: Whether a step reads no value from the device, so that a CUDA graph can capture it: `lr` and the
            step count are then tensors on the weights' device.

    Examples:
        >>> import torch
        >>> from zerocross.optim import BinaryOptimizer, Bop
        >>> optimizer = Bop([torch.nn.Parameter(torch.randn(2, 2))])
        >>> isinstance(optimizer, BinaryOptimizer), optimizer.kind, optimizer.skipped_steps
        (True, 'theta', 0)
    """

    kind: ClassVar[str]  # "theta": parameters hold -1 and +1; "latent": parameters are real, their layers take signs
    lr_name: str = "lr"  # what the group's lr is called here

    def __init__(
        self,
        params: Any,
        defaults: Group,
        *,
        nonfinite: NonFinite,
        ff_every: int,
        maximize: bool,
        seed: int,
        vectors: bool = False,
        capturable: bool = False,
    ) -> None:
        check_policy(nonfinite)
        if capturable and nonfinite == "raise":
            raise ValueError("capturable=True reads no gradient: use nonfinite='skip' or 'ignore', not 'raise'")
        if ff_every < 1 or int(ff_every) != ff_every:
            raise ValueError(f"ff_every is {ff_every}; it must be a whole number of steps, at least 1")
        self.nonfinite: NonFinite = nonfinite
        self.ff_every = int(ff_every)
        self.maximize = maximize
        self.seed = seed
        self.vectors = vectors
        self.capturable = capturable
        self.before_sign: BeforeSign = {}
        self._options = tuple(sorted(defaults))
        self._given: list[float] = []  # initial lr of each group
        self._warned_above = False
        # Attributes set so far are kept in copies and pickles; the hooks that torch's constructor adds are not.
        self._settings = ("_settings", *vars(self))
        super().__init__(params, {**defaults, "step": 0})
        # OneCycleLR and CyclicLR look here for a momentum to cycle and raise an obscure error if there is none: let
        # them write one, and raise a clear error at the next step.
        self.defaults["momentum"] = None

    # ---- implemented by subclasses

    @abstractmethod
    def _check_group(self, group: Group) -> None:
        """Raise ValueError if a hyperparameter of a new group is out of range."""

    @abstractmethod
    def _start(self, param: Tensor, seed: int) -> None:
        """Initialise a new parameter in place."""

    @abstractmethod
    def _new_state(self, param: Tensor, grad: Tensor, group: Group) -> dict[str, Tensor]:
        """Return the state of a parameter before its first update."""

    @abstractmethod
    def _update(self, gradients: GroupGradients) -> None:
        """Update the parameters in place."""

    def _check_saved(self, state_dict: dict[str, Any]) -> None:
        """Raise ValueError if a saved state of this class cannot be continued with these settings."""

    # ---- the optimizer interface

    def add_param_group(self, param_group: Group) -> None:
        """Add a param group; raise ValueError on unknown keys and values out of range.

        The labels `name`, `group_name` and `tag`, and `lr_scale`, are kept as they are.
        """
        group = dict(param_group)
        if unknown := set(group) - set(self._options) - _BOOKKEEPING - _INERT:
            raise ValueError(
                f"{type(self).__name__} has no group option {', '.join(map(repr, sorted(unknown)))}; "
                f"options: {', '.join(self.lr_name if name == 'lr' else name for name in self._options)}"
            )
        self._check_group({**self.defaults, **group})
        params = [group["params"]] if isinstance(group["params"], Tensor) else group["params"]
        if not isinstance(params, set):  # torch raises an error for sets, whose order varies between runs
            # A tied weight may be listed once per use: update and count it once.
            params = list(_once(params))
        vectors = group.pop("vectors", self.vectors) or self.kind != "theta"
        for index, item in enumerate(params):
            _check_param(*item if isinstance(item, tuple) else (f"parameter {index}", item), vectors=vectors)
        taken = sum(len(g["params"]) for g in self.param_groups)
        group["params"] = params
        super().add_param_group(group)
        try:
            with torch.no_grad():
                for index, param in enumerate(group["params"], start=taken):
                    self._start(param, seed=self.seed + index)
        except ValueError:
            self.param_groups.pop()
            raise
        self._given.append(float(self.param_groups[-1]["lr"]))
        self._settle(self.param_groups[-1])

    def _settle(self, group: Group) -> None:
        """Make `lr` and `step` of a group tensors if the step is capturable, and numbers otherwise."""
        for name, dtype in (("lr", torch.float32), ("step", torch.int64)):
            value = group[name]
            if self.capturable and group["params"]:
                group[name] = torch.as_tensor(value, dtype=dtype, device=group["params"][0].device).clone()
            elif isinstance(value, Tensor) and name == "step":
                group[name] = int(value)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Perform one update; parameters that are frozen or have no gradient are left unchanged."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self.capturable:
            self._check_schedule()
        gradients = self._collect()
        finite = check_finite(_one_by_one(gradients), self.nonfinite)
        if gradients and self._make_state(gradients, finite):
            counting = self.ff_every == 1 if self.capturable else self.param_groups[0]["step"] % self.ff_every == 0
            with flips_counted(self, self.before_sign) if counting else nullcontext():
                self._update_or_undo(gradients, finite)
        for group in self.param_groups:
            group["step"] += 1
        return loss

    def _check_schedule(self) -> None:
        """Check what a scheduler may have written to the groups since the last step."""
        for group, given in zip(self.param_groups, self._given, strict=True):
            if group.get("momentum") is not None:
                raise ValueError(
                    f"a scheduler set momentum = {group['momentum']} in the groups of {type(self).__name__}, which "
                    "has no momentum: construct OneCycleLR or CyclicLR with cycle_momentum=False"
                )
            # lr is a discount here, not a learning rate; 1e-6 allows for a scheduler's rounding.
            if self.lr_name != "lr" and not self._warned_above and float(group["lr"]) > given * (1 + 1e-6):
                self._warned_above = True
                warnings.warn(
                    f"a scheduler set {self.lr_name} to {float(group['lr']):.3g}, above its initial value {given:.3g}: "
                    "is this a learning rate for the real parameters? Schedulers that write absolute values "
                    "(OneCycleLR, CyclicLR, SWALR, eta_min) need one value per group",
                    stacklevel=5,
                )

    def _collect(self) -> GroupGradients:
        gradients = []
        for group in self.param_groups:
            found = [(p, x) for p in group["params"] if (x := p.grad) is not None and p.requires_grad]
            if not found:
                continue
            if any(x.is_sparse for _, x in found):
                raise ValueError(f"{type(self).__name__} needs dense gradients; construct the layer with sparse=False")
            params = [p for p, _ in found]
            grads = [_in_precision(placed_as(x, p), state_dtype(p)) for p, x in found]
            gradients.append((group, params, torch._foreach_neg(grads) if self.maximize else grads))
        return gradients

    def _make_state(self, gradients: GroupGradients, finite: Tensor | None) -> bool:
        """Create the state of new parameters; return False if gradients are not finite and the step must be skipped."""
        new = {param for _, params, _ in gradients for param in params if not self.state[param]}
        if new and finite is not None and not finite:
            self._count_skipped(finite)
            return False
        for group, params, grads in gradients if new else ():
            for param, grad in zip(params, grads, strict=True):
                if param in new:
                    self.state[param].update(self._new_state(param, grad, group))
        return True

    def _update_or_undo(self, gradients: GroupGradients, finite: Tensor | None) -> None:
        if self.nonfinite != "skip" or finite is None:
            self._update(gradients)
            return
        params = [p for _, group_params, _ in gradients for p in group_params]
        touched = [*params, *(value for p in params for value in self.state[p].values())]
        before = [tensor.clone() for tensor in touched]
        self._update(gradients)
        for tensor, old in zip(touched, before, strict=True):
            tensor.copy_(torch.where(finite, tensor, old))
        self._count_skipped(finite)

    # ---- non-finite gradients

    @property
    def skipped_steps(self) -> int:
        """Number of steps skipped by `nonfinite="skip"` (reading it synchronizes with the device)."""
        return int(self.param_groups[0].get("skipped", 0))

    def _count_skipped(self, finite: Tensor) -> None:
        first = self.param_groups[0]  # in a group, so that state_dict() saves it
        skipped = (~finite).to(torch.int64)
        if isinstance(first.get("skipped"), Tensor):
            first["skipped"] += skipped  # in place, as a CUDA graph needs it
        else:
            first["skipped"] = first.get("skipped", 0) + skipped

    def skip_step(self) -> None:
        """Skip one step and count it: called by HybridOptimizer, which checks more parameters than these."""
        self._count_skipped(torch.zeros((), dtype=torch.bool))
        for group in self.param_groups:
            group["step"] += 1

    # ---- copies and checkpoints

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), **{name: vars(self)[name] for name in self._settings}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state_dict; state tensors keep the precision they were saved in and are copied, never shared."""
        for group in state_dict["param_groups"]:
            if missing := {*self._options, "step"} - set(group):
                raise ValueError(
                    f"this state_dict is not that of a {type(self).__name__}: a group in it has no {', '.join(missing)}"
                )
        if (saved := state_dict.get("type", type(self).__name__)) != type(self).__name__:
            raise ValueError(f"this state_dict is not that of a {type(self).__name__}: it was saved by a {saved}")
        if (saved := state_dict.get("lr_name", self.lr_name)) != self.lr_name:
            raise ValueError(
                f"this state_dict has {saved} as its lr, this {type(self).__name__} has {self.lr_name}: construct it "
                f"with {saved}= to load it"
            )
        self._check_saved(state_dict)
        super().load_state_dict(state_dict)
        copy_state(self, state_dict)
        for group in self.param_groups:
            self._settle(group)
        # A saved schedule continues from its own initial values, not from those of this construction.
        self._given = [
            float(group.get("initial_lr", max(float(group["lr"]), given)))
            for group, given in zip(self.param_groups, self._given, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return the state_dict, with the name of the optimizer as `type` and the meaning of its `lr` as `lr_name`."""
        return {**super().state_dict(), "type": type(self).__name__, "lr_name": self.lr_name}


def renamed(group: Group, name: str) -> Group:
    """Return a param group with the optimizer's own name for `lr` replaced by `lr`."""
    group = dict(group)
    if name in group:
        value = group.pop(name)
        if group.setdefault("lr", value) != value:
            raise ValueError(f"a group has {name} = {value} and lr = {group['lr']}: these are the same, give one")
    return group


def copy_state(optimizer: Optimizer, state_dict: dict[str, Any]) -> None:
    """Replace the state that torch has loaded by copies in the precision that was saved.

    torch casts state to the parameter's dtype (but m and g of a bfloat16 weight are float32). If there is nothing to
    cast, it keeps the tensors of the dict, so that two optimizers would share memory.
    """
    saved = [index for group in state_dict["param_groups"] for index in group["params"]]
    params = [param for group in optimizer.param_groups for param in group["params"]]
    for index, param in zip(saved, params, strict=True):
        state = optimizer.state.get(param, {})
        for key, value in state_dict["state"].get(index, {}).items():
            if isinstance(value, Tensor) and key in state:
                state[key] = value.to(state[key].device, copy=True)


def _in_precision(grad: Tensor, dtype: torch.dtype) -> Tensor:
    return grad if grad.dtype == dtype else grad.to(dtype)  # to() takes longer than the comparison


def _once(params: Iterable[Any]) -> Iterable[Any]:
    seen: set[int] = set()
    for item in params:
        tensor = item[1] if isinstance(item, tuple) else item
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield item


def _check_param(name: str, param: Any, *, vectors: bool) -> None:
    if not isinstance(param, Tensor):
        return  # torch raises a clear error
    if param.dim() < 2 and not vectors:
        raise ValueError(
            f"{name}, shape {tuple(param.shape)}, is a vector, such as a bias or a batch-norm parameter, and would "
            "become -1 and +1. Pass binary weights only (split_params(model).binary), or vectors=True if intended"
        )
    if not param.is_floating_point():
        raise ValueError(f"{name} is {param.dtype}; binary weights must have a floating-point dtype")
    if not param.isfinite().all():
        raise ValueError(f"{name}, shape {tuple(param.shape)}, contains NaN or infinity: initialise or load it again")


def _one_by_one(gradients: GroupGradients) -> Iterable[tuple[Group, Tensor, Tensor]]:
    for group, params, grads in gradients:
        for param, grad in zip(params, grads, strict=True):
            yield group, param, grad
