"""Every method against numbers of published code (tests/reference/golden): weights, activations, schedules, traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from reference.golden_numbers import TRACE_STEPS, load, trace_inputs, with_rest_of_the_layer
from zerocross import methods
from zerocross.methods import METHODS
from zerocross.models.birealnet import make_activation
from zerocross.models.style import Style
from zerocross.nn import BinaryConv2d, BinaryLinear, set_progress, start_epoch
from zerocross.nn.sign import ede_temperature, rbnn_temperature, reste_exponent
from zerocross.optim import BayesBiNN, Schedule, set_value
from zerocross.optim.bayesbinn import natural_step_
from zerocross.optim.ovsw import scaled_up

GOLDEN = [name for name, method in METHODS.items() if method.golden is not None]
SHAPES = {"conv8x4x3x3": (8, 4, 3, 3), "linear10x20": (10, 20)}
# Our names of the parameters of its activation, and the published ones.
ADABIN = {"distance": "alpha_a", "centre": "beta_a"}
BAYESBINN = {"lr": "lr", "temperature": "temperature", "train_size": "train_set_size", "start": "lambda_init"}
LAYER_ONLY = ["ovsw", "ewgs"]  # files with whole layers, and no binary weights
TRACED = ["torch-sgd", "adambnn", "binarynet", "xnor-net"]


def golden(name: str) -> Mapping[str, np.ndarray]:
    """Return the numbers of a method."""
    return load(str(METHODS[name].golden))


def layer_of(name: str, weight: np.ndarray, progress: float = 0.0) -> Any:
    """Return a layer of the method with this weight and scales of 1, projected if its optimizer does so."""
    method = METHODS[name]
    options: Any = {k: v for k, v in method.model_options.items() if k not in ("surrogate", "standardize")}
    if weight.ndim == 4:
        layer: Any = BinaryConv2d(weight.shape[1], weight.shape[0], weight.shape[2], padding=1, **options)
    else:
        layer = BinaryLinear(weight.shape[1], weight.shape[0], **options)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight))
        if layer.binarizer is not None:
            layer.binarizer.load_state_dict(layer.binarizer.start(layer.weight))
        for own in layer.parameters():
            if own is not layer.weight and name in {"recu", "xnor-net++", "siman"}:
                own.fill_(1.0)
    if name in {"xnor-net", "siman"}:
        h, ramps = method.hyperparameters, methods.ramps(name, method.hyperparameters)
        now = {key: ramp.value(progress, 1) for key, ramp in ramps.items()}  # type: ignore[arg-type] - of a run of 1
        method.build([layer.weight], {**h, **now}, 1)
    return layer


def rotated_layer(numbers: Mapping[str, np.ndarray], prefix: str) -> Any:
    """A layer of RBNN with the published rotations, fitted to its weights; scales of 1, and the published angle."""
    layer = layer_of("rbnn", numbers[prefix + "weight"])
    start = {"left": "R1_start", "right": "R2_start"}
    state = {name: torch.tensor(numbers[prefix + key]) for name, key in start.items()}
    one = torch.ones(len(layer.weight))
    layer.binarizer.load_state_dict({**state, "scale": one, "angle": one * float(numbers[prefix + "rotate"])})
    start_epoch(layer)
    return layer


def sign_of(name: str) -> nn.Module:
    """Return the sign layer that the method uses before a binary layer."""
    options = METHODS[name].model_options
    return Style(**{key: options[key] for key in ("surrogate", "standardize") if key in options}).sign(1)  # type: ignore[arg-type]


def close(result: torch.Tensor | None, expected: np.ndarray) -> None:
    """Check that values agree within 1e-5 of the largest value."""
    assert result is not None
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def at_points(numbers: Mapping[str, np.ndarray], prefix: str) -> list[tuple[str, float]]:
    """Return (prefix of a schedule point, progress) of every stored point, or the prefix alone."""
    if "epochs__total" not in numbers:
        return [(prefix, 0.0)]
    total = int(numbers["epochs__total"])
    points = [(f"{prefix}epoch{epoch}__", epoch / total) for epoch in numbers["epochs__at"]]
    return [point for point in points if any(key.startswith(point[0]) for key in numbers)]


@pytest.mark.parametrize("name", [name for name in GOLDEN if METHODS[name].kind == "latent" and name not in LAYER_ONLY])
@pytest.mark.parametrize("size", ["small", "wide"])
@pytest.mark.parametrize("shape", SHAPES)
def test_binary_weights_and_gradients_equal_the_published_ones(name: str, shape: str, size: str) -> None:
    numbers, prefix = golden(name), f"{shape}__seed0__{size}__"
    for point, progress in at_points(numbers, prefix):
        rotated = name == "rbnn"
        layer = rotated_layer(numbers, prefix) if rotated else layer_of(name, numbers[prefix + "weight"], progress)
        set_progress(layer, progress)
        out = layer.binary_weight()
        out.backward(torch.tensor(numbers[prefix + "upstream"]))
        assert np.array_equal(out.detach().numpy() < 0, numbers[point + "binary_weight"] < 0)
        close(out, numbers[point + "binary_weight"])
        grad, expected = layer.weight.grad, numbers[point + "grad_weight"]
        if name == "dsq":  # at the bound itself, the largest weight, the gradient of a clamp may be 1, 1/2 or 0
            inside = np.abs(numbers[prefix + "weight"]) < np.abs(numbers[prefix + "weight"]).max()
            grad, expected = grad[torch.tensor(inside)], expected[inside]
        close(grad, expected)
        if rotated:
            close(layer.binarizer.left, numbers[prefix + "R1_after_update"])
            close(layer.binarizer.right, numbers[prefix + "R2_after_update"])
            close(layer.binarizer.angle.grad, numbers[point + "grad_rotate"])
        if name in {"xnor-net", "siman"}:
            close(layer.weight, numbers[(point if name == "siman" else prefix) + "stored_weight"])


@pytest.mark.parametrize(
    "name", ["torch-sgd", "xnor-net", "xnor-net++", "ir-net", "recu", "reste", "adabin", "siman", "rbnn"]
)
def test_activations_and_gradients_equal_the_published_ones(name: str) -> None:
    numbers, prefix, sign = golden(name), "act4x8x6x6__seed0__", sign_of(name)
    for point, progress in at_points(numbers, prefix) or [(prefix, 0.5)]:
        set_progress(sign, progress)
        if name == "adabin":
            sign.load_state_dict({ours: torch.tensor([float(numbers[prefix + key])]) for ours, key in ADABIN.items()})
        x = torch.tensor(numbers[prefix + "x"], requires_grad=True)
        out = sign.train()(x)
        out.backward(torch.tensor(numbers[prefix + "upstream"]))
        assert np.array_equal(out.detach().numpy(), numbers[point + "binary_act"])
        assert x.grad is not None
        ours, theirs = (grad * (x.detach().abs() != 1) for grad in (x.grad, torch.tensor(numbers[point + "grad_x"])))
        # At exactly 1, published clips differ: XNOR-Net's gradient is 0, BinaryNet's is not.
        close(ours, theirs.numpy())
        for key, value in sign.named_parameters():
            close(value.grad, numbers[f"{prefix}grad_{ADABIN[key]}"])
        assert torch.equal(sign.eval()(x), out)  # standardisation, which is used only in training, changes no sign


def test_maxout_equals_the_published_one() -> None:
    numbers, prefix, maxout = golden("adabin"), "act4x8x6x6__seed0__", make_activation("maxout", 8)
    names = {"positive": "pos", "negative": "neg"}
    assert {key: value.unique().tolist() for key, value in maxout.state_dict().items()} == {
        "positive": [1.0],
        "negative": [0.25],
    }
    maxout.load_state_dict({key: torch.tensor(numbers[f"{prefix}maxout_{name}"]) for key, name in names.items()})
    x = torch.tensor(numbers[prefix + "x"], requires_grad=True)
    out = maxout(x)
    out.backward(torch.tensor(numbers[prefix + "upstream"]))
    close(out, numbers[prefix + "maxout_out"])
    close(x.grad, numbers[prefix + "maxout_grad_x"])
    for key, value in maxout.named_parameters():
        close(value.grad, numbers[f"{prefix}maxout_grad_{names[key]}"])


@pytest.mark.parametrize("name", ["xnor-net++", "ir-net", "recu"])
def test_layer_equals_the_published_one(name: str) -> None:
    numbers, prefix = golden(name), "layer_conv8x4x3x3__seed0__"
    ((point, progress),) = at_points(numbers, prefix)
    conv = layer_of(name, numbers[prefix + "weight"])
    layer = nn.Sequential(sign_of(name), conv)
    set_progress(layer, progress)
    scale: Any = getattr(conv.binarizer, "scale", None)
    if scale is not None:
        scale.data.copy_(torch.tensor(numbers[prefix + "alpha"]).flatten())
    x = torch.tensor(numbers[prefix + "x"], requires_grad=True)
    out = layer(x)
    out.backward(torch.tensor(numbers[prefix + "upstream"]))
    close(out, numbers[point + "out"])
    close(x.grad, numbers[point + "grad_x"] * (np.abs(numbers[prefix + "x"]) < 1 if name == "ir-net" else 1))
    close(conv.weight.grad, numbers[point + "grad_weight"])
    if scale is not None:
        close(scale.grad, numbers[point + "grad_alpha"].flatten())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_layer_of_ovsw_equals_the_published_one(shape: str, mode: str) -> None:
    numbers, prefix = golden("ovsw"), f"layer_{shape}__seed0__"
    inner = layer_of("ovsw", numbers[prefix + "weight"])
    layer = nn.Sequential(sign_of("ovsw"), inner).train(mode == "train")
    x = torch.tensor(numbers[prefix + "x"], requires_grad=True)
    out = layer(x)
    out.backward(torch.tensor(numbers[prefix + "upstream"]))
    close(out, numbers[f"{prefix}{mode}__out"])
    close(x.grad, numbers[f"{prefix}{mode}__grad_x"])
    close(inner.weight.grad, numbers[f"{prefix}{mode}__grad_weight"])
    if mode == "train":  # the gradient, scaled up before a step
        delta = float(METHODS["ovsw"].hyperparameters["delta"])  # type: ignore[arg-type]
        close(scaled_up(inner.weight.grad, inner.weight.detach(), delta), numbers[prefix + "ags_grad"])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("delta", [0.001, 0.3])
def test_layer_of_ewgs_is_the_published_one(shape: str, delta: float) -> None:
    """Its bounds start from the first batch as theirs; the scale, which theirs computes from it too, is set."""
    numbers, prefix = golden("ewgs"), f"layer_{shape}__seed0__"
    inner: Any = layer_of("ewgs", numbers[prefix + "weight"])
    activation: Any = sign_of("ewgs").train()
    assert inner.binarizer.delta == activation.delta == 0.001
    inner.binarizer.delta = activation.delta = delta
    inner.binarizer.scale.data.fill_(float(numbers[prefix + "start_output_scale"]))
    x = torch.tensor(numbers[prefix + "x"], requires_grad=True)
    binary = activation(x)
    out = inner(binary)
    out.backward(torch.tensor(numbers[prefix + "upstream"]))
    assert np.array_equal(binary.detach().numpy(), numbers[prefix + "quantised_act"])
    assert np.array_equal(inner.binary_weight().detach().numpy() < 0, numbers[prefix + "quantised_weight"] < 0)
    close(out, numbers[prefix + "out"])
    close(x.grad, numbers[f"{prefix}delta{delta}__grad_x"])
    close(inner.weight.grad, numbers[f"{prefix}delta{delta}__grad_weight"])
    close(inner.binarizer.scale.grad, numbers[prefix + "grad_output_scale"])
    for module, letter in ((inner.binarizer, "W"), (activation, "A")):
        for bound in ("low", "high"):
            value, key = getattr(module, bound), bound[0].replace("h", "u") + letter
            assert value.item() == pytest.approx(float(numbers[f"{prefix}start_{key}"]), rel=1e-5)
            assert value.grad.item() == pytest.approx(float(numbers[f"{prefix}delta{delta}__grad_{key}"]), rel=1e-4)


@pytest.mark.parametrize(("run", "size"), [("grads1e-3", 1), ("grads1e-1", 100)])
def test_fifty_steps_of_ovsw_have_the_published_signs(run: str, size: float) -> None:
    """Small gradients, which are scaled up, and large ones, which are not."""
    numbers, h = golden("ovsw"), METHODS["ovsw"].hyperparameters
    assert (h["delta"], h["dampen"]) == (numbers["hyper_delta"], numbers["hyper_dampen_weight"])
    param = nn.Parameter(torch.tensor(numbers[f"trace_{run}__weight0"]))
    optimizer: Any = METHODS["ovsw"].build([param], h, 1)
    assert optimizer.defaults["track"] == pytest.approx(1 - float(numbers["hyper_track_momentum"]))
    assert optimizer.defaults["silent"] == numbers["hyper_track_threshold"]
    for step, grad in enumerate(trace_inputs()[0]):
        param.grad = torch.tensor(grad) * size
        optimizer.step()
        assert np.array_equal(np.where(param.detach().numpy() < 0, -1, 1), numbers[f"trace_{run}__signs"][step]), step
    close(param, numbers[f"trace_{run}__weight_end"])
    close(optimizer.state[param]["rate"], numbers[f"trace_{run}__tracker_end"])


def test_schedules_equal_the_published_ones() -> None:
    reste, siman = golden("reste"), golden("siman")
    exponents = [reste_exponent(epoch / int(reste["epochs__total"])) for epoch in reste["epochs__at"]]
    np.testing.assert_allclose(exponents, reste["schedule__o"], rtol=1e-6)  # the published one is in float32
    percent = methods.ramps("siman", METHODS["siman"].hyperparameters)["percent"]
    result = [percent.value(int(epoch), int(siman["epochs__total"])) for epoch in siman["epochs__at"]]
    np.testing.assert_allclose(result, siman["schedule__percent"], rtol=1e-6)  # the published one is in float32
    ir_net, recu = golden("ir-net"), golden("recu")
    t = [ede_temperature(epoch / int(ir_net["epochs__total"])) for epoch in ir_net["epochs__at"]]
    np.testing.assert_allclose(t, ir_net["schedule__t"], rtol=1e-6)  # the published one is in float32
    rbnn = golden("rbnn")
    t = [rbnn_temperature(epoch / int(rbnn["epochs__total"])) for epoch in rbnn["epochs__at"]]
    np.testing.assert_allclose(t, rbnn["schedule__t"], rtol=1e-6)
    layer = layer_of("recu", recu["conv8x4x3x3__seed0__small__weight"])
    for epoch, tau in zip(recu["epochs__at"], recu["schedule__tau"], strict=True):
        set_progress(layer, epoch / int(recu["epochs__total"]))
        assert layer.binarizer.tau.item() == pytest.approx(float(tau), rel=1e-6)
    bop = Schedule.parse(str(METHODS["bop"].hyperparameters["schedule"]), TRACE_STEPS)
    gammas = [1e-4 * bop.factor(step) for step in range(TRACE_STEPS)]
    np.testing.assert_allclose(gammas, golden("bop")["sec52_decay_gamma_by_step"], rtol=1e-6)
    ramps = methods.ramps("bop2ndorder", METHODS["bop2ndorder"].hyperparameters)
    for field, key in (("lr", "gamma"), ("sigma", "sigma"), ("tau", "tau")):
        values = [ramps[field].value(step, TRACE_STEPS) for step in range(TRACE_STEPS)]
        expected = golden("bop2ndorder")[f"cifar__{key}_by_step"]
        np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-9 * expected.max() if key != "sigma" else 1e-9)


@pytest.mark.parametrize("name", TRACED)
def test_fifty_steps_of_latent_weights_have_the_published_signs(name: str) -> None:
    numbers, method = golden(name), METHODS[name]
    # BinaryNet's coefficient is that of the whole layer, of which two filters are stored.
    layer = layer_of(name, with_rest_of_the_layer(numbers["trace__weight0"]))
    h = dict(method.hyperparameters) | ({"lr": float(numbers["trace__lr"])} if "trace__lr" in numbers else {})
    optimizer = method.build([layer.weight], h, 1)
    for step, grad in enumerate(trace_inputs()[0], start=1):
        if name == "binarynet":  # Lasagne's Adam adds epsilon before the bias correction, torch's after it
            for group in optimizer.param_groups:
                group["eps"] = 1e-8 / (1 - 0.999**step) ** 0.5
        optimizer.zero_grad()
        layer.binary_weight().backward(torch.tensor(with_rest_of_the_layer(grad)))
        optimizer.step()
        signs = np.where(layer.weight.detach().numpy()[:2] < 0, -1, 1)
        assert np.array_equal(signs, numbers["trace__signs"][step - 1]), step
    close(layer.weight[:2], numbers["trace__weight_end"])


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("filter", "cifar"),
        ("filter", "imagenet"),
        ("filter", "linear_decay"),
        ("bop", "larq_published"),
        ("bop", "larq_fast"),
        ("bop", "larq_sec52_decay"),
        ("bop2ndorder", "fast"),
        ("bop2ndorder", "cifar"),
    ],
)
def test_fifty_steps_of_binary_weights_equal_the_published_ones(name: str, run: str) -> None:
    numbers, method = golden(name), METHODS[name]
    gradients, theta = trace_inputs()
    h = methods.first_values(method.hyperparameters)
    h |= {key: float(numbers[f"trace__{run}__{key}"]) for key in h if f"trace__{run}__{key}" in numbers}
    param = nn.Parameter(torch.tensor(theta))
    optimizer = method.build([param], h, 1)
    shape = {"linear_decay": "linear", "larq_sec52_decay": "fifths"}.get(run, "constant")
    schedule = Schedule.parse(shape, TRACE_STEPS)
    for step, grad in enumerate(gradients):
        set_value(optimizer.param_groups, "lr", float(h[method.lr_name]) * schedule.factor(step))  # type: ignore[arg-type]
        if run == "cifar":
            for field, ramp in methods.ramps(name, method.hyperparameters).items():
                set_value(optimizer.param_groups, field, ramp.value(step, TRACE_STEPS))
        param.grad = torch.tensor(grad)
        optimizer.step()
        assert np.array_equal(param.detach().numpy(), numbers[f"trace__{run}__theta"][step]), step


@pytest.mark.parametrize("run", ["cifar10_defaults", "soft"])
def test_fifty_steps_of_natural_parameters_equal_the_published_ones(run: str) -> None:
    """The update with the authors' own samples; those at the published temperature are signs."""
    numbers = golden("bayesbinn")
    group = {ours: float(numbers[f"{run}__hyper_{key}"]) for ours, key in BAYESBINN.items()}
    group["gamma"] = 1 - float(numbers[f"{run}__hyper_beta"])
    natural = torch.tensor(numbers[f"{run}__lambda0"])
    state = {"natural": natural, "mean": natural.tanh(), "m": torch.zeros_like(natural), "correction": torch.zeros(())}
    signs = numbers[f"{run}__lambda_signs"]
    for step, grad in enumerate(trace_inputs()[0]):
        noise = torch.logit(torch.tensor(numbers["uniform_noise"][step])) / 2
        sample = torch.tanh((natural + noise) / group["temperature"])
        natural_step_(state, sample, torch.tensor(grad).flatten(), group)
        assert np.array_equal(np.where(natural.numpy() < 0, -1, 1), signs[step]), step
    close(natural, numbers[f"{run}__lambda_step50"])


