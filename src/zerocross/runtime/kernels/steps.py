"""The program that a network becomes: a table of steps, each with every offset, size and stride it needs.

Activations are given by their offsets in bytes from the start of the arena, weights, parameters and tables by their
addresses. The compiled function reads the table as it is, so that a whole network is one call.
"""

from __future__ import annotations

import enum

import numpy as np

LANES = 16  # channels of a panel: what a tile works on at once
ROWS = 8  # pixels of a tile
WORD = 4  # bytes of a word of bits
STAGE_BYTES = 32  # of a stage: its kind, where its parameters are, an offset and a pitch, 8 bytes each
ROW_BYTES = 64  # of a pixel in the table that describes those of a tile, see `RowField`


class StepKind(enum.IntEnum):
    """What a step does."""

    BINARY = 0  # products of bits
    REAL = 1  # real products
    WINDOW = 2  # pooling, subsampling, depthwise convolution, or a pixel as it is
    MOVE = 3  # float32 from one order to another
    UNPACK = 4  # bits to float32
    BYTES = 5  # products of bytes
    QUANTIZE = 6  # float32 to bytes, with a scale for each image
    TRANSFORM = 7  # lines of an image to values at the points of `kernels.winograd`
    WINOGRAD = 8  # real products of those


class EpilogueOp(enum.IntEnum):
    """What may follow a source; its parameters stand panel by panel at an address."""

    AFFINE = 0  # x * scale + shift: 16 scales and 16 shifts a panel
    ADD = 1  # x + another activation, at an offset from the arena, with its own pitch from pixel to pixel
    PRELU = 2  # x where x >= 0, else x * slope: 16 slopes a panel
    CLAMP = 3  # max(low, min(high, x)): 16 lows and 16 highs a panel
    AFFINE_ADD = 4  # the two in one, as behind most binary layers: what is stored and loaded between stages costs time
    PRELU_AFFINE = 5  # likewise: 16 slopes, 16 scales and 16 shifts a panel
    AFFINE_ADD_PRELU_AFFINE = 6  # all four, as in ReActNet
    ADD_PRELU_AFFINE = 7  # likewise


class Window(enum.IntEnum):
    """What a window makes of its pixels."""

    MAX = 0
    AVERAGE = 1
    WEIGHTED = 2
    MEAN = 3  # the average where every window has as many pixels, a power of two: a product in place of a quotient


class RowField(enum.IntEnum):
    """What a tile must know of each of its pixels: the place, in units of 8 bytes, in the table of rows."""

    BITS = 0  # address of the pixel's bits in the output
    BASE = 1  # products of bits: address of the sums that equal bits would give, a float32 for each channel
    SCALE = 1  # products of bytes: address of the scale of the pixel's image, a float32
    SOURCE = 1  # window: address of its first pixel inside the image
    HEIGHT = 2  # window: how many of its rows
    WIDTH = 3  # and columns lie inside the image
    WEIGHT = 4  # weighted window: address of the weights of that first pixel
    TAPS = 2  # products of rows IN_LINES: address of the pixel's first tap
    COUNT = 5  # average: what the sum is divided by, a float32; mean: what it is multiplied by


class Rows(enum.IntEnum):
    """Where the tiles of products read the taps of pixels."""

    GATHERED = 0  # from scratch memory, where they are copied one row behind the other
    DIRECT = 1  # where they stand: a row is one pixel, and pixels follow one another through the whole image
    IN_LINES = 2  # where they stand: `runs_y` runs, `tap_line` bytes apart; every tile lies within a line


class Space(enum.IntEnum):
    """Where a MOVE reads or writes."""

    ARENA = 0
    OUTSIDE = 1  # the caller's input or output array


