"""torch.func through the sign: per-sample gradients, vmap over inputs and weights, functional_call, compiled code."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

from zerocross.nn import SURROGATES, BinaryConv2d, BinaryLinear, Sign, sign
from zerocross.nn.sign import scale_backward, scale_forward

WEIGHTS = torch.arange(1.0, 8.0)


@pytest.mark.parametrize("temperature", [1.0, torch.tensor(1.5)], ids=["number", "tensor"])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_vmap_of_grad_equals_backward(surrogate: str, temperature: float | Tensor):
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))

    def loss(sample: Tensor) -> Tensor:
        return (sign(sample, surrogate, temperature) * WEIGHTS).sum()

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns where it would loop over samples
        mapped = vmap(grad(loss))(x)
    whole = x.clone().requires_grad_()
    loss(whole).backward()
    assert whole.grad is not None
    assert torch.equal(mapped, whole.grad)
    assert torch.equal(vmap(lambda sample: sign(sample, surrogate, temperature), in_dims=1, out_dims=1)(x), sign(x))


@pytest.mark.parametrize("weights", ["theta", "latent"])
def test_per_sample_gradients_of_a_network_are_those_of_its_samples(weights: str):
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), Sign(), BinaryConv2d(4, 3, 3, weights=weights), nn.Flatten(), Sign("tanh"),
        BinaryLinear(48, 2, weights=weights),
    )  # fmt: skip
    x, y = torch.randn(6, 1, 8, 8), torch.tensor([0, 1, 1, 0, 1, 0])
    params: dict[str, Tensor] = dict(model.named_parameters())

    def loss(params: dict[str, Tensor], sample: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(functional_call(model, params, (sample[None],)), target[None])

    mapped = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
    for index in range(len(x)):
        model.zero_grad()
        nn.functional.cross_entropy(model(x[index : index + 1]), y[index : index + 1]).backward()
        for name, param in model.named_parameters():
            torch.testing.assert_close(mapped[name][index], param.grad)
    assert all(mapped[name].count_nonzero() for name in params)


def test_an_ensemble_is_one_vmap_over_its_weights():
    torch.manual_seed(2)
    members = [nn.Sequential(nn.Linear(5, 8), Sign(), BinaryLinear(8, 3)) for _ in range(4)]
    params, buffers = stack_module_state(members)
    x = torch.randn(7, 5)
    scores = vmap(lambda p, b: functional_call(members[0], (p, b), (x,)))(params, buffers)
    for member, own in zip(members, scores, strict=True):
        torch.testing.assert_close(own, member(x))


def test_the_scales_map_too():
    x, scale = torch.randn(4, 3), torch.tensor(0.5)
    assert torch.equal(vmap(grad(lambda v: scale_forward(v, scale).sum()))(x), torch.ones(4, 3))
    assert torch.equal(vmap(grad(lambda v: scale_backward(v, 3.0).sum()))(x), torch.full((4, 3), 3.0))
