"""A binary layer equals its float twin on signs, and survives copying, saving and loading."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from zerocross.nn import BINARIZERS, BinaryConv1d, BinaryConv2d, BinaryLinear, RPReLU, RSign, sign

CHOICES = [
    ("theta", "none"),
    ("theta", "learned"),
    ("latent", "none"),
    ("latent", "channel_mean"),
    ("latent", "magnitude_aware"),
    ("latent", "learned"),
]
CONVOLUTIONS = [
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": (1, 3), "stride": 2, "dilation": 2, "groups": 2, "bias": True},
    {"kernel_size": 3, "padding": "same", "padding_mode": "circular"},
    {"kernel_size": 1, "padding": (2, 1), "padding_mode": "replicate"},
]
CONVOLUTIONS_OF_SERIES = [
    {"kernel_size": 7, "padding": 3},
    {"kernel_size": 3, "stride": 2, "dilation": 2, "groups": 2, "bias": True},
    {"kernel_size": 5, "padding": "same", "padding_mode": "circular"},
    {"kernel_size": (1,), "padding": (2,), "padding_mode": "replicate"},
]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def scale_of(layer):
    if layer.scaling in {"channel_mean", "magnitude_aware"}:
        return layer.weight.detach().abs().flatten(1).mean(1)
    return layer.scale.detach() if layer.scaling == "learned" else torch.ones(len(layer.weight))


def give_random_scale(layer):
    if layer.scale is not None:
        nn.init.uniform_(layer.scale, 0.5, 2.0)


@pytest.mark.parametrize(("weights", "scale"), CHOICES)
@pytest.mark.parametrize("sign_input", [None, "polynomial"])
@pytest.mark.parametrize("settings", CONVOLUTIONS, ids=range(len(CONVOLUTIONS)))
def test_convolution_equals_its_float_twin_on_signs(weights, scale, sign_input, settings):
    layer = BinaryConv2d(4, 6, **settings, weights=weights, scale=scale, sign_input=sign_input)
    give_random_scale(layer)
    twin = nn.Conv2d(4, 6, **{"bias": False, **settings})
    with torch.no_grad():
        twin.weight.copy_(sign(layer.weight) * scale_of(layer)[:, None, None, None])
        if layer.bias is not None and twin.bias is not None:
            twin.bias.copy_(nn.init.normal_(layer.bias))
    x = torch.randn(2, 4, 9, 7)
    torch.testing.assert_close(layer(x), twin(x if sign_input is None else sign(x)))


@pytest.mark.parametrize(("weights", "scale"), CHOICES)
@pytest.mark.parametrize("sign_input", [None, "polynomial"])
@pytest.mark.parametrize("settings", CONVOLUTIONS_OF_SERIES, ids=range(len(CONVOLUTIONS_OF_SERIES)))
def test_conv1d_equals_its_float_twin_on_signs(weights, scale, sign_input, settings):
    layer = BinaryConv1d(4, 6, **settings, weights=weights, scale=scale, sign_input=sign_input)
    give_random_scale(layer)
    twin = nn.Conv1d(4, 6, **{"bias": False, **settings})
    with torch.no_grad():
        twin.weight.copy_(sign(layer.weight) * scale_of(layer)[:, None, None])
        if layer.bias is not None and twin.bias is not None:
            twin.bias.copy_(nn.init.normal_(layer.bias))
    x = torch.randn(2, 4, 23)
    torch.testing.assert_close(layer(x), twin(x if sign_input is None else sign(x)))


@pytest.mark.parametrize("name", [None, *BINARIZERS])
def test_conv1d_equals_conv2d_on_images_one_pixel_high(name):
    """Values and gradients agree, for every binarizer."""
    settings = {"weights": "latent", "binarizer": name, "sign_input": "clip", "init_scale": 0.1}
    layer = BinaryConv1d(3, 5, 7, stride=2, padding=3, **settings)
    image = BinaryConv2d(3, 5, (1, 7), stride=(1, 2), padding=(0, 3), **settings)
    image.load_state_dict({k: v[:, :, None] if k == "weight" else v for k, v in layer.state_dict().items()})
    x = torch.randn(2, 3, 40, requires_grad=True)
    series, high = layer(x), image(x[:, :, None])[:, :, 0]
    torch.testing.assert_close(series, high)
    target = torch.randn_like(series)
    grads = [torch.autograd.grad((y * target).sum(), [x, part.weight]) for y, part in ((series, layer), (high, image))]
    torch.testing.assert_close(grads[0][0], grads[1][0])
    torch.testing.assert_close(grads[0][1], grads[1][1][:, :, 0])


@pytest.mark.parametrize(("weights", "scale"), CHOICES)
@pytest.mark.parametrize("sign_input", [None, "clip"])
def test_linear_equals_its_float_twin_on_signs(weights, scale, sign_input):
    layer = BinaryLinear(12, 5, bias=True, weights=weights, scale=scale, sign_input=sign_input)
    give_random_scale(layer)
    nn.init.normal_(layer.bias)
    x = torch.randn(3, 12)
    expected = F.linear(sign(x) if sign_input else x, sign(layer.weight) * scale_of(layer)[:, None], layer.bias)
    torch.testing.assert_close(layer(x), expected)


def test_padding_is_zero_and_not_a_sign():
    layer = BinaryConv2d(1, 1, 3, padding=1, sign_input="polynomial")
    nn.init.ones_(layer.weight)
    assert layer(torch.zeros(1, 1, 3, 3))[0, 0].tolist() == [[4, 6, 4], [6, 9, 6], [4, 6, 4]]


@pytest.mark.parametrize(("kind", "expected"), [("theta", {-1.0, 1.0}), ("latent", None)])
def test_initial_weights(kind, expected):
    layer = BinaryLinear(100, 100, bias=True, weights=kind, init_scale=0.01)
    weight = layer.weight.detach()
    assert layer.bias is not None
    assert not layer.bias.any()
    assert 0.4 < (weight > 0).float().mean() < 0.6
    if expected:
        assert set(weight.unique().tolist()) == expected
    else:
        assert 0.009 < weight.abs().max() <= 0.01


def test_tiny_initial_latent_weights_have_random_signs():
    layer = BinaryLinear(100, 100, weights="latent", init_scale=1e-20)
    assert 0.4 < (layer.binary_weight() > 0).float().mean() < 0.6


def test_clipped_gradient_of_latent_weights_is_zero_beyond_one():
    w = torch.tensor([[-1.5, -0.5, 0.5, 1.5]])
    for surrogate, expected in (("identity", [1, 2, 3, 4]), ("clip", [0, 2, 3, 0])):
        layer = BinaryLinear(4, 1, weights="latent", weight_surrogate=surrogate)
        layer.weight.data.copy_(w)
        layer(torch.tensor([1.0, 2, 3, 4])).sum().backward()
        assert layer.weight.grad is not None
        assert layer.weight.grad.tolist() == [expected]


@pytest.mark.parametrize(("scale", "factor"), [("channel_mean", 1.0), ("magnitude_aware", 0.3)])
def test_mean_scales_differ_in_their_gradient_and_are_not_trained(scale, factor):
    layer = BinaryLinear(4, 1, weights="latent", scale=scale)
    layer.weight.data.copy_(torch.tensor([[-0.1, -0.2, 0.3, 0.6]]))
    layer(torch.tensor([1.0, 2, 3, 4])).sum().backward()
    torch.testing.assert_close(layer.weight.grad, factor * torch.tensor([[1.0, 2, 3, 4]]))


def test_learned_scale_receives_a_gradient():
    layer = BinaryConv2d(2, 3, 1, scale="learned")
    layer(torch.randn(1, 2, 2, 2)).square().sum().backward()
    assert layer.scale is not None
    assert layer.scale.grad is not None
    assert layer.scale.grad.all()


@pytest.mark.parametrize("kind", ["theta", "latent"])
def test_binary_kinds_survive_copy_pickle_and_state_dict(kind):
    layer = BinaryConv2d(2, 3, 3, weights=kind, scale="learned")
    x = torch.randn(1, 2, 5, 5)
    loaded = BinaryConv2d(2, 3, 3, weights=kind, scale="learned")
    loaded.load_state_dict(layer.state_dict())
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), loaded):
        assert twin.binary_kinds == {"weight": kind}
        assert torch.equal(twin(x), layer(x))


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("source", [nn.Conv2d, lambda *args, bias: BinaryConv2d(*args, bias=bias, weights="latent")])
def test_theta_loads_the_signs_of_a_state_without_changing_it(assign, source):
    real = source(2, 3, 3, bias=False)
    before = real.weight.detach().clone()
    state = real.state_dict()
    layer = BinaryConv2d(2, 3, 3)
    layer.load_state_dict(state, assign=assign)
    assert torch.equal(layer.weight, sign(before))
    assert torch.equal(real.weight, before)
    assert torch.equal(state["weight"], before)


def test_assigned_signs_are_used_without_a_copy():
    state = BinaryConv2d(2, 3, 3).state_dict()
    layer = BinaryConv2d(2, 3, 3, device="meta")
    layer.load_state_dict(state, assign=True)
    assert layer.weight.data_ptr() == state["weight"].data_ptr()


def test_a_learned_scale_starts_at_the_mean_magnitude_of_loaded_real_weights():
    real = nn.Conv2d(2, 3, 3, bias=False)
    layer = BinaryConv2d(2, 3, 3, scale="learned")
    state = real.state_dict()
    layer.load_state_dict(state)
    torch.testing.assert_close(layer.scale, nn.Parameter(real.weight.detach().abs().mean((1, 2, 3))))
    assert state.keys() == {"weight"}
    layer.load_state_dict({"weight": real.weight, "scale": torch.full((3,), 5.0)})
    assert layer.scale is not None
    assert layer.scale.tolist() == [5, 5, 5]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scale": "channel_mean"}, "always 1"),
        ({"scale": "chanel_mean"}, "did you mean 'channel_mean'"),
        ({"weights": "real"}, "must be one of theta, latent"),
        ({"weights": "latent", "weight_surrogate": "clp"}, "did you mean 'clip'"),
        ({"sign_input": "polynom"}, "did you mean 'polynomial'"),
        ({"weights": "latent", "init_scale": 0}, "init_scale = 0: it must be above 0"),
    ],
)
def test_invalid_settings_are_explained(settings, message):
    with pytest.raises(ValueError, match=message):
        BinaryLinear(4, 4, **settings)


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5, 6)])
def test_react_activations_equal_their_formulas_per_channel(shape):
    x = torch.randn(shape)
    broadcast = (4,) + (1,) * (len(shape) - 2)
    rsign, rprelu = RSign(4), RPReLU(4)
    for parameter in (*rsign.parameters(), *rprelu.parameters()):
        nn.init.uniform_(parameter, -1, 1)
    assert torch.equal(rsign(x), sign(x + rsign.shift.view(broadcast)))
    shifted = x + rprelu.shift_in.view(broadcast)
    torch.testing.assert_close(rprelu(x), F.prelu(shifted, rprelu.slope) + rprelu.shift_out.view(broadcast))


def network(kind="latent"):
    scale = "channel_mean" if kind == "latent" else "learned"
    return nn.Sequential(  # real inputs first: sums of signs minus their mean may be 0 up to rounding, and then flip
        BinaryConv2d(4, 8, 3, padding=1, weights=kind, scale=scale, weight_surrogate="clip"),
        nn.BatchNorm2d(8),
        RSign(8),
        BinaryConv2d(8, 8, 1, weights=kind),
        RPReLU(8),
        nn.Flatten(),
        BinaryLinear(8 * 36, 3, weights=kind, sign_input="swish"),
    )


def channels_last(model):
    return model.to(memory_format=torch.channels_last)


@pytest.mark.parametrize("kind", ["theta", "latent"])
def test_bfloat16_autocast_and_channels_last(kind):
    model = channels_last(network(kind))
    x = torch.randn(2, 4, 6, 6).to(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16):
        y = model(x)
        features = model[:5](x)
    y.float().square().sum().backward()
    assert y.dtype == features.dtype == torch.bfloat16
    assert features.is_contiguous(memory_format=torch.channels_last)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.dtype == torch.float32
        assert parameter.grad.isfinite().all(), name


def test_channels_last_changes_no_output():
    model = network()
    x = torch.randn(2, 4, 6, 6)
    expected = model.eval()(x)
    assert torch.equal(channels_last(model)(x.to(memory_format=torch.channels_last)), expected)


def test_compiled_without_graph_breaks_equals_eager_in_values_and_gradients():
    model = network().double()
    twin = copy.deepcopy(model)
    compiled = torch.compile(twin, fullgraph=True)
    x = torch.randn(2, 4, 6, 6, dtype=torch.float64)
    for run in (model, compiled):
        run(x).square().sum().backward()
    torch.testing.assert_close(model(x), compiled(x))
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
