"""Every method of the registry under one contract: its update equals its formula, and its weights stay binary."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from reference import optimizers as naive
from reference.binarizers import NAIVE, around_zero, centred_and_clamped, magnitudes_clamped, signs
from zerocross import data, methods, models
from zerocross.methods import METHODS
from zerocross.nn import BinaryLinear
from zerocross.optim import HybridOptimizer, ff_ratio, set_field, set_value, split_params
from zerocross.train import recipes
from zerocross.train.build import build_model, build_optimizer, start_from
from zerocross.train.config import Config
from zerocross.train.variants import two_step, with_epochs, with_method

STEPS, SHAPE = 60, (6, 20)
LATENT = [name for name, method in METHODS.items() if method.kind == "latent"]


def layer_of(method: methods.Method) -> BinaryLinear:
    """Return one layer of the method in float64, with the options that the method sets in a network."""
    torch.manual_seed(0)
    options = {key: value for key, value in method.model_options.items() if key not in ("surrogate", "standardize")}
    return BinaryLinear(SHAPE[1], SHAPE[0], **options).double()  # type: ignore[arg-type]


def gradients() -> torch.Tensor:
    """Return gradients with respect to the binary weight, step by step: noise around a mean of changing sign."""
    draw = torch.Generator().manual_seed(3)
    swing = torch.cos(torch.arange(STEPS) / 7)[:, None, None]
    return (torch.randn(STEPS, *SHAPE, generator=draw) + swing).double()


def channel_mean(w: np.ndarray, grad: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ReActNet's weight: the sign times the filter's mean magnitude; its gradient passes unscaled, 0 beyond 1."""
    return signs(w) * np.abs(w).mean(1, keepdims=True), grad * (np.abs(w) <= 1)


def latent_twin(name: str, h: Any, lr: Callable[[int], float], layer: BinaryLinear) -> np.ndarray:
    """Return the latent weights after all steps: the binarizer's gradient and the optimizer's update, done manually."""
    w = layer.weight.detach().numpy().copy()
    binarizer: Any = layer.binarizer
    own = {} if binarizer is None else {key: value.numpy() for key, value in binarizer.state_dict().items()}
    if name == "latent-sgd":
        decay, gamma = h["weight_decay"], h["gamma"]
        return naive.latent_sgd(gradients().numpy(), np.array([lr(i) for i in range(STEPS)]), decay, gamma, w)[-1]
    if name == "ovsw":
        rule: Any = naive.NaiveOvSW(1 - h["gamma"], h["weight_decay"], h["delta"], h["dampen"])
    elif "momentum" in h:
        rule = naive.NaiveSGD(h["momentum"], h["weight_decay"])
    else:
        rule = naive.NaiveAdam(h.get("weight_decay", 0.0), h.get("clip"))
    glorot = np.sqrt(sum(w.shape) / 1.5) if name == "binarynet" else 1.0
    percents = naive.ramp(h["percent"], STEPS) if name == "siman" else np.zeros(STEPS)

    def projected(w: np.ndarray, step: int) -> np.ndarray:
        if name == "xnor-net":
            return centred_and_clamped(w)
        return magnitudes_clamped(w, percents[step]) if name == "siman" else w

    w = projected(w, 0)
    for step, grad in enumerate(gradients().numpy()):
        if layer.binarizer_name is not None:
            _, dw, _ = NAIVE[layer.binarizer_name](w, grad, step / STEPS, own)
        else:
            _, dw = channel_mean(w, grad)
        w = rule.step(w, dw, lr(step) * glorot)
        w = projected(w, step)
    return w


