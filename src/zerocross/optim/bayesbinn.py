"""BayesBiNN: the sign of a natural parameter per weight, trained by the Bayesian learning rule."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from zerocross.optim.base import BinaryOptimizer, Group, GroupGradients, NonFinite, state_dtype
from zerocross.optim.signs import start_signs_

_FLOOR = 1e-10  # as in the authors' code, in numerator and denominator of the scale
_LARGEST_TEMPERATURE = 1e-6


class BayesBiNN(BinaryOptimizer):
    """Meng et al., *Training Binary Neural Networks using the Bayesian Learning Rule*, ICML 2020::

        w = tanh((l + noise) / T)                       a sample; mu = tanh(l) is the mean
        s = (1 - w^2 + 1e-10) / (T (1 - mu^2 + 1e-10))
        m = (1 - gamma) m + gamma (N s grad + l)
        l = l - lr m / (1 - (1 - gamma)^i)              at update i

    The published T is 1e-10 and l starts at +-10: the noise, at most 8.4 in float32, changes no sign, and every sample
    is exactly sign(l). Therefore this implementation draws no noise: theta = sign(l) is both sample and mode, and T
    must be small. With w and mu at +-1, s is a constant, and theta has the signs of the first-order filter with alpha =
    lr (CascadeFilter(gammas=())), except for the influence of the start during a few updates.

    Args:
        params: Parameters, named parameters or param groups; a group may set hyperparameters for itself.
        lr: In (0, 1]: the learning rate, which is the discount of an average of gradients.
        gamma: The momentum's discount, in (0, 1]; the paper's beta is 1 - gamma, and 1 is no momentum.
        temperature: T, in (0, 1e-6].
        train_size: N > 0: the number of training samples; it scales l, and changes no sign.
        start: The initial magnitude of l, > 0.
        nonfinite: "raise", "skip" or "ignore"; see BinaryOptimizer for this and the following arguments.
        ff_every: Count flips every ff_every steps.
        maximize: Maximize the objective instead of minimizing it.
        seed: Seed of the signs drawn for weights that are exactly zero.

    Examples:
        >>> import torch
        >>> from zerocross.optim import BayesBiNN
        >>> weight = torch.nn.Parameter(torch.tensor([[0.3, -0.2]]))
        >>> optimizer = BayesBiNN([weight], lr=1e-2)
        >>> weight.grad = torch.tensor([[1.0, 1.0]])
        >>> optimizer.step()
        >>> weight.tolist()
        [[-1.0, -1.0]]
    """

    kind: ClassVar[str] = "theta"

    def __init__(
        self,
        params: Any,
        lr: float = 3e-4,
        gamma: float = 1.0,
        *,
        temperature: float = 1e-10,
        train_size: float = 450_000,
        start: float = 10.0,
        nonfinite: NonFinite = "raise",
        ff_every: int = 50,
        maximize: bool = False,
        seed: int = 0,
    ) -> None:
        defaults = {"lr": lr, "gamma": gamma, "temperature": temperature, "train_size": train_size, "start": start}
        super().__init__(params, defaults, nonfinite=nonfinite, ff_every=ff_every, maximize=maximize, seed=seed)

    def _check_group(self, group: Group) -> None:
        if not 0 < group["lr"] <= 1:
            raise ValueError(f"lr is {group['lr']}; it must lie in (0, 1] (3e-4 is published)")
        if not 0 < group["gamma"] <= 1:
            raise ValueError(f"gamma is {group['gamma']}; it must lie in (0, 1] (1 is no momentum)")
        if not 0 < group["temperature"] <= _LARGEST_TEMPERATURE:
            raise ValueError(
                f"temperature is {group['temperature']}; it must lie in (0, {_LARGEST_TEMPERATURE}] (1e-10 is "
                "published): at larger ones samples are not -1 and +1"
            )
        for name in ("train_size", "start"):
            if not 0 < group[name] < float("inf"):
                raise ValueError(f"{name} is {group[name]}; it must be positive and finite")

    def _start(self, param: Tensor, seed: int) -> None:
        start_signs_(param, seed)

    def _new_state(self, param: Tensor, grad: Tensor, group: Group) -> dict[str, Tensor]:
        del grad
        natural = param.to(state_dtype(param)) * group["start"]
        state = {"natural": natural, "mean": _mean(natural)}
        if group["gamma"] < 1:
            state |= {"m": torch.zeros_like(natural), "correction": natural.new_zeros(())}
        return state

    def _update(self, gradients: GroupGradients) -> None:
        for group, thetas, grads in gradients:
            for theta, grad in zip(thetas, grads, strict=True):
                state = self.state[theta]
                natural = state["natural"]
                natural_step_(state, theta.to(natural.dtype), grad, group)
                theta.copy_(torch.where(natural == 0, theta, torch.copysign(torch.ones_like(theta), natural.to(theta))))


def natural_step_(state: dict[str, Tensor], sample: Tensor, grad: Tensor, group: Group) -> None:
    """Update the natural parameter with the gradient of the loss at a sample of the weights.

    Args:
        state: "natural" and "mean"; with momentum also "m" and "correction", which is 1 - (1 - gamma)^i. "mean" is tanh
            of the natural parameter one update ago, as in the published code.
        sample: The weights at which the gradient was taken.
        grad: The gradient of the mean loss.
        group: The hyperparameters.
    """
    natural, mean, gamma = state["natural"], state["mean"], group["gamma"]
    scale = (1 - sample * sample + _FLOOR) / group["temperature"] / (1 - mean * mean + _FLOOR)
    mean.copy_(_mean(natural))
    step = group["train_size"] * grad * scale + natural
    if gamma < 1:
        state["correction"].mul_(1 - gamma).add_(gamma)
        step = state["m"].mul_(1 - gamma).add_(step, alpha=gamma) / state["correction"]
    natural.add_(step, alpha=-float(group["lr"]))


def _mean(natural: Tensor) -> Tensor:
    # In float32, as published: in float64 tanh(10) is not 1, and the first updates would weigh less than the others.
    return natural.float().tanh().to(natural.dtype)
