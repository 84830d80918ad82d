"""The flip ratio (Eq. 18) per parameter, group and in total, against a manual count, and read without waiting."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from reference.optimizer_table import OPTIMIZERS, Row, make_grads, make_params, run
from reference.optimizers import flip_ratio
from zerocross.optim import GradientFilter, ff_ratio
from zerocross.optim.signs import count_flips, negative

ROWS = [pytest.param(row, id=name) for name, row in OPTIMIZERS.items() if not row.compiled]


def _signs(params: list[nn.Parameter]) -> list[np.ndarray]:
    return [np.where(p.detach().numpy() < 0, -1.0, 1.0) for p in params]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("ff_every", [1, 3])
def test_the_ratio_equals_a_manual_count(row: Row, ff_every: int):
    params = make_params()
    optimizer = row.build([{"params": p} for p in params], ff_every=ff_every)
    assert math.isnan(ff_ratio(optimizer))
    assert all(math.isnan(value) for value in ff_ratio(optimizer, per="group"))
    assert ff_ratio(optimizer, per="parameter") == {}
    by_hand: list[float] = []
    for step in range(10):
        before = _signs(params)
        run(optimizer, params, range(step, step + 1))
        if step % ff_every == 0:
            by_hand = [flip_ratio(old, new) for old, new in zip(before, _signs(params), strict=True)]
        assert ff_ratio(optimizer, per="group") == pytest.approx(by_hand)
        assert ff_ratio(optimizer, per="parameter") == pytest.approx(dict(enumerate(by_hand)))
        whole = sum(r * p.numel() for r, p in zip(by_hand, params, strict=True)) / sum(p.numel() for p in params)
        assert ff_ratio(optimizer) == pytest.approx(whole)
    with pytest.raises(ValueError, match="per is 'layer'; it must be 'total', 'group' or 'parameter'"):
        ff_ratio(optimizer, per="layer")  # type: ignore[arg-type]


def test_names_are_used_if_known_and_wrappers_are_unwrapped():
    params = make_params()
    optimizer = GradientFilter([("conv", params[0]), ("linear", params[1])], ff_every=1)
    run(optimizer, params, range(1))

    class Wrapper:
        def __init__(self, inner: object) -> None:
            self.optimizer = inner

    assert set(ff_ratio(Wrapper(Wrapper(optimizer)), per="parameter")) == {"conv", "linear"}


def test_counting_resumes():
    """With ff_every = 4, after 3 steps, the next count is at the step after the next."""
    params = make_params()
    optimizer = GradientFilter(params, ff_every=4)
    run(optimizer, params, range(3))
    twin = [nn.Parameter(p.detach().clone()) for p in params]
    resumed = GradientFilter(twin, ff_every=4)
    resumed.load_state_dict(optimizer.state_dict())
    assert ff_ratio(resumed) == ff_ratio(optimizer) > 0.1
    run(resumed, twin, range(3, 4))
    assert ff_ratio(resumed) == ff_ratio(optimizer)
    for p in twin:
        p.grad = torch.zeros_like(p)
    resumed.param_groups[0]["lr"] = 0.0
    resumed.step()  # the counted step: nothing can flip
    assert ff_ratio(resumed) == 0.0


def test_frozen_and_unused_weights_are_left_out_and_missing_gradients_count_zero():
    params = [*make_params(), nn.Parameter(torch.ones(1, 1000))]
    optimizer = GradientFilter(params, ff_every=1)
    run(optimizer, params[:2], range(1))  # the third never has a gradient
    first = ff_ratio(optimizer, per="parameter")
    assert set(first) == {0, 1}
    assert ff_ratio(optimizer) > 0.1
    params[0].grad = None
    params[1].grad = make_grads(1, params)[1]
    optimizer.step()
    assert ff_ratio(optimizer, per="parameter")[0] == 0.0  # not the count of the previous step
    params[1].requires_grad_(False)
    assert set(ff_ratio(optimizer, per="parameter")) == {0}


def test_counting_does_not_synchronize_with_the_device():
    """On a device without data, reading a value raises an error: a counting step must not read a value."""
    param = nn.Parameter(torch.ones(1, 4, 3))
    optimizer = GradientFilter([param], ff_every=1, nonfinite="ignore")
    optimizer.param_groups[0]["params"] = [nn.Parameter(torch.empty(4, 3, device="meta"))]
    (ghost,) = optimizer.param_groups[0]["params"]
    ghost.grad = torch.empty(4, 3, device="meta")
    optimizer.step()
    flips = optimizer.state[ghost]["flips"]
    assert (flips.device.type, flips.shape, flips.dtype) == ("meta", (), torch.int64)
    with pytest.raises((RuntimeError, NotImplementedError)):
        ff_ratio(optimizer)


def test_the_count_of_a_sharded_weight_is_summed_over_ranks():
    class Partial(torch.Tensor):
        """As in DTensor: the count of one rank."""

        def full_tensor(self) -> Tensor:
            return torch.tensor(7)

    after = torch.ones(2, 3, dtype=torch.bool).as_subclass(Partial)
    assert int(count_flips(torch.zeros(2, 3, dtype=torch.bool), after)) == 7


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_count_is_exact(dtype: torch.dtype):
    """More flips than half-precision numbers can count."""
    before, after = torch.ones(70_000, dtype=dtype), torch.ones(70_000, dtype=dtype)
    after[::3] = -1
    flips: Tensor = count_flips(negative(before), negative(after))
    assert int(flips) == len(range(0, 70_000, 3))


def test_latent_zeros_count_as_plus_one_as_in_their_layers():
    assert negative(torch.tensor([0.0, -0.0, 1e-40, -1e-40])).tolist() == [False, False, False, True]


def test_reading_an_outdated_count_warns():
    for ff_every, stale in ((1, 0), (2, 2), (50, 3)):
        params = make_params()
        optimizer = GradientFilter(params, ff_every=ff_every)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            for step in range(4):
                run(optimizer, params, range(step, step + 1))
                ff_ratio(optimizer)
        messages = [str(w.message) for w in heard]
        assert len(messages) == stale
        assert all(f"flips are counted every {ff_every} updates" in message for message in messages)
