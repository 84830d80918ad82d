"""Equivalence of latent-weight SGD and filters, for the paper's SGD (Eq. 3) and for torch's.

In both, learning rate and weight decay determine the poles. They differ: the paper applies weight decay after the
momentum, torch before it, and torch's momentum is a sum, the paper's an average.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zerocross.filters.iir import IIRFilter, cascade, discount_pair, ema


class LatentSettings(NamedTuple):
    """Settings of the paper's latent SGD (Eqs. 2 and 3); `from_latent(*settings)` returns its filter.

    Examples:
        >>> from zerocross.filters import LatentSettings, from_latent
        >>> from_latent(*LatentSettings(lr=0.1, weight_decay=1e-2, gamma=0.1)).order
        2
    """

    lr: float
    weight_decay: float
    gamma: float

    @property
    def momentum(self) -> float:
        """1 - gamma, as other libraries define it."""
        return 1 - self.gamma


class SGDSettings(NamedTuple):
    """Settings of `torch.optim.SGD` (`SGD(params, **settings._asdict())`); `from_sgd(*settings)` returns its filter.

    Examples:
        >>> from zerocross.filters import SGDSettings, from_sgd
        >>> from_sgd(*SGDSettings(lr=0.1, momentum=0.9, weight_decay=1e-4)).order
        2
    """

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False


def from_latent(lr: float, weight_decay: float, gamma: float) -> IIRFilter:
    """Return the filter of the paper's latent SGD (Eqs. 2, 3): w_i = w_{i-1} - lr (m_i + wd w_{i-1}), m an EMA.

    `cascade(ema(gamma), ema(alpha))` with alpha = lr * weight_decay (Eqs. 9-12); its output is -weight_decay * w.
    Without weight decay it is an integrator behind the EMA, and its output is -w.

    Args:
        lr: epsilon, above 0.
        weight_decay: lambda, from 0 to 1 / lr.
        gamma: 1 - momentum, in (0, 1].

    Examples:
        >>> from zerocross.filters import from_latent
        >>> from_latent(lr=0.1, weight_decay=1e-2, gamma=0.1)
        IIRFilter(order=2, poles=[0.999, 0.9], dc_gain=1)
    """
    _check_rates(lr, weight_decay)
    if lr * weight_decay > 1:
        raise ValueError(
            f"lr {lr} * weight_decay {weight_decay} = {lr * weight_decay:.6g} is alpha, which must be at most 1, or "
            "weight decay alone flips signs; lower one of them"
        )
    if weight_decay == 0:
        return cascade(ema(gamma), _first_order(lr, 0.0, pole=1.0))
    return cascade(ema(gamma), ema(lr * weight_decay))


def to_latent(alpha: float, gamma: float, lr: float) -> LatentSettings:
    """Return the paper's latent SGD with the signs of `cascade(ema(gamma), ema(alpha))`, for any lr (Eq. 8).

    Args:
        alpha: discount of the outer EMA, in (0, 1].
        gamma: discount of the inner EMA, in (0, 1].
        lr: epsilon, above 0; weight_decay = alpha / lr.

    Examples:
        >>> from zerocross.filters import to_latent
        >>> to_latent(alpha=1e-3, gamma=0.1, lr=0.5)
        LatentSettings(lr=0.5, weight_decay=0.002, gamma=0.1)
    """
    _check_discounts(alpha, gamma)
    _check_rates(lr, 0.0)
    return LatentSettings(lr=lr, weight_decay=alpha / lr, gamma=gamma)


def from_sgd(
    lr: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
) -> IIRFilter:
    """Return the filter that is equivalent to `torch.optim.SGD` at constant lr: its output is -w, including scale.

    With s = lr wd (1 - dampening), mu = momentum, and discounts alpha <= gamma (1 - pole):

        plain     b = lr (1 - dampening),   alpha gamma = s,      (1 - alpha)(1 - gamma) = mu
        Nesterov  b = lr [1 + mu, -mu],     alpha gamma = lr wd,  (1 - alpha)(1 - gamma) = mu (1 - lr wd)
        mu = 0    b = lr,                   alpha = lr wd,        dampening is ignored, as torch does

    Real poles, s <= (1 - sqrt mu)^2, are two first-order sections; complex ones a second-order section. Weight decay 0
    is an integrator. For dampening see `sgd_input`, for a start other than w = 0 `initial_state`. tests/filters
    compares it with the real torch.optim.SGD.

    Args:
        lr: above 0.
        momentum: mu, in [0, 1).
        weight_decay: 0 or more.
        dampening: in [0, 1).
        nesterov: only with momentum, and without dampening.

    Examples:
        >>> from zerocross.filters import alpha_gamma, from_sgd
        >>> alpha, gamma = alpha_gamma(from_sgd(lr=0.1, momentum=0.9, weight_decay=1e-4))
        >>> f"{alpha:.4e}, {gamma:.4f}"
        '1.0009e-04, 0.0999'
    """
    _check_sgd(lr, momentum, weight_decay, dampening, nesterov)
    decay = lr * weight_decay
    if momentum == 0:
        return _first_order(lr, 0.0, pole=1 - decay)
    if nesterov:
        b0, b1 = lr * (1 + momentum), -lr * momentum
        product, total = decay, (1 - momentum) + decay * (1 + momentum)
    else:
        b0, b1 = lr * (1 - dampening), 0.0
        product = decay * (1 - dampening)
        total = (1 - momentum) + product
    alpha, gamma = discount_pair(total, product).tolist()
    if alpha.imag:
        return IIRFilter(((b0, b1, 0.0, 1.0, total - 2, 1 - total + product),))
    return cascade(_first_order(b0, b1, pole=1 - gamma.real), _first_order(1.0, 0.0, pole=1 - alpha.real))


def to_sgd(alpha: float, gamma: float, lr: float) -> SGDSettings:
    """Return `torch.optim.SGD` settings with the signs of `cascade(ema(gamma), ema(alpha))`, for any lr.

    momentum = (1 - alpha)(1 - gamma), weight_decay = alpha gamma / lr: the same poles, with an output scaled by 1 /
    weight_decay.

    Args:
        alpha: discount of one EMA, in (0, 1].
        gamma: discount of the other, in (0, 1].
        lr: above 0.

    Examples:
        >>> from zerocross.filters import to_sgd
        >>> settings = to_sgd(alpha=1e-3, gamma=0.1, lr=0.1)
        >>> f"momentum {settings.momentum:.4f}, weight decay {settings.weight_decay:.4f}"
        'momentum 0.8991, weight decay 0.0010'
    """
    _check_discounts(alpha, gamma)
    _check_rates(lr, 0.0)
    return SGDSettings(lr=lr, momentum=(1 - alpha) * (1 - gamma), weight_decay=alpha * gamma / lr)


def alpha_gamma(filt: IIRFilter) -> tuple[float, float]:
    """Return the discounts (alpha, gamma) of the two EMAs with the same poles as a filter; alpha is the smaller.

    gamma is 1 for a first-order filter, alpha is 0 for an integrator. Zeros (as in Nesterov's filter) are ignored.

    Raises:
        ValueError: if the filter has more than two poles, complex ones, or one outside [0, 1].

    Examples:
        >>> from zerocross.filters import alpha_gamma, cascade, ema
        >>> [round(value, 6) for value in alpha_gamma(cascade(ema(0.1), ema(1e-3)))]
        [0.001, 0.1]
    """
    discounts = filt.discounts
    if len(discounts) > 2:
        raise ValueError(
            f"{filt!r} has {len(discounts)} poles, but alpha and gamma describe two: use filt.poles instead"
        )
    if (discounts.imag != 0).any():
        p = filt.poles[0]
        raise ValueError(
            f"complex poles {p.real:.6g} +- {abs(p.imag):.6g}j: no pair of EMAs has them. With s = alpha * gamma and "
            f"mu = (1 - alpha)(1 - gamma), poles are real while s <= (1 - sqrt mu)^2; here s = "
            f"{abs(discounts[0]) ** 2:.4g}, mu = {abs(p) ** 2:.4g}, (1 - sqrt mu)^2 = {(1 - abs(p)) ** 2:.4g}. Lower "
            "lr * weight_decay, or use the filter itself"
        )
    alpha, gamma = sorted([*discounts.real.tolist(), 1.0, 1.0][:2])
    if alpha < 0 or gamma > 1 + 1e-12:  # rounding may leave a pole of 0 just below it
        raise ValueError(f"poles {filt.poles.real.tolist()}: an EMA's pole, 1 - alpha, is in [0, 1]")
    return alpha, min(gamma, 1.0)


def sgd_input(gradients: ArrayLike, momentum: float, dampening: float) -> NDArray[np.float64]:
    """Return gradients (time first) as input for `from_sgd`'s filter: torch does not dampen the very first one.

    x_0 / (1 - dampening); unchanged without momentum, in which case torch ignores dampening.

    Examples:
        >>> from zerocross.filters import sgd_input
        >>> sgd_input([1.0, 1.0, 1.0], momentum=0.9, dampening=0.5)
        array([2., 1., 1.])
    """
    if not 0 <= dampening < 1:
        raise ValueError(f"dampening {dampening} is outside [0, 1)")
    x = np.array(gradients, dtype=np.float64)
    if momentum != 0:
        x[:1] /= 1 - dampening
    return x


def initial_state(settings: LatentSettings | SGDSettings, w0: ArrayLike) -> NDArray[np.float64]:
    """Return the state of the filter of these settings that corresponds to initial latent weights w0.

    For `scipy.signal.sosfilt(filt.sos, gradients, axis=0, zi=state)`, time first, with `filt = from_latent(*settings)`
    or `from_sgd(*settings)`; without gradients its output is then that of the latent weight, as decay moves it.
    In torch's SGD the decayed w0 enters the momentum, too, and the first time undampened.

    Args:
        settings: of the paper's latent SGD or of torch's.
        w0: a number or an array of latent weights.

    Returns:
        An array of shape (sections, 2, *w0.shape).

    Examples:
        >>> from zerocross.filters import LatentSettings, initial_state
        >>> initial_state(LatentSettings(lr=0.1, weight_decay=1e-2, gamma=0.1), w0=[0.5, -0.5]).shape
        (2, 2, 2)
    """
    if isinstance(settings, LatentSettings):
        (_, alpha_stage), scale = from_latent(*settings).sections, settings.weight_decay or 1.0
        rows = [[0.0, 0.0], [alpha_stage[4] * scale, 0.0]]  # m_{-1} = 0, g_{-1} = -lambda w_0 (Eqs. 1, 10)
    else:
        # y_{-1} = -w0, no velocity yet. The first step fixes a2 y_{-2} = held * y_{-1}, whatever a2 is.
        (_, _, _, _, a1, a2), *rest = from_sgd(*settings).sections
        held = (
            settings.momentum + settings.lr * settings.weight_decay * settings.dampening if settings.momentum else 0.0
        )
        rows = [[a1 + held, a2], *([stage[4], 0.0] for stage in rest)]
    return np.multiply.outer(np.array(rows), np.asarray(w0, dtype=np.float64))


def _first_order(b0: float, b1: float, pole: float) -> IIRFilter:
    return IIRFilter(((b0, b1, 0.0, 1.0, -pole, 0.0),))


def _check_rates(lr: float, weight_decay: float) -> None:
    if not 0 < lr < math.inf:
        raise ValueError(f"lr {lr} must be above 0 and finite")
    if not 0 <= weight_decay < math.inf:
        raise ValueError(f"weight_decay {weight_decay} must be 0 or more and finite")


def _check_sgd(lr: float, momentum: float, weight_decay: float, dampening: float, nesterov: bool) -> None:
    _check_rates(lr, weight_decay)
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum {momentum} is outside [0, 1)")
    if not 0 <= dampening < 1:
        raise ValueError(f"dampening {dampening} is outside [0, 1); at 1, all gradients but the first are ignored")
    if nesterov and (momentum == 0 or dampening != 0):
        raise ValueError(
            f"nesterov with momentum {momentum} and dampening {dampening}: torch allows it only with a momentum above "
            "0 and dampening 0"
        )


def _check_discounts(alpha: float, gamma: float) -> None:
    for name, value in (("alpha", alpha), ("gamma", gamma)):
        if not 0 < value <= 1:
            raise ValueError(f"{name} {value} is outside (0, 1]; alpha = lr * weight_decay, gamma = 1 - momentum")
