"""The sign is -1 or +1 and never 0; its gradient is that of the named surrogate."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reference.signs import naive_derivative, naive_sign
from zerocross.nn import SURROGATES, Sign, sign

FLOATS = st.floats(-10, 10, allow_nan=False, width=32)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def test_zero_of_either_sign_is_plus_one_and_nan_stays_visible():
    x = torch.tensor([0.0, -0.0, -1e-40, 1e-40, float("inf"), -float("inf"), float("nan")])
    assert torch.equal(sign(x)[:-1], torch.tensor([1.0, 1.0, -1.0, 1.0, 1.0, -1.0]))
    assert sign(x)[-1].isnan()


@pytest.mark.parametrize("surrogate", SURROGATES)
@settings(deadline=None, max_examples=40)
@given(values=st.lists(FLOATS, min_size=1, max_size=20), t=st.floats(0.05, 20))
@example(values=[0.0], t=0.75)  # 1 / t is not a float32
def test_forward_and_gradient_follow_the_formulas(surrogate, values, t):
    x = torch.tensor([*values, -1.0, 0.0, 1.0], dtype=torch.float64, requires_grad=True)
    y = sign(x, surrogate, t)
    (gradient,) = torch.autograd.grad(y, x, torch.full_like(x, 3.0))
    naive = [3 * naive_derivative(surrogate, v, t) for v in x.tolist()]
    assert y.tolist() == [naive_sign(v) for v in x.tolist()]
    torch.testing.assert_close(gradient, torch.tensor(naive, dtype=torch.float64), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("surrogate", "antiderivative"),
    [
        ("tanh", lambda x: torch.tanh(3 * x)),
        ("swish", lambda x: 2 * torch.sigmoid(3 * x) * (1 + 3 * x * (1 - torch.sigmoid(3 * x))) - 1),
        ("clip", torch.nn.functional.hardtanh),
    ],
)
def test_a_surrogate_is_the_derivative_of_its_curve(surrogate, antiderivative):
    x = torch.linspace(-2.99, 2.99, 100, dtype=torch.float64, requires_grad=True)
    (ours,) = torch.autograd.grad(sign(x, surrogate, 3.0).sum(), x)
    (theirs,) = torch.autograd.grad(antiderivative(x).sum(), x)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_large_inputs_give_finite_gradients(surrogate):
    x = torch.tensor([-3e38, -1e4, 1e4, 3e38], requires_grad=True)
    (gradient,) = torch.autograd.grad(sign(x, surrogate, 1.0).sum(), x)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_dtype_and_memory_format_are_kept(dtype, surrogate):
    x = torch.randn(2, 3, 4, 5, dtype=dtype).to(memory_format=torch.channels_last).requires_grad_()
    y = sign(x, surrogate)
    (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y))
    for tensor in (y, gradient):
        assert tensor.dtype == dtype
        assert tensor.is_contiguous(memory_format=torch.channels_last)
    assert set(y.float().unique().tolist()) == {-1.0, 1.0}


def test_compiled_without_graph_breaks_equals_eager():
    x = torch.randn(2, 8, 6, 6).to(memory_format=torch.channels_last).requires_grad_()

    def all_surrogates(x):
        return torch.stack([sign(x, name, 2.0) for name in SURROGATES])

    eager, compiled = all_surrogates(x), torch.compile(all_surrogates, fullgraph=True)(x)
    weights = torch.randn_like(eager)
    assert torch.equal(eager, compiled)
    torch.testing.assert_close(*(torch.autograd.grad(y, x, weights)[0] for y in (compiled, eager)))


def test_an_invalid_name_or_temperature_is_explained():
    with pytest.raises(ValueError, match=r"'polynomal': it must be one of identity, .*did you mean 'polynomial'"):
        sign(torch.ones(1), "polynomal")
    with pytest.raises(ValueError, match=r"temperature = 0: it must be positive"):
        Sign("tanh", temperature=0)


def test_sign_layer_survives_copy_and_pickle():
    layer = Sign("tanh", 4.0)
    x = torch.randn(9, requires_grad=True)
    (expected,) = torch.autograd.grad(sign(x, "tanh", 4.0).sum(), x)
    for twin in (layer, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(torch.autograd.grad(twin(x).sum(), x)[0], expected)
    assert repr(layer) == "Sign(tanh, temperature=4.0)"
