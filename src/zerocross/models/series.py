"""A binary residual network for series: Bi-Real Net's blocks (Liu et al., ECCV 2018) with 1-d convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from zerocross.models.birealnet import choose_activation, make_activation
from zerocross.models.style import Style

STEM_KERNEL = 7


class Shortcut(nn.Module):
    """A parameter-free shortcut around a convolution: it averages where the length halves; new channels are zero."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.stride, self.new_channels = stride, out_channels - in_channels

    def forward(self, x: Tensor) -> Tensor:
        """Return x with the length and channels of the convolution's output."""
        x = x if self.stride == 1 else F.avg_pool1d(x, self.stride, ceil_mode=True)
        return F.pad(x, (0, 0, 0, self.new_channels)) if self.new_channels else x


class Block(nn.Module):
    """sign -> binary 1-d convolution -> batch norm -> + shortcut -> activation."""

    def __init__(self, style: Style, in_channels: int, out_channels: int, kernel: int, stride: int, activation: str):
        super().__init__()
        self.sign = style.sign(in_channels)
        self.conv = style.conv1d(in_channels, out_channels, kernel, stride)
        self.norm = nn.BatchNorm1d(out_channels)
        self.shortcut = Shortcut(in_channels, out_channels, stride)
        self.activation = make_activation(activation, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of the convolved signs plus the shortcut."""
        return self.activation(self.norm(self.conv(self.sign(x))) + self.shortcut(x))


class SeriesNet(nn.Module):
    """A real stem, groups of blocks, of which all but the first halve the length, the mean over time, and a real head.

    Args:
        style: the style of its binary layers.
        channels: channels of the series.
        widths: channels of each group.
        depth: blocks of each group.
        kernel: kernel size of the binary convolutions, odd.
        stem_stride: stride of the stem.
        classes: outputs of the head.
        activation: after each sum, see `choose_activation`.
    """

    def __init__(
        self,
        style: Style,
        channels: int,
        widths: Sequence[int],
        depth: int,
        kernel: int,
        stem_stride: int,
        classes: int,
        activation: str,
    ) -> None:
        super().__init__()
        if kernel % 2 == 0:
            raise ValueError(f"kernel = {kernel}: it must be odd, so that a convolution keeps the length")
        reach = max(STEM_KERNEL // 2, stem_stride)  # windows overlap at any stride
        conv = nn.Conv1d(channels, widths[0], 2 * reach + 1, stem_stride, reach, bias=False)
        self.stem = nn.Sequential(conv, nn.BatchNorm1d(widths[0]))
        self.stem_activation = make_activation(activation, widths[0])
        blocks, before = [], widths[0]
        for group, width in enumerate(widths):
            for index in range(depth):
                stride = 2 if group > 0 and index == 0 else 1
                blocks.append(Block(style, before, width, kernel, stride, activation))
                before = width
        self.blocks = nn.Sequential(*blocks)
        self.head_norm = nn.BatchNorm1d(before)
        self.head = nn.Linear(before, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return one logit per class for series (N, C, L)."""
        x = self.blocks(self.stem_activation(self.stem(x)))
        return self.head(self.head_norm(x.mean(2)))


def series_net(
    style: Style,
    *,
    classes: int = 5,
    channels: int = 1,
    width: int = 32,
    depth: int = 2,
    groups: int = 2,
    kernel: int = 5,
    stem_stride: int = 1,
    activation: str | None = None,
) -> nn.Module:
    """A small Bi-Real network for series (channels, L) of any length: each group is twice as wide as the one before.

    Args:
        style: the style of its binary layers.
        classes: outputs.
        channels: channels of the series: 1 in the UCR archive, 6 in HAPT.
        width: channels of the first group.
        depth: binary convolutions in each group.
        groups: number of groups, each with half the length of the one before.
        kernel: kernel size of the binary convolutions, odd.
        stem_stride: stride of the real convolution at the start; larger for long series.
        activation: see `choose_activation`; None is prelu, or relu in the full-precision twin.
    """
    activation = choose_activation(style, activation, "prelu")
    widths = [width * 2**group for group in range(groups)]
    model = SeriesNet(style, channels, widths, depth, kernel, stem_stride, classes, activation)
    model.input_size = (channels, 140)  # type: ignore[assignment]  # that of ECG5000, for code that runs it once
    return model
