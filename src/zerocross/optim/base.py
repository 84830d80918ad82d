"""What every optimizer of binary weights shares: start, finite check, flip count, state that round-trips to the bit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor
from torch.optim import Optimizer

from zerocross.optim.signs import count_flips

NonFinite = Literal["raise", "skip", "ignore"]
Group = dict[str, Any]
# Keys that torch, its schedulers and we put into a param group besides an optimizer's own hyperparameters.
_BOOKKEEPING = {"params", "param_names", "initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum", "step"}


class BinaryOptimizer(Optimizer, ABC):
    """A `torch.optim.Optimizer` whose parameters are binary weights, or latent weights behind them.

    A subclass gives `_start` (what happens to a parameter that is handed over), `_new_state` and `_update` (the
    arithmetic, group by group); this class walks parameters around them.

    Args:
        params: Parameters, named parameters, or param groups, as torch takes them.
        defaults: The hyperparameters that a group may set for itself; any other key is refused.
        nonfinite: What to do about NaN and infinity in a gradient. "raise": an error that names the parameter, before
            any state has changed (costs one read of the gradients, and a sync on CUDA). "skip": the whole step leaves
            no trace, decided on the device without a sync, and is counted in `skipped_steps`. "ignore": no check.
        ff_every: Count flips on every ff_every-th step, the first included (1: each step).
        maximize: Climb instead of descend.
        seed: Draws the signs of weights that are exactly zero at the start. Keep it equal on all ranks.
    """

    kind: ClassVar[str]  # "theta": parameters hold -1 and +1; "latent": parameters are real, their layers take signs

    def __init__(
        self,
        params: Any,
        defaults: Group,
        *,
        nonfinite: NonFinite,
        ff_every: int,
        maximize: bool,
        seed: int,
    ) -> None:
        if nonfinite not in ("raise", "skip", "ignore"):
            raise ValueError(f"nonfinite is {nonfinite!r}; it can be 'raise', 'skip' or 'ignore'")
        if ff_every < 1 or int(ff_every) != ff_every:
            raise ValueError(f"ff_every is {ff_every}; it must be a whole number of steps, at least 1")
        self.nonfinite = nonfinite
        self.ff_every = int(ff_every)
        self.maximize = maximize
        self.seed = seed
        self._skipped: Tensor | None = None
        super().__init__(params, {**defaults, "step": 0})

    # ---- what a subclass gives

    @abstractmethod
    def _start(self, param: Tensor, seed: int) -> None:
        """Put a parameter that was just handed over into its starting position."""

    @abstractmethod
    def _new_state(self, param: Tensor, grad: Tensor, group: Group) -> dict[str, Tensor]:
        """The state of a parameter before its first update."""

    @abstractmethod
    def _update(self, work: list[tuple[Group, list[Tensor], list[Tensor]]]) -> None:
        """One update of the parameters, given (group, parameters, gradients in the state's precision)."""

    @abstractmethod
    def _signs(self, param: Tensor) -> Tensor:
        """The binary weights that this parameter stands for."""

    def _check_group(self, group: Group) -> None:
        """Refuse values out of range, before a group is taken in."""

    # ---- the shell

    def add_param_group(self, param_group: Group) -> None:
        """Take in one more group; unknown keys and values out of range are refused."""
        group = dict(param_group)
        if unknown := set(group) - set(self.defaults) - _BOOKKEEPING:
            raise ValueError(
                f"{type(self).__name__} knows no group option {', '.join(map(repr, sorted(unknown)))}; "
                f"it has {', '.join(sorted(set(self.defaults) - {'step'}))}"
            )
        params = group["params"]
        # A tied weight reaches us once per use: it is one weight, stepped and counted once.
        group["params"] = [params] if isinstance(params, Tensor) else list(_once(params))
        self._check_group({**self.defaults, **group})
        for index, param in enumerate(group["params"]):
            self._check_param(param[1] if isinstance(param, tuple) else param, index)
        taken = sum(len(g["params"]) for g in self.param_groups)
        super().add_param_group(group)
        with torch.no_grad():
            for index, param in enumerate(group["params"], start=taken):
                self._start(param, seed=self.seed + index)

    def _check_param(self, param: Any, index: int) -> None:
        if not isinstance(param, Tensor):
            return  # torch's own error says it well
        if not param.is_floating_point():
            raise ValueError(f"parameter {index} is {param.dtype}; binary weights are trained in a floating-point type")
        if not param.isfinite().all():
            raise ValueError(f"parameter {index}, shape {tuple(param.shape)}, holds NaN or infinity: load it again")

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update from the gradients that the parameters hold now; parameters without a gradient stay."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        counting = self.param_groups[0]["step"] % self.ff_every == 0
        work = self._collect()
        params = [p for _, ps, _ in work for p in ps]
        if params:
            finite = None
            if self.nonfinite != "ignore":
                finite = all_finite([x for _, _, xs in work for x in xs])
            if self.nonfinite == "raise" and not bool(finite):
                raise self._nonfinite_error(work)
            for group, group_params, grads in work:
                for param, grad in zip(group_params, grads, strict=True):
                    if not self.state[param]:
                        self.state[param].update(self._new_state(param, grad, group))
            before = [self._signs(p).clone() for p in params] if counting else []
            saved = self._snapshot(params) if self.nonfinite == "skip" else None
            self._update(work)
            if saved is not None:
                self._undo_unless(cast("Tensor", finite), saved)
            for param, signs in zip(params, before, strict=False):
                self.state[param]["flips"] = count_flips(signs, self._signs(param))
        for group in self.param_groups:
            group["step"] += 1
        return loss

    def _collect(self) -> list[tuple[Group, list[Tensor], list[Tensor]]]:
        work = []
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            grads = [cast("Tensor", p.grad) for p in params]
            if any(x.is_sparse for x in grads):
                raise ValueError(f"{type(self).__name__} takes dense gradients; make the layer with sparse=False")
            grads = [x.to(state_dtype(p)) for p, x in zip(params, grads, strict=True)]
            work.append((group, params, torch._foreach_neg(grads) if self.maximize else grads))
        return work

    # ---- non-finite gradients

    @property
    def skipped_steps(self) -> int:
        """How many steps `nonfinite="skip"` has left out (reading it waits for the device)."""
        return 0 if self._skipped is None else int(self._skipped)

    def _nonfinite_error(self, work: list[tuple[Group, list[Tensor], list[Tensor]]]) -> ValueError:
        for group, params, grads in work:
            for param, grad in zip(params, grads, strict=True):
                if not grad.isfinite().all():
                    bad = int((~grad.isfinite()).sum())
                    return ValueError(
                        f"the gradient of {self._name(group, param)} holds {bad} NaN or infinite values of "
                        f"{grad.numel()}; no state has changed. Lower the learning rate, look for a division by zero, "
                        "or construct the optimizer with nonfinite='skip'"
                    )
        raise AssertionError("a non-finite gradient was seen, and cannot be found again")

    @staticmethod
    def _name(group: Group, param: Tensor) -> str:
        index = next(i for i, p in enumerate(group["params"]) if p is param)
        if "param_names" in group:
            return f"{group['param_names'][index]!r}"
        return f"parameter {index} of its group, shape {tuple(param.shape)}"

    def _snapshot(self, params: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
        kept = [*params, *(v for p in params for v in self.state[p].values())]
        return [(tensor, tensor.clone()) for tensor in kept]

    def _undo_unless(self, finite: Tensor, saved: list[tuple[Tensor, Tensor]]) -> None:
        for tensor, old in saved:
            tensor.copy_(torch.where(finite, tensor, old))
        missed = (~finite).to(torch.int64)
        self._skipped = missed if self._skipped is None else self._skipped + missed

    # ---- state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch's, but every state tensor keeps the precision it was saved in."""
        super().load_state_dict(state_dict)
        restore_precision(self, state_dict)

    def flips(self) -> list[tuple[Group, Tensor, Tensor]]:
        """(group, parameter, flips at the last counted step) of every parameter that is trained, without a sync."""
        return [
            (group, p, self.state[p]["flips"])
            for group in self.param_groups
            for p in group["params"]
            if p.requires_grad and "flips" in self.state.get(p, {})
        ]


def state_dtype(param: Tensor) -> torch.dtype:
    """At least float32: in bfloat16 an EMA of alpha = 1e-3 does not move."""
    return torch.promote_types(param.dtype, torch.float32)


def all_finite(tensors: list[Tensor]) -> Tensor:
    """Whether every element is finite, as a 0-dim bool tensor on the first tensor's device.

    Minimum and maximum carry NaN and infinity along and read memory once, 15 times faster than isfinite().all().
    """
    if tensors[0].is_cuda:
        extremes = torch._foreach_norm(tensors, float("inf"))
    else:
        extremes = [value for tensor in tensors if tensor.numel() for value in torch.aminmax(tensor)]
    home = tensors[0].device
    return (
        torch.stack([e.to(home, torch.float64 if home.type == "cpu" else e.dtype) for e in extremes]).isfinite().all()
    )


def restore_precision(optimizer: Optimizer, state_dict: dict[str, Any]) -> None:
    """Undo torch's cast of loaded state to each parameter's own type: m and g of a bfloat16 weight are float32."""
    saved = [index for group in state_dict["param_groups"] for index in group["params"]]
    params = [param for group in optimizer.param_groups for param in group["params"]]
    for index, param in zip(saved, params, strict=True):
        for key, value in state_dict["state"].get(index, {}).items():
            if isinstance(value, Tensor) and optimizer.state[param][key].dtype != value.dtype:
                optimizer.state[param][key] = value.to(param.device, copy=True)


def _once(params: Iterable[Any]) -> Iterable[Any]:
    seen: set[int] = set()
    for item in params:
        tensor = item[1] if isinstance(item, tuple) else item
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield item
