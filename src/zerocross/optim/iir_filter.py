"""IIRGradientFilter: any linear filter of the gradient, whose sign is the weight (Eqs. 13-14)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from zerocross.filters import IIRFilter
from zerocross.optim.base import BinaryOptimizer, Group, GroupGradients, NonFinite, state_dtype
from zerocross.optim.signs import start_signs_, take_signs_

Tensors = list[Tensor] | tuple[Tensor, ...]
Section = tuple[float, float, float, float, float]  # b0, b1, b2, a1, a2, with a0 = 1
_LARGEST_RADIUS = 1 + 1e-9  # 1 is an integrator, up to rounding


class IIRGradientFilter(BinaryOptimizer):
    """Turn the given weights into signs in place, and train them with any `IIRFilter`: theta = -sign(y) (Eq. 13).

    Each section is a difference equation (Eq. 14) in transposed direct form II; a section that is a moving average
    (b = [alpha], a = [1, alpha - 1]) is computed as one. For `cascade(ema(gamma), ema(alpha))` the arithmetic equals
    that of GradientFilter at constant alpha bit for bit. Second-order sections keep their two delays in float64: in
    float32, a Butterworth filter with its corner at 1e-4 has 1 wrong sign in 80.

    The filter is fixed: there is no alpha to decay. `lr` stays at 1; if a scheduler changes it, the next step raises an
    error.

    Args:
        params: Parameters, named parameters or param groups.
        filter: The filter, from zerocross.filters: ema(alpha), cascade(...), IIRFilter.from_sos(...) of scipy.
        nonfinite: "raise", "skip" or "ignore"; see BinaryOptimizer for this and the following arguments.
        ff_every: Count flips every ff_every steps.
        maximize: Maximize the objective instead of minimizing it.
        seed: Seed of the signs drawn for weights that are exactly zero.
        vectors: Also accept vectors, such as biases.

    Tested in tests/optim against scipy.signal.sosfilt on every weight's gradient sequence.

    Examples:
        >>> import torch
        >>> from scipy.signal import butter
        >>> from zerocross.filters import IIRFilter
        >>> from zerocross.optim import IIRGradientFilter
        >>> weight = torch.nn.Parameter(torch.tensor([[0.3, -0.2]]))
        >>> optimizer = IIRGradientFilter([weight], IIRFilter.from_sos(butter(2, 0.01, output="sos")))
        >>> weight.grad = torch.tensor([[1.0, 1.0]])
        >>> optimizer.step()
        >>> weight.tolist()
        [[-1.0, -1.0]]
    """

    kind: ClassVar[str] = "theta"

    def __init__(
        self,
        params: Any,
        filter: IIRFilter,  # noqa: A002 - the paper's term
        *,
        nonfinite: NonFinite = "raise",
        ff_every: int = 50,
        maximize: bool = False,
        seed: int = 0,
        vectors: bool = False,
    ) -> None:
        if not isinstance(filter, IIRFilter):
            raise TypeError(
                f"filter is a {type(filter).__name__}; give an IIRFilter, e.g. ema(1e-3), see zerocross.filters"
            )
        if (radius := max(abs(filter.poles), default=0.0)) > _LARGEST_RADIUS:
            raise ValueError(
                f"filter has a pole of modulus {radius:.6g}, outside the unit circle: its output grows "
                "without bound; use a stable filter, see zerocross.filters.stability"
            )
        self.filter = filter
        self._sections: list[Section] = [(b0, b1, b2, a1, a2) for b0, b1, b2, _, a1, a2 in filter.sos.tolist()]
        # torch's schedulers require an lr; _check_group raises an error if it changes.
        common: dict[str, Any] = {"nonfinite": nonfinite, "ff_every": ff_every, "maximize": maximize, "seed": seed}
        super().__init__(params, {"lr": 1.0}, **common, vectors=vectors)

    def _check_group(self, group: Group) -> None:
        if float(group["lr"]) != 1.0:
            raise ValueError(
                f"IIRGradientFilter's filter is fixed and has no alpha to decay, but lr was set to {group['lr']}; "
                "remove the scheduler from these groups, or use GradientFilter, whose alpha is its lr"
            )

    def _start(self, param: Tensor, seed: int) -> None:
        start_signs_(param, seed)

    def _new_state(self, param: Tensor, grad: Tensor, group: Group) -> dict[str, Tensor]:
        del grad, group
        return {
            name: torch.zeros_like(param, dtype=_section_dtype(section, param))
            for index, section in enumerate(self._sections)
            for name in _state_names(index, section)
        }

    def _update(self, gradients: GroupGradients) -> None:
        for group, _, _ in gradients:
            self._check_group(group)
        for _, thetas, xs in gradients:
            ys: Tensors = xs
            for index, section in enumerate(self._sections):
                state = [[self.state[theta][name] for theta in thetas] for name in _state_names(index, section)]
                ys = run_section_(section, state, ys)
            take_signs_(thetas, ys)  # Eq. 13


def run_section_(section: Section, state: list[list[Tensor]], xs: Tensors) -> Tensors:
    """One step of one section over lists of tensors: updates its state, returns its output (Eq. 14)."""
    b0, b1, b2, a1, a2 = section
    xs = [x.to(z.dtype) for x, z in zip(xs, state[0], strict=True)]
    if _is_average(section):
        torch._foreach_lerp_(state[0], xs, b0)  # Eq. 15
        return state[0]
    z1, *rest = state
    ys = torch._foreach_mul(xs, b0)
    torch._foreach_add_(ys, z1)  # y = b0 x + z1
    torch._foreach_zero_(z1)
    torch._foreach_add_(z1, xs, alpha=b1)
    torch._foreach_add_(z1, ys, alpha=-a1)  # z1 = b1 x - a1 y (+ z2)
    if rest:
        (z2,) = rest
        torch._foreach_add_(z1, z2)
        torch._foreach_zero_(z2)
        torch._foreach_add_(z2, xs, alpha=b2)
        torch._foreach_add_(z2, ys, alpha=-a2)  # z2 = b2 x - a2 y
    return ys


def _is_average(section: Section) -> bool:
    b0, b1, b2, a1, a2 = section
    return b1 == b2 == a2 == 0 and a1 == b0 - 1


def _is_second_order(section: Section) -> bool:
    return bool(section[2] or section[4])


def _section_dtype(section: Section, param: Tensor) -> torch.dtype:
    return torch.float64 if _is_second_order(section) else state_dtype(param)


def _state_names(index: int, section: Section) -> list[str]:
    """Return the state of a section per weight: its output if it is an average, else one or two delays."""
    if _is_average(section):
        return [f"y{index}"]
    return [f"z{index}_1", f"z{index}_2"] if _is_second_order(section) else [f"z{index}_1"]
