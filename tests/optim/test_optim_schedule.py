"""Schedules as pure functions of the step, against torch's schedulers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.optim import lr_scheduler

from zerocross.optim import Schedule, set_field

TOTAL = 20


def torchs(make) -> list[float]:
    """Return the factors of a torch scheduler."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler = make(optimizer)
    factors = []
    for _ in range(TOTAL):
        factors.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return factors


@pytest.mark.parametrize(
    ("schedule", "make"),
    [
        (Schedule("cosine", TOTAL), lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=TOTAL)),
        (Schedule("linear", TOTAL), lambda o: lr_scheduler.LinearLR(o, 1.0, 0.0, total_iters=TOTAL)),
        (Schedule("constant", TOTAL), lambda o: lr_scheduler.ConstantLR(o, 1.0)),
        (
            Schedule("step", TOTAL, milestones=(0.25, 0.75), drop=0.2),
            lambda o: lr_scheduler.MultiStepLR(o, [5, 15], gamma=0.2),
        ),
    ],
)
def test_factors_equal_those_of_torchs_schedulers(schedule: Schedule, make):
    assert [schedule.factor(step) for step in range(TOTAL)] == pytest.approx(torchs(make))


@given(
    shape=st.sampled_from(["cosine", "linear", "constant", "step"]),
    total=st.integers(1, 500),
    data=st.data(),
)
def test_factors_are_above_zero_and_at_most_one(shape, total: int, data):
    warmup = data.draw(st.integers(0, total - 1))
    schedule = Schedule(shape, total, warmup=warmup)
    factors = [schedule.factor(step) for step in range(total)]
    assert all(0 < factor <= 1 for factor in factors)
    assert factors[:warmup] == sorted(factors[:warmup])
    assert factors[warmup:] == sorted(factors[warmup:], reverse=True)
    if shape != "step":
        assert factors[warmup] == 1
    assert schedule.factor(total + 7) == schedule.factor(total)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"shape": "cosin"}, "schedule is 'cosin'; it must be one of cosine, linear, constant, step"),
        ({"total": 0}, "has 0 updates in total; it needs at least 1"),
        ({"warmup": 20}, "warm-up is 20 updates; it must be at least 0 and less than the total, 20"),
        ({"milestones": (0.7, 0.2)}, "increasing fractions"),
        ({"milestones": (0.0, 0.2)}, "increasing fractions"),
        ({"drop": 0.0}, r"drop is 0.0; it must lie in \(0, 1\]"),
    ],
)
def test_invalid_schedules_are_refused(wrong: dict, message: str):
    with pytest.raises(ValueError, match=message):
        Schedule(**{"shape": "step", "total": TOTAL, **wrong})


def test_a_field_is_set_from_its_first_value():
    groups = [{"params": [], "lr": 0.2, "weight_decay": 1e-4}, {"params": [], "lr": 0.4, "weight_decay": 0.0}]
    for factor in (0.5, 0.25, 1.0):
        set_field(groups, "lr", factor)
        assert [group["lr"] for group in groups] == [0.2 * factor, 0.4 * factor]
    set_field(groups, "weight_decay", 2.0)
    assert groups[0]["weight_decay"] == 2e-4
    with pytest.raises(ValueError, match=r"no field 'alpha'; it has .*lr, weight_decay"):
        set_field(groups, "alpha", 0.5)
