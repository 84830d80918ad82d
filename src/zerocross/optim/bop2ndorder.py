"""Bop2ndOrder: Bop with the average gradient normalised by its second moment."""

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

    Constructing it replaces each parameter by its sign. Its "second order" refers to the second moment; as a filter of
    the gradient it is of first order, like Bop.

    Args:
        params: Parameters, named parameters or param groups; a group may set `gamma`, `sigma` and `tau` for itself.
        gamma: The first moment's discount, in (0, 1]; stored in the group's `lr`, so that schedulers decay it.
        sigma: The second moment's discount, in (0, 1].
        tau: The threshold, >= 0, dimensionless.
        nonfinite: "raise", "skip" or "ignore"; see BinaryOptimizer for this and the following arguments.
        ff_every: Count flips every ff_every steps.
        maximize: Maximize the objective instead of minimizing it.
        seed: Seed of the signs drawn for weights that are exactly zero.

    Examples:
        >>> import torch
        >>> from zerocross.optim import Bop2ndOrder
        >>> weight = torch.nn.Parameter(torch.tensor([[0.3, -0.2]]))
        >>> optimizer = Bop2ndOrder([weight], gamma=1e-2, sigma=1e-2, tau=1e-2)
        >>> weight.grad = torch.tensor([[1.0, 1.0]])
        >>> optimizer.step()
        >>> weight.tolist()
        [[-1.0, -1.0]]
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
        """Add a param group; its discount may be called `gamma` or `lr`."""
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

    def _update(self, gradients: GroupGradients) -> None:
        for group, thetas, grads in gradients:
            ms, vs = ([self.state[theta][key] for theta in thetas] for key in ("m", "v"))
            torch._foreach_lerp_(ms, grads, float(group["lr"]))
            torch._foreach_lerp_(vs, torch._foreach_mul(grads, grads), float(group["sigma"]))
            sizes = torch._foreach_sqrt(vs)
            torch._foreach_add_(sizes, _EPSILON)
            flip_against_(thetas, list(torch._foreach_div(ms, sizes)), group["tau"])
