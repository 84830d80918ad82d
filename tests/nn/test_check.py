"""A model that is declared binary but is not is detected: by check, by summary, and by its layers."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

import zerocross
from zerocross import data, train
from zerocross.nn import BinaryConv2d, BinaryLinear, NotBinaryError, Sign, summary
from zerocross.train import evaluate


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def network() -> Any:
    return nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), BinaryLinear(8, 8, sign_input="clip"), nn.BatchNorm1d(8), nn.Linear(8, 2)
    )


def spoiled() -> nn.Sequential:
    """Return a network after three steps of Adam on all parameters."""
    model = network()
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        model(torch.randn(16, 6)).square().sum().backward()
        adam.step()
    return model


def warnings_of(act) -> list[str]:
    with warnings.catch_warnings(record=True) as result:
        warnings.simplefilter("always")
        act()
    return [str(warning.message) for warning in result]


def test_binary_models_of_all_kinds_pass():
    zerocross.check(network())
    zerocross.check(nn.Sequential(BinaryConv2d(2, 3, 3, weights="latent", binarizer="ir-net"), nn.Linear(3, 3)))
    zerocross.check(BinaryLinear(3, 3, device="meta"))


@pytest.mark.filterwarnings("ignore:.*theta weights")
def test_theta_that_became_real_is_named_by_check_and_summary():
    model = spoiled()
    with pytest.raises(NotBinaryError, match=r"1 of the binary layers are not binary: 2: 64 of 64 weights are not -1"):
        zerocross.check(model)
    result = summary(model, (1, 6))
    row = next(row for row in result.rows if row.name == "2")
    assert (row.bits, row.binary, row.real, row.binary_macs) == (32, 0, 64, 0)
    assert "2 is declared binary but is not: 64 of 64" in str(result)
    latent = BinaryLinear(2, 2, weights="latent")
    nn.init.constant_(latent.weight, float("nan"))
    with pytest.raises(NotBinaryError, match=r"\(the model itself\): latent weights are NaN"):
        zerocross.check(latent)


@pytest.mark.filterwarnings("ignore:.*theta weights")
def test_evaluation_refuses_a_model_that_is_not_binary():
    x, y = torch.randn(40, 6), torch.randint(0, 2, (40,))
    dataset = data.from_tensors(x, y, x, y)
    evaluate(network(), dataset.eval_batches(8))
    with pytest.raises(NotBinaryError, match="2: 64 of 64"):
        evaluate(spoiled(), dataset.eval_batches(8))


def test_fit_refuses_a_network_without_binary_layers_unless_requested():
    x, y = torch.randn(40, 6), torch.randint(0, 2, (40,))
    dataset = data.from_tensors(x, y, x, y)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    with pytest.raises(ValueError, match=r"no binary weights to train: .*zerocross.binarize.*binarize='none'"):
        train.fit(train.Config(stages=(train.Stage(epochs=1),), batch_size=8), dataset, model=model, show=False)
    meant = train.Config(stages=(train.Stage(epochs=1, binarize="none"),), batch_size=8)
    train.fit(meant, dataset, model=model, show=False)


@pytest.mark.filterwarnings("ignore:.*theta weights")
def test_training_ends_with_a_check():
    x, y = torch.randn(40, 6), torch.randint(0, 2, (40,))
    config = train.Config(stages=(train.Stage(epochs=1),), batch_size=8)
    model = network()

    def spoil(*_: Any) -> None:
        model[2].weight.data.mul_(0.5)

    with pytest.raises(NotBinaryError, match="2: 64 of 64"):
        train.fit(config, data.from_tensors(x, y, x, y), model=model, show=False, on_epoch=spoil)


def test_a_theta_layer_warns_once_in_forward_and_when_the_mode_changes():
    assert not warnings_of(lambda: network().eval()(torch.randn(4, 6)))
    model = spoiled_quietly()
    messages = warnings_of(lambda: [model(torch.randn(4, 6)) for _ in range(20)])
    assert len(messages) == 1
    assert "64 of 64 theta weights of a BinaryLinear(in_features=8" in messages[0]
    assert "GradientFilter" in messages[0]
    assert len(warnings_of(lambda: [spoiled_quietly().eval().train() for _ in range(1)])) == 1


def spoiled_quietly() -> Any:
    model = network()
    model[2].weight.data.mul_(0.9)
    return model


def test_checks_are_rare():
    layer = BinaryLinear(4, 4)
    seen = []
    layer._check_weight = lambda: seen.append(layer._calls)  # type: ignore[method-assign]
    for _ in range(70):
        layer(torch.randn(2, 4))
    assert seen == [1, 2, 4, 8, 16, 32, 64]


class Relu(nn.Module):
    """A functional ReLU before a binary layer: all signs are +1."""

    def __init__(self, *, module: bool) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(6, 8), nn.BatchNorm1d(8)
        self.sign = Sign() if module else nn.Identity()
        self.second = BinaryLinear(8, 8, sign_input=None if module else "clip")

    def forward(self, x):
        return self.second(self.sign(F.relu(self.norm(self.first(x)))))


@pytest.mark.parametrize("module", [False, True])
def test_a_constant_input_warns_once_in_training(module):
    model = Relu(module=module)
    messages = warnings_of(lambda: [model(torch.randn(16, 6)) for _ in range(40)])
    assert len(messages) == 1
    assert "the input of a BinaryLinear" in messages[0]
    assert "is 1 everywhere" in messages[0]
    assert not warnings_of(lambda: [copy.deepcopy(Relu(module=module)).eval()(torch.randn(16, 6)) for _ in range(9)])
    assert not warnings_of(lambda: [network().train()(torch.randn(16, 6)) for _ in range(9)])


def test_checks_do_not_interfere():
    model = network()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    compiled(torch.randn(4, 6))
    assert model[2]._calls == 0
    torch.export.export(model.eval(), (torch.randn(4, 6),))
    torch.jit.trace(model, torch.randn(4, 6))
    layer = BinaryLinear(6, 3)
    torch.func.vmap(layer)(torch.randn(3, 4, 6))
    weights = {"weight": layer.weight.detach().expand(3, 3, 6)}
    torch.func.vmap(lambda w: torch.func.functional_call(layer, w, torch.ones(4, 6)))(weights)
    with torch.device("meta"):
        network()(torch.randn(4, 6))
    with FakeTensorMode(allow_non_fake_inputs=True):
        model(torch.randn(4, 6))
