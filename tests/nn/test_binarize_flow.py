"""binarize follows the data flow: first and last layers, shortcuts, functional ReLUs, custom modules."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import zerocross
from zerocross.models import create
from zerocross.nn import BinaryLinear, NotBinaryError, binarize


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def outcomes(report) -> dict[str, str]:
    return {row.name: row.why or row.done for row in report.rows}


class Patches(nn.Module):
    """A ViT whose embeddings own parameters and come first, with a table for distillation after the classifier."""

    def __init__(self, size: int = 32) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.randn(1, 1, 16))
        self.positions = nn.Parameter(torch.randn(1, 17, 16))
        self.projection = nn.Conv2d(3, 16, size // 4, size // 4)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
        self.norm, self.classifier = nn.LayerNorm(16), nn.Linear(16, 5)
        self.table = nn.Embedding(5, 16)

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        x = self.projection(pixels).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.positions
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        return {"logits": self.classifier(x[:, 0])}


def test_embeddings_and_modules_with_parameters_are_neither_first_nor_last():
    for example in (None, torch.randn(2, 3, 32, 32), {"pixels": torch.randn(2, 3, 32, 32)}):
        _, report = binarize(Patches(), example=example)
        assert outcomes(report) == {
            "(model)": "unsupported: Patches",
            "projection": "first layer",
            "up": "binary",
            "down": "binary",
            "classifier": "last layer",
            "table": "unsupported: Embedding",
        }
    with pytest.raises(ValueError, match=r"does not accept this example \(RuntimeError: .*as in training"):
        binarize(Patches(), example=torch.randn(2, 1, 32, 32))


class Shuffled(nn.Module):
    """Layers are registered in a different order than they are called."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.middle, self.extra, self.stem = (nn.Linear(6, 6) for _ in range(4))
        self.unused = nn.Linear(6, 6)

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        x = self.extra(self.middle(self.stem(x))) * scale
        return self.head(x + F.linear(x, self.unused.weight))


def test_first_and_last_layers_follow_the_data_flow():
    expected = {
        "head": "last layer",
        "middle": "binary",
        "extra": "binary",
        "stem": "first layer",
        "unused": "not called as a module on the example",
    }
    for example in (None, torch.randn(4, 6), (torch.randn(4, 6), 2.0)):
        assert outcomes(binarize(Shuffled(), example=example).report) == expected


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.a, self.b, self.c = nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.c(self.b(self.a(self.table(tokens))))


def test_a_guessed_order_warns_unless_an_example_is_given():
    with pytest.warns(UserWarning, match=r"could not run this model.*binarize\(model, example=batch\)"):
        guessed = binarize(Tokens()).report
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        messages = binarize(Tokens(), example=torch.randint(0, 9, (2, 5))).report
        # Cannot be run, but the order is certain.
        binarize(nn.Sequential(nn.Linear(4, 4), nn.Linear(7, 4), nn.Linear(4, 4)))
    assert outcomes(guessed) == outcomes(messages)


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.third(F.relu(self.second(F.relu(self.first(x)))))


def test_a_functional_relu_is_detected():
    with pytest.raises(ValueError, match="the inputs of second are never negative"):
        binarize(Functional(), example=torch.randn(20, 4))
    with pytest.warns(UserWarning, match="on random inputs the inputs of second are never negative"):
        binarize(Functional())
    assert binarize(Functional(), example=torch.randn(20, 4), sign_input=None).report.weights("binary") == 16


def test_a_relu_stored_as_an_attribute_is_replaced():
    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = (nn.Linear(4, 4) for _ in range(3))
            self.activation = F.relu

        def forward(self, x: Tensor) -> Tensor:
            return self.third(self.second(self.activation(self.first(x))))

    binary, report = binarize(Held(), example=torch.randn(20, 4))
    assert outcomes(report)["activation"] == "by hardtanh, whose sign varies"
    assert binary.activation is F.hardtanh


class Encoder(nn.Module):
    def __init__(self, activation: str) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation=activation, batch_first=True)
        self.stem, self.encoder, self.head = nn.Linear(6, 8), nn.TransformerEncoder(layer, 2), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.stem(x)).mean(1))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_converted_transformer_layer_is_equal_in_training_and_evaluation(activation):
    model, report = binarize(Encoder(activation))
    assert outcomes(report)["encoder.layers.0.linear1"] == "binary"
    assert outcomes(report)["encoder.layers.1.linear2"] == "binary"
    zerocross.check(model)
    for twin in (model, copy.deepcopy(model)):
        x = torch.randn(4, 5, 6)
        expected = twin.train()(x)
        twin.eval()
        with torch.no_grad():
            torch.testing.assert_close(twin(x), expected)


def test_a_manually_converted_transformer_layer_is_named_by_check():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    zerocross.check(layer)
    layer.linear1 = BinaryLinear(8, 16, bias=True)
    with pytest.raises(NotBinaryError, match="torch's fast path reads the weights of its binary layers"):
        zerocross.check(layer)


class Block(nn.Module):
    def __init__(self, channels: int, stride: int, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.conv1 = nn.Conv2d(channels // stride, channels, 3, stride, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        if kind != "single":
            self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        if stride > 1:
            self.down = nn.Sequential(nn.Conv2d(channels // stride, channels, 1, stride, bias=False), self.bn2)

    def forward(self, x: Tensor) -> Tensor:
        identity = x if not hasattr(self, "down") else self.down(F.hardtanh(x) if self.kind == "preact" else x)
        y = self.bn1(self.conv1(F.hardtanh(x) if self.kind == "preact" else x))
        if self.kind != "single":
            y = self.conv2(F.hardtanh(y))
        y += identity
        return F.hardtanh(y)


@pytest.mark.parametrize("kind", ["post", "preact", "single"])
def test_only_weighted_shortcuts_stay_real(kind):
    blocks = [Block(8, 1, kind), Block(16, 2, kind), Block(16, 1, kind), Block(32, 2, kind)]
    model = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    names = {name for name, why in outcomes(binarize(model).report).items() if why == "weighted shortcut"}
    assert names == {"2.down.0", "4.down.0"}
    _, report = binarize(model, shortcuts_real=False)
    assert outcomes(report)["2.down.0"] == "binary"


def test_shortcuts_of_the_registry_networks_are_recognised():
    report = binarize(create("birealnet18", binarize="none"), example=torch.randn(1, 3, 64, 64), sign_input=None).report
    ours = {name for name, m in create("birealnet18").named_modules() if type(m) is nn.Conv2d} - {"stem.0"}
    assert {name for name, why in outcomes(report).items() if why == "weighted shortcut"} == ours
    assert len(ours) == 3
