"""CascadeFilter: any number of moving averages in series, whose sign is the weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from zerocross.optim.base import BinaryOptimizer, Group, GroupGradients, NonFinite, renamed, state_dtype
from zerocross.optim.signs import start_signs_, take_signs_


class CascadeFilter(BinaryOptimizer):
    """Turn the given weights into signs in place, and train them with a cascade of any number of moving averages::

        m_1 = (1 - gamma_1) m_1 + gamma_1 grad,  m_2 = (1 - gamma_2) m_2 + gamma_2 m_1,  ...
        g = (1 - alpha) g + alpha m_last
        theta = -sign(g); a weight whose g is exactly 0 keeps its sign

    Without inner averages it is the paper's first-order filter (Eq. 10); with one it equals GradientFilter bit for bit.
    alpha is stored in the param group's `lr` and can be decayed, unlike the fixed filter of IIRGradientFilter.

    Args:
        params: Parameters, named parameters or param groups; a group may set `alpha` for itself.
        alpha: The outer discount, in (0, 1].
        gammas: The inner discounts, each in (0, 1]; the order of the filter is one more than their number.
        nonfinite: "raise", "skip" or "ignore"; see BinaryOptimizer for this and the following arguments.
        ff_every: Count flips every ff_every steps.
        maximize: Maximize the objective instead of minimizing it.
        seed: Seed of the signs drawn for weights that are exactly zero.
        vectors: Also accept vectors, such as biases.

    Tested in tests/optim against scipy.signal.sosfilt, order by order.

    Examples:
        >>> import torch
        >>> from zerocross.optim import CascadeFilter
        >>> weight = torch.nn.Parameter(torch.tensor([[0.3, -0.2]]))
        >>> optimizer = CascadeFilter([weight], alpha=1e-3, gammas=(0.1, 0.1))  # order 3
        >>> weight.grad = torch.tensor([[1.0, 1.0]])
        >>> optimizer.step()
        >>> weight.tolist()
        [[-1.0, -1.0]]
    """

    kind: ClassVar[str] = "theta"
    lr_name = "alpha"

    def __init__(
        self,
        params: Any,
        alpha: float = 1e-3,
        gammas: Sequence[float] = (0.1, 0.1),
        *,
        nonfinite: NonFinite = "raise",
        ff_every: int = 50,
        maximize: bool = False,
        seed: int = 0,
        vectors: bool = False,
    ) -> None:
        for gamma in gammas:
            if not 0 < gamma <= 1:
                raise ValueError(f"gammas are {tuple(gammas)}; each must lie in (0, 1]")
        self.gammas = tuple(float(gamma) for gamma in gammas)
        common: dict[str, Any] = {"nonfinite": nonfinite, "ff_every": ff_every, "maximize": maximize, "seed": seed}
        super().__init__(params, {"lr": alpha}, **common, vectors=vectors)

    def add_param_group(self, param_group: Group) -> None:
        """Add a param group; its discount may be called `alpha` or `lr`."""
        super().add_param_group(renamed(param_group, "alpha"))

    def _check_group(self, group: Group) -> None:
        if not 0 < group["lr"] <= 1:
            raise ValueError(f"alpha is {group['lr']}; it must lie in (0, 1] (1e-20 is pure summation)")

    def _start(self, param: Tensor, seed: int) -> None:
        start_signs_(param, seed)

    def _new_state(self, param: Tensor, grad: Tensor, group: Group) -> dict[str, Tensor]:
        del grad, group
        names = [*(f"m{index}" for index in range(1, len(self.gammas) + 1)), "g"]
        return {name: torch.zeros_like(param, dtype=state_dtype(param)) for name in names}

    def _update(self, gradients: GroupGradients) -> None:
        for group, thetas, grads in gradients:
            xs = grads
            for index, gamma in enumerate(self.gammas, start=1):
                ms = [self.state[theta][f"m{index}"] for theta in thetas]
                torch._foreach_lerp_(ms, xs, gamma)  # Eq. 11
                xs = ms
            gs = [self.state[theta]["g"] for theta in thetas]
            torch._foreach_lerp_(gs, xs, float(group["lr"]))  # Eq. 12
            take_signs_(thetas, gs)  # Eq. 13
