"""The fully connected network of the paper's audio experiment: four linear layers with batch norm, the first real."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from zerocross.models.style import Style


class BinaryMLP(nn.Module):
    """A real linear layer, then binary ones: each is followed by batch norm and preceded by the sign.

    The last batch norm returns the logits: it scales sums of signs, which are large integers, to the range of a loss.
    The full-precision twin has a ReLU in the place of each sign.

    Args:
        style: the style of its binary layers.
        features: inputs; an input of any shape (N, ...) is flattened.
        width: outputs of every hidden layer.
        depth: total number of linear layers, at least 2.
        classes: outputs of the last layer.
    """

    def __init__(self, style: Style, features: int, width: int, depth: int, classes: int) -> None:
        super().__init__()
        if depth < 2:
            raise ValueError(f"depth = {depth}: it must be at least 2, since the first layer is real")
        self.first = nn.Linear(features, width, bias=False)
        sizes = [width] * (depth - 1) + [classes]
        self.layers = nn.ModuleList(style.linear(a, b) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(nn.BatchNorm1d(size) for size in sizes)
        twin = style.binarize == "none"
        self.activations = nn.ModuleList(nn.ReLU() if twin else style.sign(width) for _ in self.layers)

    def forward(self, x: Tensor) -> Tensor:
        """Return one logit per class."""
        x = self.norms[0](self.first(x.flatten(1)))
        for activation, layer, norm in zip(self.activations, self.layers, list(self.norms)[1:], strict=True):
            x = norm(layer(activation(x)))
        return x


def audio_mlp(
    style: Style, *, features: int = 40 * 32, width: int = 256, depth: int = 4, classes: int = 10
) -> nn.Module:
    """The paper's audio network, for log-mel features of spoken digits; widths and features are not specified there."""
    return BinaryMLP(style, features, width, depth, classes)