def test_fifty_steps_of_bayesbinn_equal_the_published_ones_without_noise() -> None:
    numbers, h = golden("bayesbinn"), METHODS["bayesbinn"].hyperparameters
    param = nn.Parameter(torch.tensor(numbers["cifar10_defaults__lambda0"]).view(2, -1))
    optimizer: Any = METHODS["bayesbinn"].build([param], h, 1)
    assert isinstance(optimizer, BayesBiNN)
    for ours, key in BAYESBINN.items():
        assert optimizer.defaults[ours] == numbers[f"cifar10_defaults__hyper_{key}"]
    assert optimizer.defaults["gamma"] == 1 - numbers["cifar10_defaults__hyper_beta"]
    for step, grad in enumerate(trace_inputs()[0]):
        param.grad = torch.tensor(grad).view_as(param)
        optimizer.step()
        assert np.array_equal(param.detach().flatten(), numbers["cifar10_defaults__lambda_signs"][step]), step
    close(optimizer.state[param]["natural"].flatten(), numbers["cifar10_defaults__lambda_step50"])


@pytest.mark.parametrize("lr", [0.05, 0.02])
def test_fifty_steps_of_votes_equal_the_published_ones(lr: float) -> None:
    numbers = golden("bold")
    param = nn.Parameter(torch.tensor(2 * numbers["weights0_01"] - 1))
    optimizer = METHODS["bold"].build([param], {"lr": lr}, 1)
    for step, votes in enumerate(numbers["integer_votes"]):
        param.grad = torch.tensor(votes)
        optimizer.step()
        assert np.array_equal((param.detach().numpy() + 1) / 2, numbers[f"lr{lr}__weights_01"][step]), step
        assert float(optimizer.state[param]["kept"]) == pytest.approx(numbers[f"lr{lr}__ratio"][step], rel=1e-6)
    close(optimizer.state[param]["votes"], numbers[f"lr{lr}__accumulator_step50"])


def test_methods_without_golden_numbers_are_listed() -> None:
    assert set(METHODS) - set(GOLDEN) == {"flip", "filter-order1", "filter-cascade", "latent-sgd"}
