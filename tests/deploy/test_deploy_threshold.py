"""Integer thresholds give the same bits as the network, for every possible sum of a layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from zerocross.deploy import pack
from zerocross.deploy.threshold import fold
from zerocross.nn import BinaryLinear, RSign, Sign, sign


def thresholded(threshold: Tensor, direction: Tensor, sums: Tensor) -> Tensor:
    """Return the bits of sums (S,) for each channel, of shape (S, C)."""
    column = sums[:, None]
    return torch.where(direction > 0, column >= threshold, column <= threshold)


def batch_norm(channels: int, dims: int, mean: float, var: float, weight: float, bias: float) -> nn.Module:
    norm = (nn.BatchNorm1d if dims == 1 else nn.BatchNorm2d)(channels)
    with torch.no_grad():
        spread = torch.linspace(0.5, 1.5, channels)
        norm.running_mean.copy_(mean * spread.round() if mean == round(mean) else mean * spread)  # type: ignore[union-attr]
        norm.running_var.copy_(var * spread)  # type: ignore[union-attr]
        norm.weight.copy_(weight * torch.linspace(-1, 1, channels))
        norm.bias.copy_(bias * spread)
    return norm.eval()


@settings(max_examples=150)
@given(
    limit=st.sampled_from([1, 2, 9, 144, 576, 2304]),
    dims=st.sampled_from([1, 3]),
    mean=st.one_of(st.floats(-60, 60), st.integers(-40, 40).map(float)),
    var=st.one_of(st.just(1.0), st.floats(1e-6, 1e4)),
    weight=st.one_of(st.just(1.0), st.just(0.0), st.floats(-3, 3)),
    bias=st.one_of(st.just(0.0), st.floats(-5, 5)),
    scale=st.one_of(st.none(), st.floats(-2, 2)),
    bend=st.sampled_from([nn.Identity(), nn.Hardtanh(), nn.PReLU(init=0.25), nn.ReLU()]),
)
def test_a_threshold_equals_the_layers_for_every_sum(
    limit: int, dims: int, mean: float, var: float, weight: float, bias: float, scale: float | None, bend: nn.Module
):
    channels = 5
    layers = [batch_norm(channels, dims, mean, var, weight, bias), bend]
    factor = torch.tensor(1.0 if scale is None else scale)
    result = fold([lambda x: x * factor, *layers], limit, (channels,) if dims == 1 else (channels, 4, 4))
    assert result is not None, "a chain of monotone steps always has a threshold"
    threshold, direction = result
    sums = torch.arange(-limit, limit + 1)
    with torch.no_grad():
        x = sums.float()[:, None].expand(-1, channels)
        # In the shape of the network's activations: one row per sample, or one image per channel.
        x = x.contiguous() if dims == 1 else x.T.reshape(1, channels, -1, 1).contiguous()
        expected = nn.Sequential(*layers)(x * factor) >= 0
    expected = expected if dims == 1 else expected.view(channels, -1).T
    assert torch.equal(thresholded(threshold, direction, sums), expected)
    assert threshold.dtype == torch.int32
    assert bool((threshold.abs() <= limit + 1).all())


def test_ties_are_resolved_as_in_the_network():
    """A sum equal to the mean gives 0, and sign(0) is +1 in the network and in the threshold."""
    norm = batch_norm(4, 1, mean=3.0, var=2.0, weight=1.0, bias=0.0)
    result = fold([norm], 9, (4,))
    assert result is not None
    sums = torch.arange(-9, 10)
    with torch.no_grad():
        assert torch.equal(thresholded(*result, sums), norm(sums.float()[:, None].expand(-1, 4).contiguous()) >= 0)


def test_a_bit_that_changes_twice_has_no_threshold():
    assert fold([lambda x: x.abs() - 3], 9, (2,)) is None
    assert fold([lambda x: x * torch.tensor(float("nan"))], 9, (2,)) is None


def all_bits(inputs: int) -> Tensor:
    """Return all inputs of a number of bits, as -1 and +1."""
    return torch.tensor([[1.0 if code >> bit & 1 else -1.0 for bit in range(inputs)] for code in range(1 << inputs)])


@pytest.mark.parametrize("slope", [0.25, -0.5])
def test_a_packed_layer_equals_pytorch_for_every_input(slope: float):
    """All inputs give all sums; the sign is folded if there is a threshold and kept if there is none."""
    from reference.runtime_interpreter import interpret

    torch.manual_seed(0)
    second = BinaryLinear(6, 4, bias=True)
    model = nn.Sequential(
        Sign(), BinaryLinear(9, 6, bias=True), nn.BatchNorm1d(6), nn.PReLU(init=slope), RSign(6), second
    )  # fmt: skip
    with torch.no_grad():
        model[1].bias.copy_(torch.tensor([0.0, 1.0, -1.0, 0.5, 2.0, -0.25]))  # type: ignore[union-attr, operator]
        model[2].running_mean.copy_(torch.tensor([0.0, 1.0, 3.0, -2.0, 0.5, 9.0]))  # type: ignore[union-attr, operator]
        model[2].weight.copy_(torch.tensor([1.0, -1.0, 0.0, 2.0, -0.5, 1.0]))  # type: ignore[union-attr, operator]
        model[4].shift.copy_(torch.tensor([0.0, 0.5, 0.25, 0.0, -0.5, 0.0]))  # type: ignore[union-attr, operator]
    model.eval()
    packed = pack(model, (9,))
    ops = [node.op for node in packed.graph.nodes]
    assert ("threshold" in ops) == (slope > 0)
    assert ("no single threshold is equivalent" in packed.table()) == (slope < 0)
    x = all_bits(9)
    with torch.no_grad():
        expected = model(x).numpy()
    np.testing.assert_allclose(interpret(packed.graph, x.numpy())[packed.graph.output], expected, atol=1e-6)


def test_values_with_other_users_are_not_folded():
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.second = BinaryLinear(4, 4), nn.BatchNorm1d(4), BinaryLinear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            x = self.norm(self.first(sign(x)))
            return self.second(sign(x)) + x

    packed = pack(Both().eval(), (4,))
    assert "threshold" not in [node.op for node in packed.graph.nodes]
    assert "kept: the value of batch norm is also used elsewhere" in packed.table()
