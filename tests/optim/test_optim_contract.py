"""The contract of every optimizer of binary weights as a torch optimizer, for each row of the table."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from reference.optimizer_table import (
    OPTIMIZERS,
    Row,
    assert_same_bits,
    bits,
    every,
    make_grads,
    make_params,
    of_theta,
    run,
)

# ---- weights


@of_theta
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_weights_are_minus_or_plus_one_at_every_step(row: Row, dtype: torch.dtype):
    params = make_params(dtype)
    optimizer = row.build(params)
    for step in range(20):
        assert all((p.abs() == 1).all() for p in params)
        run(optimizer, params, range(step, step + 1))
    assert any((p != q.sign()).any() for p, q in zip(params, make_params(dtype), strict=True))


@every
def test_a_weight_without_gradient_information_keeps_its_sign(row: Row):
    params = make_params()
    with torch.no_grad():
        params[0][:2] = 0  # drawn at random, by optimizers that draw zeros
    optimizer = row.build(params)
    start = [p.detach().sign() for p in params]
    for _ in range(30):
        for p in params:
            p.grad = torch.zeros_like(p)
        optimizer.step()
    assert all(torch.equal(p.sign(), s) for p, s in zip(params, start, strict=True))


@every
def test_channels_last_gives_the_same_signs(row: Row):
    params, last = make_params(), make_params()
    last[0] = nn.Parameter(last[0].detach().to(memory_format=torch.channels_last))
    optimizer, other = row.build(params, ff_every=1), row.build(last, ff_every=1)
    for step in range(12):
        run(optimizer, params, range(step, step + 1))
        for param, grad in zip(last, make_grads(step, last), strict=True):
            # The gradient may have another memory layout.
            param.grad = grad.to(memory_format=torch.channels_last) if grad.dim() == 4 and step % 2 else grad
        other.step()
        assert_same_bits(bits(optimizer, params), bits(other, last))
        assert [int(optimizer.state[p]["flips"]) for p in params] == [int(other.state[p]["flips"]) for p in last]
    assert last[0].is_contiguous(memory_format=torch.channels_last)


@every
def test_a_parameter_may_be_a_view_or_empty(row: Row):
    """A transposed weight is not contiguous, and a layer of width 0 has no elements."""
    straight = nn.Parameter(make_params()[1].detach().clone())
    turned = nn.Parameter(make_params()[1].detach().t().contiguous().t())
    empty = nn.Parameter(torch.empty(0, 3))
    one, other = row.build([straight]), row.build([turned, empty])
    for step in range(8):
        (grad,) = make_grads(step, [straight])
        straight.grad, turned.grad, empty.grad = grad, grad, torch.zeros(0, 3)
        one.step()
        other.step()
        assert torch.equal(straight, turned)


# ---- groups


@every
def test_groups_are_independent_and_have_their_own_options(row: Row):
    params, alone = make_params(), make_params()
    grouped = row.build([{"params": params[:1]}, {"params": params[1:], **row.own}])
    first, second = row.build(alone[:1]), row.build([{"params": alone[1:], **row.own}])
    run(grouped, params, range(15))
    for step in range(15):
        for param, grad in zip(alone, make_grads(step, alone), strict=True):
            param.grad = grad
        first.step()
        second.step()
    assert_same_bits(bits(grouped, params)[:2], [(f"parameter {i}", p.detach()) for i, p in enumerate(alone)])


@every
def test_a_group_added_later_starts_from_scratch(row: Row):
    params, twin = make_params(), make_params()
    optimizer, other = row.build(params[:1]), row.build(twin[:1])
    run(optimizer, params, range(4))
    optimizer.add_param_group({"params": params[1], **row.own})
    run(optimizer, params, range(4, 9))
    run(other, twin, range(9))
    fresh = row.build([{"params": twin[1], **row.own}], seed=1)
    run(fresh, twin, range(4, 9))
    assert torch.equal(params[0], twin[0])
    assert torch.equal(params[1], twin[1])


@every
def test_unknown_options_are_refused_by_name(row: Row):
    params = make_params()
    with pytest.raises(ValueError, match=r"has no group option 'momentum'; options: .*(alpha|lr|gamma)"):
        row.build([{"params": params, "momentum": 0.9}])
    optimizer = row.build(params[:1])
    with pytest.raises(ValueError, match="has no group option 'beta', 'zeta'"):
        optimizer.add_param_group({"params": params[1:], "zeta": 1, "beta": 2})
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize(
    ("row", "invalid", "message"), [(row, *invalid) for row in OPTIMIZERS.values() for invalid in row.invalid]
)
def test_values_out_of_range_are_refused(row: Row, invalid: dict, message: str):
    with pytest.raises(ValueError, match=message):
        row.build(make_params(), **invalid)


@every
def test_common_arguments_are_checked(row: Row):
    for invalid, message in (
        ({"nonfinite": "warn"}, "nonfinite is 'warn'; it must be 'raise', 'skip' or 'ignore'"),
        ({"ff_every": 0}, "ff_every is 0"),
        ({"ff_every": 2.5}, "ff_every is 2.5"),
    ):
        with pytest.raises(ValueError, match=message):
            row.build(make_params(), **invalid)
    with pytest.raises(TypeError, match="sets"):
        row.build([{"params": set(make_params())}])
    with pytest.raises(ValueError, match="empty"):
        row.build([])
    with pytest.raises(ValueError, match=r"conv.weight is torch.complex64; binary weights must have a floating-point"):
        row.build([("conv.weight", nn.Parameter(torch.ones(2, 1, dtype=torch.complex64)))])
    params = make_params()
    params[1].data[0, 0] = float("nan")
    with pytest.raises(ValueError, match=r"parameter 1, shape \(5, 7\), contains NaN or infinity"):
        row.build(params)


# ---- the protocol of a step


@every
def test_a_closure_is_called_once_with_gradients_on(row: Row):
    params, twin = make_params(), make_params()
    optimizer, other = row.build(params), row.build(twin)
    calls = []

    def closure() -> float:
        calls.append(torch.is_grad_enabled())
        optimizer.zero_grad()
        loss = torch.stack([(p * g).sum() for p, g in zip(params, make_grads(0, params), strict=True)]).sum()
        loss.backward()
        return float(loss.detach())

    expected = sum(float((p.detach() * g).sum()) for p, g in zip(params, make_grads(0, params), strict=True))
    assert optimizer.step(closure) == pytest.approx(expected, rel=1e-5)
    run(other, twin, range(1))
    assert calls == [True]
    assert_same_bits(bits(optimizer, params), bits(other, twin))


@every
def test_parameters_without_a_gradient_do_not_change(row: Row):
    params, twin = make_params(), make_params()
    optimizer, other = row.build(params), row.build(twin)
    start = params[1].detach().clone()
    for step in range(6):
        for p, grad in zip(params, make_grads(step, params), strict=True):
            p.grad = grad
        params[1].grad = None
        optimizer.step()
    assert torch.equal(params[1], start)
    assert not optimizer.state.get(params[1])
    run(optimizer, params, range(6, 9))  # now it takes part
    run(other, twin, range(6, 9))
    assert torch.equal(params[1], twin[1])
    before = bits(optimizer, params)
    optimizer.zero_grad()
    assert all(p.grad is None for p in params)
    optimizer.step()
    assert_same_bits(before, bits(optimizer, params))


@every
def test_frozen_parameters_do_not_change_even_with_an_old_gradient(row: Row):
    params = make_params()
    optimizer = row.build(params)
    run(optimizer, params, range(2))
    params[1].requires_grad_(False)
    kept = bits(optimizer, params)
    run(optimizer, params, range(2, 40))
    now = dict(bits(optimizer, params))
    assert all(torch.equal(now[name], value) for name, value in kept if name == "parameter 1" or name.endswith("of 1"))
    assert not torch.equal(now["parameter 0"], dict(kept)["parameter 0"])


@every
def test_tied_parameters_are_stepped_once(row: Row):
    params, twin = make_params(), make_params()
    optimizer, other = row.build([params[0], params[1], params[0]]), row.build(twin)
    named = row.build([("a", nn.Parameter(params[0].detach())), *[("b", params[1])] * 2])
    assert [len(o.param_groups[0]["params"]) for o in (optimizer, named)] == [2, 2]
    assert named.param_groups[0]["param_names"] == ["a", "b"]
    run(optimizer, params, range(5))
    run(other, twin, range(5))
    assert_same_bits(bits(optimizer, params), bits(other, twin))


@every
def test_accumulated_gradients_are_one_step(row: Row):
    params, twin = make_params(), make_params()
    optimizer, other = row.build(params), row.build(twin)
    for step in range(4):
        optimizer.zero_grad()
        for part in (2 * step, 2 * step + 1):
            for p, grad in zip(params, make_grads(part, params), strict=True):
                (p * grad).sum().backward()
        optimizer.step()
        for p, a, b in zip(twin, make_grads(2 * step, twin), make_grads(2 * step + 1, twin), strict=True):
            p.grad = a + b
        other.step()
    assert_same_bits(bits(optimizer, params), bits(other, twin))
    assert optimizer.param_groups[0]["step"] == 4


@every
def test_maximize_increases_the_objective(row: Row):
    params, twin = make_params(), make_params()
    optimizer, other = row.build(params, maximize=True), row.build(twin)
    for step in range(8):
        for p, q, grad in zip(params, twin, make_grads(step, params), strict=True):
            p.grad, q.grad = grad, -grad
        optimizer.step()
        other.step()
    assert_same_bits(bits(optimizer, params), bits(other, twin))


@every
def test_sparse_gradients_are_refused(row: Row):
    param = nn.Parameter(torch.randn(4, 3))
    optimizer = row.build([param])
    param.grad = torch.eye(4, 3).to_sparse()
    with pytest.raises(ValueError, match="needs dense gradients"):
        optimizer.step()


@every
def test_hooks_are_called(row: Row):
    params = make_params()
    optimizer = row.build(params)
    heard: list[str] = []
    optimizer.register_step_pre_hook(lambda *_: heard.append("before"))
    optimizer.register_step_post_hook(lambda *_: heard.append("after"))
    optimizer.register_state_dict_post_hook(lambda *_: heard.append("saved"))
    optimizer.register_load_state_dict_pre_hook(lambda *_: heard.append("loading"))
    optimizer.register_load_state_dict_post_hook(lambda *_: heard.append("loaded"))
    run(optimizer, params, range(1))
    optimizer.load_state_dict(optimizer.state_dict())
    assert heard == ["before", "after", "saved", "loading", "loaded"]