_FIELDS = (
    "kind",
    # The output: pixels of an image, and how many in a line; channels, and panels of them.
    "pixels", "width", "channels", "panels",
    # The input: offset; bytes to the next image; from an output pixel's first tap to the next line's and pixel's.
    "source", "source_image", "source_line", "source_pixel",
    # The taps of a pixel: runs of `run` bytes, `runs_y` x `runs_x` of them, and the bytes between them.
    "runs_y", "runs_x", "run", "tap_line", "tap_pixel",
    # Where tiles read rows, a `Rows`. Of a gathered row: its bytes, the mask of its last word, how often it stands
    # there; rows gathered at a time.
    "direct", "row", "tail", "repeats", "block",
    # In a part's scratch memory, whose start takes what belongs to no pixel: the table of rows, gathered rows, and
    # parities of the words of each line up to every word (bytes from line to line; 0: there are none).
    "table", "gathered", "scan", "scan_line",
    # Weights; words of 32 bits (BINARY), float32 (REAL) or fours of bytes (BYTES) in a row; bytes of a panel.
    "weight", "terms", "panel",
    # BINARY: sums of equal bits: a table, and the offsets of each line and column into it; factor of the count.
    "base", "base_line", "base_column", "factor",
    # BYTES: what is taken from the sums. BYTES, QUANTIZE: the scale of the first image; bytes to the next one's.
    "offsets", "scale", "scale_image",
    # WINDOW: mode; kernel, stride, padding, dilation, size of the image; whether padding counts in an average.
    "mode", "kernel_y", "kernel_x", "stride_y", "stride_x", "pad_y", "pad_x", "dilation_y", "dilation_x",
    "height_in", "width_in", "count_pad",
    # What follows: stages; float32 output (-1: none); bits output, and the least values whose bit is 1 (-1: none).
    "stages", "stage_count", "real", "real_pitch", "bits", "bits_image", "bits_line", "bits_pixel", "least",
    # MOVE, UNPACK, QUANTIZE: where to read and to write; bytes between channels; the target's other strides.
    "space_from", "space_to", "source_channel",
    # TRANSFORM, WINOGRAD: bytes of a column of values at a point, all lines of a tile.
    "column",
    "target", "target_image", "target_line", "target_pixel", "target_channel",
)  # fmt: skip

STEP = np.dtype([(name, np.int64) for name in _FIELDS])
"""One step, as a record."""

WORK = (
    # The program; memory of the thread's own, or shared where the thread does a part of each step.
    "steps", "step_count", "stages", "arena", "scratch",
    # The thread's first image, in bytes from the start of the input and the output; how many images it has, and how
    # many the arena holds; their bytes.
    "x", "y", "batch", "images", "x_bytes", "y_bytes",
    # Which of how many equal shares of every step.
    "part", "parts",
)  # fmt: skip
"""What to do: the first fields of a job."""

_POOL_FIELDS = (
    # Addresses: how many steps each thread has done, and what each one is up to, a `Duty` (FLAG_BYTES from one's to the
    # next one's); what the caller says; how many of the others have done the job.
    "flags", "duties", "call", "done",
    # This thread's number; how many others there are (0: it works alone); how many jobs it has done with others;
    # addresses of the system's functions that give way to others, and that tell the processor (0: there is none).
    "thread", "others", "seen", "give_way", "get_processor",
    # Nothing: what two threads write must not lie in the same line of the cache, nor in two that are fetched in pairs.
    *(f"unused{number}" for number in range(10)),
)  # fmt: skip

FLAG_BYTES = 128
"""What two threads write lies so far apart: two lines of the cache, which are fetched in pairs."""


class Duty(enum.IntEnum):
    """What a thread that serves others is up to. It leaves only from READY, so that who is claimed is there to stay."""

    AWAY = 0
    READY = 1  # it looks out for a job
    CLAIMED = 2  # the caller makes sure that all others are there, too
    WORKING = 3


class Mode(enum.IntEnum):
    """How the compiled function is called."""

    HASTY = 0  # do a job, alone where the others are not there at this moment
    PATIENT = 1  # likewise, after giving them a millisecond to come
    SERVE = 2  # look out for jobs of others


class CallField(enum.IntEnum):
    """What a caller says, all in one line of the cache: the place, in units of 8 bytes."""

    PROCESSOR = 0  # where the caller is
    X = 1  # where input
    Y = 2  # and output begin


JOB = np.dtype([(name, np.int64) for name in WORK + _POOL_FIELDS])
"""What one thread has to do, and how it hears of it, as a record."""
