"""zerocross: a binary weight flips when its filtered gradient crosses zero.

Public names are imported on first use (PEP 562), so that `import zerocross` is fast and packages that do not need torch
(`filters`, `runtime`) work without it; the others name the extra that they require.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from zerocross.extras import named

__version__ = "0.1.0"

_HOME = {
    "GradientFilter": "zerocross.optim",
    "HybridOptimizer": "zerocross.optim",
    "split_params": "zerocross.optim",
    "ff_ratio": "zerocross.optim",
    "binarize": "zerocross.nn",
    "check": "zerocross.nn",
    "summary": "zerocross.nn",
}
_PARTS = ("bench", "data", "deploy", "filters", "hub", "models", "nn", "optim", "runtime", "train", "tune", "zoo")

__all__ = [
    "GradientFilter",
    "HybridOptimizer",
    "__version__",
    "bench",
    "binarize",
    "check",
    "data",
    "deploy",
    "ff_ratio",
    "filters",
    "hub",
    "models",
    "nn",
    "optim",
    "runtime",
    "split_params",
    "summary",
    "train",
    "tune",
    "zoo",
]

if TYPE_CHECKING:
    from zerocross import bench, data, deploy, filters, hub, models, nn, optim, runtime, train, tune, zoo
    from zerocross.nn import binarize, check, summary
    from zerocross.optim import GradientFilter, HybridOptimizer, ff_ratio, split_params


def __getattr__(name: str) -> Any:
    with named():
        if name in _HOME:
            return getattr(import_module(_HOME[name]), name)
        if name in _PARTS:
            return import_module(f"zerocross.{name}")
    raise AttributeError(f"module 'zerocross' has no attribute {name!r}; it has {', '.join(sorted(__all__))}")


def __dir__() -> list[str]:
    return sorted(__all__)
