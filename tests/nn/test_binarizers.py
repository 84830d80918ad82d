"""Latent-weight binarizers: equal to their formulas including gradients; values are always -scale or +scale."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from reference.binarizers import NAIVE, around_zero
from zerocross.nn import BINARIZERS, BinaryConv2d, BinaryLinear, RSign, Sign, binarize, set_progress, sign

PROGRESS = (0.0, 0.37, 0.99)


def latent(filters: int = 5, inputs: int = 24, seed: int = 0, size: float = 0.7) -> torch.Tensor:
    return size * torch.randn(filters, inputs, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("progress", PROGRESS)
@pytest.mark.parametrize("name", BINARIZERS)
def test_forward_and_gradients_equal_the_formula(name: str, progress: float) -> None:
    w = latent().requires_grad_()
    module = BINARIZERS[name](w).to(torch.float64)
    with torch.no_grad():
        for index, own in enumerate(module.parameters()):  # away from their initial values
            own.mul_(1 + 0.05 * (index + 1))
    set_progress(module, progress)
    grad = latent(seed=1)
    out = module(w)
    out.backward(grad)
    own = {key: value.numpy().copy() for key, value in module.state_dict().items()}
    expected, dw, d_own = NAIVE[name](w.detach().numpy(), grad.numpy(), progress, own)
    np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-7, atol=1e-9)
    assert w.grad is not None
    # tau and t are float32 buffers, and the differences have errors of their own
    np.testing.assert_allclose(w.grad.numpy(), dw, rtol=2e-5, atol=1e-7)
    assert set(d_own) == {key for key, _ in module.named_parameters()}
    for key, value in module.named_parameters():
        assert value.grad is not None
        np.testing.assert_allclose(value.grad.numpy(), d_own[key], rtol=2e-5, atol=1e-7)


@given(
    st.sampled_from(sorted(BINARIZERS)),
    st.tuples(st.integers(1, 6), st.integers(2, 9), st.sampled_from([1, 3])),
    st.integers(0, 2**31),
    st.floats(0, 1),
)
@example("siman", (1, 2, 1), 142, 0.0)  # a tie that rounding decides
def test_weights_are_plus_or_minus_one_scale_per_filter(
    name: str, shape: tuple[int, int, int], seed: int, progress: float
) -> None:
    torch.manual_seed(seed)
    filters, inputs, kernel = shape
    layer = BinaryConv2d(inputs, filters, kernel, weights="latent", binarizer=name, init_scale=0.1)
    set_progress(layer, progress)
    out = around_zero(name, layer.binary_weight())
    size = out.abs().flatten(1)
    assert (size > 0).all()
    torch.testing.assert_close(size, size[:, :1].expand_as(size), rtol=1e-4 if name == "adabin" else 1e-6, atol=0)
    assert torch.equal(out < 0, layer.before_sign() < 0)  # flips are counted on the values whose sign the layer takes


@pytest.mark.parametrize("name", BINARIZERS)
def test_the_state_of_a_real_twin_initialises_the_binarizer(name: str) -> None:
    torch.manual_seed(0)
    real, layer = torch.nn.Linear(12, 5, bias=False), BinaryLinear(12, 5, weights="latent", binarizer=name)
    missing, unexpected = layer.load_state_dict(real.state_dict(), strict=True)
    assert not missing
    assert not unexpected
    twin = BINARIZERS[name](real.weight)
    twin.load_state_dict(twin.start(real.weight))
    torch.testing.assert_close(layer.binary_weight(), twin(real.weight))
    again = BinaryLinear(12, 5, weights="latent", binarizer=name)
    with torch.no_grad():
        for own in layer.parameters():
            own.mul_(1.1)
    again.load_state_dict(layer.state_dict())  # a saved layer keeps its learned parameters
    for one, other in zip(layer.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_binarize_gives_layers_a_binarizer() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
    converted, _ = binarize(model, weights="latent", binarizer="xnor-net++")
    layer = converted.get_submodule("1")
    assert isinstance(layer, BinaryLinear)
    expected = sign(layer.weight) * layer.weight.abs().mean(1, keepdim=True)
    torch.testing.assert_close(layer.binary_weight(), expected)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"weights": "latent", "binarizer": "xnor"}, "binarizer.*'xnor'.*xnor-net"),
        ({"weights": "theta", "binarizer": "recu"}, "weights='latent'"),
        ({"weights": "latent", "binarizer": "recu", "scale": "learned"}, "leave out scale"),
        ({"weights": "latent", "binarizer": "dsq", "weight_surrogate": "clip"}, "leave out scale and weight_surrogate"),
    ],
)
def test_incompatible_settings_are_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BinaryLinear(4, 4, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "words"),
    [("xnor-net", "input channels.* has one:")]
    + [(name, "has one weight") for name in ("ir-net", "recu", "adabin", "siman", "ovsw", "rbnn")],
)
def test_filter_of_one_weight_cannot_be_centred(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BinaryLinear(1, 4, weights="latent", binarizer=name)


@pytest.mark.parametrize("progress", PROGRESS)
def test_ede_is_a_tanh_that_sharpens(progress: float) -> None:
    layer = Sign("ede")
    layer.set_progress(progress)
    x = torch.linspace(-3, 3, 62, requires_grad=True)
    layer(x).sum().backward()
    t = 10 ** (4 * progress - 3)
    expected = max(1 / t, 1) * t * (1 - torch.tanh(t * x.detach()) ** 2) * (x.detach().abs() < 1)
    assert x.grad is not None
    torch.testing.assert_close(x.grad, expected, rtol=1e-4, atol=1e-6)
    assert not layer.state_dict()  # the training progress is not a weight


def test_progress_reaches_every_layer_that_changes_with_time() -> None:
    model = torch.nn.Sequential(
        RSign(4, "ede"),
        BinaryLinear(4, 8, weights="latent", binarizer="ir-net"),
        BinaryLinear(8, 4, weights="latent", binarizer="recu"),
    )
    set_progress(model, 0.5)
    result = dict(model.named_buffers())
    assert result["0.sign.temperature"].item() == pytest.approx(0.1)
    assert result["1.binarizer.temperature"].item() == pytest.approx(0.1)
    assert result["2.binarizer.tau"].item() == pytest.approx(0.85 + 0.14 * (np.exp(0.5) - 1) / (np.e - 1))
