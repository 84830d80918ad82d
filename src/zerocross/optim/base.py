"""What every optimizer of binary weights shares: start, finite check, flip count, state that round-trips to the bit."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from torch.optim import Optimizer

from zerocross.optim.finite import Group, NonFinite, check_finite, check_policy, state_dtype
from zerocross.optim.signs import BeforeSign, flips_counted

# A param group, its parameters, and their gradients in the state's precision.
GroupGradients = list[tuple[Group, list[Tensor], list[Tensor]]]
# Keys that torch, its schedulers and we put into a param group besides an optimizer's own hyperparameters.
_BOOKKEEPING = {
    "params", "param_names", "initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum", "step", "skipped",
    "vectors",
}  # fmt: skip


class BinaryOptimizer(Optimizer, ABC):
    """A `torch.optim.Optimizer` whose parameters are binary weights, or latent weights behind them.

    A subclass gives `_start` (what happens to a parameter that is handed over), `_new_state` and `_update` (the
    arithmetic, group by group); this class walks parameters around them.

    Args:
        params: Parameters, named parameters, or param groups, as torch takes them.
        defaults: The hyperparameters that a group may set for itself; any other key is refused.
        nonfinite: What to do about NaN and infinity in a gradient. "raise": an error that names the parameter, before
            any state has changed (costs one read of the gradients, and a sync on CUDA). "skip": the whole step leaves
            no trace, decided on the device without a sync (but for a parameter's first step), and is counted in
            `skipped_steps`. "ignore": no check.
        ff_every: Count flips on every ff_every-th step, the first included (1: each step).
        maximize: Climb instead of descend.
        seed: Draws the signs of weights that are exactly zero at the start. Keep it equal on all ranks.
        vectors: Whether theta may be a vector. Biases and batch-norm parameters are vectors that no one wants binary,
            and are refused unless asked for; a group may ask for itself.
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
    ) -> None:
        check_policy(nonfinite)
        if ff_every < 1 or int(ff_every) != ff_every:
            raise ValueError(f"ff_every is {ff_every}; it must be a whole number of steps, at least 1")
        self.nonfinite: NonFinite = nonfinite
        self.ff_every = int(ff_every)
        self.maximize = maximize
        self.seed = seed
        self.vectors = vectors
        self.before_sign: BeforeSign = {}
        self._options = tuple(sorted(defaults))
        self._given: list[float] = []  # lr of each group as the user gave it
        self._warned_above = False
        # What is set by now goes along into copies and pickles; torch's constructor adds hooks, which do not.
        self._settings = ("_settings", *vars(self))
        super().__init__(params, {**defaults, "step": 0})
        # OneCycleLR and CyclicLR look here for what to cycle, and fail in torch's words where there is nothing: a step
        # says it in ours.
        self.defaults["momentum"] = None

    # ---- what a subclass gives

    @abstractmethod
    def _check_group(self, group: Group) -> None:
        """Refuse values out of range, before a group is taken in."""

    @abstractmethod
    def _start(self, param: Tensor, seed: int) -> None:
        """Put a parameter that was just handed over into its starting position."""

    @abstractmethod
    def _new_state(self, param: Tensor, grad: Tensor, group: Group) -> dict[str, Tensor]:
        """The state of a parameter before its first update."""

    @abstractmethod
    def _update(self, work: GroupGradients) -> None:
        """One update of the parameters."""

    # ---- the shell

    def add_param_group(self, param_group: Group) -> None:
        """Take in one more group; unknown keys and values out of range are refused."""
        group = dict(param_group)
        if unknown := set(group) - set(self._options) - _BOOKKEEPING:
            raise ValueError(
                f"{type(self).__name__} knows no group option {', '.join(map(repr, sorted(unknown)))}; "
                f"it has {', '.join(self.lr_name if name == 'lr' else name for name in self._options)}"
            )
        self._check_group({**self.defaults, **group})
        params = [group["params"]] if isinstance(group["params"], Tensor) else group["params"]
        if not isinstance(params, set):  # which torch refuses, since its order is not the same in every run
            # A tied weight reaches us once per use: it is one weight, stepped and counted once.
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

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update from the gradients that the parameters hold now; those without a gradient, or frozen, stay."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._check_schedule()
        work = self._collect()
        finite = check_finite(_one_by_one(work), self.nonfinite)
        if work and self._make_state(work, finite):
            counting = self.param_groups[0]["step"] % self.ff_every == 0
            with flips_counted(self, self.before_sign) if counting else nullcontext():
                self._update_or_undo(work, finite)
        for group in self.param_groups:
            group["step"] += 1
        return loss

    def _check_schedule(self) -> None:
        """Look at what a scheduler may have written into the groups since the last step."""
        for group, given in zip(self.param_groups, self._given, strict=True):
            if group.get("momentum") is not None:
                raise ValueError(
                    f"a scheduler writes momentum = {group['momentum']} to the groups of {type(self).__name__}, which "
                    "has none: construct OneCycleLR or CyclicLR with cycle_momentum=False"
                )
            # Where lr is a discount, torch's habits of learning rates do not apply; 1e-6 is a scheduler's rounding.
            if self.lr_name != "lr" and not self._warned_above and float(group["lr"]) > given * (1 + 1e-6):
                self._warned_above = True
                warnings.warn(
                    f"a scheduler set {self.lr_name} to {float(group['lr']):.3g}, above the {given:.3g} that it was "
                    "given: a learning rate meant for the real parameters? Schedulers that write absolute values "
                    "(OneCycleLR, CyclicLR, SWALR, eta_min) need one value per group",
                    stacklevel=5,
                )

    def _collect(self) -> GroupGradients:
        work = []
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None and p.requires_grad]
            if not params:
                continue
            grads = [cast("Tensor", p.grad) for p in params]
            if any(x.is_sparse for x in grads):
                raise ValueError(f"{type(self).__name__} takes dense gradients; make the layer with sparse=False")
            grads = [x.to(state_dtype(p)) for p, x in zip(params, grads, strict=True)]
            work.append((group, params, torch._foreach_neg(grads) if self.maximize else grads))
        return work

    def _make_state(self, work: GroupGradients, finite: Tensor | None) -> bool:
        """Give new parameters their state; False if the step ends here, since NaN must not become anyone's start."""
        new = {param for _, params, _ in work for param in params if not self.state[param]}
        if new and finite is not None and not finite:
            self._count_skipped(finite)
            return False
        for group, params, grads in work:
            for param, grad in zip(params, grads, strict=True):
                if param in new:
                    self.state[param].update(self._new_state(param, grad, group))
        return True

    def _update_or_undo(self, work: GroupGradients, finite: Tensor | None) -> None:
        if self.nonfinite != "skip" or finite is None:
            self._update(work)
            return
        params = [p for _, group_params, _ in work for p in group_params]
        touched = [*params, *(value for p in params for value in self.state[p].values())]
        before = [tensor.clone() for tensor in touched]
        self._update(work)
        for tensor, old in zip(touched, before, strict=True):
            tensor.copy_(torch.where(finite, tensor, old))
        self._count_skipped(finite)

    # ---- non-finite gradients

    @property
    def skipped_steps(self) -> int:
        """How many steps `nonfinite="skip"` has left out (reading it waits for the device)."""
        return int(self.param_groups[0].get("skipped", 0))

    def _count_skipped(self, finite: Tensor) -> None:
        first = self.param_groups[0]  # a group is what torch saves and loads besides the parameters' own state
        first["skipped"] = first.get("skipped", 0) + (~finite).to(torch.int64)

    def skip_step(self) -> None:
        """Leave out one step, and count it: for a HybridOptimizer, whose verdict is over more than these parameters."""
        self._count_skipped(torch.zeros((), dtype=torch.bool))
        for group in self.param_groups:
            group["step"] += 1

    # ---- copies and checkpoints

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), **{name: vars(self)[name] for name in self._settings}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch's, but every state tensor keeps the precision it was saved in, and none is shared with the dict."""
        for group in state_dict["param_groups"]:
            if missing := {*self._options, "step"} - set(group):
                raise ValueError(
                    f"this state_dict is not of a {type(self).__name__}: a group in it has no {', '.join(missing)}"
                )
        if (saved := state_dict.get("type", type(self).__name__)) != type(self).__name__:
            raise ValueError(f"this state_dict is not of a {type(self).__name__}: it was saved by a {saved}")
        if (saved := state_dict.get("lr_name", self.lr_name)) != self.lr_name:
            raise ValueError(
                f"this state_dict holds {saved} as its lr, and this {type(self).__name__} {self.lr_name}: construct it "
                f"with {saved}= to load it"
            )
        super().load_state_dict(state_dict)
        copy_state(self, state_dict)

    def state_dict(self) -> dict[str, Any]:
        """As torch's, with the name of the optimizer as `type`, and that of what its `lr` is as `lr_name`."""
        return {**super().state_dict(), "type": type(self).__name__, "lr_name": self.lr_name}


