"""Optimizers of binary weights can be copied, saved, scheduled and scaled like any other; each row of the table."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from reference.optimizer_table import (
    Row,
    assert_same_bits,
    bits,
    every,
    make_grads,
    make_params,
    run,
    schedulable,
)

# ---- copies and checkpoints


@every
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_resuming_from_a_file_is_bit_exact(row: Row, dtype: torch.dtype):
    params = make_params(dtype)
    optimizer = row.build(params)
    run(optimizer, params, range(5))
    file = io.BytesIO()
    torch.save({"params": [p.detach() for p in params], "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed_params = [nn.Parameter(p) for p in saved["params"]]
    resumed = row.build(resumed_params, **row.kept)
    resumed.load_state_dict(saved["optimizer"])
    assert_same_bits(bits(optimizer, params), bits(resumed, resumed_params))
    lowest = torch.float64 if dtype == torch.float64 else torch.float32
    exempt = ("parameter", "mg of")  # bfloat16 on request
    state = [v for name, v in bits(resumed, resumed_params) if not name.startswith(exempt) and v.dtype != torch.bool]
    assert all(value.dtype in (lowest, torch.float64) for value in state)
    assert resumed.state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]
    run(optimizer, params, range(5, 10))
    run(resumed, resumed_params, range(5, 10))
    assert_same_bits(bits(optimizer, params), bits(resumed, resumed_params))


@every
def test_a_loaded_state_is_not_shared(row: Row):
    params, twin = make_params(), make_params()
    optimizer, other = row.build(params), row.build(twin)
    run(optimizer, params, range(3))
    other.load_state_dict(optimizer.state_dict())
    before = [value for name, value in bits(other, twin) if " of " in name]
    run(optimizer, params, range(3, 6))
    assert all(
        torch.equal(a, b)
        for a, b in zip(before, (v for n, v in bits(other, twin) if " of " in n), strict=True)
    )  # fmt: skip


@every
def test_the_state_of_another_optimizer_is_refused(row: Row):
    params = make_params()
    adam = torch.optim.Adam(params)
    with pytest.raises(ValueError, match=r"this state_dict is not that of a \w+: a group in it has no"):
        row.build(params).load_state_dict(adam.state_dict())
    with pytest.raises(ValueError, match="different number of parameter groups"):
        row.build(params).load_state_dict(row.build([{"params": p} for p in make_params()]).state_dict())


@every
@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_a_copy_is_independent_and_bit_exact(row: Row, way: str):
    params = make_params()
    optimizer = row.build(params, nonfinite="skip", ff_every=3, seed=7)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)  # wraps step, as schedulers do
    run(optimizer, params, range(4))
    if way == "deepcopy":
        twin, other = copy.deepcopy((params, optimizer))
    else:
        twin, other = pickle.loads(pickle.dumps((params, optimizer)))
    assert (other.nonfinite, other.ff_every, other.seed) == ("skip", 3, 7)
    before = bits(optimizer, params)
    run(other, twin, range(4, 9))
    assert_same_bits(before, bits(optimizer, params))
    run(optimizer, params, range(4, 9))
    assert_same_bits(bits(optimizer, params), bits(other, twin))
    assert other.state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]
    other.add_param_group({"params": make_params()[0], **row.own})


# ---- schedulers and scalers


def _one_cycle(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.04, total_steps=20, cycle_momentum=False)


def _sequence(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    rise = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=5)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [rise, fall], milestones=[5])


SCHEDULERS = {
    "lambda": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda step: 0.9**step),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=12),
    "one-cycle": _one_cycle,
    "sequence": _sequence,
    "plateau": lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=1),
}


@schedulable
@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_equals_a_manual_decay(row: Row, name: str):
    params, twin = make_params(), make_params()
    optimizer, by_hand = row.build(params), row.build(twin)
    scheduler = SCHEDULERS[name](optimizer)
    rates = []
    for step in range(15):
        rates.append(optimizer.param_groups[0]["lr"])
        by_hand.param_groups[0]["lr"] = rates[-1]
        run(optimizer, params, range(step, step + 1))
        run(by_hand, twin, range(step, step + 1))
        scheduler.step(*([1.0] if name == "plateau" else []))
        assert_same_bits(bits(optimizer, params), bits(by_hand, twin))
    assert len(set(rates)) > 3


@every
def test_grad_scaler_scales_exactly_and_skips_overflows(row: Row):
    params, twin = make_params(), make_params()
    optimizer, other = row.build(params), row.build(twin)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    for step in range(6):
        optimizer.zero_grad()
        overflow = step == 3
        loss = torch.stack([(p * g).sum() for p, g in zip(params, make_grads(step, params), strict=True)]).sum()
        scaler.scale(loss * float("inf") if overflow else loss).backward()
        before = bits(optimizer, params)
        scaler.step(optimizer)
        scaler.update()
        if overflow:
            assert_same_bits(before, bits(optimizer, params))
            assert scaler.get_scale() == 2.0**11
        else:
            run(other, twin, range(step, step + 1))
    assert_same_bits(bits(optimizer, params), bits(other, twin))
