"""The figures of the summary equal manual counts, and the model does not change."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from zerocross.nn import BinaryConv2d, BinaryLinear, Sign, summary
from zerocross.tables import bytes_text, count_text


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        BinaryConv2d(8, 16, 3, stride=2, padding=1, groups=2, bias=True, sign_input="polynomial"),
        nn.Flatten(),
        Sign(),
        BinaryLinear(256, 5, weights="latent"),
        BinaryLinear(5, 7),
    )


def test_figures_equal_manual_counts():
    result = summary(network(), (2, 3, 8, 8))
    rows = {row.name: row for row in result.rows}
    assert list(rows) == ["0", "1", "2", "5", "6"]
    assert (rows["0"].bits, rows["0"].binary, rows["0"].real, rows["0"].shape) == (32, 0, 8 * 27 + 8, (8, 3, 3, 3))
    assert (rows["0"].binary_macs, rows["0"].real_macs) == (0, 2 * 8 * 64 * 27)
    assert (rows["1"].binary_macs, rows["1"].real_macs, rows["1"].float_bytes) == (0, 0, 64)
    assert (rows["2"].bits, rows["2"].binary, rows["2"].real) == (1, 16 * 4 * 9, 16)
    assert (rows["2"].binary_macs, rows["2"].real_macs) == (2 * 16 * 16 * 36, 0)
    assert (rows["2"].float_bytes, rows["2"].packed_bytes) == (4 * (576 + 16), 72 + 64)
    assert (rows["5"].binary_macs, rows["5"].real_macs) == (2 * 5 * 256, 0)
    assert (rows["6"].binary_macs, rows["6"].real_macs) == (0, 2 * 7 * 5)  # binary weights, real inputs
    assert rows["6"].packed_bytes == 5  # 35 bits
    assert result.total.binary == 576 + 1280 + 35
    assert result.total.real == 224 + 16 + 16
    assert result.total.binary_macs == sum(row.binary_macs or 0 for row in result.rows)
    assert result.total.bits == 8 * result.total.packed_bytes / (result.total.binary + result.total.real)


def test_without_an_input_there_are_no_macs():
    result = summary(network())
    assert all(row.binary_macs is None and row.real_macs is None for row in (*result.rows, result.total))
    assert "?" not in str(result)


def test_the_model_does_not_change():
    model = network().train()
    model[1].eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    state = torch.get_rng_state()
    summary(model, (2, 3, 8, 8))
    assert [module.training for module in model] == [True, False, True, True, True, True, True]
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert not any(module._forward_hooks for module in model.modules())


class Unusual(nn.Module):
    def __init__(self):
        super().__init__()
        self.twice = nn.Linear(4, 4, bias=False)
        self.tied = nn.Linear(4, 4, bias=False)
        self.tied.weight = self.twice.weight
        self.inside = nn.Linear(4, 4)
        self.steps = nn.Parameter(torch.zeros(3))
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("replaced", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        self.replaced = self.replaced + 1
        return self.tied(self.twice(self.twice(x))) @ self.inside.weight


def test_layers_called_twice_tied_or_not_called():
    model = Unusual()
    result = summary(model, (1, 4))
    rows = {row.name: row for row in result.rows}
    assert rows["twice"].real_macs == 32
    assert rows["twice"].real == 16
    assert (rows["tied"].real, rows["tied"].real_macs, rows["tied"].float_bytes) == (0, 16, 0)
    assert rows["tied"].note == "weight tied to twice.weight"
    assert rows["inside"].real_macs is None
    assert rows["(model)"].real == 3
    assert "MACs of inside are unknown" in str(result)
    assert model.calls == model.replaced == 0


def test_transposed_convolution_counts_from_its_input():
    row = summary(nn.ConvTranspose2d(4, 6, 2, stride=2), (1, 4, 5, 5)).rows[0]
    assert row.real_macs == 4 * 25 * 6 * 4


def test_a_plain_layer_of_signs_takes_one_bit_per_weight():
    layer = nn.Linear(16, 4, bias=False)
    assert summary(layer).total.bits == 32
    nn.init.ones_(layer.weight)
    assert summary(layer).total.bits == 1


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (999, "999"), (1000, "1.00 k"), (267264, "267 k"), (999_950, "1.00 M")]
)
def test_counts_have_three_digits(count, text):
    assert count_text(count) == text


@pytest.mark.parametrize(("count", "text"), [(512, "512 B"), (34560, "33.8 KiB"), (113_012_736, "108 MiB")])
def test_bytes_have_three_digits(count, text):
    assert bytes_text(count) == text