def theta_twin(name: str, h: Any, lr: Callable[[int], float], layer: BinaryLinear) -> np.ndarray:
    """Return the binary weights after all steps."""
    theta, rates, x = layer.weight.detach().numpy().copy(), np.array([lr(i) for i in range(STEPS)]), gradients().numpy()
    if name == "bop":
        return naive.bop(x, rates, h["tau"], theta)[-1]
    if name == "bop2ndorder":
        gammas, sigmas, taus = (naive.ramp(h[key], STEPS) for key in ("gamma", "sigma", "tau"))
        return naive.bop2ndorder(x, gammas, sigmas, taus, theta)[-1]
    if name == "bold":
        return naive.bold(x, rates, theta)[-1]
    if name == "bayesbinn":
        return naive.averages(x, rates, (), theta, start=-10 * theta / (450_000 / 1e-10))[-1]
    if name == "flip":  # cos(pi r) = (p + q) / (1 + pq), solved for p = 1 - alpha
        c, q = np.cos(np.pi * rates), 1 - h["gamma"]
        return naive.averages(x, 1 - (c - q) / (1 - c * q), (h["gamma"],), theta)[-1]
    inner = {"filter": (h.get("gamma"),), "filter-order1": (), "filter-cascade": (h.get("gamma"),) * 2}[name]
    return naive.averages(x, rates, inner, theta)[-1]


@pytest.mark.parametrize("name", METHODS)
def test_update_equals_a_naive_twin(name: str) -> None:
    method = METHODS[name]
    layer, h = layer_of(method), method.hyperparameters
    for own in layer.parameters():
        own.requires_grad_(own is layer.weight)  # a learned scale belongs to the real parameters
    first = methods.first_values(h)

    def lr(step: int) -> float:
        return float(first[method.lr_name]) * (1 - step / (2 * STEPS))  # type: ignore[arg-type]

    expected = (theta_twin if method.kind == "theta" else latent_twin)(name, h, lr, layer)
    optimizer = method.build(split_params(layer).binary, first, 1)
    for step, grad in enumerate(gradients()):
        set_field(optimizer.param_groups, "lr", 1 - step / (2 * STEPS))
        for field, ramp in methods.ramps(name, h).items():
            set_value(optimizer.param_groups, field, ramp.value(step, STEPS))
        method.on_step(layer, step, STEPS)
        layer.zero_grad()
        (layer.binary_weight() * grad).sum().backward()
        optimizer.step()
    result = layer.weight.detach().numpy()
    assert not np.allclose(result, layer_of(method).weight.detach().numpy())  # it has changed
    np.testing.assert_allclose(result, expected, rtol=3e-5, atol=1e-7)


def signed_weight(layer: Any) -> torch.Tensor:
    """Return the weight that a layer computes with, as minus and plus one scale per filter."""
    return around_zero(layer.binarizer_name, layer.binary_weight().detach())


@pytest.mark.parametrize("name", METHODS)
def test_weights_are_binary_and_flips_equal_those_of_the_layers(name: str) -> None:
    """After a few updates, every binary layer contains -scale and +scale, and the FF ratio is counted on those."""
    method = METHODS[name]
    config = with_method(recipes.get("digits").config, name)
    config = dataclasses.replace(config, log_every=1)
    if name in {"dsq", "ewgs", "rbnn"}:  # their thresholds and angles would be moved by the other optimizer, uncounted
        config = dataclasses.replace(config, real=dataclasses.replace(config.real, lr=1e-12))
    dataset = data.load("digits")
    stage = config.stages[-1]
    model = build_model(config, stage, dataset)
    optimizer = build_optimizer(model, config, stage)
    assert isinstance(optimizer, HybridOptimizer)
    layers = [module for module in model.modules() if hasattr(module, "binary_kinds")]
    assert layers
    for step, (x, y) in enumerate(dataset.train_batches(64, seed=0).epoch(0)):
        before = [weight < 0 for weight in map(signed_weight, layers)]
        method.on_step(model, step, 100)
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        weights = [signed_weight(layer) for layer in layers]
        flips = sum(int((was != (now < 0)).sum()) for was, now in zip(before, weights, strict=True))
        total = sum(now.numel() for now in weights)
        assert ff_ratio(optimizer) == pytest.approx(flips / total, abs=1e-12)
        for weight in weights:
            size = weight.abs().flatten(1)
            torch.testing.assert_close(
                size, size[:, :1].expand_as(size), rtol=1e-4 if name == "adabin" else 1e-5, atol=0
            )
        if step == 4:
            return


