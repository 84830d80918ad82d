"""OvSW: SGD on latent weights, with larger gradients and decay for weights that never flip."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from zerocross.optim.base import BinaryOptimizer, Group, GroupGradients, NonFinite, state_dtype
from zerocross.optim.signs import negative

_SMALLEST_GRADIENT, _SMALLEST_WEIGHT = 1e-6, 1e-3  # norms of a filter, lower limits as in the authors' code
_OPEN = ("gamma", "track")


class OvSW(BinaryOptimizer):
    """Xiang et al., *OvSW: Overcoming Silent Weights for Accurate Binary Neural Networks*, ECCV 2024::

        x = grad max(1, delta |w| / |grad|)         norms of each filter: adaptive gradient scaling
        rate = (1 - track) rate + track [w has flipped since the last update]
        x = x + dampen w where rate < silent        silence-aware decay
        m = (1 - gamma) m + x + weight_decay w
        w = w - lr m

    The last two lines are torch's SGD with momentum 1 - gamma.

    Args:
        params: Latent weights (layers with weights="latent"); a group may set its own hyperparameters.
        lr: The learning rate, > 0.
        gamma: The momentum's discount, in (0, 1]; torch's momentum 0.9 is gamma = 0.1.
        weight_decay: >= 0, as in torch's SGD.
        delta: The smallest share of a filter's norm that its gradient's norm may be, >= 0; 0: gradients are not scaled.
        dampen: The decay of silent weights, >= 0; 0: none.
        track: The discount of the average of flips, in (0, 1].
        silent: Below this average a weight counts as silent, >= 0.
        nonfinite: "raise", "skip" or "ignore"; see BinaryOptimizer for this and the following arguments.
        ff_every: Count flips every ff_every steps.
        maximize: Maximize the objective instead of minimizing it.
        seed: Not used: the initial weights are kept.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> layer = zerocross.nn.BinaryLinear(2, 1, weights="latent", binarizer="ovsw")
        >>> optimizer = zerocross.optim.OvSW(layer.parameters(), lr=0.1)
        >>> layer.weight.grad = torch.tensor([[1.0, -1.0]])
        >>> optimizer.step()
        >>> layer.weight.sign().tolist()
        [[-1.0, 1.0]]
    """

    kind: ClassVar[str] = "latent"

    def __init__(
        self,
        params: Any,
        lr: float = 0.1,
        gamma: float = 0.1,
        weight_decay: float = 5e-4,
        delta: float = 0.04,
        dampen: float = 9e-4,
        *,
        track: float = 1e-3,
        silent: float = 1e-4,
        nonfinite: NonFinite = "raise",
        ff_every: int = 50,
        maximize: bool = False,
        seed: int = 0,
    ) -> None:
        defaults = {
            "lr": lr, "gamma": gamma, "weight_decay": weight_decay, "delta": delta, "dampen": dampen, "track": track,
            "silent": silent,
        }  # fmt: skip
        super().__init__(params, defaults, nonfinite=nonfinite, ff_every=ff_every, maximize=maximize, seed=seed)

    def _check_group(self, group: Group) -> None:
        if not group["lr"] > 0:
            raise ValueError(f"lr is {group['lr']}; it must be positive")
        for name in _OPEN:
            if not 0 < group[name] <= 1:
                raise ValueError(f"{name} is {group[name]}; it must lie in (0, 1]")
        for name in ("weight_decay", "delta", "dampen", "silent"):
            if not 0 <= group[name] < float("inf"):
                raise ValueError(f"{name} is {group[name]}; it must be 0 or positive, and finite")

    def _start(self, param: Tensor, seed: int) -> None:
        del param, seed

    def _new_state(self, param: Tensor, grad: Tensor, group: Group) -> dict[str, Tensor]:
        del grad, group
        zero = torch.zeros_like(param, dtype=state_dtype(param))
        return {"m": zero, "rate": zero.clone(), "was_negative": negative(param)}

    def _update(self, gradients: GroupGradients) -> None:
        for group, ws, grads in gradients:
            for w, grad in zip(ws, grads, strict=True):
                state = self.state[w]
                x = scaled_up(grad, w, group["delta"])
                now = negative(w)
                flipped = (now != state["was_negative"]).to(x.dtype)
                state["rate"].mul_(1 - group["track"]).add_(flipped, alpha=group["track"])
                state["was_negative"].copy_(now)
                x = x + group["dampen"] * (state["rate"] < group["silent"]) * w
                state["m"].mul_(1 - group["gamma"]).add_(x.add(w, alpha=group["weight_decay"]))
                w.add_(state["m"], alpha=-float(group["lr"]))


def scaled_up(grad: Tensor, w: Tensor, delta: float) -> Tensor:
    """Return the gradient, scaled up in filters where its norm is below delta times that of the weight."""
    gradient, weight = _norms(grad, _SMALLEST_GRADIENT), _norms(w.to(grad.dtype), _SMALLEST_WEIGHT)
    return torch.where(gradient / weight < delta, delta * weight / gradient * grad, grad)


def _norms(x: Tensor, smallest: float) -> Tensor:
    """The norm of each filter, at least `smallest`, in the shape that broadcasts against `x`."""
    rows = x.flatten(1) if x.dim() > 1 else x.unsqueeze(1)
    norms = torch.linalg.vector_norm(rows.contiguous(), dim=1).clamp(min=smallest)  # one order of sums for all layouts
    return norms.view(-1, *(1,) * (x.dim() - 1))
