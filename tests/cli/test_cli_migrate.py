"""What `zerocross migrate` prints is Python, and the optimizer in it takes the signs of the one it replaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import zerocross
from reference.golden_numbers import load, trace_inputs
from zerocross.cli.app import run

STEPS, SIZE = 300, (40, 30)


def translated(capsys: pytest.CaptureFixture[str], *words: str, expect: str = "GradientFilter") -> Callable[..., Any]:
    """The optimizer that a command prints, as a function of the model."""
    assert run(["migrate", *words]) == 0
    code = capsys.readouterr().out
    assert f"{expect}(binary" in code
    assert max(len(line) for line in code.splitlines() if not line.startswith("#     ")) <= 120

    def build(model: torch.nn.Module) -> Any:
        names: dict[str, Any] = {"model": model}
        exec(code, names)
        return names["flips"]

    return build


def signs(build: Callable[..., Any], gradients: torch.Tensor) -> torch.Tensor:
    """The signs after each step of the optimizer on one binary layer, which starts at zero."""
    layer = zerocross.nn.BinaryLinear(SIZE[1], SIZE[0], bias=False).double()
    optimizer = build(layer)
    seen = []
    for gradient in gradients:
        layer.weight.grad = gradient.clone()
        optimizer.step()
        seen.append(layer.weight.detach().clone())
    return torch.stack(seen)


def noise(seed: int = 0) -> torch.Tensor:
    return torch.randn(STEPS, *SIZE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def torch_signs(gradients: torch.Tensor, **settings: Any) -> torch.Tensor:
    w = torch.nn.Parameter(torch.zeros(SIZE, dtype=torch.float64))
    optimizer = torch.optim.SGD([w], **settings)
    seen = []
    for gradient in gradients:
        w.grad = gradient.clone()
        optimizer.step()
        seen.append(torch.sign(w.detach()))
    return torch.stack(seen)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-2}, "GradientFilter"),
        ({"lr": 0.1, "momentum": 0.9}, "GradientFilter"),
        ({"lr": 0.1, "weight_decay": 0.5}, "GradientFilter"),
        ({"lr": 0.1, "momentum": 0.9, "weight_decay": 0.5}, "IIRGradientFilter"),  # complex poles
    ],
)
def test_torch_sgd(settings: dict[str, float], kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    build = translated(capsys, "torch", *words, expect=kind)
    x = noise()
    assert torch.equal(signs(build, x), torch_signs(x, **settings))


def test_nesterov_is_not_exact_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-2, "nesterov": True}
    words = ["--lr=0.1", "--momentum=0.9", "--weight-decay=1e-2", "--nesterov"]
    build = translated(capsys, "torch", *words)
    x = noise()
    assert not torch.equal(signs(build, x), torch_signs(x, **settings))
    assert run(["migrate", "torch", *words]) == 0
    text = capsys.readouterr().out
    exact = next(line.strip("# ") for line in text.splitlines() if line.startswith("#     flips = "))

    def general(model: torch.nn.Module) -> Any:
        names: dict[str, Any] = {"binary": [*model.parameters()], "zerocross": zerocross}
        exec(exact, names)
        return names["flips"]

    assert torch.equal(signs(general, x), torch_signs(x, **settings))


@pytest.mark.parametrize("regularizer", [False, True])
def test_keras_sgd(regularizer: bool, capsys: pytest.CaptureFixture[str]) -> None:
    decay = ["--l2", "0.005"] if regularizer else ["--weight-decay", "0.05"]
    build = translated(capsys, "larq", "--lr", "0.1", "--momentum", "0.9", *decay)
    x = noise(1)
    w = velocity = torch.zeros(SIZE, dtype=torch.float64)
    expected = []
    for gradient in x:  # Keras: velocity = momentum velocity - lr gradient; its own decay acts on the weight alone
        pull = 2 * 0.005 * w if regularizer else 0
        velocity = 0.9 * velocity - 0.1 * (gradient + pull)
        w = (w if regularizer else w - 0.1 * 0.05 * w) + velocity
        expected.append(torch.sign(w))
    assert torch.equal(signs(build, x), torch.stack(expected))


def test_bop_without_threshold(capsys: pytest.CaptureFixture[str]) -> None:
    build = translated(capsys, "larq", "--gamma", "1e-2", "--threshold", "0")
    x = noise(2)
    expected = signs(lambda model: zerocross.optim.Bop(model.parameters(), gamma=1e-2, tau=0.0), x)
    assert torch.equal(signs(build, x), expected)


def test_the_authors_optimizer(capsys: pytest.CaptureFixture[str]) -> None:
    gradients, theta0 = trace_inputs()
    build = translated(capsys, "authors", "--alpha", "1e-3", "--gamma", "0.1")
    layer = zerocross.nn.BinaryConv2d(16, len(theta0), 3, bias=False)
    layer.weight.data.copy_(torch.from_numpy(theta0))
    optimizer = build(layer)
    for gradient, theta in zip(gradients, load("quist_filter")["trace__cifar__theta"], strict=True):
        layer.weight.grad = torch.from_numpy(gradient)
        optimizer.step()
        assert np.array_equal(layer.weight.detach().numpy(), theta)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["larq"], "not both"),
        (["larq", "--lr", "0.1", "--gamma", "1e-4"], "not both"),
        (["larq", "--gamma", "2"], "--gamma 2.0 is outside (0, 1]"),
        (["larq", "--threshold", "-1"], "--threshold -1.0 must be 0 or more"),
        (["larq", "--lr", "0.1", "--l2", "1e-4", "--weight-decay", "1e-4"], "give one"),
        (["larq", "--lr", "1", "--weight-decay", "3"], "at most 1"),
        (["torch"], "--lr"),
        (["torch", "--lr", "-1"], "lr -1.0"),
        (["authors", "--alpha", "2", "--gamma", "0.1"], "(0, 1]"),
    ],
)
def test_errors_are_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["migrate", *words]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
