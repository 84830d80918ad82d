"""BOLD: Boolean weights that flip when enough votes against them have accumulated."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from zerocross.optim.base import BinaryOptimizer, Group, GroupGradients, NonFinite, state_dtype
from zerocross.optim.signs import start_signs_


class BOLD(BinaryOptimizer):
    """Nguyen et al., *BOLD: Boolean Logic Deep Learning*, NeurIPS 2024, the update rule of its Boolean optimizer::

        a = r a + lr grad                           the votes against a weight, accumulated
        theta = -theta, a = 0 where theta a >= 1
        r = the share of the layer's weights that did not flip in this update, 0 before the first update

    The more weights of a layer flip, the more it forgets. lr depends on the unit of the gradient: the paper's votes are
    sums of -1 and +1 over a batch; here they are the gradient of the mean loss.

    Args:
        params: Parameters, named parameters or param groups; a group may set `lr` for itself.
        lr: The weight of a vote, > 0; a weight flips when the votes against it reach 1 / lr.
        nonfinite: "raise", "skip" or "ignore"; see BinaryOptimizer for this and the following arguments.
        ff_every: Count flips every ff_every steps.
        maximize: Maximize the objective instead of minimizing it.
        seed: Seed of the signs drawn for weights that are exactly zero.

    Examples:
        >>> import torch
        >>> from zerocross.optim import BOLD
        >>> weight = torch.nn.Parameter(torch.tensor([[0.3, -0.2]]))
        >>> optimizer = BOLD([weight], lr=2.0)
        >>> weight.grad = torch.tensor([[1.0, 1.0]])
        >>> optimizer.step()
        >>> weight.tolist()
        [[-1.0, -1.0]]
    """

    kind: ClassVar[str] = "theta"

    def __init__(
        self,
        params: Any,
        lr: float = 1000.0,
        *,
        nonfinite: NonFinite = "raise",
        ff_every: int = 50,
        maximize: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(params, {"lr": lr}, nonfinite=nonfinite, ff_every=ff_every, maximize=maximize, seed=seed)

    def _check_group(self, group: Group) -> None:
        if not 0 < group["lr"] < float("inf"):
            raise ValueError(f"lr is {group['lr']}; it must be positive and finite")

    def _start(self, param: Tensor, seed: int) -> None:
        start_signs_(param, seed)

    def _new_state(self, param: Tensor, grad: Tensor, group: Group) -> dict[str, Tensor]:
        del grad, group
        votes = torch.zeros_like(param, dtype=state_dtype(param))
        return {"votes": votes, "kept": votes.new_zeros(())}

    def _update(self, gradients: GroupGradients) -> None:
        for group, thetas, grads in gradients:
            for theta, grad in zip(thetas, grads, strict=True):
                state = self.state[theta]
                state["votes"].mul_(state["kept"]).add_(grad, alpha=float(group["lr"]))
                flips = theta * state["votes"] >= 1
                theta.copy_(torch.where(flips, -theta, theta))
                state["votes"].masked_fill_(flips, 0)
                state["kept"].copy_(1 - flips.to(state["kept"].dtype).mean() if theta.numel() else state["kept"])
