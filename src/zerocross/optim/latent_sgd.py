"""LatentSGD: stochastic gradient descent on latent weights, as the paper writes it (Eqs. 1-5)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from zerocross.optim.base import BinaryOptimizer, Group, GroupGradients, NonFinite, state_dtype
from zerocross.optim.signs import start_signs_


class LatentSGD(BinaryOptimizer):
    """Latent weights with momentum and decoupled weight decay; their layers take the sign (Eqs. 1-4)::

        m = (1 - gamma) m + gamma grad              Eq. 2
        w = w - lr (m + weight_decay w)             Eq. 3
        theta = sign(w), in the layer               Eq. 4

    The seven hyperparameters of the paper's Table 1: lr, its decay (any torch scheduler), the start (`start`),
    momentum (1 - gamma), weight decay, scaling (`scale=` of the layer) and clipping (`clip`, `clip_gradient`).
    Without scaling and clipping and from a zero start it takes the signs of GradientFilter(alpha = lr * weight_decay),
    whatever lr is, under lr-decay too. It is not torch.optim.SGD, which folds the decay into the momentum: see
    zerocross.filters.from_sgd.

    Args:
        params: Latent weights (layers with weights="latent"); a group may set its own hyperparameters.
        lr: epsilon, the learning rate, > 0.
        gamma: The momentum's discount, in (0, 1]; torch's momentum 0.9 is gamma = 0.1.
        weight_decay: lambda, >= 0.
        clip: Keep w within [-clip, clip] after every update (BinaryConnect clips at 1); None: never.
        clip_gradient: Stop the gradient of a weight with |w| > clip_gradient; None: never.
        start: None: as handed over. s > 0: rescaled to a standard deviation of s. 0: the smallest positive number, with
            the sign as handed over (drawn for exact zeros), since the sign of an exact zero would be +1 everywhere.
        nonfinite: "raise", "skip" or "ignore"; see BinaryOptimizer, as for the arguments that follow.
        ff_every: Count flips on every ff_every-th step.
        maximize: Climb instead of descend.
        seed: Draws the signs of weights that are exactly zero at the start.
    """

    kind: ClassVar[str] = "latent"

    def __init__(
        self,
        params: Any,
        lr: float = 0.1,
        gamma: float = 0.1,
        weight_decay: float = 1e-4,
        *,
        clip: float | None = None,
        clip_gradient: float | None = None,
        start: float | None = None,
        nonfinite: NonFinite = "raise",
        ff_every: int = 50,
        maximize: bool = False,
        seed: int = 0,
    ) -> None:
        if start is not None and not start >= 0:
            raise ValueError(f"start is {start}; it must be None (as handed over), 0, or a positive scale")
        self.start = start
        defaults = {
            "lr": lr, "gamma": gamma, "weight_decay": weight_decay, "clip": clip, "clip_gradient": clip_gradient,
        }  # fmt: skip
        super().__init__(params, defaults, nonfinite=nonfinite, ff_every=ff_every, maximize=maximize, seed=seed)

    def _check_group(self, group: Group) -> None:
        if not group["lr"] > 0:
            raise ValueError(f"lr is {group['lr']}; it must be positive")
        if not 0 < group["gamma"] <= 1:
            raise ValueError(f"gamma is {group['gamma']}; it must lie in (0, 1] (torch's momentum 0.9 is gamma 0.1)")
        if not group["weight_decay"] >= 0:
            raise ValueError(f"weight_decay is {group['weight_decay']}; it must be 0 or positive")
        if group["lr"] * group["weight_decay"] > 1:
            raise ValueError(
                f"lr * weight_decay, alpha, is {group['lr'] * group['weight_decay']:.3g}; it must be at most 1, since "
                "beyond it decay changes a weight's sign"
            )
        for name in ("clip", "clip_gradient"):
            if group[name] is not None and not group[name] > 0:
                raise ValueError(f"{name} is {group[name]}; it must be None or positive")

    def _start(self, param: Tensor, seed: int) -> None:
        if self.start is None or param.numel() == 0:
            return
        if self.start == 0:
            start_signs_(param, seed).mul_(torch.finfo(param.dtype).tiny)
        else:
            spread = param.std(correction=0) if param.numel() > 1 else param.abs().mean()
            if not spread > 0:
                raise ValueError(
                    f"start = {self.start} rescales the weights, but a parameter of shape {tuple(param.shape)} is "
                    "constant: initialise it first, or take start=0"
                )
            param.mul_(self.start / spread)

    def _new_state(self, param: Tensor, grad: Tensor, group: Group) -> dict[str, Tensor]:
        del grad, group
        return {"m": torch.zeros_like(param, dtype=state_dtype(param))}

    def _update(self, work: GroupGradients) -> None:
        for group, ws, grads in work:
            ms = [self.state[w]["m"] for w in ws]
            lr = float(group["lr"])
            if (limit := group["clip_gradient"]) is not None:
                grads = [x * (w.abs() <= limit) for x, w in zip(grads, ws, strict=True)]  # noqa: PLW2901
            latent_step_(ws, grads, ms, lr=lr, gamma=float(group["gamma"]), weight_decay=float(group["weight_decay"]))
            if (limit := group["clip"]) is not None:
                torch._foreach_clamp_min_(ws, -limit)
                torch._foreach_clamp_max_(ws, limit)


def latent_step_(
    ws: list[Tensor], grads: list[Tensor], ms: list[Tensor], *, lr: float, gamma: float, weight_decay: float
) -> None:
    """Eqs. 2 and 3 over lists of tensors."""
    torch._foreach_lerp_(ms, grads, gamma)  # Eq. 2
    torch._foreach_mul_(ws, 1 - lr * weight_decay)  # Eq. 3: the decay,
    torch._foreach_add_(ws, ms, alpha=-lr)  # and the step
