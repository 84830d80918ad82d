"""Networks that cannot be packed are refused; the error names the module, the reason and a solution."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zerocross.deploy import pack
from zerocross.models import create
from zerocross.nn import BinaryConv2d, BinaryLinear, Sign
from zerocross.runtime.format import weight_signs


class Inner(nn.Module):
    """A module inside a model that applies a given function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def around(function: Callable[[Tensor], Tensor]) -> nn.Module:
    model = nn.Sequential()
    model.add_module("body", nn.Sequential(nn.Conv2d(3, 4, 1), Inner(function)))
    return model


REFUSED: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "an unknown operator": (torch.tanh, "operator tanh is not supported"),
    "a ternary sign": (torch.sign, "operator sign is not supported: torch.sign\\(0\\) is 0; use zerocross.nn.sign"),
    "a product of activations": (lambda x: x * x, "the product of two activations"),
    "a difference of activations": (lambda x: x - F.relu(x), "the difference of two activations"),
    "a quotient of activations": (lambda x: x / F.relu(x), "division by an activation"),
    "a sum that broadcasts": (lambda x: x + x.mean((2, 3), keepdim=True), "of different shapes"),
    "a mean over channels": (lambda x: x.mean(1), "only the mean over height and width"),
    "a constant per pixel": (lambda x: x + torch.arange(36.0).view(6, 6), "one number per channel"),
    "a mean over samples": (lambda x: x.mean(0), "."),
    "a transposition": (lambda x: x.permute(0, 2, 3, 1), "operator permute is not supported"),
    "a reshape other than flattening": (lambda x: x.reshape(2, 8, 3, 6), "only flattening is supported"),
    "a window of the image": (lambda x: x[:, :, 1:], "can only be sliced with a step over rows or columns"),
    "padding by reflection": (lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), "only by a constant|reflection_pad2d"),
    "padding of one side": (lambda x: F.pad(x, (1, 0)), "equally on both sides"),
    "padding without a convolution": (lambda x: F.relu(F.pad(x, (1, 1))), "input of a convolution can be padded"),
    "an adaptive pool to 4 x 4": (lambda x: F.adaptive_avg_pool2d(x, 4), "from \\[6, 6\\] to \\[4, 4\\]"),
    "a linear layer per pixel": (lambda x: F.linear(x, torch.ones(2, 6)), "flatten its input first"),
    "a norm with batch statistics": (lambda x: F.batch_norm(x, None, None, training=True), "norm.* is not supported"),
    "indices of a pool": (lambda x: F.max_pool2d(x, 2, return_indices=True)[1].float(), "not supported"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_an_operation_that_cannot_be_packed_is_named_with_its_module(name: str):
    function, reason = REFUSED[name]
    with pytest.raises(ValueError, match=reason) as refused:
        pack(around(function), (3, 6, 6))
    assert "body.1" in str(refused.value)


def test_a_model_that_export_cannot_trace_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"torch\.export cannot trace the model on an input of shape \(2, 3, 6, 6\)"):
        pack(around(lambda x: x if x.sum() > 0 else -x), (3, 6, 6))
    with pytest.raises(ValueError, match=r"torch\.export cannot trace the model"):
        pack(nn.Conv2d(3, 4, 3), (5, 6, 6))


def test_more_than_one_output_is_refused():
    class Two(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x + 1, x + 2

    with pytest.raises(ValueError, match="returns 2 tensors"):
        pack(Two(), (3,))


def test_a_constant_network_is_refused():
    class Constant(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ones(len(x), 3)

    with pytest.raises(ValueError, match="does not depend on its input"):
        pack(Constant(), (3,))


@pytest.mark.parametrize(
    ("example", "reason"),
    [(None, "the input size is unknown"), ((), "1 to 3"), ((1, 2, 3, 4), "1 to 3"), ((3, 0, 3), "all positive")],
)
def test_invalid_input_sizes_are_refused(example: tuple[int, ...] | None, reason: str):
    with pytest.raises(ValueError, match=reason):
        pack(nn.Conv2d(3, 4, 1), example)


def test_averaged_weights_are_refused_without_resign():
    torch.manual_seed(0)
    first, second = (create("digits_net", width=4, depth=1).eval() for _ in range(2))
    averaged = copy.deepcopy(first)
    with torch.no_grad():
        for mean, a, b in zip(averaged.parameters(), first.parameters(), second.parameters(), strict=True):
            mean.copy_(0.75 * a + 0.25 * b)
    with pytest.raises(ValueError, match=r"not binary: blocks\.0\.conv: .* weights are not -1 or \+1.*resign=True"):
        pack(averaged, (1, 8, 8))
    before = copy.deepcopy(averaged.state_dict())
    graph = pack(averaged, (1, 8, 8), resign=True).graph
    assert all(torch.equal(value, before[key]) for key, value in averaged.state_dict().items())
    conv = next(node for node in graph.nodes if node.output == "blocks.0.conv")
    weight = first.get_submodule("blocks.0.conv").weight  # type: ignore[union-attr]
    assert torch.equal(torch.from_numpy(weight_signs(graph, conv)).float(), weight.detach())  # type: ignore[union-attr]


def test_a_network_that_diverged_is_refused():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), Sign(), BinaryLinear(4, 2)).eval()
    for parameter, reason in (("0.weight", "the weights of 0 are not finite"), ("1.bias", "not finite")):
        broken = copy.deepcopy(model)
        with torch.no_grad():
            broken.get_parameter(parameter)[0] = float("nan")
        with pytest.raises(ValueError, match=reason):
            pack(broken, (4,))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weights": "latent", "binarizer": "adabin"}, r"blocks\.0\.conv\.binarizer.*AdaBin's weights are two values"),
        ({"surrogate": "adabin"}, r"blocks\.0\.sign.*AdaBin's activations"),
        ({"surrogate": "ewgs"}, r"blocks\.0\.sign.*EWGS' activations are 0 and 1.*surrogate='polynomial'"),
        ({"standardize": "centre"}, r"blocks\.0\.sign.*mean of a whole sample"),
        ({"activation": "maxout"}, r"stem_activation.*activation='prelu'"),
    ],
)
def test_layers_that_cannot_be_bits_are_refused(options: dict[str, str], words: str):
    """They are refused with resign=True, too: their signs would be a different network."""
    model = create("digits_net", width=4, depth=1, **options).eval()
    for resign in (False, True):
        with pytest.raises(ValueError, match=f"cannot pack module '{words}"):
            pack(model, (1, 8, 8), resign=resign)


def test_only_bits_may_be_padded_by_ones():
    class Padded(nn.Module):
        def __init__(self, layer: nn.Module) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(F.pad(x, (1, 1, 1, 1), value=1.0))

    for layer in (nn.Conv2d(3, 4, 3), BinaryConv2d(3, 4, 3)):
        with pytest.raises(ValueError, match="'layer': only a binary convolution of bits may be padded by ones"):
            pack(Padded(layer), (3, 6, 6))
    with pytest.raises(ValueError, match="padded twice, or by a value other than 0 or 1"):
        pack(Padded(nn.Conv2d(3, 4, 3, padding=1)), (3, 6, 6))


def test_the_number_of_class_names_must_match_the_outputs():
    with pytest.raises(ValueError, match="3 class names for an output"):
        pack(nn.Linear(4, 2), (4,), classes=("a", "b", "c"))
