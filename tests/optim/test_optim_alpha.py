"""alpha is stored in `lr`: what schedulers may do with it, and which errors and warnings they get otherwise."""

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
from zerocross.optim import GradientFilter, HybridOptimizer, IIRGradientFilter


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gamma", [1.0, 0.1])
def test_a_tiny_alpha_is_pure_accumulation(dtype: torch.dtype, gamma: float):
    gradients = swinging(400, 200) * 1e-4  # small, as in a deep network
    param = nn.Parameter(torch.ones(1, 200, dtype=dtype))
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
    with pytest.raises(ValueError, match=r"alpha = 0.2 and lr = 0.3: these are the same"):
        GradientFilter([{"params": params, "alpha": 0.2, "lr": 0.3}])
    with pytest.raises(ValueError, match="alpha is 2"):
        GradientFilter([{"params": params, "alpha": 2}])


@pytest.mark.parametrize("value", [-1e-3, 1.5, float("nan")])
def test_a_scheduler_out_of_range_raises_an_error_and_changes_nothing(value: float):
    params = make_params()
    optimizer = GradientFilter([{"params": params[0]}, {"params": params[1]}])
    run(optimizer, params, range(2))
    before = bits(optimizer, params)
    optimizer.param_groups[1]["lr"] = value
    with pytest.raises(ValueError, match=rf"alpha \(the group's lr\) is {value}; it must stay in \[0, 1\]"):
        run(optimizer, params, range(2, 3))
    assert_same_bits(before, bits(optimizer, params))


@pytest.mark.parametrize(
    "scheduler",
    [
        lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=10, cycle_momentum=False),
        lambda o: lr_scheduler.CyclicLR(o, base_lr=0.1, max_lr=0.2, cycle_momentum=False),
        lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=4, eta_min=0.1),
        lambda o: torch.optim.swa_utils.SWALR(o, swa_lr=0.004, anneal_epochs=4),
    ],
)
def test_absolute_values_of_a_scheduler_warn_once(scheduler):
    params = make_params()
    optimizer = GradientFilter(params)
    rates = scheduler(optimizer)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(8):
            run(optimizer, params, range(step, step + 1))
            rates.step()
    (message,) = [str(w.message) for w in caught if "alpha" in str(w.message)]
    assert re.match(
        r"a scheduler set alpha to 0\.\d+, above its initial value 0.001: is this a learning rate for", message
    )


def test_a_large_alpha_of_one_group_does_not_silence_another():
    params = make_params()
    optimizer = GradientFilter([{"params": params[0], "alpha": 0.5}, {"params": params[1], "alpha": 1e-3}])
    optimizer.param_groups[1]["lr"] = 0.05
    with pytest.warns(UserWarning, match=r"set alpha to 0.05, above its initial value 0.001"):
        run(optimizer, params, range(1))


def test_cycled_momentum_is_refused_and_reaches_the_real_part_of_a_hybrid():
    params = make_params()
    optimizer = GradientFilter(params, alpha=0.1)
    lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)  # cycle_momentum=True is torch's default
    with pytest.raises(
        ValueError, match=r"set momentum = 0.95 in the groups of GradientFilter, which has no momentum.*=Fal"
    ):
        run(optimizer, params, range(1))
    for real in (torch.optim.SGD, torch.optim.Adam):
        for cycle in (
            lambda o: lr_scheduler.OneCycleLR(o, max_lr=[0.1, 0.2], total_steps=20),
            lambda o: lr_scheduler.CyclicLR(o, base_lr=[0.05, 0.1], max_lr=[0.1, 0.2], step_size_up=5),
        ):
            params = make_params()
            hybrid = HybridOptimizer(GradientFilter(params[:1], alpha=0.1), real(params[1:], lr=0.1))
            rates, seen = cycle(hybrid), []
            for step in range(8):
                run(hybrid, params, range(step, step + 1))
                rates.step()
                group = hybrid.real.param_groups[0]
                seen.append(group["betas"][0] if "betas" in group else group["momentum"])
            assert len(set(seen)) > 4, "the momentum was cycled"
            assert {group["gamma"] for group in hybrid.binary.param_groups} == {0.1}
            twin = HybridOptimizer(GradientFilter(make_params()[:1], alpha=0.1), real(make_params()[1:], lr=0.1))
            twin.load_state_dict(hybrid.state_dict())
            cycle(twin)


