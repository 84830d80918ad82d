"""GradientFilter: the paper's optimizer, a cascade of two moving averages whose sign is the weight (Eqs. 11-13)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from zerocross.compiler import compiled
from zerocross.filters.flips import alpha_for_flips
from zerocross.optim.base import BinaryOptimizer, Group, GroupGradients, NonFinite, renamed, state_dtype
from zerocross.optim.signs import start_signs_, take_signs_


class GradientFilter(BinaryOptimizer):
    """Binary weights by filtered gradients: a weight flips when its filtered gradient crosses zero.

    Quist et al., *Understanding weight-magnitude hyperparameters in training binary networks*, ICLR 2023::

        m = (1 - gamma) m + gamma grad      Eq. 11
        g = (1 - alpha) g + alpha m         Eq. 12
        theta = -sign(g)                    Eq. 13; a weight whose g is exactly 0 keeps its sign

    The parameter itself holds theta, in {-1, +1}: any layer's weight becomes binary by being given to this optimizer.
    theta starts as the sign of the parameter as handed over; exact zeros are drawn. m and g start at zero, without
    bias correction: gradients are large in the first steps already (the paper, below Eq. 7).

    In place of alpha one may give `flip_rate`, the share of weights that noise flips at each step: alpha is then
    computed from it and gamma (`zerocross.filters.alpha_for_flips`), and with `gamma=None` both discounts are.

    alpha, or the flip rate, lives in the param group's `lr`, so that torch's schedulers *are* alpha-decay. A step at 0
    filters m only. Schedulers that write absolute values (OneCycleLR, CyclicLR, SWALR, eta_min) need one value per
    group; the first one above that given here is warned about.

    Args:
        params: Parameters, named parameters or param groups; a group may set `alpha` (or `flip_rate`), `gamma` and
            `vectors` for itself.
        alpha: The outer discount, in (0, 1]; SGD's lr * weight_decay in the paper's reading. 1e-20 is pure summation.
            By default 1e-3, unless there is a flip rate.
        gamma: The inner discount, in (0, 1]; torch's momentum 0.9 is gamma = 0.1. None, with a flip rate: the same as
            alpha.
        flip_rate: In place of alpha: flips per weight and step under noise, from above 0 to arccos(1 - gamma) / pi, or
            to 0.5 with `gamma=None`. 3.2e-3 is the paper's alpha = 1e-3 with gamma = 0.1.
        warm_start: c >= 0: g starts at -c * rms(first gradient) * theta, on theta's side, so that a trained sign
            survives the first updates. With 0 (the paper) the first update sets theta = -sign(gradient), and half of
            all signs flip: right from scratch, fatal for fine-tuning. Noise alone moves g by about
            rms * sqrt(alpha / 2), so c = 3 * sqrt(alpha / 2) holds a sign until the gradient's mean disagrees: at
            alpha = 1e-3 and under pure noise none flips in 100 updates, 0.03 % in 300, 11 % in 1,000, a whole window.
        compile: Run the update as one compiled pass over memory (torch.compile; a minute at most, at the first step).
        nonfinite: "raise", "skip" or "ignore"; see BinaryOptimizer, as for the arguments that follow.
        ff_every: Count flips on every ff_every-th step.
        maximize: Climb instead of descend.
        seed: Draws the signs of weights that are exactly zero at the start.
        vectors: Take vectors, too, such as biases.

    Proved in tests/optim: equal to a naive twin, to scipy's lfilter, and, sign by sign, to latent-weight SGD.
    """

    kind: ClassVar[str] = "theta"
    lr_name = "alpha"

    def __init__(
        self,
        params: Any,
        alpha: float | None = None,
        gamma: float | None = 0.1,
        *,
        flip_rate: float | None = None,
        warm_start: float = 0.0,
        compile: bool = False,  # noqa: A002 - torch's own word for it
        nonfinite: NonFinite = "raise",
        ff_every: int = 50,
        maximize: bool = False,
        seed: int = 0,
        vectors: bool = False,
    ) -> None:
        if not warm_start >= 0:
            raise ValueError(f"warm_start is {warm_start}; it must be 0 (the paper's start) or a positive factor")
        if alpha is not None and flip_rate is not None:
            raise ValueError(f"alpha is {alpha} and flip_rate {flip_rate}: they set the same thing, give one of them")
        self.warm_start = warm_start
        self.compile = compile
        self.lr_name = "alpha" if flip_rate is None else "flip_rate"
        alpha = 1e-3 if alpha is None else alpha
        defaults = {"lr": alpha if flip_rate is None else flip_rate, "gamma": gamma}
        common: dict[str, Any] = {"nonfinite": nonfinite, "ff_every": ff_every, "maximize": maximize, "seed": seed}
        super().__init__(params, defaults, **common, vectors=vectors)

    def add_param_group(self, param_group: Group) -> None:
        """Take in one more group; its `lr` may be called `alpha`, or `flip_rate` if that is what this optimizer has."""
        super().add_param_group(renamed(param_group, self.lr_name))

    def _check_group(self, group: Group) -> None:
        if self.lr_name == "flip_rate":
            if not group["lr"] > 0:
                raise ValueError(f"flip_rate is {group['lr']}; it must be above 0 (1e-2 is a common start)")
            alpha_for_flips(group["lr"], group["gamma"])
            return
        if group["gamma"] is None:
            raise ValueError("gamma is None, which ties it to the alpha of a flip rate: give flip_rate=, or a gamma")
        for name, value in (("alpha", group["lr"]), ("gamma", group["gamma"])):
            if not 0 < value <= 1:
                hint = "1e-20 is pure summation" if name == "alpha" else "1 switches the inner average off"
                raise ValueError(f"{name} is {value}; it must lie in (0, 1] ({hint})")

    def _start(self, param: Tensor, seed: int) -> None:
        start_signs_(param, seed)

    def _new_state(self, param: Tensor, grad: Tensor, group: Group) -> dict[str, Tensor]:
        del group
        m = torch.zeros_like(param, dtype=state_dtype(param))
        if self.warm_start == 0:
            return {"m": m, "g": torch.zeros_like(m)}
        rms = grad.double().square().mean().sqrt().to(m.dtype)  # in float32 a square overflows at 2e19
        return {"m": m, "g": -self.warm_start * rms * param.detach().to(m.dtype)}

    def _update(self, work: GroupGradients) -> None:
        thetas = [params for _, params, _ in work]
        grads = [grads for _, _, grads in work]
        ms, gs = ([[self.state[p][key] for p in params] for params in thetas] for key in ("m", "g"))
        alphas = [self._alpha(group) for group, _, _ in work]
        given = [group["gamma"] for group, _, _ in work]
        gammas = [alpha if gamma is None else float(gamma) for alpha, gamma in zip(alphas, given, strict=True)]
        if self.compile:
            # 0-dim tensors, not floats: code would be built anew for every value that alpha takes.
            alphas, gammas = ([_scalar(v, m[0]) for v, m in zip(vs, ms, strict=True)] for vs in (alphas, gammas))
            _compiled_filter()(thetas, grads, ms, gs, alphas, gammas)
        else:
            filter_(thetas, grads, ms, gs, alphas, gammas)

    def _alpha(self, group: Group) -> float:
        alpha = float(group["lr"])
        if self.lr_name == "flip_rate":
            return alpha_for_flips(alpha, group["gamma"])
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha (the group's lr) is {alpha}; a scheduler may set it from 0 to 1")
        return alpha


Lists = list[list[Tensor]]


def filter_(thetas: Lists, grads: Lists, ms: Lists, gs: Lists, alphas: list[float], gammas: list[float]) -> None:
    """Eqs. 11-13, group by group, each operation over all tensors of a group at a time."""
    for theta, grad, m, g, alpha, gamma in zip(thetas, grads, ms, gs, alphas, gammas, strict=True):
        torch._foreach_lerp_(m, grad, gamma)  # Eq. 11
        torch._foreach_lerp_(g, m, alpha)  # Eq. 12
        take_signs_(theta, g)  # Eq. 13


def filter_in_one_pass_(
    thetas: Lists, grads: Lists, ms: Lists, gs: Lists, alphas: list[Tensor], gammas: list[Tensor]
) -> None:
    """Eqs. 11-13, written for the compiler: all that is done to an element while it is in a register."""
    for theta_list, grad_list, m_list, g_list, alpha, gamma in zip(thetas, grads, ms, gs, alphas, gammas, strict=True):
        for theta, grad, m, g in zip(theta_list, grad_list, m_list, g_list, strict=True):
            m.lerp_(grad, gamma)  # Eq. 11
            g.lerp_(m, alpha)  # Eq. 12
            theta.copy_(torch.where(g == 0, theta, torch.where(g < 0, 1.0, -1.0)))  # Eq. 13


@functools.cache  # outside the optimizer, which must stay copyable and picklable
def _compiled_filter() -> Callable[..., None]:
    # Every list of shapes (a model, or a set of gradients that are not None) is code of its own, and torch gives up
    # after 8 by default: too few for a search over models in one process.
    return compiled(filter_in_one_pass_, dynamic=False, recompile_limit=64)


def _scalar(value: float, like: Tensor) -> Tensor:
    return torch.tensor(value, dtype=like.dtype, device=like.device)
