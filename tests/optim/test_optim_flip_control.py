"""The closed loop: measured flips follow the flip rate where the open loop misses it, identically on all ranks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import multiprocessing, nn

from reference import replicas
from reference.optimizer_table import make_grads, make_params, run
from zerocross import GradientFilter, ff_ratio
from zerocross.filters import alpha_for_flips

RATE = 0.02


def ratios(control: Any, *memories: float) -> list[float]:
    """Return the flip ratio of each tensor over the last 300 of 1,200 updates, under noise correlated over steps."""
    draw = torch.Generator().manual_seed(1)
    weights = [nn.Parameter(torch.randn(100, 100, generator=draw)) for _ in memories]
    optimizer = GradientFilter(weights, flip_rate=RATE, control=control, ff_every=1)
    noise, seen = [torch.zeros_like(weight) for weight in weights], []
    for step in range(1200):
        for i, memory in enumerate(memories):
            noise[i] = memory * noise[i] + torch.randn(100, 100, generator=draw)
            weights[i].grad = noise[i]
        optimizer.step()
        if step >= 900:
            seen.append(list(ff_ratio(optimizer, per="parameter").values()))
    return torch.tensor(seen).mean(0).tolist()


def test_the_closed_loop_keeps_the_rate_under_correlated_noise() -> None:
    """Correlated noise flips fewer weights than white noise: the open loop misses its rate by more than a third."""
    assert ratios("open", 0.9)[0] < 0.66 * RATE
    assert ratios("closed", 0.9)[0] == pytest.approx(RATE, rel=0.05)


def test_per_layer_every_tensor_flips_at_the_rate() -> None:
    together, apart = ratios("closed", 0.0, 0.9), ratios("layer", 0.0, 0.9)
    assert sum(together) / 2 == pytest.approx(RATE, rel=0.05)
    assert together[0] > 1.15 * RATE > 0.85 * RATE > together[1]
    assert apart == pytest.approx([RATE, RATE], rel=0.06)


def test_the_control_law_is_integral_control_of_log_alpha() -> None:
    """Compared with a naive twin in plain floats, with manual counts and one correction per group."""
    params = make_params(torch.float64)
    optimizer = GradientFilter(params, flip_rate=RATE, control="closed")
    correction, ratio, weights = 0.0, -1.0, sum(p.numel() for p in params)
    m = [torch.zeros_like(p) for p in params]
    g = [torch.zeros_like(p) for p in params]
    theta = [p.detach().clone() for p in params]
    for step in range(60):
        rate = RATE * (1 - step / 80)
        optimizer.param_groups[0]["lr"] = rate
        alpha = min(1.0, alpha_for_flips(rate, 0.1) * math.exp(correction))
        flips = 0
        for i, x in enumerate(make_grads(step, params)):
            m[i] = 0.9 * m[i] + 0.1 * x
            g[i] = (1 - alpha) * g[i] + alpha * m[i]
            flips += int((theta[i] != -g[i].sign()).sum())
            theta[i] = -g[i].sign()
        ratio = 1.0 if ratio < 0 else 0.9 * ratio + 0.1 * flips / (weights * rate)
        correction += 0.1 * max(-1.0, min(1.0, 1 - ratio))
        correction = max(-math.log(1e3), min(math.log(1e3), -math.log(alpha_for_flips(rate, 0.1)), correction))
        run(optimizer, params, range(step, step + 1))
        assert all(torch.equal(p, t) for p, t in zip(params, theta, strict=True)), step
        for p in params:
            assert float(optimizer.state[p]["correction"]) == pytest.approx(correction, abs=1e-9)
            assert float(optimizer.state[p]["ratio"]) == pytest.approx(ratio, abs=1e-9)
    assert abs(correction) > 0.3


def test_a_rate_of_zero_flips_nothing_and_controls_nothing() -> None:
    params = make_params()
    optimizer = GradientFilter(params, flip_rate=RATE, control="layer")
    run(optimizer, params, range(4))
    keys = ("correction", "ratio", "g")
    before = [p.detach().clone() for p in params], [optimizer.state[p][k].clone() for p in params for k in keys]
    optimizer.param_groups[0]["lr"] = 0.0
    run(optimizer, params, range(4, 9))
    after = [p.detach() for p in params], [optimizer.state[p][k] for p in params for k in keys]
    for was, now in zip(before, after, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(was, now, strict=True))


def test_compiled_and_eager_signs_agree() -> None:
    params, twin = make_params(torch.float64), make_params(torch.float64)
    compiled = GradientFilter(params, flip_rate=RATE, control="layer", compile=True)
    eager = GradientFilter(twin, flip_rate=RATE, control="layer")
    for step in range(60):
        run(compiled, params, range(step, step + 1))
        run(eager, twin, range(step, step + 1))
        assert all(torch.equal(p, q) for p, q in zip(params, twin, strict=True))


@pytest.mark.parametrize(
    ("saved", "loading"),
    [
        ({"control": "closed"}, {}),
        ({}, {"control": "layer"}),
        ({"normalize": "adam"}, {}),
        ({}, {"normalize": "rms"}),
    ],
)
def test_a_state_of_different_settings_is_refused_and_changes_nothing(saved: Any, loading: Any) -> None:
    params, others = make_params(), make_params()
    optimizer, other = (
        GradientFilter(params, flip_rate=0.02, **saved),
        GradientFilter(others, flip_rate=0.01, **loading),
    )
    run(optimizer, params, range(2))
    with pytest.raises(ValueError, match="construct it with the control, normalize and state_dtype of the one"):
        other.load_state_dict(optimizer.state_dict())
    assert other.param_groups[0]["lr"] == 0.01
    assert not other.state


def test_two_processes_are_controlled_identically(tmp_path: Path) -> None:
    multiprocessing.spawn(replicas.work, (str(tmp_path), 2, "closed"), nprocs=2)  # type: ignore[attr-defined]
    one, other = (torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in range(2))
    assert not torch.equal(one["data"], other["data"])  # each had its own data
    for part in ("model", "state"):
        for name, value in one[part].items():
            assert torch.equal(value, other[part][name]), name
    assert float(one["state"]["0.correction"]) != 0
    assert torch.equal(one["state"]["0.correction"], one["state"]["1.correction"])
