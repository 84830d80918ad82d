"""capturable=True: a step that reads no value and can be replayed, with alpha and the step count as tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from reference.optimizer_table import assert_same_bits, bits, make_grads, make_params, run
from reference.replay import Recording
from zerocross.nn import BinaryLinear
from zerocross.optim import GradientFilter, HybridOptimizer, ff_ratio, set_field, split_params

SETTINGS: dict[str, dict[str, Any]] = {
    "ignore": {"nonfinite": "ignore", "ff_every": 1},
    "skip": {"nonfinite": "skip"},
    "bfloat16": {"nonfinite": "ignore", "state_dtype": torch.bfloat16},
    "bfloat16-skip": {"nonfinite": "skip", "state_dtype": torch.bfloat16, "ff_every": 1},
    "rms": {"nonfinite": "ignore", "normalize": "rms", "warm_start": 0.1},
}


def build(params: Any, **settings: Any) -> GradientFilter:
    return GradientFilter(params, alpha=0.02, **settings)


@pytest.mark.parametrize("name", SETTINGS)
def test_it_takes_the_steps_of_an_ordinary_one(name: str):
    params, twin = make_params(), make_params()
    capturable, plain = build(params, capturable=True, **SETTINGS[name]), build(twin, **SETTINGS[name])
    for step in range(12):
        for optimizer in (capturable, plain):
            set_field(optimizer.param_groups, "lr", 0.9**step)
        run(capturable, params, range(step, step + 1))
        run(plain, twin, range(step, step + 1))
        for one, other in zip(params, twin, strict=True):
            assert torch.equal(one, other)
    assert int(capturable.param_groups[0]["step"]) == plain.param_groups[0]["step"] == 12


@pytest.mark.parametrize("name", SETTINGS)
def test_a_recorded_step_is_replayed_with_new_gradients_alphas_and_random_bits(name: str):
    params, twin = make_params(), make_params()
    optimizer, plain = build(params, capturable=True, **SETTINGS[name]), build(twin, **SETTINGS[name])
    scheduler, other = (torch.optim.lr_scheduler.ExponentialLR(each, 0.8) for each in (optimizer, plain))
    static = [torch.zeros_like(p) for p in params]
    recording = Recording()
    for step in range(10):
        grads = make_grads(step, params)
        if step == 5 and "skip" in name:
            grads[1][0, 0] = float("inf")
        for param, memory, q, grad in zip(params, static, twin, grads, strict=True):
            memory.copy_(grad)
            param.grad, q.grad = memory, grad
        if step < 2:  # warm-up: creates state
            optimizer.step()
        elif step == 2:
            with recording:
                optimizer.step()
        else:
            recording.replay()
        plain.step()
        for each in (scheduler, other):
            each.step()
        assert_same_bits(
            [pair for pair in bits(optimizer, params) if pair[0].startswith("param")],
            [pair for pair in bits(plain, twin) if pair[0].startswith("param")],
        )
        assert int(optimizer.param_groups[0]["step"]) == step + 1
    assert optimizer.skipped_steps == plain.skipped_steps == ("skip" in name)
    if SETTINGS[name].get("ff_every") == 1:
        assert ff_ratio(optimizer) == ff_ratio(plain)


@pytest.mark.parametrize("capturable", [True, False])
def test_an_ordinary_step_reads_alpha_and_a_capturable_one_nothing(capturable: bool):
    params = make_params()
    optimizer = build(params, capturable=capturable, nonfinite="ignore", ff_every=1)
    if not capturable:
        optimizer.param_groups[0]["lr"] = torch.tensor(0.02)
    run(optimizer, params, range(2))
    if capturable:
        with Recording():
            optimizer.step()
    else:
        with pytest.raises(RuntimeError, match="a value was read"), Recording():
            optimizer.step()


@pytest.mark.parametrize(("saved", "loaded"), [(True, False), (False, True), (True, True)])
def test_state_passes_between_both_kinds(saved: bool, loaded: bool):
    params = make_params()
    optimizer = build(params, capturable=saved, nonfinite="ignore")
    run(optimizer, params, range(4))
    twin = [nn.Parameter(p.detach().clone()) for p in params]
    resumed = build(twin, capturable=loaded, nonfinite="ignore")
    resumed.load_state_dict(optimizer.state_dict())
    assert isinstance(resumed.param_groups[0]["step"], torch.Tensor) == loaded
    run(optimizer, params, range(4, 10))
    run(resumed, twin, range(4, 10))
    assert_same_bits(bits(optimizer, params), bits(resumed, twin))


def test_what_would_have_to_wait_is_refused():
    params = make_params()
    with pytest.raises(ValueError, match="capturable=True reads no gradient: use nonfinite='skip' or 'ignore'"):
        build(params, capturable=True)
    with pytest.raises(ValueError, match="capturable=True needs alpha="):
        GradientFilter(params, flip_rate=0.01, capturable=True, nonfinite="ignore")
    model = nn.Sequential(nn.Linear(3, 4), BinaryLinear(4, 2))
    split = split_params(model)
    binary = build(split.binary, capturable=True, nonfinite="skip")
    real = torch.optim.SGD([*split.real, *split.real_no_decay], lr=0.1)
    with pytest.raises(ValueError, match=r"nonfinite is 'skip', which waits for the device.*nonfinite='ignore'"):
        HybridOptimizer(binary, real, model)
    HybridOptimizer(binary, real, model, nonfinite="ignore")
