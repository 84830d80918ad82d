"""Named search spaces: those of the paper, over fields of a training config.

The paper searches six settings of latent weights (its Table 1 without learning-rate decay) and two of the filter; it
does not state the ranges. Those here span at least two decades around the values used in the literature, with the
latent range of lr * weight_decay covering that of alpha. "latent" scales as published code does, with the gradient
passed unscaled; "latent-magnitude-aware" multiplies the gradient by the scale, as Larq does. "flip" is the filter with
one number, its flip rate, at gamma = 0.1. "latent-narrow" has the ranges that an expert would choose, a decade or two
around published recipes; "latent-wide" those of "latent", ten times wider at both ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from zerocross.tune.space import Parameter, SearchSpace, read

Ends = tuple[float, float]


def _latent(
    scale: str = "channel_mean",
    lr: Ends = (1e-3, 10.0),
    start: Ends = (1e-4, 1.0),
    gamma: Ends = (1e-2, 1.0),
    weight_decay: Ends = (1e-6, 1e-1),
) -> SearchSpace:
    """Return the space of six settings of latent weights, with or without this scaling; gamma is 1 - momentum."""
    return SearchSpace(
        (
            Parameter("optimizer.lr", *lr, log=True),
            Parameter("optimizer.start", *start, log=True),
            Parameter("optimizer.gamma", *gamma, log=True),
            Parameter("optimizer.weight_decay", *weight_decay, log=True),
            Parameter("model.options.scale", choices=("none", scale)),
            Parameter("optimizer.clip", choices=(None, 1.0)),
        ),
        fixed={"method": "latent-sgd"},
    )


SPACES: Mapping[str, SearchSpace] = MappingProxyType(
    {
        "filter": SearchSpace(
            (
                Parameter("optimizer.alpha", 1e-5, 1e-1, log=True),
                Parameter("optimizer.gamma", 1e-2, 1.0, log=True),
            ),
            fixed={"method": "filter"},
        ),
        "flip": SearchSpace((Parameter("optimizer.flip_rate", 1e-3, 1e-1, log=True),), fixed={"method": "flip"}),
        "latent": _latent(),
        "latent-narrow": _latent(lr=(0.03, 0.3), start=(1e-2, 0.3), gamma=(0.05, 0.2), weight_decay=(1e-5, 1e-3)),
        "latent-wide": _latent(lr=(1e-4, 100.0), start=(1e-5, 10.0), gamma=(1e-3, 1.0), weight_decay=(1e-7, 1.0)),
        "latent-magnitude-aware": _latent("magnitude_aware"),
    }
)
"""Name -> search space, as `zerocross tune --space NAME` takes it.

Examples:
    >>> from zerocross import tune
    >>> tune.SPACES["filter"].names
    ['optimizer.alpha', 'optimizer.gamma']
"""


def get(name: str) -> SearchSpace:
    """Return a search space by name, or from a JSON file."""
    if name in SPACES:
        return SPACES[name]
    if not Path(name).is_file():
        raise ValueError(f"space {name!r} is neither one of {', '.join(SPACES)} nor a file")
    return read(Path(name))
