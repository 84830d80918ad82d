"""Records of a compiled program: a table of steps, each with every offset, size and stride that it needs.

Activations are given by their offsets in bytes from the start of the arena; weights, parameters and tables by their
addresses. The compiled function reads the table directly, so that a whole network is a single call.
"""

from __future__ import annotations

import enum

import numpy as np

LANES = 16  # channels per panel, which a tile processes together
ROWS = 8  # pixels per tile
WORD = 4  # bytes per word of bits
STAGE_BYTES = 32  # bytes per stage: kind, address of parameters, offset and pitch, 8 bytes each
LAST_BYTES_PIXEL = 6  # bytes from pixel to pixel of a first layer whose words are read in place: RGB, stride 2
ROW_BYTES = 64  # bytes per pixel in the table of a tile's rows, see `RowField`


class StepKind(enum.IntEnum):
    """Kind of a step."""

    BINARY = 0  # products of bits
    REAL = 1  # real products
    WINDOW = 2  # pooling, subsampling, depthwise convolution, or single pixels
    MOVE = 3  # copy float32 from one memory layout to another
    UNPACK = 4  # bits to float32
    BYTES = 5  # products of bytes
    QUANTIZE = 6  # float32 to bytes, with a scale for each image
    TRANSFORM = 7  # lines of an image to values at the points of `kernels.winograd`
    WINOGRAD = 8  # real products of those


class EpilogueOp(enum.IntEnum):
    """Operation after a source; its parameters are stored panel by panel at an address."""

    AFFINE = 0  # x * scale + shift: 16 scales and 16 shifts per panel
    ADD = 1  # x + another activation, at an offset in the arena, with its own distance between pixels
    PRELU = 2  # x if x >= 0, else x * slope: 16 slopes per panel
    CLAMP = 3  # max(low, min(high, x)): 16 lows and 16 highs per panel
    AFFINE_ADD = 4  # both in one, as after most binary layers: storing and loading between stages takes time
    PRELU_AFFINE = 5  # both in one: 16 slopes, 16 scales and 16 shifts per panel
    AFFINE_ADD_PRELU_AFFINE = 6  # all four, as in ReActNet
    ADD_PRELU_AFFINE = 7  # likewise
    AFFINE_ADD_PRELU = 8  # the first three, as in Bi-Real Net on CIFAR-10


MERGED_OPS = {
    EpilogueOp.AFFINE_ADD: (EpilogueOp.AFFINE, EpilogueOp.ADD),
    EpilogueOp.PRELU_AFFINE: (EpilogueOp.PRELU, EpilogueOp.AFFINE),
    EpilogueOp.AFFINE_ADD_PRELU_AFFINE: (EpilogueOp.AFFINE_ADD, EpilogueOp.PRELU_AFFINE),
    EpilogueOp.ADD_PRELU_AFFINE: (EpilogueOp.ADD, EpilogueOp.PRELU_AFFINE),
    EpilogueOp.AFFINE_ADD_PRELU: (EpilogueOp.AFFINE_ADD, EpilogueOp.PRELU),
}
"""Operations that are two in one, each of which may be merged itself; their parameters stand one behind the other."""


class Window(enum.IntEnum):
    """Reduction of the pixels of a window."""

    MAX = 0
    AVERAGE = 1
    WEIGHTED = 2
    MEAN = 3  # average if all windows have the same number of pixels, a power of two: multiplies instead of divides


class RowField(enum.IntEnum):
    """Fields of a pixel in the table of rows; the value is the position in units of 8 bytes."""

    BITS = 0  # address of the pixel's bits in the output
    BASE = 1  # products of bits: address of the sums if no bit differed, one float32 per channel
    SCALE = 1  # products of bytes: address of the scale of the pixel's image, a float32
    SOURCE = 1  # window: address of its first pixel inside the image
    HEIGHT = 2  # window: number of its rows inside the image
    WIDTH = 3  # window: number of its columns inside the image
    WEIGHT = 4  # weighted window: address of the weights of that first pixel
    TAPS = 2  # rows IN_LINES: address of the pixel's first tap
    POOLED = 3  # first pixel of two whose average is stored: address of the average
    PARTIAL = 4  # the same: address of the sum of the pixels above, or of zeros
    SHARE = 5  # the same: factor of the sum so far, a float32: 1, or 1/4 for the last two of four pixels
    COUNT = 5  # average: divisor of the sum, a float32; mean: factor of the sum


PLAIN = ((3, 3, 4),)
"""Shapes of rows of bits that tiles read in place, without parities: runs, words of a run, bytes from pixel to pixel.

Gathering the rows of such a narrow layer takes longer than the parities save.
"""

TILED = len(PLAIN)
"""Follows the shapes of `PLAIN`: pixels of 64 bits, gathered tile by tile.

A tap of the eight pixels of a tile is a vector, and is stored as one: first all pixels' first taps, and so on.
"""


class Rows(enum.IntEnum):
    """Memory from which the tiles of products read the taps of pixels."""

    GATHERED = 0  # scratch memory, to which they are copied as consecutive rows
    DIRECT = 1  # in place: a row is one pixel, and pixels are contiguous in the whole image
    IN_LINES = 2  # in place: `runs_y` runs, `tap_line` bytes apart; every tile lies within a line


