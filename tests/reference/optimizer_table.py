"""The optimizers under contract, one row each, and the data with which they are tested.

A new optimizer is one more row: all tests of tests/optim/test_optim_contract*.py then cover it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from scipy.signal import butter
from torch import Tensor, nn

from zerocross.filters import IIRFilter, cascade, ema
from zerocross.optim import (
    BOLD,
    BayesBiNN,
    BinaryOptimizer,
    Bop,
    Bop2ndOrder,
    CascadeFilter,
    GradientFilter,
    IIRGradientFilter,
    LatentSGD,
    OvSW,
)


@dataclass(frozen=True)
class Row:
    """One optimizer under contract.

    Args:
        build: Function of (parameters or groups, further arguments) that returns the optimizer.
        kind: "theta" or "latent".
        own: Options of a parameter group that differ from the defaults.
        invalid: Arguments out of range, and a word that the error message must contain.
        schedulable: True if its lr may be scheduled.
        kept: Arguments with which its construction does not change weights, if needed.
        compiled: True if it compiles code, which makes tests slow.
    """

    build: Callable[..., BinaryOptimizer]
    kind: str = "theta"
    own: dict[str, Any] = field(default_factory=dict)
    invalid: tuple[tuple[dict[str, Any], str], ...] = ()
    schedulable: bool = True
    kept: dict[str, Any] = field(default_factory=dict)
    compiled: bool = False


def _filtered(**settings: Any) -> Callable[..., BinaryOptimizer]:
    return lambda params, **more: GradientFilter(params, **{**settings, **more})


def _latent(**settings: Any) -> Callable[..., BinaryOptimizer]:
    return lambda params, **more: LatentSGD(params, **{**settings, **more})


def _fixed(filt: IIRFilter) -> Callable[..., BinaryOptimizer]:
    return lambda params, **more: IIRGradientFilter(params, filt, **more)


def _cascade(**settings: Any) -> Callable[..., BinaryOptimizer]:
    return lambda params, **more: CascadeFilter(params, **{**settings, **more})


def _bop(**settings: Any) -> Callable[..., BinaryOptimizer]:
    return lambda params, **more: Bop(params, **{**settings, **more})


def _bop2ndorder(**settings: Any) -> Callable[..., BinaryOptimizer]:
    return lambda params, **more: Bop2ndOrder(params, **{**settings, **more})


def _ovsw(**settings: Any) -> Callable[..., BinaryOptimizer]:
    return lambda params, **more: OvSW(params, **{**settings, **more})


def _bayesbinn(**settings: Any) -> Callable[..., BinaryOptimizer]:
    return lambda params, **more: BayesBiNN(params, **{**settings, **more})


def _bold(**settings: Any) -> Callable[..., BinaryOptimizer]:
    return lambda params, **more: BOLD(params, **{**settings, **more})


def designed(sections: Any) -> IIRFilter:
    """Return the filter of a scipy design (whose declared type is ambiguous)."""
    return IIRFilter.from_sos(sections)


_RANGES = (
    ({"alpha": 0.0}, r"alpha is 0.0; it must lie in \(0, 1\]"),
    ({"alpha": 1.5}, "alpha is 1.5"),
    ({"alpha": float("nan")}, "alpha is nan"),
    ({"gamma": 0.0}, "gamma is 0.0"),
    ({"gamma": 1.01}, "gamma is 1.01"),
    ({"gamma": None}, "gamma is None, which ties it to the alpha of a flip rate"),
    ({"warm_start": -1.0}, "warm_start is -1.0"),
)
_FLIP_RANGES = (
    ({"flip_rate": 0.0}, "flip_rate is 0.0; it must be above 0"),
    ({"flip_rate": float("nan")}, "flip_rate is nan"),
    ({"flip_rate": 0.2}, r"a flip rate of 0.2 is out of reach: with gamma = 0.1 it lies in \[0, 0.1436\]"),
    ({"alpha": 0.1}, "alpha is 0.1 and flip_rate 0.02: they set the same value"),
    ({"gamma": 0.0}, "gamma is 0.0"),
)
_TIED_RANGES = (({"flip_rate": 0.6}, r"with alpha = gamma it lies in \[0, 0.5\]"),)
_LATENT_RANGES = (
    ({"lr": 0.0}, "lr is 0.0; it must be positive"),
    ({"gamma": 2.0}, "gamma is 2.0"),
    ({"weight_decay": -1e-4}, "weight_decay is -0.0001"),
    ({"lr": 10.0, "weight_decay": 0.5}, r"\(alpha\) is 5; it must be at most 1"),
    ({"clip": 0.0}, "clip is 0.0"),
    ({"clip_gradient": -1.0}, "clip_gradient is -1.0"),
    ({"start": -0.1}, "start is -0.1"),
)
_BOP_RANGES = (
    ({"gamma": 0.0}, r"gamma is 0.0; it must lie in \(0, 1\]"),
    ({"gamma": 2.0}, "gamma is 2.0"),
    ({"tau": -1e-8}, "tau is -1e-08"),
    ({"tau": float("nan")}, "tau is nan"),
)
_CASCADE_RANGES = (
    ({"alpha": 0.0}, r"alpha is 0.0; it must lie in \(0, 1\]"),
    ({"gammas": (0.1, 0.0)}, r"gammas are \(0.1, 0.0\); each must lie in"),
)
_OVSW_RANGES = (
    ({"lr": 0.0}, "lr is 0.0; it must be positive"),
    ({"gamma": 0.0}, r"gamma is 0.0; it must lie in \(0, 1\]"),
    ({"track": 2.0}, "track is 2.0"),
    ({"weight_decay": -1.0}, "weight_decay is -1.0"),
    ({"delta": float("nan")}, "delta is nan"),
    ({"dampen": -1e-4}, "dampen is -0.0001"),
    ({"silent": -1.0}, "silent is -1.0"),
)
_BAYES_RANGES = (
    ({"lr": 0.0}, r"lr is 0.0; it must lie in \(0, 1\]"),
    ({"gamma": 0.0}, r"gamma is 0.0; it must lie in \(0, 1\]"),
    ({"temperature": 1.0}, "temperature is 1.0.*samples are not -1 and"),
    ({"train_size": 0}, "train_size is 0"),
    ({"start": -1.0}, "start is -1.0"),
)

OPTIMIZERS: dict[str, Row] = {
    "filter": Row(_filtered(alpha=0.02), own={"alpha": 0.3, "gamma": 0.7}, invalid=_RANGES),
    "filter-warm": Row(_filtered(alpha=0.02, warm_start=0.3), own={"alpha": 0.3}),
    "filter-flips": Row(_filtered(flip_rate=0.02), own={"flip_rate": 0.1, "gamma": 0.7}, invalid=_FLIP_RANGES),
    "filter-flips-tied": Row(_filtered(flip_rate=0.02, gamma=None), own={"flip_rate": 0.3}, invalid=_TIED_RANGES),
    "filter-closed": Row(
        _filtered(flip_rate=0.02, control="closed"),
        own={"flip_rate": 0.1, "gamma": 0.7},
        invalid=(
            ({"control": "shut"}, "control is 'shut'; it must be 'open', 'closed' or 'layer'"),
            ({"flip_rate": None}, "control is 'closed', which steers alpha towards a flip rate: give flip_rate="),
        ),
    ),
    "filter-closed-tied": Row(_filtered(flip_rate=0.02, control="closed", gamma=None), own={"flip_rate": 0.3}),
    "filter-layer": Row(_filtered(flip_rate=0.02, control="layer"), own={"flip_rate": 0.1}),
    "filter-sign": Row(
        _filtered(alpha=0.02, normalize="sign"),
        own={"alpha": 0.3},
        invalid=(({"normalize": "max"}, "normalize is 'max'; it must be None, 'rms', 'sign' or 'adam'"),),
    ),
    "filter-rms": Row(_filtered(alpha=0.02, normalize="rms"), own={"alpha": 0.3}),
    "filter-adam": Row(_filtered(flip_rate=0.02, normalize="adam", warm_start=0.1), own={"flip_rate": 0.1}),
    "filter-bfloat16": Row(
        _filtered(alpha=0.02, state_dtype=torch.bfloat16),
        own={"alpha": 0.3, "gamma": 0.7},
        invalid=(
            ({"state_dtype": torch.float16}, "state_dtype is torch.float16; it must be None .*or torch.bfloat16"),
        ),
    ),
    "filter-bfloat16-layer": Row(
        _filtered(flip_rate=0.02, control="layer", normalize="rms", warm_start=0.1, state_dtype=torch.bfloat16),
        own={"flip_rate": 0.1},
    ),
    "filter-bfloat16-compiled": Row(
        _filtered(alpha=0.02, state_dtype=torch.bfloat16, compile=True), own={"alpha": 0.3}, compiled=True
    ),
    "filter-closed-compiled": Row(
        _filtered(flip_rate=0.02, control="layer", normalize="rms", compile=True),
        own={"flip_rate": 0.1},
        compiled=True,
    ),
    "filter-compiled": Row(_filtered(alpha=0.02, compile=True), own={"alpha": 0.3, "gamma": 0.7}, compiled=True),
    "iir-averages": Row(_fixed(cascade(ema(0.1), ema(0.02))), schedulable=False),
    "iir-butterworth": Row(_fixed(designed(butter(3, 0.1, output="sos"))), schedulable=False),
    "latent": Row(
        _latent(start=0.01),
        kind="latent",
        own={"lr": 0.5, "gamma": 0.3},
        invalid=_LATENT_RANGES,
        kept={"start": None},
    ),
    "latent-switches": Row(
        _latent(clip=0.1, clip_gradient=0.09, start=0.0, lr=0.2, weight_decay=0.01),
        kind="latent",
        own={"clip": 0.05},
        kept={"start": None},
    ),
    "cascade-1": Row(_cascade(alpha=0.02, gammas=()), own={"alpha": 0.3}),
    "cascade-3": Row(_cascade(alpha=0.02, gammas=(0.1, 0.3)), own={"alpha": 0.3}, invalid=_CASCADE_RANGES),
    "bop": Row(_bop(gamma=0.02, tau=0.01), own={"gamma": 0.3, "tau": 0.1}, invalid=_BOP_RANGES),
    "bop2ndorder": Row(
        _bop2ndorder(gamma=0.02, sigma=0.1, tau=0.01),
        own={"gamma": 0.3, "sigma": 0.5, "tau": 0.1},
        invalid=(*_BOP_RANGES, ({"sigma": 0.0}, "sigma is 0.0")),
    ),
    "ovsw": Row(_ovsw(lr=0.05), kind="latent", own={"lr": 0.1, "delta": 3.0}, invalid=_OVSW_RANGES),
    "bayesbinn": Row(_bayesbinn(lr=0.02), own={"lr": 0.3}, invalid=_BAYES_RANGES),
    "bayesbinn-momentum": Row(_bayesbinn(lr=0.02, gamma=0.1), own={"gamma": 0.5}),
    "bold": Row(_bold(lr=0.1), own={"lr": 0.5}, invalid=(({"lr": 0.0}, "lr is 0.0; it must be positive and finite"),)),
}

SHAPES = ((4, 3, 3, 3), (5, 7))


def make_params(dtype: torch.dtype = torch.float32, seed: int = 0) -> list[nn.Parameter]:
    """Return two parameters, of a convolution and of a linear layer."""
    generator = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in SHAPES]


def make_grads(step: int, params: list[nn.Parameter]) -> list[Tensor]:
    """Return the gradients of a step: noise around a slowly oscillating mean, so that signs change often."""
    generator = torch.Generator().manual_seed(1000 + step)
    swing = float(np.cos(step / 9))
    return [(torch.randn(p.shape, generator=generator) + swing).to(p.dtype) for p in params]


def run(optimizer: torch.optim.Optimizer, params: list[nn.Parameter], steps: range) -> None:
    """Run these steps with the gradients of `make_grads`."""
    for step in steps:
        for param, grad in zip(params, make_grads(step, params), strict=True):
            param.grad = grad
        optimizer.step()


def drive(optimizer: torch.optim.Optimizer, param: nn.Parameter, gradients: Tensor) -> Iterator[Tensor]:
    """Apply a sequence of gradients to one parameter, and yield it after each."""
    for grad in gradients:
        param.grad = grad.reshape(param.shape).to(param.dtype)
        optimizer.step()
        yield param.detach().flatten().clone()


def bits(optimizer: torch.optim.Optimizer, params: list[nn.Parameter]) -> list[tuple[str, Tensor]]:
    """Copy parameters and state for bitwise comparison; flip counts are left out."""
    results = [(f"parameter {index}", p.detach().clone()) for index, p in enumerate(params)]
    for index, param in enumerate(params):
        for key, value in sorted(optimizer.state.get(param, {}).items()):
            if isinstance(value, Tensor) and key != "flips":
                results.append((f"{key} of {index}", value.clone()))
    return results


def assert_same_bits(one: list[tuple[str, Tensor]], other: list[tuple[str, Tensor]]) -> None:
    """Check that names, types and bits are the same."""
    assert [name for name, _ in one] == [name for name, _ in other]
    for (name, a), (_, b) in zip(one, other, strict=True):
        assert a.dtype == b.dtype, name
        assert torch.equal(a, b), name


def swinging(steps: int, weights: int, seed: int = 0) -> Tensor:
    """Return gradient sequences in float64: noise around a mean that oscillates with a different period per weight."""
    rng = np.random.default_rng(seed)
    period, size = rng.uniform(50, 400, weights), rng.uniform(0, 0.5, weights)
    time = np.arange(steps)[:, None]
    return torch.tensor(rng.standard_normal((steps, weights)) + size * np.cos(2 * np.pi * time / period))


ROWS = [
    pytest.param(row, id=name, marks=[pytest.mark.slow] if row.compiled else []) for name, row in OPTIMIZERS.items()
]
every = pytest.mark.parametrize("row", ROWS)
of_theta = pytest.mark.parametrize("row", [p for p in ROWS if p.values[0].kind == "theta"])  # type: ignore[union-attr]
schedulable = pytest.mark.parametrize("row", [p for p in ROWS if p.values[0].schedulable])  # type: ignore[union-attr]
