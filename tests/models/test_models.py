"""Every model of the registry: the exact number of binary weights, shapes, and properties of its modes."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from zerocross.models import create, names, options
from zerocross.models.registry import MODELS
from zerocross.nn import BinaryConv1d, BinaryConv2d, BinaryLinear, sign, summary

SMALL = {  # smaller inputs for the networks designed for 224 x 224
    "birealnet18": (3, 64, 64),
    "birealnet34": (3, 64, 64),
    "reactnet_a": (3, 64, 64),
}
CLASSES = {"digits_net": 10, "mnist_net": 10, "birealnet20": 10, "audio_mlp": 10, "series_net": 5, "text_mlp": 2}
BIG = ["birealnet18", "birealnet34"]
FAST = ["digits_net", "mnist_net", "series_net", "text_mlp", "birealnet20", "audio_mlp"]
SAMPLE = [pytest.param(name, marks=[pytest.mark.slow] if name in BIG else []) for name in names()]
BINARY_WEIGHTS = {
    "birealnet20": 267_264,
    "birealnet18": 10_985_472,
    "birealnet34": 21_086_208,
    "reactnet_a": 28_253_184,
    "audio_mlp": 2 * 256 * 256 + 256 * 10,
    "mnist_net": 9 * (2 * 16 * 16 + 16 * 32 + 32 * 32),
    "series_net": 5 * (2 * 32 * 32 + 32 * 64 + 64 * 64),
    "text_mlp": 2 * 128 * 128,
}
BINARY = (BinaryConv1d, BinaryConv2d, BinaryLinear)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def batch(name, size=2):
    return torch.randn(size, *SMALL.get(name, MODELS[name].input_shape))


def binary_layers(model):
    return [module for module in model.modules() if isinstance(module, BINARY)]


@pytest.mark.parametrize(("name", "count"), BINARY_WEIGHTS.items())
def test_number_of_binary_weights_is_the_published_one(name, count):
    with torch.device("meta"):
        assert summary(create(name)).total.binary == count
        for binarize in ("activations", "none"):
            assert summary(create(name, binarize=binarize)).total.binary == 0


@pytest.mark.parametrize("name", names())
def test_logits_have_one_column_per_class(name):
    for settings, classes in (({}, CLASSES.get(name, 1000)), ({"classes": 7}, 7)):
        with torch.device("meta"):
            model = create(name, **settings)
            assert model(batch(name)).shape == (2, classes)


@pytest.mark.parametrize("name", SAMPLE)
def test_inputs_and_weights_of_binary_layers_are_signs(name):
    model = create(name)
    tensors = [layer.weight.detach() for layer in binary_layers(model)]
    for layer in binary_layers(model):
        layer.register_forward_pre_hook(lambda _, args: tensors.append(args[0]))
    with torch.no_grad():
        model(batch(name))
    assert len(tensors) == 2 * len(binary_layers(model)) > 0
    for tensor in tensors:
        assert (tensor.abs() == 1).all()
        assert (tensor > 0).any()
        assert (tensor < 0).any()


@pytest.mark.parametrize("name", names())
def test_macs_distinguish_binary_and_real_layers(name):
    size = (1, *MODELS[name].input_shape)
    with torch.device("meta"):
        binary, real = (summary(create(name, binarize=mode), size) for mode in ("both", "none"))
    kinds = {row.name: row.kind for row in binary.rows}
    for row in binary.rows:
        assert (row.binary_macs or 0) > 0 if kinds[row.name].startswith("Binary") else row.binary_macs == 0
    assert real.total.binary_macs == 0
    assert (binary.total.binary_macs or 0) + (binary.total.real_macs or 0) == real.total.real_macs


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("binarize", ["both", "activations", "none"])
@pytest.mark.parametrize("weights", ["theta", "latent"])
def test_every_parameter_is_trained_in_every_mode(name, binarize, weights):
    scale = "channel_mean" if weights == "latent" else "learned"
    model = create(name, binarize=binarize, weights=weights, scale=scale)
    model(batch(name, 8)).square().mean().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.any() or key.endswith("norms.3.weight"), key


@pytest.mark.parametrize("name", SAMPLE)
def test_the_second_stage_starts_from_the_signs_of_the_first(name):
    first = create(name, binarize="activations")
    state = first.state_dict()
    create(name, scale="learned").load_state_dict(state)
    for weights in ("theta", "latent"):
        second = create(name, weights=weights)
        second.load_state_dict(state)
        for key, module in second.named_modules():
            if isinstance(module, BINARY):
                assert torch.equal(module.binary_weight(), sign(state[f"{key}.weight"]))
        first.load_state_dict(second.state_dict())  # keys and shapes are the same in both directions


@pytest.mark.parametrize("settings", [{}, {"activation": "prelu", "shortcut": "conv"}, {"shortcut": "pool"}])
def test_bfloat16_autocast_and_channels_last_reach_the_last_block(settings):
    model = create("birealnet20", **settings)
    for parameter in model.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    seen = []
    for block in model.get_submodule("blocks").children():
        block.register_forward_hook(lambda _, __, output: seen.append(output))
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(batch("birealnet20").contiguous(memory_format=torch.channels_last))
    assert logits.dtype == torch.bfloat16
    assert all(x.dtype == torch.bfloat16 for x in seen)
    assert all(x.is_contiguous(memory_format=torch.channels_last) for x in seen)


@pytest.mark.parametrize("name", [name for name in names() if name != "reactnet_a"])
def test_the_full_precision_twin_has_the_same_keys(name):
    with torch.device("meta"):
        modes = [set(create(name, binarize=mode).state_dict()) for mode in ("both", "activations", "none")]
    slopes = {key for key in modes[0] if "activation" in key}  # the twin's ReLU has no slopes
    assert modes[0] == modes[1]
    assert modes[0] - slopes == modes[2]


def test_reactnets_twin_lacks_only_the_thresholds():
    with torch.device("meta"):
        both, none = (set(create("reactnet_a", binarize=mode).state_dict()) for mode in ("both", "none"))
    assert none < both
    assert all(key.endswith((".sign1.shift", ".sign2.shift")) for key in both - none)


@pytest.mark.parametrize("size", [32, 30, 33])
@pytest.mark.parametrize("shortcut", ["subsample", "pool", "conv"])
def test_shortcuts_fit_even_and_odd_sizes(shortcut, size):
    model = create("birealnet20", shortcut=shortcut)
    assert model(torch.randn(2, 3, size, size)).shape == (2, 10)


@pytest.mark.parametrize("length", [24, 25, 1024])
@pytest.mark.parametrize("settings", [{}, {"channels": 6, "stem_stride": 4, "groups": 3, "kernel": 3}])
def test_a_network_on_series_accepts_any_length(settings, length):
    model = create("series_net", classes=3, **settings)
    channels = settings.get("channels", 1)
    assert model(torch.randn(2, channels, length)).shape == (2, 3)
    assert model.input_size == (channels, 140)


def test_first_and_last_layers_of_the_small_networks_are_real():
    for name in ("mnist_net", "series_net", "text_mlp"):
        model = create(name)
        weighted = [m for m in model.modules() if isinstance(m, nn.Conv1d | nn.Conv2d | nn.Linear)]
        kinds = [isinstance(module, BINARY) for module in weighted]
        assert kinds == [False, *[True] * (len(kinds) - 2), False], name


@pytest.mark.parametrize("name", ["mnist_net", "series_net", "text_mlp"])
def test_the_small_networks_learn_two_classes(name):
    """Binary weights are trained by the filter; only signs carry the data through."""
    from zerocross.optim import GradientFilter, HybridOptimizer, split_params

    model = create(name, classes=2)
    x = torch.randn(64, *MODELS[name].input_shape)
    y = torch.arange(64) % 2
    x[y == 1] += 0.3
    binary, real, rest = split_params(model)
    optimizer = HybridOptimizer(GradientFilter(binary, alpha=0.02), torch.optim.Adam([*real, *rest], lr=0.01), model)
    for _ in range(30):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    assert (model.eval()(x).argmax(1) == y).float().mean() > 0.9


def test_parameter_free_shortcuts_pass_their_input_through():
    from zerocross.models.birealnet import make_shortcut

    x = torch.randn(2, 4, 6, 6)
    for kind, expected in (("subsample", x[:, :, ::2, ::2]), ("pool", nn.functional.avg_pool2d(x, 2))):
        y = make_shortcut(kind, 4, 8, 2)(x)
        assert torch.equal(y[:, :4], expected)
        assert not y[:, 4:].any()
        assert make_shortcut(kind, 4, 4, 1)(x) is x


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("birealnet21", {}, "did you mean 'birealnet20'"),
        ("birealnet20", {"shortcuts": "pool"}, "has no option 'shortcuts'; it has binarize, .*did you mean 'shortcut'"),
        ("birealnet20", {"shortcut": "average"}, "must be one of subsample, pool, conv"),
        ("birealnet20", {"binarize": "weights"}, "must be one of both, activations, none"),
        ("birealnet20", {"activation": "relu"}, "every sign would be"),
        ("birealnet20", {"scale": "channel_mean"}, "always 1"),
        ("audio_mlp", {"depth": 1}, "at least 2"),
        ("series_net", {"kernel": 4}, "kernel = 4: it must be odd"),
        ("text_mlp", {"depth": 0}, "at least 1"),
        ("text_mlp", {"dropout": 1.0}, r"dropout = 1.0: it must lie in \[0, 1\)"),
    ],
)
def test_invalid_names_and_settings_are_explained(name, settings, message):
    with pytest.raises(ValueError, match=message):
        create(name, **settings)


def test_options_match_those_of_create():
    settings = options("birealnet20")
    assert settings["binarize"] == "both"
    assert settings["classes"] == 10
    twin = create("birealnet20", **settings)
    assert twin.state_dict().keys() == create("birealnet20").state_dict().keys()


def test_models_are_the_same_after_the_same_seed_and_a_deepcopy():
    models = []
    for _ in range(2):
        torch.manual_seed(3)
        models.append(create("birealnet20").eval())
    models.append(copy.deepcopy(models[0]))
    x = batch("birealnet20")
    assert torch.equal(models[0](x), models[1](x))
    assert torch.equal(models[0](x), models[2](x))


@pytest.mark.parametrize(
    ("name", "binarize"),
    [
        ("birealnet20", "both"),
        pytest.param("birealnet20", "activations", marks=pytest.mark.slow),
        pytest.param("birealnet20", "none", marks=pytest.mark.slow),
        pytest.param("reactnet_a", "both", marks=pytest.mark.slow),
        pytest.param("reactnet_a", "none", marks=pytest.mark.slow),
    ],
)
def test_compiled_without_graph_breaks_equals_eager(name, binarize):
    model = create(name, binarize=binarize).double().eval()  # in float32, a sign close to 0 may change by rounding
    x = batch(name).double()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, fullgraph=True)(x), model(x))