class Space(enum.IntEnum):
    """Memory that a MOVE reads or writes."""

    ARENA = 0
    OUTSIDE = 1  # the caller's input or output array


_FIELDS = (
    "kind",
    # Number of slices in which one thread runs this step and the next one in turn, on one image, so that what the first
    # stores is still in a near cache when the second reads it; 0: not in slices.
    "slices",
    # Output: pixels per image, pixels per line, channels, panels.
    "pixels", "width", "channels", "panels",
    # Input: offset; distances in bytes between images, and between the first taps of output lines and pixels.
    "source", "source_image", "source_line", "source_pixel",
    # Taps of a pixel: `runs_y` x `runs_x` runs of `run` bytes, and the distances between them.
    "runs_y", "runs_x", "run", "tap_line", "tap_pixel",
    # Memory from which tiles read rows, a `Rows`. Of a gathered row: its bytes, the mask of its last word, number of
    # copies; number of rows gathered at a time.
    "direct", "row", "tail", "repeats", "block",
    # Offsets in a part's scratch memory, which starts with space for unused bits: table of rows, gathered rows, and
    # parities of each line up to every word (distance between lines in bytes; 0: none).
    "table", "gathered", "scan", "scan_line",
    # BINARY: index in `PLAIN` of the shape of rows read in place, where neither rows nor weights contain parities; or
    # TILED; or -1.
    "plain",
    # Weights; 32-bit words (BINARY), float32 (REAL) or groups of four bytes (BYTES) per row; bytes per panel.
    "weight", "terms", "panel",
    # BINARY: table of the sums if no bit differed, offsets into it by line and by column; factor of the count.
    "base", "base_line", "base_column", "factor",
    # BYTES: offsets to subtract from the sums. BYTES, QUANTIZE: scale of the first image; distance between scales.
    "offsets", "scale", "scale_image",
    # WINDOW: mode; kernel, stride, padding, dilation, size of the image; 1 to include padding in an average.
    "mode", "kernel_y", "kernel_x", "stride_y", "stride_x", "pad_y", "pad_x", "dilation_y", "dilation_x",
    "height_in", "width_in", "count_pad",
    # Epilogue: stages; float32 output (-1: none); bits output, and the least values whose bit is 1 (-1: none).
    "stages", "stage_count", "real", "real_pitch", "bits", "bits_image", "bits_line", "bits_pixel", "least",
    # BINARY: address of zeros if the float32 output is the average of 2 x 2 pixels, else 0; distances in that output.
    "pool", "pool_image", "pool_line",
    # MOVE, UNPACK, QUANTIZE: memory to read and to write; distance between channels; the target's other strides.
    "space_from", "space_to", "source_channel",
    # TRANSFORM, WINOGRAD: bytes of a row of values at a point, one for every tile.
    "column",
    "target", "target_image", "target_line", "target_pixel", "target_channel",
)  # fmt: skip

STEP = np.dtype([(name, np.int64) for name in _FIELDS])
"""One step, as a record."""

WORK = (
    # The program; the thread's own memory, or shared memory if the thread does a part of each step.
    "steps", "step_count", "stages", "arena", "scratch",
    # Offsets in bytes of the thread's first image in the input and the output; number of its images, number of images
    # in the arena; bytes per image in the input and the output.
    "x", "y", "batch", "images", "x_bytes", "y_bytes",
    # Number of this thread's share of every step, and number of equal shares.
    "part", "parts",
)  # fmt: skip
"""Description of the work: the first fields of a job."""

_POOL_FIELDS = (
    # Addresses: number of steps that each thread has done, and state of each thread, a `Duty` (FLAG_BYTES apart);
    # message of the caller; number of other threads that have finished the job.
    "flags", "duties", "call", "done",
    # Number of this thread; number of other threads (0: it works alone); number of jobs done together;
    # addresses of the system functions that yield and that return the current processor (0: none).
    "thread", "others", "seen", "give_way", "get_processor",
    # Padding: data of two threads must not share a cache line, nor two lines that are fetched as a pair.
    *(f"unused{number}" for number in range(10)),
)  # fmt: skip

FLAG_BYTES = 128
"""Distance between data of two threads: two cache lines, since lines are fetched in pairs."""


class Duty(enum.IntEnum):
    """State of a helper thread. It goes to sleep only from READY, so that a claimed thread stays available."""

    AWAY = 0
    READY = 1  # polls for a job
    CLAIMED = 2  # reserved while the caller checks that all others are ready, too
    WORKING = 3


class Mode(enum.IntEnum):
    """Mode of a call of the compiled function."""

    HASTY = 0  # do a job, alone if the other threads are not ready now
    PATIENT = 1  # do a job, alone if the other threads are not ready within a millisecond
    SERVE = 2  # poll for jobs of a caller


class CallField(enum.IntEnum):
    """Fields of the caller's message, in a single cache line; the value is the position in units of 8 bytes."""

    PROCESSOR = 0  # processor of the caller
    X = 1  # address of the input
    Y = 2  # address of the output


JOB = np.dtype([(name, np.int64) for name in WORK + _POOL_FIELDS])
"""The work of one thread and its synchronisation with the others, as a record."""