@pytest.mark.parametrize("name", METHODS)
def test_method_is_described(name: str) -> None:
    method = METHODS[name]
    assert method.tuned
    assert method.source
    assert method.settings
    assert "schedule" in method.hyperparameters
    assert models.create("digits_net", **method.model_options) is not None


def test_flip_is_tuned_by_one_number_filter_by_three_and_latent_sgd_by_seven() -> None:
    assert len(METHODS["flip"].tuned) == 1
    assert len(METHODS["filter"].tuned) == 3
    assert len(METHODS["latent-sgd"].tuned) == 7


def test_method_sets_its_stages_and_real_settings_and_keeps_the_budget() -> None:
    config = with_epochs(recipes.get("cifar10-birealnet20").config, 5)
    adam = with_method(config, "adambnn")
    assert [(stage.epochs, stage.binarize, stage.init_from) for stage in adam.stages] == [
        (2, "activations", None),
        (3, "both", "previous"),
    ]
    assert adam.real.name == "adam"
    assert adam.real_of(adam.stages[0]).weight_decay == 5e-6
    assert adam.real_of(adam.stages[1]).weight_decay == 0
    assert with_method(config, "torch-sgd").real == config.real
    assert sum(stage.epochs for stage in with_epochs(adam, 9).stages) == 9
    with pytest.raises(ValueError, match="epochs is 1; this run has 2 stages"):
        with_epochs(adam, 1)


@pytest.mark.parametrize("name", ["filter", "flip", *LATENT])
def test_two_step_training_starts_binary_weights_from_the_signs_of_real_ones(name: str) -> None:
    if METHODS[name].parts:
        pytest.skip("has two stages of its own")
    config = two_step(with_method(recipes.get("digits").config, name))
    assert [(stage.epochs, stage.binarize) for stage in config.stages] == [(10, "activations"), (10, "both")]
    dataset = data.load("digits")
    real, binary = (build_model(config, stage, dataset) for stage in config.stages)
    start_from(binary, real.state_dict())
    state = real.state_dict()
    for module_name, module in binary.named_modules():
        if isinstance(module, BinaryLinear) or hasattr(module, "binary_weight"):
            weight = state[f"{module_name}.weight"]
            signs_of = module.before_sign()  # type: ignore[operator]
            if module.binary_kinds["weight"] == "theta":  # type: ignore[index]
                assert torch.equal(module.weight < 0, weight < 0)  # type: ignore[operator]
            else:
                assert torch.equal(module.weight, weight)  # type: ignore[arg-type]
            assert torch.equal(signed_weight(module) < 0, signs_of < 0)


def test_two_step_training_of_the_filter_starts_warm() -> None:
    config = two_step(recipes.get("digits").config)
    alpha = float(config.optimizer["alpha"])  # type: ignore[arg-type]
    assert config.optimizer_of(config.stages[1])["warm_start"] == pytest.approx(3 * math.sqrt(alpha / 2))
    flip = two_step(with_method(recipes.get("digits").config, "flip"))
    # alpha = (pi r)^2 / gamma, approximately
    assert flip.optimizer_of(flip.stages[1])["warm_start"] == pytest.approx(
        3 * math.sqrt((math.pi * 0.01) ** 2 / 0.1 / 2), rel=0.03
    )
    with pytest.raises(ValueError, match="already has 2 stages"):
        two_step(config)
    with pytest.raises(ValueError, match="'bop' cannot start from trained weights"):
        two_step(with_method(recipes.get("digits").config, "bop"))


def test_parameters_of_binarizers_are_real_and_without_decay() -> None:
    model = models.create("digits_net", **METHODS["dsq"].model_options)
    split = split_params(model)
    claimed = {id(param) for param in split.real_no_decay}
    own = [param for name, param in model.named_parameters() if ".binarizer." in name]
    assert own
    assert all(id(param) in claimed for param in own)


def test_the_hash_includes_the_settings_of_the_method() -> None:
    hashes = {with_method(Config(), name).hash for name in METHODS}
    assert len(hashes) == len(METHODS)
