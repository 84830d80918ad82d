"""Fields of steps that say where pixels, taps and windows lie in memory."""

from __future__ import annotations

from typing import Any

from zerocross.runtime.graph import Node
from zerocross.runtime.kernels.points import PIXEL_BYTES, TAPS
from zerocross.runtime.kernels.steps import LANES, ROWS, Window
from zerocross.runtime.program import BLOCK_ROWS, Buffer

Fields = dict[str, Any]


class ConvGeometry:
    """A convolution over a buffer; a linear layer is one over a single pixel.

    Args:
        node: the layer's.
        source: what it reads.
        output: channels, height and width of what it gives.
    """

    def __init__(self, node: Node, source: Buffer, output: tuple[int, int, int]) -> None:
        attrs = node.attrs
        outputs, inputs, *kernel = attrs["shape"]
        self.kernel = tuple(kernel) or (1, 1)
        self.shape = (outputs, inputs, *self.kernel)
        self.groups = attrs.get("groups", 1)
        self.stride, self.dilation = attrs.get("stride", (1, 1)), attrs.get("dilation", (1, 1))
        self.padding = attrs.get("padding", (0, 0))
        self.source, self.sizes, self.outputs = source, source.shape[1:], output[1:]
        self.taps = self.kernel[0] * self.kernel[1]
        # A tap of a single column of real numbers need not take the numbers that fill up a pixel.
        self.tap = 4 * source.shape[0] if source.kind == "real" and self.kernel[1] == 1 else source.pitch

    @property
    def runs_x(self) -> int:
        """Runs of a line of taps: one, unless there are gaps between them."""
        return self.kernel[1] if self.dilation[1] > 1 else 1

    @property
    def in_lines(self) -> bool:
        """Whether tiles can read the taps of real numbers where they stand: each lies within a line."""
        return self.runs_x == 1 and self.outputs[1] % ROWS == 0

    def fields(self, *, direct: bool) -> Fields:
        """Fields of a step.

        Args:
            direct: whether a row may be read where it stands, if a pixel is all there is to a row.
        """
        source, width, runs = self.source, self.kernel[1], self.runs_x
        single = (self.kernel, self.stride, source.border) == ((1, 1), (1, 1), (0, 0))
        return {
            "source": source.at(-self.padding[0], -self.padding[1]), "source_image": source.image,
            "source_line": self.stride[0] * source.line, "source_pixel": self.stride[1] * source.pitch,
            "runs_y": self.kernel[0], "runs_x": runs, "run": width // runs * self.tap,
            "tap_line": self.dilation[0] * source.line, "tap_pixel": self.dilation[1] * source.pitch,
            "direct": int(single and direct),
        }  # fmt: skip


def suits_winograd(conv: ConvGeometry) -> bool:
    """Whether a convolution is one of `kernels.points`, on pixels of three channels: the first layer of a ResNet."""
    source, (_, width) = conv.source, conv.outputs
    steps = conv.kernel[1] == TAPS and conv.stride[1] == 2 and conv.dilation == (1, 1) and conv.groups == 1
    colours = source.kind == "real" and source.pitch == 4 * conv.shape[1] == PIXEL_BYTES
    return steps and colours and conv.shape[0] % (2 * LANES) == 0 and width % ROWS == 0 and width <= BLOCK_ROWS


def window_fields(source: Buffer, mode: Window, kernel: tuple[int, int] = (1, 1), node: Node | None = None) -> Fields:
    """Fields of a step that makes one pixel of a window; without a node of the pixels as they are."""
    attrs = {} if node is None else node.attrs
    pairs = {
        "kernel": kernel, "stride": attrs.get("stride", (1, 1)), "pad": attrs.get("padding", (0, 0)),
        "dilation": attrs.get("dilation", (1, 1)),
    }  # fmt: skip
    fields = {f"{name}_{axis}": pair[place] for name, pair in pairs.items() for place, axis in enumerate("yx")}
    return fields | {
        "mode": mode, "source": source.at(), "source_image": source.image, "tap_line": source.line,
        "tap_pixel": source.pitch, "height_in": source.shape[1], "width_in": source.shape[2],
    }  # fmt: skip


def strides(name: str, buffer: Buffer) -> Fields:
    """Bytes from image to image, from line to line and from pixel to pixel of a buffer."""
    return {f"{name}_image": buffer.image, f"{name}_line": buffer.line, f"{name}_pixel": buffer.pitch}


def target_fields(buffer: Buffer, extra: int = 0) -> Fields:
    """Where a MOVE or an UNPACK writes: `extra` bytes into the pixels of a buffer."""
    return {"target": buffer.at(extra=extra), **strides("target", buffer), "target_channel": 4}


def outside_strides(name: str, shape: tuple[int, int, int]) -> Fields:
    """Strides of float32 in the order (N, C, H, W)."""
    channels, height, width = shape
    return {
        f"{name}_image": 4 * channels * height * width, f"{name}_line": 4 * width, f"{name}_pixel": 4,
        f"{name}_channel": 4 * height * width,
    }  # fmt: skip


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Channels, height and width: features are the channels of one pixel, and (C, L) is an image one pixel wide."""
    channels, height, width = (*shape, 1, 1)[:3]
    return channels, height, width


def is_depthwise(node: Node) -> bool:
    """Whether a convolution has one filter for each channel."""
    groups = node.attrs.get("groups", 1)
    return node.op == "conv2d" and groups > 1 and node.attrs["shape"][:2] == (groups, 1)
