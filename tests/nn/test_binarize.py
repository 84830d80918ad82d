"""binarize converts supported layers, keeps all their settings, and reports the outcome for every layer."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, spectral_norm

import zerocross
from zerocross.nn import BinaryConv1d, BinaryConv2d, BinaryLinear, binarize, check, sign, summary


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def small():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding="same", padding_mode="circular", groups=2, bias=False),
        nn.ReLU(inplace=True),
        nn.Conv2d(8, 8, 3, stride=2, dilation=2, bias=True),
        nn.Flatten(),
        nn.Linear(8, 6),
        nn.Linear(6, 2),
    )


def outcomes(report):
    return {row.name: (row.done, row.why) for row in report.rows}


def test_every_layer_is_in_the_report_and_the_original_is_unchanged():
    model = small()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    binary, report = zerocross.binarize(model)
    assert outcomes(report) == {
        "0": ("kept real", "first layer"),
        "3": ("binary", ""),
        "5": ("binary", ""),
        "7": ("binary", ""),
        "8": ("kept real", "last layer"),
        "2": ("replaced", "by Hardtanh, whose sign varies"),
        "4": ("replaced", "by Hardtanh, whose sign varies"),
    }
    assert report.weights("binary") == 8 * 4 * 9 + 8 * 8 * 9 + 48
    assert type(model[3]) is nn.Conv2d
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert binary.state_dict().keys() == model.state_dict().keys()
    assert "first layer" in str(report)
    assert str(report).endswith("912 weights binary, 228 weights kept real")


@pytest.mark.parametrize(("weights", "scale"), [("theta", "none"), ("latent", "channel_mean"), ("theta", "learned")])
def test_a_converted_layer_computes_with_the_signs_of_the_old_weights(weights, scale):
    model = small().eval()
    binary = binarize(model, weights=weights, scale=scale).model
    for name in ("3", "5"):
        old, new = model.get_submodule(name), binary.get_submodule(name)
        assert isinstance(old, nn.Conv2d)
        assert isinstance(new, BinaryConv2d)
        x = torch.randn(1, 8, 6, 6)
        mean = old.weight.detach().abs().flatten(1).mean(1)[:, None, None, None]
        old.weight.data.copy_(sign(old.weight) * (1 if scale == "none" else mean))
        torch.testing.assert_close(new(x), old(sign(x)))


def test_mode_dtype_and_frozen_parameters_are_kept():
    model = small().double().eval()
    model[5].weight.requires_grad_(False)
    model[5].bias.requires_grad_(False)
    layer = binarize(model).model.get_submodule("5")
    assert isinstance(layer, BinaryConv2d)
    assert layer.bias is not None
    assert layer.weight.dtype == layer.bias.dtype == torch.float64
    assert not layer.weight.requires_grad
    assert not layer.bias.requires_grad
    assert not layer.training


def test_channels_last_weights_stay_channels_last():
    model = small()
    for name in ("3", "5"):
        layer = model.get_submodule(name)
        assert isinstance(layer, nn.Conv2d)
        layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)
    for kind in ("theta", "latent"):
        weights = [p for p in binarize(model, weights=kind).model.parameters() if p.shape == (8, 8, 3, 3)]
        assert [p.is_contiguous(memory_format=torch.channels_last) for p in weights] == [True]


def test_signs_of_exact_zeros_are_reproducible():
    zeros = nn.Linear(40, 40)
    nn.init.zeros_(zeros.weight)
    model = nn.Sequential(nn.Linear(2, 40), zeros, nn.Linear(40, 2))
    for weights in ("theta", "latent"):
        layers = [binarize(model, weights=weights).model.get_submodule("1") for _ in range(2)]
        signs = [layer.binary_weight() for layer in layers if isinstance(layer, BinaryLinear)]
        assert 0.4 < (signs[0] > 0).float().mean() < 0.6
        assert torch.equal(*signs)


@pytest.mark.filterwarnings("ignore:binarize could not run")
def test_skip_accepts_names_patterns_and_whole_submodules():
    model = nn.ModuleDict({"stem": nn.Linear(4, 4), "body": small(), "head": nn.Linear(4, 4)})
    _, report = binarize(model, skip=["body.3", "b*.0"])
    assert [row.name for row in report.rows if row.why == "skipped"] == ["body.0", "body.3"]
    _, report = binarize(model, skip="body", first_last_real=False)
    assert [row.name for row in report.rows if row.done == "binary"] == ["stem", "head"]
    assert not any(row.done == "replaced" for row in report.rows)
    with pytest.raises(ValueError, match=r"skip = 'boddy.3' matches no module.*did you mean 'body.3'"):
        binarize(model, skip=["boddy.3"])


def test_unsupported_layers_are_named():
    class Odd(nn.Conv2d):
        pass

    model = nn.Sequential(
        nn.Embedding(4, 4),
        nn.Linear(4, 4),
        nn.Linear(4, 4),
        nn.LSTM(4, 4),
        nn.MultiheadAttention(4, 2),
        nn.ConvTranspose2d(4, 4, 1),
        Odd(4, 4, 1),
        BinaryLinear(4, 4),
        nn.Linear(4, 4),
    )
    model.register_parameter("token", nn.Parameter(torch.ones(2, 2)))
    with pytest.warns(UserWarning, match="order in which they were registered"):
        report = binarize(model).report
    assert outcomes(report) == {
        "(model)": ("kept real", "unsupported: Sequential"),
        "0": ("kept real", "unsupported: Embedding"),
        "1": ("kept real", "first layer"),
        "2": ("binary", ""),
        "3": ("kept real", "unsupported: LSTM"),
        "4": ("kept real", "unsupported: MultiheadAttention"),
        "4.out_proj": ("kept real", "unsupported: a subclass of Linear, whose forward may differ"),
        "5": ("kept real", "unsupported: ConvTranspose2d"),
        "6": ("kept real", "unsupported: a subclass of Conv2d, whose forward may differ"),
        "7": ("already binary", ""),
        "8": ("kept real", "last layer"),
    }


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda model: model.__setitem__(1, nn.LazyLinear(4)), "uninitialised"),
        (lambda model: parametrizations.weight_norm(model[1]), "parametrization"),
        (lambda model: spectral_norm(model[1]), "computes its weight"),
        (lambda model: model[1].register_forward_hook(print), "has hooks"),
    ],
)
def test_a_layer_that_is_not_ready_raises_an_error_with_a_hint(spoil, message):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    spoil(model)
    with pytest.raises(ValueError, match=rf"layer 1 .*{message}.*skip=\['1'\]"):
        binarize(model)
    assert outcomes(binarize(model, skip="1").report)["1"] == ("kept real", "skipped")


def test_tied_weights_stay_tied_and_a_shared_module_stays_shared():
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(5)))
    model[2].weight = model[1].weight
    model[3] = model[1]
    binary = binarize(model).model
    one, two, three = (binary.get_submodule(name) for name in "123")
    assert isinstance(one, BinaryLinear)
    assert one.weight is two.weight
    assert one is three


def test_a_weight_tied_to_a_layer_that_stays_real_stays_real():
    model = nn.Sequential(nn.Embedding(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    model[1] = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    binary, report = binarize(model)
    assert outcomes(report)["2"] == ("kept real", "weight tied to 0, which is not converted")
    assert binary.get_submodule("2").weight is binary.get_submodule("0").weight


def test_a_shared_bias_ties_nothing_else():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].bias = model[0].bias
    binary, report = binarize(model)
    assert outcomes(report)["1"] == ("binary", "")
    assert binary.get_submodule("1").bias is binary.get_submodule("0").bias


def test_the_filter_optimizer_accepts_a_converted_model():
    model, report = binarize(small(), scale="learned")
    split = zerocross.split_params(model)
    optimizer = zerocross.GradientFilter(split.binary)
    for _ in range(3):
        model(torch.randn(4, 3, 5, 5)).square().sum().backward()
        optimizer.step()
    assert sum(parameter.numel() for parameter in split.binary) == report.weights("binary")
    assert all((parameter.abs() == 1).all() for parameter in split.binary)


def test_a_model_that_is_one_layer():
    with pytest.raises(ValueError, match="the model itself: first layer"):
        binarize(nn.Linear(4, 4))
    assert isinstance(binarize(nn.Linear(4, 4), first_last_real=False).model, BinaryLinear)
    with pytest.raises(ValueError, match="no Conv1d, Conv2d or Linear"):
        binarize(nn.ReLU())


def test_relu_is_kept_for_real_inputs_or_on_request():
    for model, _ in (binarize(small(), sign_input=None), binarize(small(), relu="keep")):
        assert isinstance(model.get_submodule("2"), nn.ReLU)
    with pytest.raises(ValueError, match="relu = 'drop'"):
        binarize(small(), relu="drop")


@pytest.mark.parametrize("weights", ["theta", "latent"])
def test_a_network_on_series(weights: str) -> None:
    """1-d convolutions become binary, keep their shape, and compute with the signs of the old weights."""
    torch.manual_seed(0)
    old = nn.Sequential(
        nn.Conv1d(2, 8, 7, padding=3),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Conv1d(8, 6, 5, stride=2, padding="valid", dilation=2, groups=2, bias=True),
        nn.BatchNorm1d(6),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(6, 3),
    )
    model, report = binarize(old, weights=weights, example=torch.randn(4, 2, 40))
    layer, original = model.get_submodule("3"), old[3]
    assert isinstance(layer, BinaryConv1d)
    assert isinstance(original, nn.Conv1d)
    assert type(model.get_submodule("0")) is nn.Conv1d
    assert [row.done for row in report.rows if row.weights] == ["kept real", "binary", "kept real"]
    x = torch.randn(3, 8, 30)
    expected = nn.functional.conv1d(sign(x), sign(original.weight), original.bias, 2, 0, 2, 2)
    torch.testing.assert_close(layer(x), expected)
    check(model)
    total = summary(model, (1, 2, 40)).total
    assert total.binary == original.weight.numel()
    assert total.binary_macs == 16 * original.weight.numel()  # (40 - 2 * 4 - 1) // 2 + 1 positions
    assert "BinaryConv1d" in str(summary(model, (1, 2, 40)))
