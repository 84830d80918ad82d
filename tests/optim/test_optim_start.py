"""Initial binary weights: signs of the given parameters, zeros drawn once, and warm starts."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import nn

from reference.optimizer_table import OPTIMIZERS, Row, make_params, run
from zerocross.filters import cascade, ema
from zerocross.nn import BinaryLinear
from zerocross.optim import GradientFilter, HybridOptimizer, IIRGradientFilter, LatentSGD, split_params

THETA = [pytest.param(row, id=name) for name, row in OPTIMIZERS.items() if row.kind == "theta" and not row.compiled]


@pytest.mark.parametrize("row", THETA)
def test_theta_starts_as_the_sign_of_the_given_parameter(row: Row):
    handed = torch.tensor([-2.5, -1e-45, 1e-45, 3e38, -1.0, 1.0])
    param = nn.Parameter(handed.clone())
    row.build([{"params": [param], "vectors": True}])
    assert param.tolist() == [-1, -1, 1, 1, -1, 1]


@pytest.mark.parametrize("row", THETA)
def test_construction_on_a_binary_model_changes_nothing(row: Row):
    params = [nn.Parameter(p.detach().sign()) for p in make_params()]
    before = [p.detach().clone() for p in params]
    where = [p.data_ptr() for p in params]
    state = torch.get_rng_state()
    row.build(params)
    assert all(torch.equal(p, q) for p, q in zip(params, before, strict=True))
    assert [p.data_ptr() for p in params] == where
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("row", THETA)
def test_zeros_are_drawn_once_and_depend_only_on_the_seed(row: Row):
    def drawn(seed: int, *, salt: int = 0, others_zero: bool = True, last: bool = False) -> torch.Tensor:
        torch.manual_seed(salt)  # the global generator does not matter, nor does what a rank did before
        torch.rand(salt + 1)
        first, param = nn.Parameter(torch.ones(3, 1) * (not others_zero)), nn.Parameter(torch.zeros(20, 10, 3, 3))
        param.data[0] = 5.0
        param.data[0, 0, 0, 0] = -0.0  # a negative zero is a zero
        if last:
            param = nn.Parameter(param.detach().to(memory_format=torch.channels_last))
        row.build([first, param], seed=seed)
        return param.detach()

    signs = drawn(3)
    assert (signs.abs() == 1).all()
    assert (signs[0].flatten()[1:] == 1).all()
    assert abs(float(signs[1:].mean())) < 0.1
    assert torch.equal(signs, drawn(3, salt=9))
    assert torch.equal(signs, drawn(3, others_zero=False))
    assert torch.equal(signs, drawn(3, last=True))
    assert not torch.equal(signs, drawn(4))
    pair = [nn.Parameter(torch.zeros(10, 100)), nn.Parameter(torch.zeros(10, 100))]
    row.build(pair)
    # Two layers of the same shape are drawn independently.
    assert 0.4 < float((pair[0] == pair[1]).float().mean()) < 0.6


def test_a_zero_is_not_drawn_again():
    """With zero gradients, g stays 0: the drawn sign remains."""
    param = nn.Parameter(torch.zeros(500))
    optimizer = GradientFilter([param], vectors=True)
    signs = param.detach().clone()
    for _ in range(5):
        param.grad = torch.zeros(500)
        optimizer.step()
        assert torch.equal(param, signs)


@pytest.mark.parametrize("build", [GradientFilter, lambda p: IIRGradientFilter(p, cascade(ema(0.1), ema(1e-3)))])
def test_the_first_update_sets_theta_to_the_negative_sign_of_the_gradient(build):
    params = make_params()
    optimizer = build(params)
    run(optimizer, params, range(1))
    assert all(torch.equal(p, -p.grad.sign()) for p in params if p.grad is not None)


def _noise(steps: int, size: int) -> torch.Tensor:
    return torch.randn(steps, size, generator=torch.Generator().manual_seed(0))


def _survivors(warm_start: float, steps: int, alpha: float = 1e-3, drift: float = 0.0) -> float:
    """Return the fraction of trained signs that remain after several updates of noise around a mean of `drift`."""
    param = nn.Parameter(torch.ones(20_000))
    optimizer = GradientFilter([param], alpha=alpha, warm_start=warm_start, vectors=True)
    for grad in _noise(steps, 20_000):
        param.grad = grad + drift
        optimizer.step()
    return float((param == 1).float().mean())


def test_without_a_warm_start_half_of_the_trained_signs_flip_immediately():
    assert _survivors(0.0, steps=1) == pytest.approx(0.5, abs=0.02)


def test_a_warm_start_keeps_trained_signs_through_the_first_updates():
    alpha = 1e-3
    c = 3 * math.sqrt(alpha / 2)
    assert _survivors(c, steps=100) == _survivors(c, steps=1) == 1.0
    assert 0.999 < _survivors(c, steps=300) < 1.0
    # A gradient that disagrees on average eventually changes the sign: 300 steps, a third of the window.
    assert _survivors(c, steps=300, drift=1.0) < 0.001


def test_a_warm_start_has_the_magnitude_of_the_first_gradient():
    for scale in (1e-6, 1.0, 1e6, 1e30):  # the square of the last exceeds float32
        param = nn.Parameter(torch.tensor([1.0, -1.0, 1.0, -1.0]))
        optimizer = GradientFilter([param], warm_start=0.5, alpha=1e-20, vectors=True)
        param.grad = scale * torch.tensor([3.0, 3.0, -3.0, 3.0])
        optimizer.step()
        assert optimizer.state[param]["g"] == pytest.approx(torch.tensor([-1.5, 1.5, -1.5, 1.5]) * scale)


# ---- latent weights


def test_a_latent_start_at_zero_has_random_signs_and_tiny_magnitudes():
    param = nn.Parameter(torch.zeros(1000))
    LatentSGD([param], start=0)
    assert 0.4 < float((param > 0).float().mean()) < 0.6
    assert (param.abs() == torch.finfo(torch.float32).tiny).all()
    handed = nn.Parameter(torch.tensor([-3.0, 2.0]))
    LatentSGD([handed], start=0)
    assert handed.sign().tolist() == [-1, 1]


def test_a_latent_start_is_rescaled_or_kept():
    left, scaled = make_params(), make_params()
    LatentSGD(left)
    LatentSGD(scaled, start=0.3)
    for p, q, r in zip(left, make_params(), scaled, strict=True):
        assert torch.equal(p, q)
        assert float(r.detach().std(correction=0)) == pytest.approx(0.3)
        assert torch.equal(r.sign(), q.sign())


def test_a_constant_cannot_be_rescaled():
    param = nn.Parameter(torch.ones(3, 2))
    optimizer = LatentSGD(make_params(), start=0.1)
    with pytest.raises(
        ValueError, match=r"parameter of shape \(3, 2\) is constant: initialise it first, or use start=0"
    ):
        optimizer.add_param_group({"params": param})
    assert len(optimizer.param_groups) == 1
    assert torch.equal(param, torch.ones(3, 2))


@pytest.mark.parametrize("warm", [0.0, 0.05])
def test_a_first_step_that_loses_loaded_weights_warns(warm: float):
    """In any training loop: a filter that starts at 0 takes the sign of the first gradient, whatever was trained."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.BatchNorm1d(16), BinaryLinear(16, 16, sign_input="clip"))
    for loaded in (False, True):
        if loaded:
            net.load_state_dict(net.state_dict())
        binary, real, rest = split_params(net)
        optimizer = HybridOptimizer(
            GradientFilter(binary, alpha=1e-3, warm_start=warm), torch.optim.SGD([*real, *rest], lr=0.1), net
        )
        for step in range(2):
            optimizer.zero_grad()
            net(torch.randn(32, 4)).square().sum().backward()
            expected = loaded and warm == 0 and step == 0
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                optimizer.step()
            lost = [str(each.message) for each in caught if "the first update flipped" in str(each.message)]
            assert bool(lost) == expected
