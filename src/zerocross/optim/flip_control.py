"""Closed loop: adjust alpha until the measured flip ratio equals the requested flip rate."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

Control = Literal["open", "closed", "layer"]

_GAIN = 0.1  # of log alpha, per step: fast compared with a run, slow compared with the average of the measurement
_SMOOTHING = 0.1  # discount of the measured ratio; equal to the gain, so that the loop is damped (0.5) without ringing
_LIMIT = math.log(1e3)  # limits the correction of a layer that does not respond (frozen gradients)


def new_control(like: Tensor) -> dict[str, Tensor]:
    """Return the state of a loop: the correction of log alpha, and the measured flip ratio over the requested rate.

    The ratio is -1 before the first update, which is not measured: from a filter at zero it flips half of all weights,
    for any alpha.
    """
    zero = torch.zeros((), dtype=like.dtype, device=like.device)
    return {"correction": zero, "ratio": zero - 1}


def steered(alpha: float, correction: Tensor) -> Tensor:
    """Return the corrected alpha: the open loop follows the schedule, the correction removes its remaining error."""
    return (alpha * correction.exp()).clamp(max=1.0)


def steer_(correction: Tensor, ratio: Tensor, flips: Tensor, flips_requested: float, alpha: float) -> None:
    """Integral control: move log alpha against the smoothed error, on the device and without a sync.

    Args:
        correction: The correction of log alpha; changed in place.
        ratio: Flips over requested flips, averaged; changed in place.
        flips: Flips in this update, 0-dim.
        flips_requested: The flip rate times the number of weights, above 0.
        alpha: The alpha of the open loop, which the correction may not raise above 1.
    """
    measured = ratio.lerp(flips.to(ratio) / flips_requested, _SMOOTHING)
    ratio.copy_(torch.where(ratio < 0, 1.0, measured))
    correction.add_((1 - ratio).clamp(-1.0, 1.0), alpha=_GAIN)
    correction.clamp_(-_LIMIT, min(_LIMIT, -math.log(alpha)))