def renamed(group: Group, name: str) -> Group:
    """A param group in which the optimizer's own name for `lr` is `lr`."""
    group = dict(group)
    if name in group:
        value = group.pop(name)
        if group.setdefault("lr", value) != value:
            raise ValueError(f"a group has {name} = {value} and lr = {group['lr']}: they are one number, give one")
    return group


def copy_state(optimizer: Optimizer, state_dict: dict[str, Any]) -> None:
    """Replace state that torch has loaded by copies in the precision that was saved.

    torch casts state to each parameter's own type (m and g of a bfloat16 weight are float32), and where there is
    nothing to cast it keeps the tensors of the dict: two optimizers would go on in the same memory.
    """
    saved = [index for group in state_dict["param_groups"] for index in group["params"]]
    params = [param for group in optimizer.param_groups for param in group["params"]]
    for index, param in zip(saved, params, strict=True):
        state = optimizer.state.get(param, {})
        for key, value in state_dict["state"].get(index, {}).items():
            if isinstance(value, Tensor) and key in state:
                state[key] = value.to(state[key].device, copy=True)


def _once(params: Iterable[Any]) -> Iterable[Any]:
    seen: set[int] = set()
    for item in params:
        tensor = item[1] if isinstance(item, tuple) else item
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield item


def _check_param(name: str, param: Any, *, vectors: bool) -> None:
    if not isinstance(param, Tensor):
        return  # torch's own error says it well
    if param.dim() < 2 and not vectors:
        raise ValueError(
            f"{name}, shape {tuple(param.shape)}, is a vector: a bias or a batch norm would become -1 and +1. "
            "Give only binary weights (split_params(model).binary), or pass vectors=True if it is meant"
        )
    if not param.is_floating_point():
        raise ValueError(f"{name} is {param.dtype}; binary weights are trained in a floating-point type")
    if not param.isfinite().all():
        raise ValueError(f"{name}, shape {tuple(param.shape)}, holds NaN or infinity: load or initialise it again")


def _one_by_one(work: GroupGradients) -> Iterable[tuple[Group, Tensor, Tensor]]:
    for group, params, grads in work:
        for param, grad in zip(params, grads, strict=True):
            yield group, param, grad
