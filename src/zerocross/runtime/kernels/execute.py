"""Steps of a program, compiled: gather the pixels of a block, run its tiles, move data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from zerocross.runtime.kernels.byte_tiles import (
    byte_tile,
    byte_tile_pair,
    largest,
    store_code,
    store_codes,
    store_colours,
)
from zerocross.runtime.kernels.memory import (
    COPY_BYTES,
    copy,
    load_byte,
    load_int,
    load_real,
    load_word,
    store_int,
    store_real,
    store_word,
)
from zerocross.runtime.kernels.popcount import WORD, binary_tile
from zerocross.runtime.kernels.real_tiles import real_tile, real_tile_pair, window_tile
from zerocross.runtime.kernels.steps import LANES, ROW_BYTES, ROWS, RowField, Space, StepKind, Window

_BITS, _BASE, _SOURCE, _HEIGHT, _WIDTH, _WEIGHT, _COUNT = (
    8 * RowField[name] for name in ("BITS", "BASE", "SOURCE", "HEIGHT", "WIDTH", "WEIGHT", "COUNT")
)
_BINARY, _WINDOW, _MOVE, _UNPACK, _BYTES, _QUANTIZE = (
    int(kind)
    for kind in (StepKind.BINARY, StepKind.WINDOW, StepKind.MOVE, StepKind.UNPACK, StepKind.BYTES, StepKind.QUANTIZE)
)
_OUTSIDE, _MEAN = int(Space.OUTSIDE), int(Window.MEAN)

_LARGEST, _SMALLEST = np.finfo(np.float32).max, np.float32(1e-36)  # of magnitudes that are not 0, 127 / it is finite
_LOWER, _UPPER, _SHORT = 0xFFFFFFFF, -1 << 32, (1 << 48) - 1  # bits of an int64

# Code that needs nothing of Python or Numba when it runs: no wrappers, no references, no exceptions.
OPTIONS: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False, "error_model": "numpy"}
inner = njit(**OPTIONS)


@inner
def execute(
    step: Any, images: int, stages: int, arena: int, scratch: int, x: int, y: int, part: int, parts: int
) -> None:
    """Do one of `parts` equal shares of a step for some images.

    Args:
        step: a record of `STEP`.
        images: how many images the arena holds.
        stages: address of the stages.
        arena: address of the activations.
        scratch: address of memory of this part's own.
        x: address of the first image of the input.
        y: address of the first image of the output.
        part: which share, below `parts`.
        parts: how many shares.
    """
    if step.kind == _MOVE:
        _move(step, images, arena, x, y, part, parts)
    elif step.kind == _UNPACK:
        _unpack(step, images, arena, part, parts)
    elif step.kind == _QUANTIZE:
        _quantize(step, images, arena, x, part, parts)
    elif step.kind == _WINDOW:
        _window(step, images, stages, arena, scratch, part, parts)
    else:
        _products(step, images, stages, arena, scratch, part, parts)


@inner
def _share(step: Any, images: int, part: int, parts: int) -> tuple[int, int, int, int]:
    """The pixels and panels of a part: a share of the pixels, or of the panels where pixels are few."""
    pixels, panels = images * step.pixels, step.panels
    tiles = (pixels + ROWS - 1) // ROWS
    if tiles < 8 * parts and panels >= 2 * parts:
        pairs = (panels + 1) // 2
        return 0, pixels, 2 * (pairs * part // parts), min(panels, 2 * (pairs * (part + 1) // parts))
    return ROWS * (tiles * part // parts), min(pixels, ROWS * (tiles * (part + 1) // parts)), 0, panels


@inner
def _finish(step: Any, table: int, pixel: int, end: int, panel: int, stages: int, arena: int) -> Any:
    real = arena + step.real + pixel * step.real_pitch if step.real >= 0 else 0
    shift = max(step.shift, 0)
    return (
        table, min(ROWS, end - pixel) - 1, step.channels, pixel, panel, stages + step.stages, step.stage_count, arena,
        real, step.real_pitch, shift,
    )  # fmt: skip


@inner
def _products(step: Any, images: int, stages: int, arena: int, scratch: int, part: int, parts: int) -> None:
    first, last, panel_first, panel_last = _share(step, images, part, parts)
    table, gathered = scratch + step.table, scratch + step.gathered
    binary, octets, terms, factor, block = (
        step.kind == _BINARY, step.kind == _BYTES, step.terms, step.factor, step.block,
    )  # fmt: skip
    row_bytes = step.source_pixel if step.direct else step.row
    for start in range(first, last, block):
        rows = min(block, last - start)
        _gather(step, start, rows, arena, scratch, table, gathered)
        rows_at = arena + step.source + start * row_bytes if step.direct else gathered
        panel = panel_first
        while panel < panel_last:
            weights = step.weight + panel * step.panel
            pair = not binary and panel + 1 < panel_last
            for row in range(0, rows, ROWS):
                to = _finish(step, table + row * ROW_BYTES, start + row, last, panel, stages, arena)
                a = rows_at + row * row_bytes
                if binary:
                    binary_tile((a, row_bytes, weights, terms, factor), to)
                elif octets:
                    if pair:
                        byte_tile_pair((a, row_bytes, weights, terms, step.offsets), to)
                    else:
                        byte_tile((a, row_bytes, weights, terms, step.offsets), to)
                elif pair:
                    real_tile_pair((a, row_bytes, weights, terms), to)
                else:
                    real_tile((a, row_bytes, weights, terms), to)
            panel += 2 if pair else 1


@inner
def _gather(step: Any, start: int, rows: int, arena: int, scratch: int, table: int, gathered: int) -> None:
    """Write the taps of pixels start..start + rows one row behind the other, and fill in the table of rows."""
    # Fields as locals: a store might change a record, for all that the compiler knows.
    binary, octets, width, lines = step.kind == _BINARY, step.kind == _BYTES, step.width, step.pixels // step.width
    base, base_column, bits_pixel = step.base, step.base_column, step.bits_pixel
    if octets:
        base = arena + step.scale
    words = binary and step.run % WORD == 0 and step.repeats == 1
    narrow = binary and step.run == 6 and step.runs_y == 3 and step.runs_x == 1 and step.repeats == 1
    image, rest = divmod(start, step.pixels)
    line, column = divmod(rest, width)
    done = 0
    while done < rows:
        count = min(rows - done, width - column)
        if not step.direct:
            place = image * step.source_image + line * step.source_line + column * step.source_pixel
            if words:
                _gather_words(step, arena + step.source + place, gathered + done * step.row, count)
            elif narrow:
                _gather_narrow(step, arena + step.source + place, gathered + done * step.row, count)
            else:
                _gather_line(step, arena + step.source + place, gathered + done * step.row, count)
        bits = _bits_address(step, arena, image, line, column)
        base_line = base + load_int(step.base_line + 8 * line) if binary else 0
        for entry in range(table + done * ROW_BYTES, table + (done + count) * ROW_BYTES, ROW_BYTES):
            if binary:
                store_int(entry + _BASE, base_line + load_int(base_column + 8 * column))
            elif octets:
                store_int(entry + _BASE, base + image * step.scale_image)
            store_int(entry + _BITS, bits)
            bits += bits_pixel
            column += 1
        done += count
        column = 0
        line += 1
        if line == lines:
            line = 0
            image += 1
    for row in range(rows, (rows + ROWS - 1) // ROWS * ROWS):  # a last tile that is not full: whatever stands there
        store_int(table + row * ROW_BYTES + _BASE, base)
        store_int(table + row * ROW_BYTES + _BITS, scratch)
    if binary and not (step.direct or words or narrow):
        # Not as soon as a row is there: its words would have to wait for what is stored.
        for row in range(rows):
            _fold(gathered + row * step.row, step.row, step.repeats, step.tail)


@inner
def _fold(row: int, row_bytes: int, repeats: int, tail: int) -> None:
    """Make the last word of a row, and every second one before it, the parity of all words up to there."""
    end = row + row_bytes
    if tail != -1:
        piece = row_bytes // repeats
        for behind in range(row + piece, end + 1, piece):
            store_word(behind - WORD, load_word(behind - WORD) & np.int32(tail))
    parity = np.int32(0)
    if row_bytes & WORD:
        parity = load_word(row)
        row += WORD
    for at in range(row, end, 2 * WORD):
        parity ^= load_word(at) ^ load_word(at + WORD)
        store_word(at + WORD, parity)


@inner
def _gather_words(step: Any, source: int, target: int, count: int) -> None:
    """Write the taps of some pixels of a line as `_fold` leaves them: runs of whole words."""
    runs_y, runs_x, run, tap_line, tap_pixel = step.runs_y, step.runs_x, step.run, step.tap_line, step.tap_pixel
    source_pixel, odd = step.source_pixel, step.terms & 1
    pairs = odd == 0 and run % (2 * WORD) == 0
    for _ in range(count):
        parity = 0
        whole = odd
        for tap_y in range(runs_y):
            for tap_x in range(runs_x):
                at = source + tap_y * tap_line + tap_x * tap_pixel
                if pairs:
                    for place in range(0, run, 2 * WORD):
                        two = load_int(at + place)
                        parity ^= two ^ two << 32
                        store_int(target + place, two & _LOWER | parity & _UPPER)
                else:
                    for place in range(0, run, WORD):
                        word = np.int64(load_word(at + place))
                        parity ^= word
                        store_word(target + place, np.int32(parity if whole else word))
                        whole ^= 1
                target += run
        source += source_pixel


@inner
def _gather_narrow(step: Any, source: int, target: int, count: int) -> None:
    """The same for 3 x 3 taps of sixteen channels: five words, of three runs of 48 bits."""
    tap_line, source_pixel = step.tap_line, step.source_pixel
    for _ in range(count):
        top, middle, bottom = load_int(source), load_int(source + tap_line), load_int(source + 2 * tap_line)
        first = top & _SHORT | middle << 48
        second = middle >> 16 & _LOWER | bottom << 32
        parity = first ^ first >> 32 ^ second
        store_int(target, first)
        store_int(target + 2 * WORD, parity & _LOWER | second & _UPPER)
        store_word(target + 4 * WORD, np.int32(parity ^ second >> 32 ^ bottom >> 32 & 0xFFFF))
        target += 5 * WORD
        source += source_pixel


@inner
def _gather_line(step: Any, source: int, target: int, count: int) -> None:
    """Write the taps of some pixels of a line."""
    runs_y, runs_x, run, tap_line, tap_pixel = step.runs_y, step.runs_x, step.run, step.tap_line, step.tap_pixel
    source_pixel, repeats = step.source_pixel, step.repeats
    copy_bytes = step.row // repeats
    short = runs_x == 1 and run <= COPY_BYTES
    for _ in range(count):
        for _ in range(repeats):
            to = target
            if short:
                for tap_y in range(runs_y):
                    copy(to, source + tap_y * tap_line, COPY_BYTES)
                    to += run
            else:
                for tap_y in range(runs_y):
                    for tap_x in range(runs_x):
                        copy(to, source + tap_y * tap_line + tap_x * tap_pixel, run)
                        to += run
            target += copy_bytes
        source += source_pixel


@inner
def _bits_address(step: Any, arena: int, image: int, line: int, column: int) -> int:
    return arena + step.bits + image * step.bits_image + line * step.bits_line + column * step.bits_pixel


@inner
def _window(step: Any, images: int, stages: int, arena: int, scratch: int, part: int, parts: int) -> None:
    first, last, panel_first, panel_last = _share(step, images, part, parts)
    table, width, lines = scratch + step.table, step.width, step.pixels // step.width
    weight_pixel = 4 * LANES * step.panels
    strides = (
        step.dilation_y * step.tap_line, step.dilation_x * step.tap_pixel, step.kernel_x * weight_pixel, weight_pixel,
    )  # fmt: skip
    image, rest = divmod(first, step.pixels)
    line, column = divmod(rest, width)
    for start in range(first, last, ROWS):
        for row in range(ROWS):
            entry = table + row * ROW_BYTES
            if start + row < last:
                _window_row(step, image, line, column, arena, entry)
                column += 1
                if column == width:
                    column = 0
                    line += 1
                    if line == lines:
                        line = 0
                        image += 1
            else:  # belongs to no image: like the first, but stored nowhere
                copy(entry, table, ROW_BYTES)
                store_int(entry + _BITS, scratch)
        alike = _alike(table) if start + 1 < last else 0
        own = (step.mode, alike, *strides)
        for panel in range(panel_first, panel_last):
            window_tile(own, _finish(step, table, start, last, panel, stages, arena))


@inner
def _alike(table: int) -> int:
    """1 where the windows of a tile have the same size and the same weights, else 0."""
    height, width, weight = load_int(table + _HEIGHT), load_int(table + _WIDTH), load_int(table + _WEIGHT)
    alike = 1
    for entry in range(table + ROW_BYTES, table + ROWS * ROW_BYTES, ROW_BYTES):
        same = load_int(entry + _HEIGHT) == height and load_int(entry + _WIDTH) == width
        alike &= same and load_int(entry + _WEIGHT) == weight
    return alike


@inner
def _inside(first: int, count: int, dilation: int, size: int) -> tuple[int, int]:
    """Of `count` taps from `first` on: the number of the first one that lies within 0..size, and behind the last."""
    skip = 0 if first >= 0 else -(first // dilation)
    end = count
    if first + (count - 1) * dilation >= size:
        end = (size - first + dilation - 1) // dilation
    return skip, max(skip, end)


@inner
def _window_row(step: Any, image: int, line: int, column: int, arena: int, entry: int) -> None:
    """What the tile must know of a pixel's window: the part of it that lies inside the image."""
    top, left = line * step.stride_y - step.pad_y, column * step.stride_x - step.pad_x
    skip_y, end_y = _inside(top, step.kernel_y, step.dilation_y, step.height_in)
    skip_x, end_x = _inside(left, step.kernel_x, step.dilation_x, step.width_in)
    y, x = top + skip_y * step.dilation_y, left + skip_x * step.dilation_x
    store_int(entry + _BITS, _bits_address(step, arena, image, line, column))
    store_int(entry + _SOURCE, arena + step.source + image * step.source_image + y * step.tap_line + x * step.tap_pixel)
    store_int(entry + _HEIGHT, end_y - skip_y)
    store_int(entry + _WIDTH, end_x - skip_x)
    store_int(entry + _WEIGHT, step.weight + 4 * LANES * step.panels * (skip_y * step.kernel_x + skip_x))
    count = (end_y - skip_y) * (end_x - skip_x)
    if step.count_pad:
        count_y = min(top + step.kernel_y, step.height_in + step.pad_y) - top
        count_x = min(left + step.kernel_x, step.width_in + step.pad_x) - left
        count = count_y * count_x
    store_real(entry + _COUNT, np.float32(1) / np.float32(count) if step.mode == _MEAN else np.float32(count))


