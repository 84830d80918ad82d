"""What every optimizer of binary weights must do as a torch optimizer, for each row of the table."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from reference.optimizer_table import OPTIMIZERS, Row, assert_same_bits, bits, make_grads, make_params, run
from zerocross.optim.base import all_finite

ROWS = [
    pytest.param(row, id=name, marks=[pytest.mark.slow] if row.compiled else []) for name, row in OPTIMIZERS.items()
]
every = pytest.mark.parametrize("row", ROWS)
of_theta = pytest.mark.parametrize("row", [p for p in ROWS if p.values[0].kind == "theta"])  # type: ignore[union-attr]
schedulable = pytest.mark.parametrize("row", [p for p in ROWS if p.values[0].schedulable])  # type: ignore[union-attr]
NAN, INF = float("nan"), float("inf")


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
        params[0][:2] = 0  # drawn, for those that draw
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
            # A layout of the gradient's own is allowed, too.
            param.grad = grad.to(memory_format=torch.channels_last) if grad.dim() == 4 and step % 2 else grad
        other.step()
        assert_same_bits(bits(optimizer, params), bits(other, last))
        assert [int(optimizer.state[p]["flips"]) for p in params] == [int(other.state[p]["flips"]) for p in last]
    assert last[0].is_contiguous(memory_format=torch.channels_last)


@every
def test_a_parameter_may_be_a_view_or_empty(row: Row):
    """A transposed weight is not contiguous, and a layer of width 0 has no element at all."""
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
def test_a_group_added_later_starts_afresh(row: Row):
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
    with pytest.raises(ValueError, match=r"knows no group option 'momentum'; it has .*(alpha|lr|gamma)"):
        row.build([{"params": params, "momentum": 0.9}])
    optimizer = row.build(params[:1])
    with pytest.raises(ValueError, match="knows no group option 'beta', 'zeta'"):
        optimizer.add_param_group({"params": params[1:], "zeta": 1, "beta": 2})
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize(
    ("row", "wrong", "says"), [(row, *wrong) for row in OPTIMIZERS.values() for wrong in row.wrong]
)
def test_values_out_of_range_are_refused(row: Row, wrong: dict, says: str):
    with pytest.raises(ValueError, match=says):
        row.build(make_params(), **wrong)


@every
def test_arguments_that_all_share_are_checked(row: Row):
    for wrong, says in (
        ({"nonfinite": "warn"}, "nonfinite is 'warn'; it can be 'raise', 'skip' or 'ignore'"),
        ({"ff_every": 0}, "ff_every is 0"),
        ({"ff_every": 2.5}, "ff_every is 2.5"),
    ):
        with pytest.raises(ValueError, match=says):
            row.build(make_params(), **wrong)
    with pytest.raises(TypeError, match="sets"):
        row.build([{"params": set(make_params())}])
    with pytest.raises(ValueError, match="empty"):
        row.build([])
    with pytest.raises(ValueError, match=r"conv.weight is torch.complex64; binary weights are trained in"):
        row.build([("conv.weight", nn.Parameter(torch.ones(2, dtype=torch.complex64)))])
    params = make_params()
    params[1].data[0, 0] = NAN
    with pytest.raises(ValueError, match=r"parameter 1, shape \(5, 7\), holds NaN or infinity"):
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
def test_parameters_without_a_gradient_stay(row: Row):
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
    run(optimizer, params, range(6, 9))  # it joins in
    run(other, twin, range(6, 9))
    assert torch.equal(params[1], twin[1])
    before = bits(optimizer, params)
    optimizer.zero_grad()
    assert all(p.grad is None for p in params)
    optimizer.step()
    assert_same_bits(before, bits(optimizer, params))


@every
def test_frozen_parameters_stay_even_with_an_old_gradient(row: Row):
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
def test_maximize_climbs(row: Row):
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
    with pytest.raises(ValueError, match="takes dense gradients"):
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


# ---- copies and checkpoints


@every
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_resumed_from_a_file_it_goes_on_to_the_bit(row: Row, dtype: torch.dtype):
    params = make_params(dtype)
    optimizer = row.build(params)
    run(optimizer, params, range(5))
    file = io.BytesIO()
    torch.save({"params": [p.detach() for p in params], "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed_params = [nn.Parameter(p) for p in saved["params"]]
    resumed = row.build(resumed_params, **({"start": None} if row.kind == "latent" else {}))
    resumed.load_state_dict(saved["optimizer"])
    assert_same_bits(bits(optimizer, params), bits(resumed, resumed_params))
    lowest = torch.float64 if dtype == torch.float64 else torch.float32
    assert all(v.dtype in (lowest, torch.float64) for name, v in bits(resumed, resumed_params) if " of " in name)
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
    with pytest.raises(ValueError, match=r"this state_dict is not of a \w+: a group in it has no"):
        row.build(params).load_state_dict(adam.state_dict())
    with pytest.raises(ValueError, match="different number of parameter groups"):
        row.build(params).load_state_dict(row.build([{"params": p} for p in make_params()]).state_dict())


@every
@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_a_copy_goes_on_alone_to_the_bit(row: Row, way: str):
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
def test_a_scheduler_is_a_decay_by_hand(row: Row, name: str):
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
def test_grad_scaler_scales_exactly_and_leaves_out_overflows(row: Row):
    params, twin = make_params(), make_params()
    optimizer, other = row.build(params), row.build(twin)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    for step in range(6):
        optimizer.zero_grad()
        overflow = step == 3
        loss = torch.stack([(p * g).sum() for p, g in zip(params, make_grads(step, params), strict=True)]).sum()
        scaler.scale(loss * INF if overflow else loss).backward()
        before = bits(optimizer, params)
        scaler.step(optimizer)
        scaler.update()
        if overflow:
            assert_same_bits(before, bits(optimizer, params))
            assert scaler.get_scale() == 2.0**11
        else:
            run(other, twin, range(step, step + 1))
    assert_same_bits(bits(optimizer, params), bits(other, twin))


# ---- gradients that are not finite


@every
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_raise_names_the_parameter_and_changes_nothing(row: Row, bad: float):
    params = make_params()
    optimizer = row.build([("body.conv.weight", params[0]), ("head.weight", params[1])])
    for steps in (range(0), range(3)):  # before the first step, and later
        run(optimizer, params, steps)
        before, counter = bits(optimizer, params), optimizer.param_groups[0]["step"]
        params[1].grad = torch.zeros_like(params[1])
        params[1].grad[2, 3:5] = bad
        with pytest.raises(
            ValueError, match=r"gradient of 'head.weight' holds 2 NaN or infinite values of 35; no state"
        ):
            optimizer.step()
        assert_same_bits(before, bits(optimizer, params))
        assert optimizer.param_groups[0]["step"] == counter
    unnamed = row.build(make_params())
    unnamed.param_groups[0]["params"][1].grad = torch.full((5, 7), bad)
    with pytest.raises(ValueError, match=r"parameter 1 of its group, shape \(5, 7\)"):
        unnamed.step()


@every
@pytest.mark.parametrize("bad", [NAN, INF])
def test_skip_counts_and_leaves_no_trace(row: Row, bad: float):
    params, twin = make_params(), make_params()
    optimizer, other = row.build(params, nonfinite="skip", ff_every=1), row.build(twin, nonfinite="skip")
    for step in range(10):
        if step in (0, 1, 5):
            before = bits(optimizer, params)
            for p in params:
                p.grad = torch.ones_like(p)
            params[0].grad[0, 0, 0, 0] = bad  # type: ignore[index]
            optimizer.step()
            assert_same_bits(before, bits(optimizer, params))
        run(optimizer, params, range(step, step + 1))
        run(other, twin, range(step, step + 1))
    assert_same_bits(bits(optimizer, params), bits(other, twin))
    assert (optimizer.skipped_steps, other.skipped_steps) == (3, 0)
    resumed = row.build(make_params())
    resumed.load_state_dict(optimizer.state_dict())
    assert resumed.skipped_steps == 3
    assert optimizer.state[params[0]]["flips"].dtype == torch.int64


@pytest.mark.parametrize("row", [p for p in ROWS if not p.marks])
def test_skip_does_not_wait_for_the_device_once_there_is_state(row: Row):
    """On a device without data every read of a value is an error."""
    (param,) = ghost = [nn.Parameter(torch.empty(4, 3, device="meta"))]
    optimizer = row.build([nn.Parameter(torch.randn(4, 3))], nonfinite="ignore", ff_every=1)
    optimizer.param_groups[0]["params"] = ghost
    param.grad = torch.empty(4, 3, device="meta")
    optimizer.step()
    optimizer.nonfinite = "skip"
    optimizer.step()
    assert optimizer.param_groups[0]["skipped"].device.type == "meta"


def test_finite_is_what_fits_its_own_precision():
    large = torch.tensor([1e300, -1e300], dtype=torch.float64)
    assert all_finite([large, torch.ones(2), torch.ones(0), torch.ones(1, dtype=torch.bfloat16)])
    assert not all_finite([large, large.float()])
    assert all_finite([torch.ones(0)])
    for bad in (NAN, INF, -INF):
        assert not all_finite([torch.ones(3), torch.tensor([1.0, bad, 2.0])])


@of_theta
@pytest.mark.parametrize("dtypes", ["float64 float32", "float32 float64", "float64 float32 bfloat16 float16"])
def test_precisions_may_be_mixed_in_a_group(row: Row, dtypes: str):
    """1 / tiny of float64 does not fit into float32, nor that of float32 into float16."""
    params = [nn.Parameter(torch.ones(6, dtype=getattr(torch, name))) for name in dtypes.split()]
    optimizer = row.build(params, ff_every=1)
    alone = nn.Parameter(torch.ones(6, dtype=torch.float64))
    other = row.build([alone])
    for step in range(12):
        grad = (make_grads(step, [alone])[0] * 16).round()  # exact in all of them
        for p in (*params, alone):
            p.grad = grad.to(p.dtype)
        optimizer.step()
        other.step()
    assert all(torch.equal(p.double(), alone) for p in params)


@of_theta
def test_ignore_keeps_signs_whatever_comes(row: Row):
    params = make_params()
    optimizer = row.build(params, nonfinite="ignore")
    for bad in (NAN, INF, -INF, 3e38, 1e-45):
        for p in params:
            p.grad = torch.full_like(p, bad)
        optimizer.step()
        assert all((p.abs() == 1).all() for p in params)
