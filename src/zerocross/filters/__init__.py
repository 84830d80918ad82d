"""The signal processing behind binary training: filters, what they do to gradients, and what SGD they are.

Needs numpy and scipy only. `cascade(ema(gamma), ema(alpha))` is the paper's optimizer, `from_sgd(...)` the filter that
`torch.optim.SGD` is, and `describe(filt)` says how long, how late and how noisily a filter remembers.
"""

from __future__ import annotations

from zerocross.filters.equivalence import (
    LatentSettings,
    SGDSettings,
    alpha_gamma,
    from_latent,
    from_sgd,
    initial_state,
    sgd_input,
    to_latent,
    to_sgd,
)
from zerocross.filters.flips import alpha_for_flips, most_flips
from zerocross.filters.iir import IIRFilter, cascade, ema
from zerocross.filters.response import (
    OrderComparison,
    Response,
    compare_orders,
    describe,
    flip_rate,
    frequency_response,
    half_life,
    impulse_response,
    mean_delay,
    noise_gain,
    reversal,
    stability,
    window,
)

__all__ = [
    "IIRFilter",
    "ema",
    "cascade",
    "from_sgd",
    "from_latent",
    "to_latent",
    "to_sgd",
    "alpha_gamma",
    "initial_state",
    "sgd_input",
    "LatentSettings",
    "SGDSettings",
    "describe",
    "Response",
    "impulse_response",
    "frequency_response",
    "stability",
    "mean_delay",
    "window",
    "half_life",
    "reversal",
    "noise_gain",
    "flip_rate",
    "alpha_for_flips",
    "most_flips",
    "compare_orders",
    "OrderComparison",
]
