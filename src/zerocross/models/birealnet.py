"""Bi-Real Net: binary 3 x 3 convolutions with a real shortcut around each (Liu et al., ECCV 2018)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from zerocross.checks import check_choice
from zerocross.models.style import Style
from zerocross.nn.binarizers.adabin import Maxout

SHORTCUTS = ("subsample", "pool", "conv")
ACTIVATIONS = ("hardtanh", "prelu", "maxout", "relu", "none")


class PaddedShortcut(nn.Module):
    """A parameter-free shortcut around a convolution that halves the size; the new channels are zero."""

    def __init__(self, in_channels: int, out_channels: int, stride: int, *, pool: bool) -> None:
        super().__init__()
        self.new_channels = out_channels - in_channels
        self.stride = stride
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        """Return x with the size and channels of the convolution's output."""
        step = self.stride
        x = F.avg_pool2d(x, step, ceil_mode=True) if self.pool else x[:, :, ::step, ::step]
        return F.pad(x, (0, 0, 0, 0, 0, self.new_channels))


def make_shortcut(kind: str, in_channels: int, out_channels: int, stride: int) -> nn.Module:
    """Return the shortcut around a convolution.

    Args:
        kind: the shortcut where the size halves: ``"subsample"``: every second pixel, new channels zero (IR-Net);
            ``"pool"``: 2 x 2 average, new channels zero (ReCU); ``"conv"``: 2 x 2 average, a real 1 x 1 convolution and
            batch norm (Bi-Real Net for ImageNet).
        in_channels: input channels.
        out_channels: output channels, at least as many.
        stride: stride of the convolution.
    """
    if stride == 1 and in_channels == out_channels:
        return nn.Identity()
    if kind == "conv":
        pool, conv = nn.AvgPool2d(stride, ceil_mode=True), nn.Conv2d(in_channels, out_channels, 1, bias=False)
        return nn.Sequential(pool, conv, nn.BatchNorm2d(out_channels))
    return PaddedShortcut(in_channels, out_channels, stride, pool=kind == "pool")


