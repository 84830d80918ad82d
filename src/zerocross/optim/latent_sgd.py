"""LatentSGD: stochastic gradient descent on latent weights, as defined in the paper (Eqs. 1-5)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from zerocross.optim.base import BinaryOptimizer, Group, GroupGradients, NonFinite, state_dtype
from zerocross.optim.signs import start_signs_


class LatentSGD(BinaryOptimizer):
    """SGD on latent weights with momentum and decoupled weight decay; the layers take the sign (Eqs. 1-4)::

        m = (1 - gamma) m + gamma grad              Eq. 2
        w = w - lr (m + weight_decay w)             Eq. 3
        theta = sign(w), in the layer               Eq. 4

    It has the seven hyperparameters of the paper's Table 1: lr, its decay (any torch scheduler), initialisation
    (`start`), momentum (1 - gamma), weight decay, scaling (`scale=` of the layer) and clipping (`clip`,
    `clip_gradient`). Without scaling and clipping and with start=0 it produces the same signs as
    GradientFilter(alpha = lr * weight_decay), for any lr and also under lr-decay. It differs from torch.optim.SGD,
    which applies weight decay before momentum: see zerocross.filters.from_sgd.

    Args:
        params: Latent weights (layers with weights="latent"); a group may set its own hyperparameters.
        lr: epsilon, the learning rate, > 0.
        gamma: The momentum's discount, in (0, 1]; torch's momentum 0.9 is gamma = 0.1.
        weight_decay: lambda, >= 0.
        clip: Clamp w to [-clip, clip] after every update (BinaryConnect uses 1); None: no clipping.
        clip_gradient: Zero the gradient of weights with |w| > clip_gradient; None: do not.
        start: Initialisation, in place. None: keep the weights. s > 0: rescale them to a standard deviation of s. 0:
            set each to the smallest positive number times its sign (random for exact zeros), since exact zeros would
            all have sign +1.
        nonfinite: "raise", "skip" or "ignore"; see BinaryOptimizer for this and the following arguments.
        ff_every: Count flips every ff_every steps.
        maximize: Maximize the objective instead of minimizing it.
        seed: Seed of the signs drawn for weights that are exactly zero.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> layer = zerocross.nn.BinaryLinear(2, 1, weights="latent")
        >>> optimizer = zerocross.optim.LatentSGD(layer.parameters(), lr=0.1, weight_decay=1e-4, start=0)
        >>> layer.weight.grad = torch.tensor([[1.0, -1.0]])
        >>> optimizer.step()
        >>> [round(value, 4) for value in layer.weight[0].tolist()], layer.binary_weight().tolist()
        ([-0.01, 0.01], [[-1.0, 1.0]])
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
            raise ValueError(
                f"start is {start}; it must be None (keep the weights), 0, or a positive standard deviation"
            )
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
                f"lr * weight_decay (alpha) is {group['lr'] * group['weight_decay']:.3g}; it must be at most 1, or "
                "weight decay alone flips signs"
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
                    "constant: initialise it first, or use start=0"
                )
            param.mul_(self.start / spread)

    def _new_state(self, param: Tensor, grad: Tensor, group: Group) -> dict[str, Tensor]:
        del grad, group
        return {"m": torch.zeros_like(param, dtype=state_dtype(param))}

    def _update(self, gradients: GroupGradients) -> None:
        for group, ws, grads in gradients:
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
