"""Bop2ndOrder: Bop, with the average measured against the gradient's own size."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from zerocross.optim.base import BinaryOptimizer, Group, GroupGradients, NonFinite, renamed, state_dtype
from zerocross.optim.bop import check_gamma_and_tau, flip_against_
from zerocross.optim.signs import start_signs_

_EPSILON = 1e-10


class Bop2ndOrder(BinaryOptimizer):
    """Suarez-Ramirez et al., *A Bop and Beyond*, CVPR workshops 2021 (the biased form)::

        m = (1 - gamma) m + gamma grad
        v = (1 - sigma) v + sigma grad^2
        theta = -theta where theta m / (sqrt(v) + 1e-10) > tau

    Its "second order" is a second moment, not a filter's order: the filter of the gradient is of first order, as Bop's.

    Args:
        params: Parameters, named parameters or param groups; a group may set `gamma`, `sigma` and `tau` for itself.
        gamma: The first moment's discount, in (0, 1]; it lives in the group's `lr`, so that schedulers decay it.
        sigma: The second moment's discount, in (0, 1].
        tau: The threshold, >= 0, without a unit.
        nonfinite: "raise", "skip" or "ignore"; see BinaryOptimizer, as for the arguments that follow.
        ff_every: Count flips on every ff_every-th step.
        maximize: Climb instead of descend.
        seed: Draws the signs of weights that are exactly zero at the start.
    """

    kind: ClassVar[str] = "theta"
    lr_name = "gamma"

    def __init__(
        self,
        params: Any,
        gamma: float = 1e-6,
        sigma: float = 1e-2,
        tau: float = 1e-6,
        *,
        nonfinite: NonFinite = "raise",
        ff_every: int = 50,
        maximize: bool = False,
        seed: int = 0,
    ) -> None:
        defaults = {"lr": gamma, "sigma": sigma, "tau": tau}
        super().__init__(params, defaults, nonfinite=nonfinite, ff_every=ff_every, maximize=maximize, seed=seed)

    def add_param_group(self, param_group: Group) -> None:
        """Take in one more group; its discount may be called `gamma` or `lr`."""
        super().add_param_group(renamed(param_group, "gamma"))

    def _check_group(self, group: Group) -> None:
        check_gamma_and_tau(group)
        if not 0 < group["sigma"] <= 1:
            raise ValueError(f"sigma is {group['sigma']}; it must lie in (0, 1] (1e-2 is usual)")

    def _start(self, param: Tensor, seed: int) -> None:
        start_signs_(param, seed)

    def _new_state(self, param: Tensor, grad: Tensor, group: Group) -> dict[str, Tensor]:
        del grad, group
        zero = torch.zeros_like(param, dtype=state_dtype(param))
        return {"m": zero, "v": zero.clone()}

    def _update(self, work: GroupGradients) -> None:
        for group, thetas, grads in work:
            ms, vs = ([self.state[theta][key] for theta in thetas] for key in ("m", "v"))
            torch._foreach_lerp_(ms, grads, float(group["lr"]))
            torch._foreach_lerp_(vs, torch._foreach_mul(grads, grads), float(group["sigma"]))
            sizes = torch._foreach_sqrt(vs)
            torch._foreach_add_(sizes, _EPSILON)
            flip_against_(thetas, list(torch._foreach_div(ms, sizes)), group["tau"])
