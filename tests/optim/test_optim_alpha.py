"""alpha lives in `lr`: what schedulers may do to it, and what is said when they do the wrong thing."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from reference.optimizer_table import assert_same_bits, bits, drive, make_params, run, swinging
from zerocross.filters import IIRFilter, cascade, ema, from_sgd
from zerocross.optim import GradientFilter, IIRGradientFilter


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gamma", [1.0, 0.1])
def test_a_tiny_alpha_is_pure_accumulation(dtype: torch.dtype, gamma: float):
    gradients = swinging(400, 200) * 1e-4  # small, as those of a deep network are
    param = nn.Parameter(torch.ones(200, dtype=dtype))
    optimizer = GradientFilter([param], alpha=1e-20, gamma=gamma)
    m, total = np.zeros(200), np.zeros(200)
    for grad, theta in zip(gradients, drive(optimizer, param, gradients), strict=True):
        m = (1 - gamma) * m + gamma * grad.numpy()
        total += m
        sure = np.abs(total) > 1e-5 * np.abs(total).max()
        assert (theta.numpy()[sure] == -np.sign(total[sure])).all()
    assert np.allclose(optimizer.state[param]["g"].double() / 1e-20, total, rtol=1e-3, atol=1e-5 * np.abs(total).max())


def test_a_step_at_alpha_zero_filters_m_only():
    params = make_params()
    optimizer = GradientFilter(params)
    run(optimizer, params, range(3))
    before = dict(bits(optimizer, params))
    optimizer.param_groups[0]["lr"] = 0.0
    run(optimizer, params, range(3, 4))
    for name, now in bits(optimizer, params):
        assert torch.equal(now, before[name]) != name.startswith("m ")


def test_alpha_and_lr_of_a_group_are_one_number():
    params = make_params()
    optimizer = GradientFilter([{"params": params[0], "alpha": 0.2}, {"params": params[1], "lr": 0.3}])
    assert [group["lr"] for group in optimizer.param_groups] == [0.2, 0.3]
    assert "alpha" not in optimizer.param_groups[0]
    with pytest.raises(ValueError, match=r"alpha = 0.2 and lr = 0.3: they are one number"):
        GradientFilter([{"params": params, "alpha": 0.2, "lr": 0.3}])
    with pytest.raises(ValueError, match="alpha is 2"):
        GradientFilter([{"params": params, "alpha": 2}])


@pytest.mark.parametrize("value", [-1e-3, 1.5, float("nan")])
def test_a_scheduler_out_of_range_is_an_error_that_changes_nothing(value: float):
    params = make_params()
    optimizer = GradientFilter([{"params": params[0]}, {"params": params[1]}])
    run(optimizer, params, range(2))
    before = bits(optimizer, params)
    optimizer.param_groups[1]["lr"] = value
    with pytest.raises(ValueError, match=rf"alpha \(the group's lr\) is {value}; a scheduler may set it from 0 to 1"):
        run(optimizer, params, range(2, 3))
    assert_same_bits(before, bits(optimizer, params))


@pytest.mark.parametrize(
    "scheduler",
    [
        lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=10, cycle_momentum=False),
        lambda o: lr_scheduler.CyclicLR(o, base_lr=0.1, max_lr=0.2, cycle_momentum=False),
        lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=4, eta_min=0.1),
    ],
)
def test_absolute_values_of_a_scheduler_are_warned_about_once(scheduler):
    params = make_params()
    optimizer = GradientFilter(params)
    rates = scheduler(optimizer)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for step in range(8):
            run(optimizer, params, range(step, step + 1))
            rates.step()
    (said,) = [str(w.message) for w in heard if "alpha" in str(w.message)]
    assert re.match(r"a scheduler set alpha to 0\.\d+: a learning rate meant for the real parameters\?", said)


def test_no_warning_where_a_large_alpha_was_asked_for_or_stays_small():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for alpha, highest in ((0.5, 0.5), (1e-3, 0.04)):
            params = make_params()
            optimizer = GradientFilter([{"params": params[0]}, {"params": params[1], "alpha": alpha}])
            rates = lr_scheduler.OneCycleLR(optimizer, [1e-3, highest], total_steps=10, cycle_momentum=False)
            for step in range(9):
                run(optimizer, params, range(step, step + 1))
                rates.step()


def test_a_fixed_filter_refuses_a_scheduler_and_leaves_everything():
    params = make_params()
    optimizer = IIRGradientFilter([{"params": params[0]}, {"params": params[1]}], ema(0.1))
    run(optimizer, params, range(2))
    scheduler = lr_scheduler.LambdaLR(optimizer, [lambda _: 1.0, lambda step: 0.5**step])
    run(optimizer, params, range(2, 3))
    before = bits(optimizer, params)
    scheduler.step()
    with pytest.raises(
        ValueError, match=r"fixed and has no alpha to decay, but lr was set to 0.5; take the scheduler off"
    ):
        run(optimizer, params, range(3, 4))
    assert_same_bits(before, bits(optimizer, params))
    with pytest.raises(ValueError, match="no alpha to decay"):
        IIRGradientFilter([{"params": make_params(), "lr": 0.1}], ema(0.1))
    with pytest.raises(TypeError, match=r"filter is a float; give an IIRFilter, e.g. ema\(1e-3\)"):
        IIRGradientFilter(make_params(), 0.1)  # type: ignore[arg-type]


def test_a_filter_that_grows_is_refused_and_integrators_are_not():
    with pytest.raises(ValueError, match=r"filter has a pole of modulus 1.01, beyond 1: it grows without end"):
        IIRGradientFilter(make_params(), IIRFilter(((1.0, 0.0, 0.0, 1.0, -1.01, 0.0),)))
    IIRGradientFilter(make_params(), from_sgd(0.1, momentum=0.9, weight_decay=0.0))
    IIRGradientFilter(make_params(), cascade(ema(1e-20), ema(1e-20)))
    IIRGradientFilter(make_params(), IIRFilter(((0.5, 0.5, 0.0, 1.0, 0.0, 0.0),)))  # no pole at all
