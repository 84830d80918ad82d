"""GradientFilter: the paper's optimizer, two moving averages in series whose sign is the weight (Eqs. 11-13)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor

from zerocross.compiler import compiled
from zerocross.filters.flips import alpha_for_flips
from zerocross.optim.base import BinaryOptimizer, Group, GroupGradients, NonFinite, renamed, state_dtype
from zerocross.optim.flip_control import Control, new_control, steer_, steered
from zerocross.optim.normalize import Normalize, check_normalize, new_rms, normalized
from zerocross.optim.rounding import RoundedGroup, RoundedStep, cuts_rows, new_pairs
from zerocross.optim.shards import local
from zerocross.optim.signs import count_flips, negative, start_signs_, take_signs_


class GradientFilter(BinaryOptimizer):
    """Turn the given weights into signs in place, and flip each when its filtered gradient crosses zero.

    Quist et al., *Understanding weight-magnitude hyperparameters in training binary networks*, ICLR 2023::

        m = (1 - gamma) m + gamma grad      Eq. 11
        g = (1 - alpha) g + alpha m         Eq. 12
        theta = -sign(g)                    Eq. 13; a weight whose g is exactly 0 keeps its sign

    Constructing it replaces each parameter by its sign, in {-1, +1} (exact zeros get a random sign), so the weight of
    any layer becomes binary. From then on the parameter holds theta. m and g start at zero, without bias correction,
    since gradients are already large in the first steps (the paper, below Eq. 7).

    `flip_rate` replaces alpha by the share of weights that noise flips at each step: alpha is then computed from it and
    gamma (`zerocross.filters.alpha_for_flips`), and with `gamma=None` both discounts are. That is an open loop:
    gradients that are not noise flip weights at another rate. With `control` the loop is closed: flips are counted at
    every step, and a correction of alpha is raised or lowered until the measured rate is the requested one.

    alpha, or the flip rate, is stored in the param group's `lr`, so that any torch scheduler implements alpha-decay. A
    step at 0 updates m only. Schedulers that write absolute values (OneCycleLR, CyclicLR, SWALR, eta_min) need one
    value per group; the first value above the initial one triggers a warning.

    Args:
        params: Parameters, named parameters or param groups; a group may set its own `alpha` (or `flip_rate`),
            `gamma` and `vectors`.
        alpha: The outer discount, in (0, 1]; SGD's lr * weight_decay in the paper's reading. 1e-20 is pure summation.
            Default: 1e-3, unless `flip_rate` is given.
        gamma: The inner discount, in (0, 1]; torch's momentum 0.9 is gamma = 0.1. None (with a flip rate): as alpha.
        flip_rate: Replaces alpha: flips per weight and step under noise, above 0 and at most arccos(1 - gamma) / pi, or
            0.5 with `gamma=None`. 3.2e-3 is the paper's alpha = 1e-3 with gamma = 0.1.
        control: "open": alpha is computed from the flip rate. "closed": alpha is adjusted to the measured flips, one
            alpha per group. "layer": one alpha per tensor, so that all layers flip at the same rate. The last two count
            flips at every step.
        normalize: Normalisation of gradients before the filter. None (the paper): none. "rms": divide by the running
            rms of the tensor, an average over 10 steps. "sign": replace by the sign. "adam": divide each element by its
            own running rms, over 1,000 steps.
        warm_start: c >= 0. g starts at -c * rms(first gradient) * theta, so that trained signs survive the first
            updates. With 0 (the paper) the first update sets theta = -sign(gradient) and flips half of all signs: right
            for training from scratch, fatal for fine-tuning. Under pure noise g has a standard deviation of about
            rms * sqrt(alpha / 2), so c = 3 * sqrt(alpha / 2) keeps a sign until the mean gradient disagrees: at
            alpha = 1e-3 no sign flips in 100 updates, 0.03 % in 300, and 11 % in 1,000, a whole window.
        state_dtype: None: m and g are float32 (or float64, as the weight is), 8 bytes a weight. torch.bfloat16: 4
            bytes, rounded at random without bias; the random bits are a function of the seed, the step and the weight's
            index, the same on all devices and ranks. Both are then in one tensor of the state, `mg`; all arithmetic is
            in float32. Meant for `compile=True`: compiled it is the faster of the two, otherwise the slower.
        compile: Run the update as one compiled pass over memory (torch.compile; up to a minute at the first step).
        capturable: Allow the step to be captured in a CUDA graph: alpha and the step count become tensors on the
            weights' device, and no value is read. Needs alpha (not `flip_rate`) and `nonfinite` "skip" or "ignore".
            Schedulers write alpha in place. Flips are counted at every step if `ff_every` is 1, otherwise not at all.
            Run a step or more before the capture: the first one creates the state.
        nonfinite: "raise", "skip" or "ignore"; see BinaryOptimizer for this and the following arguments.
        ff_every: Count flips every ff_every steps.
        maximize: Maximize the objective instead of minimizing it.
        seed: Seed of the signs drawn for weights that are exactly zero, and of random rounding.
        vectors: Also accept vectors, such as biases.

    Tested in tests/optim against a naive implementation, scipy's lfilter and, sign by sign, latent-weight SGD.

    Examples:
        >>> import torch
        >>> import zerocross
        >>> layer = torch.nn.Linear(4, 4, bias=False)
        >>> optimizer = zerocross.GradientFilter(layer.parameters(), alpha=1e-2, gamma=0.1, ff_every=1)
        >>> layer.weight.grad = layer.weight.detach().clone()  # opposes every weight
        >>> optimizer.step()
        >>> zerocross.ff_ratio(optimizer)
        1.0
    """

    kind: ClassVar[str] = "theta"
    lr_name = "alpha"
    _rounded: RoundedStep | None = None  # with bfloat16 state; made again in copies

    def __init__(
        self,
        params: Any,
        alpha: float | None = None,
        gamma: float | None = 0.1,
        *,
        flip_rate: float | None = None,
        control: Control = "open",
        normalize: Normalize | None = None,
        warm_start: float = 0.0,
        state_dtype: torch.dtype | None = None,
        compile: bool = False,  # noqa: A002 - as in torch
        capturable: bool = False,
        nonfinite: NonFinite = "raise",
        ff_every: int = 50,
        maximize: bool = False,
        seed: int = 0,
        vectors: bool = False,
    ) -> None:
        if not warm_start >= 0:
            raise ValueError(f"warm_start is {warm_start}; it must be 0 (the paper's start) or a positive factor")
        if alpha is not None and flip_rate is not None:
            raise ValueError(f"alpha is {alpha} and flip_rate {flip_rate}: they set the same value, use one of them")
        if control not in get_args(Control):
            raise ValueError(f"control is {control!r}; it must be 'open', 'closed' or 'layer'")
        if control != "open" and flip_rate is None:
            raise ValueError(f"control is {control!r}, which steers alpha towards a flip rate: give flip_rate=")
        if state_dtype not in {None, torch.bfloat16}:
            raise ValueError(
                f"state_dtype is {state_dtype}; it must be None (float32, or float64 for float64 weights) or "
                "torch.bfloat16"
            )
        if capturable and flip_rate is not None:
            raise ValueError("capturable=True needs alpha=: a flip rate is turned into alpha outside of the device")
        check_normalize(normalize)
        self.control: Control = control
        self.normalize: Normalize | None = normalize
        self.warm_start = warm_start
        self.state_dtype = state_dtype
        self.compile = compile
        self.lr_name = "alpha" if flip_rate is None else "flip_rate"
        alpha = 1e-3 if alpha is None else alpha
        defaults = {"lr": alpha if flip_rate is None else flip_rate, "gamma": gamma}
        common: dict[str, Any] = {"nonfinite": nonfinite, "ff_every": ff_every, "maximize": maximize, "seed": seed}
        super().__init__(params, defaults, **common, vectors=vectors, capturable=capturable)

    def add_param_group(self, param_group: Group) -> None:
        """Add a param group; its `lr` may be called `alpha`, or `flip_rate` in an optimizer that was given one."""
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
        g = None
        if self.warm_start > 0:
            # In float32 a square overflows at 2e19; a normalised gradient has an rms of 1.
            rms = 1.0 if self.normalize else grad.double().square().mean().sqrt().to(m.dtype)
            g = -self.warm_start * rms * param.detach().to(m.dtype)
        if self.state_dtype is None:
            state = {"m": m, "g": torch.zeros_like(m) if g is None else g}
        else:
            state = {"mg": new_pairs(param.detach(), g)}
        state |= new_rms(m, self.normalize)
        return state | (new_control(m) if self.control != "open" else {})

    def _check_saved(self, state_dict: dict[str, Any]) -> None:
        like = torch.empty(0)
        averages = ("m", "g") if self.state_dtype is None else ("mg",)
        own = {*averages, *new_rms(like, self.normalize), *(new_control(like) if self.control != "open" else ())}
        for state in state_dict["state"].values():
            if (saved := set(state) - {"flips"}) != own:
                raise ValueError(
                    f"this state_dict has {', '.join(sorted(saved))} for a weight, this GradientFilter "
                    f"(control={self.control!r}, normalize={self.normalize!r}, state_dtype={self.state_dtype}) has "
                    f"{', '.join(sorted(own))}: construct it with the control, normalize and state_dtype of the one "
                    "that was saved"
                )

    def _update(self, gradients: GroupGradients) -> None:
        if self.normalize is not None:
            how = self.normalize
            gradients = [(group, ps, normalized(xs, [self.state[p] for p in ps], how)) for group, ps, xs in gradients]
        if self.control == "layer":  # each tensor as if it were a group
            gradients = [(group, [p], [x]) for group, ps, xs in gradients for p, x in zip(ps, xs, strict=True)]
        alphas = [self._alpha(group) for group, _, _ in gradients]
        if self.control == "open":
            self._filter(gradients, alphas)
        else:
            self._filter_and_steer(gradients, alphas)

    def _filter(self, gradients: GroupGradients, alphas: list[Any]) -> None:
        given = [group["gamma"] for group, _, _ in gradients]
        gammas = [alpha if gamma is None else float(gamma) for alpha, gamma in zip(alphas, given, strict=True)]
        thetas, grads = [params for _, params, _ in gradients], [grads for _, _, grads in gradients]
        if self.state_dtype is not None:
            self._filter_rounded(gradients, alphas, gammas)
            return
        ms, gs = ([[local(self.state[p][key]) for p in params] for params in thetas] for key in ("m", "g"))
        # Every rank filters its own shards: no element depends on another.
        thetas, grads = ([[local(x) for x in tensors] for tensors in lists] for lists in (thetas, grads))
        if not (self.compile or self.capturable) and self.control == "open":
            filter_(thetas, grads, ms, gs, alphas, gammas)
            return
        # 0-dim tensors, not floats, for which torch would recompile at every new value of alpha.
        alphas, gammas = (
            [_scalar(v, m[0].dtype, m[0].device) for v, m in zip(vs, ms, strict=True)] for vs in (alphas, gammas)
        )
        one_pass = _compiled_filter() if self.compile else filter_in_one_pass_
        one_pass(thetas, grads, ms, gs, alphas, gammas)

    def _filter_rounded(self, gradients: GroupGradients, alphas: list[Any], gammas: list[Any]) -> None:
        step = self._rounded
        if step is None or not step.fits(*self._weights_and_state(gradients)):
            if any(cuts_rows(p) for _, params, _ in gradients for p in params):
                counts = [len(params) for _, params, _ in gradients]
                gradients = [(group, [p], [x]) for group, ps, xs in gradients for p, x in zip(ps, xs, strict=True)]
                alphas, gammas = (
                    [v for v, count in zip(vs, counts, strict=True) for _ in range(count)] for vs in (alphas, gammas)
                )
            places = {p: i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
            step = self._rounded = RoundedStep(
                [
                    RoundedGroup(params, pairs, [self.seed + places[p] for p in params])
                    for params, pairs in zip(*self._weights_and_state(gradients), strict=True)
                ]
            )
        skipped = self.param_groups[0].get("skipped", 0)  # leaves no trace
        step(
            [grads for _, _, grads in gradients],
            [group["step"] - skipped for group, _, _ in gradients],
            [_scalar(v, torch.float32, each.device) for v, each in zip(alphas, step.groups, strict=True)],
            [_scalar(v, torch.float32, each.device) for v, each in zip(gammas, step.groups, strict=True)],
            self.compile,
        )

    def _weights_and_state(self, gradients: GroupGradients) -> tuple[list[list[Tensor]], list[list[Tensor]]]:
        thetas = [params for _, params, _ in gradients]
        return thetas, [[self.state[p]["mg"] for p in params] for params in thetas]

    def _filter_and_steer(self, gradients: GroupGradients, alphas: list[float]) -> None:
        # All tensors of a group share one control; if gradients are missing, the first tensor with one decides.
        leads = [self.state[params[0]] for _, params, _ in gradients]
        before = [[negative(p) for p in params] for _, params, _ in gradients]
        self._filter(gradients, [steered(a, lead["correction"]) for a, lead in zip(alphas, leads, strict=True)])
        for (group, params, _), masks, lead, alpha in zip(gradients, before, leads, alphas, strict=True):
            if alpha > 0:
                counts = [count_flips(mask, negative(p)) for mask, p in zip(masks, params, strict=True)]
                flips = torch.stack([count.to(lead["ratio"]) for count in counts]).sum()
                requested = float(group["lr"]) * max(sum(p.numel() for p in params), 1)
                steer_(lead["correction"], lead["ratio"], flips, requested, alpha)
                for key in ("correction", "ratio"):
                    for p in params[1:]:
                        self.state[p][key].copy_(lead[key])

    def _alpha(self, group: Group) -> Any:
        if self.capturable:
            return group["lr"].clamp(0, 1)  # the check below would read it
        alpha = float(group["lr"])
        if self.lr_name == "flip_rate":
            return alpha_for_flips(alpha, group["gamma"])
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha (the group's lr) is {alpha}; it must stay in [0, 1]: check the scheduler")
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
    """Eqs. 11-13 element by element, for the compiler to fuse into one pass."""
    for theta_list, grad_list, m_list, g_list, alpha, gamma in zip(thetas, grads, ms, gs, alphas, gammas, strict=True):
        for theta, grad, m, g in zip(theta_list, grad_list, m_list, g_list, strict=True):
            m.lerp_(grad, gamma.to(m))  # Eq. 11
            g.lerp_(m, alpha.to(g))  # Eq. 12
            theta.copy_(torch.where(g == 0, theta, torch.where(g < 0, 1.0, -1.0)))  # Eq. 13


@functools.cache  # outside the optimizer, which must stay copyable and picklable
def _compiled_filter() -> Callable[..., None]:
    # Every list of shapes (a model, or a set of gradients that are not None) is compiled separately, and torch stops
    # compiling after 8 by default: too few for a search over models in one process.
    return compiled(filter_in_one_pass_, dynamic=False, recompile_limit=64)


def _scalar(value: float | Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
    return value.to(device, dtype) if isinstance(value, Tensor) else _number(value, dtype, device)


@functools.lru_cache(maxsize=64)  # gamma, and alpha between two changes by a scheduler
def _number(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.full((), value, dtype=dtype, device=device)
