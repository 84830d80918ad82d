"""The compiled step has the signs of the eager one, and does not recompile for every alpha."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from reference.optimizer_table import make_grads, make_params, run, swinging
from zerocross.optim import GradientFilter, Schedule, set_field
from zerocross.optim.gradient_filter import _compiled_filter

builds = torch._dynamo.utils.counters["stats"]


def test_compiled_and_eager_signs_agree_and_alpha_does_not_recompile():
    params, twin = make_params(torch.float64), make_params(torch.float64)
    groups = lambda ps: [{"params": ps[0], "alpha": 0.02}, {"params": ps[1], "alpha": 0.6, "gamma": 0.7}]  # noqa: E731
    compiled, eager = GradientFilter(groups(params), compile=True), GradientFilter(groups(twin))
    start = params[0].detach().clone()
    decay = Schedule("cosine", total=300)
    built = 0
    for step in range(300):
        for optimizer, ps in ((compiled, params), (eager, twin)):
            set_field(optimizer.param_groups, "lr", decay.factor(step))
            for p, grad in zip(ps, make_grads(step, ps), strict=True):
                p.grad = grad
                p.grad[0] = 0  # g stays exactly 0, and so do the signs
            optimizer.step()
        assert all(torch.equal(p, q) for p, q in zip(params, twin, strict=True))
        built = built or builds["unique_graphs"]
    assert torch.equal(params[0][0], start[0])
    assert not torch.equal(params[0][1:], start[1:])
    assert builds["unique_graphs"] == built


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_zero_keeps_its_sign_in_every_precision(dtype: torch.dtype):
    param = nn.Parameter(torch.tensor([1, -1, 1, -1, 1, -1] * 20, dtype=dtype))
    optimizer = GradientFilter([param], compile=True, nonfinite="ignore", vectors=True)
    param.grad = torch.tensor([0, 0, 1, 1, -1, -1] * 20, dtype=dtype)
    optimizer.step()
    assert param.tolist() == [1, -1, -1, -1, 1, 1] * 20
    param.grad = torch.full_like(param, float("nan"))
    optimizer.step()
    assert (param.abs() == 1).all()
    assert optimizer.state[param]["g"].dtype == torch.float32


@pytest.mark.slow
def test_over_a_thousand_float32_steps_hardly_any_sign_differs():
    """Rounding differs (fused multiply-add), so that the sign of a g close to zero may differ."""
    gradients = swinging(1000, 2000)
    one, other = (nn.Parameter(torch.ones(1, 2000)) for _ in range(2))
    compiled, eager = GradientFilter([one], compile=True), GradientFilter([other])
    differing = 0
    for grad in gradients.float():
        one.grad = other.grad = grad[None]
        compiled.step()
        eager.step()
        differing += int((one != other).sum())
    assert differing <= 2e-6 * 1000 * 2000


@pytest.mark.slow
def test_more_models_than_torch_would_compile_for_by_default():
    for size in range(2, 12):
        param = nn.Parameter(torch.ones(size, 3))
        before = builds["unique_graphs"]
        optimizer = GradientFilter([param], compile=True)
        param.grad = torch.ones_like(param)
        optimizer.step()
        assert builds["unique_graphs"] == before + 1


@pytest.mark.slow
def test_missing_gradients_do_not_recompile_repeatedly():
    params = make_params()
    optimizer = GradientFilter(params, compile=True)
    run(optimizer, params, range(1))
    for step in range(1, 9):
        params[0].grad, params[1].grad = (None, make_grads(step, params)[1]) if step % 2 else make_grads(step, params)
        before = builds["unique_graphs"]
        optimizer.step()
        assert builds["unique_graphs"] == before + (step == 1)
    assert _compiled_filter() is _compiled_filter()
