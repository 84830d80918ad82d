"""Optimizers of binary weights with non-finite gradients, for each row of the table."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from reference.optimizer_table import (
    ROWS,
    Row,
    assert_same_bits,
    bits,
    every,
    make_grads,
    make_params,
    of_theta,
    run,
)
from zerocross.optim.finite import all_finite

NAN, INF = float("nan"), float("inf")


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
            ValueError, match=r"gradient of 'head.weight' contains 2 NaN or infinite values of 35; no state"
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
def test_skip_counts_and_changes_nothing_else(row: Row, bad: float):
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
def test_skip_does_not_synchronize_with_the_device(row: Row):
    """On a device without data, reading a value raises an error."""
    (param,) = ghost = [nn.Parameter(torch.empty(4, 3, device="meta"))]
    optimizer = row.build([nn.Parameter(torch.randn(4, 3))], nonfinite="ignore", ff_every=1)
    optimizer.param_groups[0]["params"] = ghost
    param.grad = torch.empty(4, 3, device="meta")
    optimizer.step()
    optimizer.nonfinite = "skip"
    optimizer.step()
    assert optimizer.param_groups[0]["skipped"].device.type == "meta"


def test_values_are_finite_in_their_own_precision():
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
    params = [nn.Parameter(torch.ones(1, 6, dtype=getattr(torch, name))) for name in dtypes.split()]
    optimizer = row.build(params, ff_every=1)
    alone = nn.Parameter(torch.ones(1, 6, dtype=torch.float64))
    other = row.build([alone])
    for step in range(12):
        grad = (make_grads(step, [alone])[0] * 16).round()  # exact in all of these precisions
        for p in (*params, alone):
            p.grad = grad.to(p.dtype)
        optimizer.step()
        other.step()
    assert all(torch.equal(p.double(), alone) for p in params)


@of_theta
def test_ignore_keeps_weights_binary(row: Row):
    params = make_params()
    optimizer = row.build(params, nonfinite="ignore")
    for bad in (NAN, INF, -INF, 3e38, 1e-45):
        for p in params:
            p.grad = torch.full_like(p, bad)
        optimizer.step()
        assert all((p.abs() == 1).all() for p in params)
