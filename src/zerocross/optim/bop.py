"""Bop: flip a binary weight when the average of its gradient opposes it by more than a threshold."""

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

    Constructing it replaces each parameter by its sign. At tau = 0 it is the filter of first order with alpha = gamma,
    which flips at the zero crossing. gamma is stored in the param group's `lr`, so that torch's schedulers decay it, as
    the paper does.

    Args:
        params: Parameters, named parameters or param groups; a group may set `gamma` and `tau` for itself.
        gamma: The average's discount (their adaptivity rate), in (0, 1]. Not the inner discount of GradientFilter.
        tau: The threshold, >= 0, in units of the gradient.
        nonfinite: "raise", "skip" or "ignore"; see BinaryOptimizer for this and the following arguments.
        ff_every: Count flips every ff_every steps.
        maximize: Maximize the objective instead of minimizing it.
        seed: Seed of the signs drawn for weights that are exactly zero.

    Examples:
        >>> import torch
        >>> from zerocross.optim import Bop
        >>> weight = torch.nn.Parameter(torch.tensor([[0.3, -0.2]]))
        >>> optimizer = Bop([weight], gamma=1e-2, tau=1e-3)
        >>> weight.grad = torch.tensor([[1.0, 0.01]])
        >>> optimizer.step()
        >>> weight.tolist()
        [[-1.0, -1.0]]
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
        """Add a param group; its discount may be called `gamma` or `lr`."""
        super().add_param_group(renamed(param_group, "gamma"))

    def _check_group(self, group: Group) -> None:
        check_gamma_and_tau(group)

    def _start(self, param: Tensor, seed: int) -> None:
        start_signs_(param, seed)

    def _new_state(self, param: Tensor, grad: Tensor, group: Group) -> dict[str, Tensor]:
        del grad, group
        return {"m": torch.zeros_like(param, dtype=state_dtype(param))}

    def _update(self, gradients: GroupGradients) -> None:
        for group, thetas, grads in gradients:
            ms = [self.state[theta]["m"] for theta in thetas]
            torch._foreach_lerp_(ms, grads, float(group["lr"]))
            flip_against_(thetas, ms, group["tau"])


def flip_against_(thetas: list[Tensor], pulls: list[Tensor], tau: float) -> None:
    """theta = -theta where theta pull > tau."""
    for theta, pull in zip(thetas, pulls, strict=True):
        theta.copy_(torch.where(theta * pull > tau, -theta, theta))


def check_gamma_and_tau(group: Group) -> None:
    """Raise ValueError if gamma or tau is out of range; shared with Bop2ndOrder."""
    if not 0 < group["lr"] <= 1:
        raise ValueError(f"gamma is {group['lr']}; it must lie in (0, 1] (1e-4 is usual)")
    if not 0 <= group["tau"] < float("inf"):
        raise ValueError(f"tau is {group['tau']}; it must be 0 or positive, and finite")
