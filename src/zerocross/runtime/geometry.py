"""Step fields that describe where pixels, taps and windows are in memory."""

from __future__ import annotations

from typing import Any

from zerocross.runtime.graph import Node
from zerocross.runtime.kernels.points import COLOURS, TAPS
from zerocross.runtime.kernels.steps import LANES, LAST_BYTES_PIXEL, PLAIN, ROWS, TILED, WORD, Window
from zerocross.runtime.program import BLOCK_ROWS, Buffer

Fields = dict[str, Any]


class ConvGeometry:
    """Geometry of a convolution over a buffer; a linear layer is a convolution over a single pixel.

    Args:
        node: Node of the layer.
        source: Buffer that the layer reads.
        output: Channels, height and width of the output.
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
        # With a kernel one column wide, a tap of real numbers can leave out the padding at the end of a pixel.
        self.tap = 4 * source.shape[0] if source.kind == "real" and self.kernel[1] == 1 else source.pitch

    @property
    def runs_x(self) -> int:
        """Number of contiguous runs in a line of taps: 1 unless the kernel is dilated."""
        return self.kernel[1] if self.dilation[1] > 1 else 1

    @property
    def in_lines(self) -> bool:
        """True if tiles can read their input without gathering: each tile lies within a line."""
        return self.runs_x == 1 and self.outputs[1] % ROWS == 0

    @property
    def plain(self) -> int:
        """Index in `PLAIN` of the shape of rows of bits that tiles read in place, or TILED; otherwise -1."""
        run, pixel = self.kernel[1] * self.source.pitch, self.stride[1] * self.source.pitch
        if not self.in_lines or self.groups > 1 or run % WORD:
            return -1
        if self.source.pitch == 2 * WORD and self.stride[1] <= 2:
            return TILED
        shape = (self.kernel[0], run // WORD, pixel)
        return PLAIN.index(shape) if shape in PLAIN else -1

    def fields(self, *, direct: bool) -> Fields:
        """Return the fields of the step.

        Args:
            direct: Read rows in place, without gathering, if a row is a single pixel.
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


def suits_lines_of_bytes(conv: ConvGeometry) -> bool:
    """Return True if tiles read the words of every line of taps in place, and only its last byte is gathered.

    This takes as many products as gathered rows if those bytes, one per line, fill two words.
    """
    run, pixel = conv.kernel[1] * conv.tap, conv.stride[1] * conv.source.pitch
    return conv.in_lines and pixel == LAST_BYTES_PIXEL and run % 4 == 1 and 5 <= conv.kernel[0] <= 8


def suits_winograd(conv: ConvGeometry) -> bool:
    """Return True if `kernels.points` can compute a convolution: the 7 x 7 first layer of a ResNet, on RGB images."""
    source, (_, width) = conv.source, conv.outputs
    steps = conv.kernel[1] == TAPS and conv.stride[1] == 2 and conv.dilation == (1, 1) and conv.groups == 1
    colours = source.kind == "real" and source.pitch == 4 * conv.shape[1] == 4 * COLOURS
    return steps and colours and conv.shape[0] % (2 * LANES) == 0 and width % ROWS == 0 and width <= BLOCK_ROWS


def window_fields(source: Buffer, mode: Window, kernel: tuple[int, int] = (1, 1), node: Node | None = None) -> Fields:
    """Return the fields of a step that reduces each window to one pixel; without a node, windows are single pixels."""
    attrs = {} if node is None else node.attrs
    pairs = {
        "kernel": kernel, "stride": attrs.get("stride", (1, 1)), "pad": attrs.get("padding", (0, 0)),
        "dilation": attrs.get("dilation", (1, 1)),
    }  # fmt: skip
    fields = {f"{name}_{axis}": pair[index] for name, pair in pairs.items() for index, axis in enumerate("yx")}
    return fields | {
        "mode": mode, "source": source.at(), "source_image": source.image, "tap_line": source.line,
        "tap_pixel": source.pitch, "height_in": source.shape[1], "width_in": source.shape[2],
    }  # fmt: skip


def strides(name: str, buffer: Buffer) -> Fields:
    """Return the distances in bytes between images, lines and pixels of a buffer."""
    return {f"{name}_image": buffer.image, f"{name}_line": buffer.line, f"{name}_pixel": buffer.pitch}


def target_fields(buffer: Buffer, extra: int = 0) -> Fields:
    """Return the target of a MOVE or UNPACK: a buffer, `extra` bytes into each of its pixels."""
    return {"target": buffer.at(extra=extra), **strides("target", buffer), "target_channel": 4}


def outside_strides(name: str, shape: tuple[int, int, int]) -> Fields:
    """Return the strides of a float32 array of shape (N, C, H, W)."""
    channels, height, width = shape
    return {
        f"{name}_image": 4 * channels * height * width, f"{name}_line": 4 * width, f"{name}_pixel": 4,
        f"{name}_channel": 4 * height * width,
    }  # fmt: skip


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return channels, height and width; features are the channels of one pixel, (C, L) is an image one pixel wide."""
    channels, height, width = (*shape, 1, 1)[:3]
    return channels, height, width


def is_depthwise(node: Node) -> bool:
    """Return True if a convolution has one filter per channel."""
    groups = node.attrs.get("groups", 1)
    return node.op == "conv2d" and groups > 1 and node.attrs["shape"][:2] == (groups, 1)
