"""Bop: a binary weight flips where an average of its gradient is against it, and above a threshold."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from zerocross.optim.base import BinaryOptimizer, Group, GroupGradients, NonFinite, renamed, state_dtype
from zerocross.optim.signs import start_signs_


class Bop(BinaryOptimizer):
    """Helwegen et al., *Latent Weights Do Not Exist*, NeurIPS 2019, Algorithm 1::

        m = (1 - gamma) m + gamma grad
        theta = -theta where theta m > tau

    At tau = 0 it is the filter of first order with alpha = gamma, which flips at the zero crossing. gamma lives in the
    param group's `lr`, so that torch's schedulers decay it, as the paper does.

    Args:
        params: Parameters, named parameters or param groups; a group may set `gamma` and `tau` for itself.
        gamma: The average's discount (their adaptivity rate), in (0, 1]. Not the inner discount of GradientFilter.
        tau: The threshold, >= 0, in units of the gradient.
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
        gamma: float = 1e-4,
        tau: float = 1e-8,
        *,
        nonfinite: NonFinite = "raise",
        ff_every: int = 50,
        maximize: bool = False,
        seed: int = 0,
    ) -> None:
        defaults = {"lr": gamma, "tau": tau}
        super().__init__(params, defaults, nonfinite=nonfinite, ff_every=ff_every, maximize=maximize, seed=seed)

    def add_param_group(self, param_group: Group) -> None:
        """Take in one more group; its discount may be called `gamma` or `lr`."""
        super().add_param_group(renamed(param_group, "gamma"))

    def _check_group(self, group: Group) -> None:
        check_gamma_and_tau(group)

    def _start(self, param: Tensor, seed: int) -> None:
        start_signs_(param, seed)

    def _new_state(self, param: Tensor, grad: Tensor, group: Group) -> dict[str, Tensor]:
        del grad, group
        return {"m": torch.zeros_like(param, dtype=state_dtype(param))}

    def _update(self, work: GroupGradients) -> None:
        for group, thetas, grads in work:
            ms = [self.state[theta]["m"] for theta in thetas]
            torch._foreach_lerp_(ms, grads, float(group["lr"]))
            flip_against_(thetas, ms, group["tau"])


def flip_against_(thetas: list[Tensor], pulls: list[Tensor], tau: float) -> None:
    """theta = -theta where theta pull > tau."""
    for theta, pull in zip(thetas, pulls, strict=True):
        theta.copy_(torch.where(theta * pull > tau, -theta, theta))


def check_gamma_and_tau(group: Group) -> None:
    """Refuse what neither Bop nor Bop2ndOrder can use."""
    if not 0 < group["lr"] <= 1:
        raise ValueError(f"gamma is {group['lr']}; it must lie in (0, 1] (1e-4 is usual)")
    if not 0 <= group["tau"] < float("inf"):
        raise ValueError(f"tau is {group['tau']}; it must be 0 or positive, and finite")