@inner
def _move(step: Any, images: int, arena: int, x: int, y: int, part: int, parts: int) -> None:
    source = (x if step.space_from == _OUTSIDE else arena) + step.source
    target = (y if step.space_to == _OUTSIDE else arena) + step.target
    width, lines, channels = step.width, step.pixels // step.width, step.channels
    source_pixel, target_pixel = step.source_pixel, step.target_pixel
    source_channel, target_channel = step.source_channel, step.target_channel
    for number in range(images * lines * part // parts, images * lines * (part + 1) // parts):
        image, line = divmod(number, lines)
        at = source + image * step.source_image + line * step.source_line
        to = target + image * step.target_image + line * step.target_line
        for _ in range(channels):
            for column in range(width):
                store_real(to + column * target_pixel, load_real(at + column * source_pixel))
            at += source_channel
            to += target_channel


@inner
def _quantize(step: Any, images: int, arena: int, x: int, part: int, parts: int) -> None:
    """Make bytes of each image, whose numbers stand one behind the other; every part finds the scale for itself."""
    first = (x if step.space_from == _OUTSIDE else arena) + step.source
    width, lines, channels = step.width, step.pixels // step.width, step.channels
    source_pixel, source_channel, target_pixel = step.source_pixel, step.source_channel, step.target_pixel
    for image in range(images):
        source, target = first + image * step.source_image, arena + step.target + image * step.target_image
        most = largest(source, step.source_image // 4)
        inverse, scale = np.float32(0), most / np.float32(127)
        if most <= _LARGEST:  # neither NaN nor infinite: those make all sums NaN
            inverse = np.float32(127) / most if most > _SMALLEST else np.float32(0)
        else:
            scale = np.float32(np.nan)
        store_real(arena + step.scale + image * step.scale_image, scale)
        for line in range(lines * part // parts, lines * (part + 1) // parts):
            at, to = source + line * step.source_line, target + line * step.target_line
            if step.space_from != _OUTSIDE:  # numbers beyond the last channel are 0
                store_codes(to, at, width * target_pixel, inverse)
            else:
                done = width // LANES * LANES if channels == 3 else 0
                store_colours(to, at, source_channel, done, inverse)
                for channel in range(channels):
                    for column in range(done, width):
                        number = load_real(at + column * source_pixel + channel * source_channel)
                        store_code(to + column * target_pixel + channel, number, inverse)


@inner
def _unpack(step: Any, images: int, arena: int, part: int, parts: int) -> None:
    width, lines, channels = step.width, step.pixels // step.width, step.channels
    for number in range(images * lines * part // parts, images * lines * (part + 1) // parts):
        image, line = divmod(number, lines)
        at = arena + step.source + image * step.source_image + line * step.source_line
        to = arena + step.target + image * step.target_image + line * step.target_line
        for _ in range(width):
            for channel in range(channels):
                bit = load_byte(at + channel // 8) >> np.uint8(channel % 8) & np.uint8(1)
                store_real(to + 4 * channel, np.float32(2 * bit - 1.0))
            at += step.source_pixel
            to += step.target_pixel
