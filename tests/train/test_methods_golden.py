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
from zerocross.nn import BinaryConv2d, BinaryLinear, Sign, set_progress
from zerocross.nn.sign import ede_temperature
from zerocross.optim import Schedule, set_value

GOLDEN = [name for name, method in METHODS.items() if method.golden is not None]
SHAPES = {"conv8x4x3x3": (8, 4, 3, 3), "linear10x20": (10, 20)}
TRACED = ["torch-sgd", "adambnn", "binarynet", "xnor-net"]


def golden(name: str) -> Mapping[str, np.ndarray]:
    """The numbers of a method."""
    return load(str(METHODS[name].golden))


def layer_of(name: str, weight: np.ndarray) -> Any:
    """A layer of the method with this weight and scales of 1, its weights projected where its optimizer does that."""
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
            if own is not layer.weight and name in {"recu", "xnor-net++"}:
                own.fill_(1.0)
    if name == "xnor-net":
        method.build([layer.weight], methods.first_values(method.hyperparameters), 1)
    return layer


def sign_of(name: str) -> Sign:
    """What the method puts before a binary layer."""
    options = METHODS[name].model_options
    return Sign(str(options.get("surrogate", "polynomial")), standardize=str(options.get("standardize", "none")))


def close(found: torch.Tensor | None, expected: np.ndarray) -> None:
    """Within 1e-5 of the largest value."""
    assert found is not None
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def at_points(numbers: Mapping[str, np.ndarray], prefix: str) -> list[tuple[str, float]]:
    """(prefix of a schedule point, progress) of every point that is stored, or the prefix alone."""
    if "epochs__total" not in numbers:
        return [(prefix, 0.0)]
    total = int(numbers["epochs__total"])
    points = [(f"{prefix}epoch{epoch}__", epoch / total) for epoch in numbers["epochs__at"]]
    return [point for point in points if any(key.startswith(point[0]) for key in numbers)]


@pytest.mark.parametrize("name", [name for name in GOLDEN if METHODS[name].kind == "latent"])
@pytest.mark.parametrize("size", ["small", "wide"])
@pytest.mark.parametrize("shape", SHAPES)
def test_binary_weight_and_gradient_are_the_published_ones(name: str, shape: str, size: str) -> None:
    numbers, prefix = golden(name), f"{shape}__seed0__{size}__"
    for point, progress in at_points(numbers, prefix):
        layer = layer_of(name, numbers[prefix + "weight"])
        set_progress(layer, progress)
        out = layer.binary_weight()
        out.backward(torch.tensor(numbers[prefix + "upstream"]))
        assert np.array_equal(out.detach().numpy() < 0, numbers[point + "binary_weight"] < 0)
        close(out, numbers[point + "binary_weight"])
        grad, expected = layer.weight.grad, numbers[point + "grad_weight"]
        if name == "dsq":  # at the bound itself, the largest weight, a clamp may give all, half or nothing
            inside = np.abs(numbers[prefix + "weight"]) < np.abs(numbers[prefix + "weight"]).max()
            grad, expected = grad[torch.tensor(inside)], expected[inside]
        close(grad, expected)
        if name == "xnor-net":
            close(layer.weight, numbers[prefix + "stored_weight"])


@pytest.mark.parametrize("name", ["torch-sgd", "xnor-net", "xnor-net++", "ir-net", "recu"])
def test_activations_and_their_gradient_are_the_published_ones(name: str) -> None:
    numbers, prefix, sign = golden(name), "act4x8x6x6__seed0__", sign_of(name)
    sign.set_progress(0.5)
    x = torch.tensor(numbers[prefix + "x"], requires_grad=True)
    out = sign(x)
    out.backward(torch.tensor(numbers[prefix + "upstream"]))
    assert np.array_equal(out.detach().numpy(), numbers[prefix + "binary_act"])
    assert x.grad is not None
    ours, theirs = (grad * (x.detach().abs() != 1) for grad in (x.grad, torch.tensor(numbers[prefix + "grad_x"])))
    close(ours, theirs.numpy())  # at exactly 1 published clips differ: XNOR-Net's stops there, BinaryNet's does not
    assert torch.equal(sign.eval()(x), out)  # what training standardises changes no sign


@pytest.mark.parametrize("name", ["xnor-net++", "ir-net", "recu"])
def test_layer_is_the_published_one(name: str) -> None:
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


def test_schedules_are_the_published_ones() -> None:
    ir_net, recu = golden("ir-net"), golden("recu")
    t = [ede_temperature(epoch / int(ir_net["epochs__total"])) for epoch in ir_net["epochs__at"]]
    np.testing.assert_allclose(t, ir_net["schedule__t"], rtol=1e-6)  # theirs is in float32
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
def test_fifty_steps_of_latent_weights_keep_the_published_signs(name: str) -> None:
    numbers, method = golden(name), METHODS[name]
    # BinaryNet's coefficient is that of the whole layer, of which two filters are stored.
    layer = layer_of(name, with_rest_of_the_layer(numbers["trace__weight0"]))
    h = dict(method.hyperparameters) | ({"lr": float(numbers["trace__lr"])} if "trace__lr" in numbers else {})
    optimizer = method.build([layer.weight], h, 1)
    for step, grad in enumerate(trace_inputs()[0], start=1):
        if name == "binarynet":  # Lasagne's Adam adds its epsilon before the bias correction, torch's after it
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
def test_fifty_steps_of_binary_weights_are_the_published_ones(name: str, run: str) -> None:
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


def test_methods_without_golden_numbers_are_known() -> None:
    assert set(METHODS) - set(GOLDEN) == {"filter-order1", "filter-cascade", "latent-sgd"}