def test_no_warning_if_a_large_alpha_was_requested():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        params = make_params()
        optimizer = GradientFilter([{"params": params[0]}, {"params": params[1], "alpha": 0.5}])
        rates = lr_scheduler.OneCycleLR(optimizer, [1e-3, 0.5], total_steps=10, cycle_momentum=False)
        for step in range(9):
            run(optimizer, params, range(step, step + 1))
            rates.step()


def test_no_warning_after_a_checkpoint_with_a_larger_alpha_unless_exceeded():
    saved = GradientFilter(make_params(), alpha=0.2)
    params = make_params()
    optimizer = GradientFilter(params, alpha=1e-3)
    optimizer.load_state_dict(saved.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(optimizer, params, range(2))
    optimizer.param_groups[0]["lr"] = 0.3
    with pytest.warns(UserWarning, match=r"set alpha to 0.3, above its initial value 0.2"):
        run(optimizer, params, range(2, 3))


def test_a_schedule_saved_halfway_keeps_its_initial_value():
    saved = GradientFilter(make_params(), alpha=0.02)
    lr_scheduler.CosineAnnealingLR(saved, T_max=4)  # stores initial_lr
    saved.param_groups[0]["lr"] = 1e-4
    params = make_params()
    optimizer = GradientFilter(params, alpha=0.5)
    optimizer.load_state_dict(saved.state_dict())
    optimizer.param_groups[0]["lr"] = 0.02
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(optimizer, params, range(1))
    optimizer.param_groups[0]["lr"] = 0.1
    with pytest.warns(UserWarning, match=r"set alpha to 0.1, above its initial value 0.02"):
        run(optimizer, params, range(1, 2))


def test_a_fixed_filter_refuses_a_scheduler_and_changes_nothing():
    params = make_params()
    optimizer = IIRGradientFilter([{"params": params[0]}, {"params": params[1]}], ema(0.1))
    run(optimizer, params, range(2))
    scheduler = lr_scheduler.LambdaLR(optimizer, [lambda _: 1.0, lambda step: 0.5**step])
    run(optimizer, params, range(2, 3))
    before = bits(optimizer, params)
    scheduler.step()
    with pytest.raises(
        ValueError, match=r"fixed and has no alpha to decay, but lr was set to 0.5; remove the scheduler"
    ):
        run(optimizer, params, range(3, 4))
    assert_same_bits(before, bits(optimizer, params))
    with pytest.raises(ValueError, match="no alpha to decay"):
        IIRGradientFilter([{"params": make_params(), "lr": 0.1}], ema(0.1))
    with pytest.raises(TypeError, match=r"filter is a float; give an IIRFilter, e.g. ema\(1e-3\)"):
        IIRGradientFilter(make_params(), 0.1)  # type: ignore[arg-type]


def test_unstable_filters_are_refused_and_integrators_are_not():
    with pytest.raises(
        ValueError, match=r"pole of modulus 1.01, outside the unit circle: its output grows without bound"
    ):
        IIRGradientFilter(make_params(), IIRFilter(((1.0, 0.0, 0.0, 1.0, -1.01, 0.0),)))
    IIRGradientFilter(make_params(), from_sgd(0.1, momentum=0.9, weight_decay=0.0))
    IIRGradientFilter(make_params(), cascade(ema(1e-20), ema(1e-20)))
    IIRGradientFilter(make_params(), IIRFilter(((0.5, 0.5, 0.0, 1.0, 0.0, 0.0),)))  # no pole