class BiRealBlock(nn.Module):
    """sign -> binary 3 x 3 convolution -> batch norm -> + shortcut -> activation."""

    def __init__(self, style: Style, in_channels: int, out_channels: int, stride: int, shortcut: str, activation: str):
        super().__init__()
        self.sign = style.sign(in_channels)
        self.conv = style.conv(in_channels, out_channels, 3, stride)
        self.norm = nn.BatchNorm2d(out_channels)
        self.shortcut = make_shortcut(shortcut, in_channels, out_channels, stride)
        self.activation = make_activation(activation, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of the convolved signs plus the shortcut."""
        return self.activation(self.norm(self.conv(self.sign(x))) + self.shortcut(x))


class BiRealNet(nn.Module):
    """A stem, groups of blocks, of which all but the first halve the size, and a linear head.

    The stem, batch norms, the head, and 1 x 1 convolutions of ``"conv"`` shortcuts are real.

    Args:
        style: the style of its binary layers.
        widths: channels of each group.
        depths: blocks of each group.
        stem: the layers before the first group, with widths[0] output channels.
        classes: outputs of the head.
        shortcut: the shortcut where the size halves, see `make_shortcut`.
        activation: after each sum, see `choose_activation`.
        head_norm: a batch norm between the pooled features and the linear layer.
    """

    def __init__(
        self,
        style: Style,
        widths: Sequence[int],
        depths: Sequence[int],
        stem: nn.Module,
        classes: int,
        shortcut: str,
        activation: str,
        *,
        head_norm: bool,
    ) -> None:
        super().__init__()
        check_choice("shortcut", shortcut, SHORTCUTS)
        self.stem = stem
        self.stem_activation = make_activation(activation, widths[0])
        blocks = []
        channels = widths[0]
        for group, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            for index in range(depth):
                stride = 2 if group > 0 and index == 0 else 1
                blocks.append(BiRealBlock(style, channels, width, stride, shortcut, activation))
                channels = width
        self.blocks = nn.Sequential(*blocks)
        self.head_norm = nn.BatchNorm1d(channels) if head_norm else nn.Identity()
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return one logit per class for images (N, C, H, W)."""
        x = self.blocks(self.stem_activation(self.stem(x)))
        return self.head(self.head_norm(x.mean((2, 3))))


def make_activation(kind: str, channels: int) -> nn.Module:
    """Return the activation of this name."""
    if kind == "prelu":
        return nn.PReLU(channels)
    if kind == "maxout":
        return Maxout(channels)
    return {"hardtanh": nn.Hardtanh, "relu": nn.ReLU, "none": nn.Identity}[kind]()


def choose_activation(style: Style, activation: str | None, default: str) -> str:
    """Return the activation to use; for None the default of a binary network, and relu in its full-precision twin.

    ``"hardtanh"``, ``"prelu"`` (a slope per channel), ``"maxout"`` (two slopes per channel, AdaBin), ``"none"``,
    and without signs, or with EWGS' activations, ``"relu"``.
    """
    activation = activation or ("relu" if style.binarize == "none" else default)
    check_choice("activation", activation, ACTIVATIONS)
    if activation == "relu" and style.binarize != "none" and style.surrogate != "ewgs":
        raise ValueError(
            "activation = 'relu' before a sign: the output of a ReLU is never negative, so every sign would be +1; "
            "use 'hardtanh', 'prelu' or 'none'"
        )
    return activation


def birealnet20(
    style: Style,
    *,
    classes: int = 10,
    shortcut: str = "pool",
    activation: str | None = None,
    head_norm: bool = True,
) -> nn.Module:
    """Bi-RealNet-20 for 3 x 32 x 32 images: 18 binary convolutions of 16, 32 and 64 channels.

    The paper does not specify shortcut, activation and head. Shortcut and activation were chosen on validation data
    (5,000 training images held out, 5 epochs, bfloat16, seed 0), with the filter and with the published latent
    baseline:

    ====================  ========  ===========
    shortcut, activation  filter    torch-sgd
    ====================  ========  ===========
    pool, prelu           56.8 %    **53.7 %**
    subsample, prelu      **58.1**  52.7
    pool, hardtanh        48.8      45.2
    subsample, hardtanh   47.1      43.1
    ====================  ========  ===========

    Both methods prefer prelu; they differ about the shortcut, by no more than seeds do, so the default is pool. The
    head is IR-Net's (Qin et al., CVPR 2020), whose shortcut and activation are in the last row.

    Args:
        style: the style of its binary layers.
        classes: outputs.
        shortcut: see `make_shortcut`.
        activation: see `choose_activation`; None is prelu, or relu in the full-precision twin.
        head_norm: a batch norm before the linear layer.
    """
    activation = choose_activation(style, activation, "prelu")
    stem = _small_stem(3, 16)
    return BiRealNet(style, (16, 32, 64), (6, 6, 6), stem, classes, shortcut, activation, head_norm=head_norm)


def birealnet18(
    style: Style, *, classes: int = 1000, shortcut: str = "conv", activation: str | None = None, head_norm: bool = False
) -> nn.Module:
    """Bi-RealNet-18 for 3 x 224 x 224 images: 16 binary convolutions of 64 to 512 channels.

    The arguments are those of `birealnet20`; the defaults are Bi-Real Net's own, without activation.
    """
    return _imagenet(style, (4, 4, 4, 4), classes, shortcut, activation, head_norm=head_norm)


def birealnet34(
    style: Style, *, classes: int = 1000, shortcut: str = "conv", activation: str | None = None, head_norm: bool = False
) -> nn.Module:
    """Bi-RealNet-34 for 3 x 224 x 224 images: 32 binary convolutions, otherwise as `birealnet18`."""
    return _imagenet(style, (6, 8, 12, 6), classes, shortcut, activation, head_norm=head_norm)


def digits_net(
    style: Style,
    *,
    classes: int = 10,
    width: int = 32,
    depth: int = 2,
    shortcut: str = "subsample",
    activation: str | None = None,
    head_norm: bool = True,
) -> nn.Module:
    """A small Bi-Real network for the 1 x 8 x 8 images of scikit-learn's digits: two groups, the second twice as wide.

    Args:
        style: the style of its binary layers.
        classes: outputs.
        width: channels of the first group.
        depth: binary convolutions in each group.
        shortcut: see `birealnet20`.
        activation: see `birealnet20`.
        head_norm: see `birealnet20`.
    """
    activation = choose_activation(style, activation, "hardtanh")
    stem = _small_stem(1, width)
    return BiRealNet(
        style, (width, 2 * width), (depth, depth), stem, classes, shortcut, activation, head_norm=head_norm
    )


def mnist_net(
    style: Style,
    *,
    classes: int = 10,
    width: int = 16,
    depth: int = 2,
    shortcut: str = "pool",
    activation: str | None = None,
    head_norm: bool = True,
) -> nn.Module:
    """A small Bi-Real network for 1 x 28 x 28 images: a real 5 x 5 stem of stride 2, then groups at 14 x 14 and 7 x 7.

    Args:
        style: the style of its binary layers.
        classes: outputs.
        width: channels of the first group; the second is twice as wide.
        depth: binary convolutions in each group.
        shortcut: see `birealnet20`.
        activation: see `birealnet20`.
        head_norm: see `birealnet20`.
    """
    activation = choose_activation(style, activation, "prelu")
    stem = nn.Sequential(nn.Conv2d(1, width, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(width))
    return BiRealNet(
        style, (width, 2 * width), (depth, depth), stem, classes, shortcut, activation, head_norm=head_norm
    )


def _small_stem(in_channels: int, width: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(in_channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))


def _imagenet(
    style: Style, depths: Sequence[int], classes: int, shortcut: str, activation: str | None, *, head_norm: bool
) -> nn.Module:
    activation = choose_activation(style, activation, "none")
    stem = nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64), nn.MaxPool2d(3, stride=2, padding=1)
    )
    return BiRealNet(style, (64, 128, 256, 512), depths, stem, classes, shortcut, activation, head_norm=head_norm)
