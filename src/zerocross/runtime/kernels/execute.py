"""Compiled steps of a program: gather the pixels of a block, run its tiles, move data."""

from __future__ import annotations

from typing import Any

import numpy as np

from zerocross.runtime.kernels.byte_tiles import (
    byte_tile,
    byte_tile_pair,
    copy_colours,
    largest,
    store_code,
    store_codes,
    store_colours,
)
from zerocross.runtime.kernels.gather import TAPS, forget_scan, gather, inner
from zerocross.runtime.kernels.memory import copy, load_byte, load_int, load_real, store_int, store_real
from zerocross.runtime.kernels.points import COLOURS, OUTPUTS, POINTS, SUM_BYTES, TERMS
from zerocross.runtime.kernels.popcount import binary_tile
from zerocross.runtime.kernels.real_tiles import real_tile, real_tile_pair, window_tile
from zerocross.runtime.kernels.steps import LANES, ROW_BYTES, ROWS, RowField, Rows, Space, StepKind
from zerocross.runtime.kernels.whole_tiles import KNOWN, binary_tiles, plain_tiles
from zerocross.runtime.kernels.window_rows import (
    alike,
    like_before,
    next_row,
    overlapping,
    overlapping_rows,
    window_row,
)
from zerocross.runtime.kernels.winograd import output_tile, point_sums, transform_line

_BITS = 8 * RowField.BITS
_BINARY, _WINDOW, _MOVE, _UNPACK, _BYTES, _QUANTIZE = (
    int(kind)
    for kind in (StepKind.BINARY, StepKind.WINDOW, StepKind.MOVE, StepKind.UNPACK, StepKind.BYTES, StepKind.QUANTIZE)
)
_TRANSFORM, _WINOGRAD = int(StepKind.TRANSFORM), int(StepKind.WINOGRAD)
_OUTSIDE, _IN_LINES = int(Space.OUTSIDE), int(Rows.IN_LINES)

_KNOWN = tuple(int(op) for op in KNOWN)
_LARGEST, _SMALLEST = np.finfo(np.float32).max, np.float32(1e-36)  # of nonzero magnitudes m for which 127 / m is finite


@inner
def execute(
    step: Any, images: int, stages: int, arena: int, scratch: int, x: int, y: int, part: int, parts: int
) -> None:
    """Do one of `parts` equal shares of a step for some images.

    Args:
        step: A record of `STEP`.
        images: Number of images in the arena.
        stages: Address of the stages.
        arena: Address of the activations.
        scratch: Address of this part's own scratch memory.
        x: Address of the first image of the input.
        y: Address of the first image of the output.
        part: Number of the share, below `parts`.
        parts: Number of shares.
    """
    if step.kind == _MOVE:
        _move(step, images, arena, x, y, part, parts)
    elif step.kind == _UNPACK:
        _unpack(step, images, arena, part, parts)
    elif step.kind == _QUANTIZE:
        _quantize(step, images, arena, x, part, parts)
    elif step.kind == _TRANSFORM:
        _transform(step, images, arena, x, part, parts)
    elif step.kind == _WINOGRAD:
        _winograd(step, images, stages, arena, scratch, part, parts)
    elif step.kind == _WINDOW:
        _window(step, images, stages, arena, scratch, part, parts)
    else:
        _products(step, images, stages, arena, scratch, part, parts)


@inner
def _share(step: Any, images: int, part: int, parts: int) -> tuple[int, int, int, int]:
    """Return the pixels and panels of a part: a share of the pixels, or of the panels if there are few pixels."""
    pixels, panels, unit = images * step.pixels, step.panels, ROWS
    if step.pool and parts > 1:  # whole pairs of lines: the second adds to what the first has stored
        unit = 2 * step.width
        while unit % ROWS != 0:
            unit *= 2
    units = (pixels + unit - 1) // unit
    # The bits of a pixel share a cache line, for which processors that store different panels would compete.
    few = 2 if step.least >= 0 else 8
    if units < few * parts and panels >= 2 * parts:
        pairs = (panels + 1) // 2
        return 0, pixels, 2 * (pairs * part // parts), min(panels, 2 * (pairs * (part + 1) // parts))
    return unit * (units * part // parts), min(pixels, unit * (units * (part + 1) // parts)), 0, panels


@inner
def _finish(step: Any, table: int, pixel: int, end: int, panel: int, stages: int, arena: int) -> Any:
    real = arena + step.real + pixel * step.real_pitch if step.real >= 0 else 0
    least = max(step.least, 0)
    return (
        table, min(ROWS, end - pixel) - 1, step.channels, pixel, panel, stages + step.stages, step.stage_count, arena,
        real, step.real_pitch, step.pool, least,
    )  # fmt: skip


@inner
def _products(step: Any, images: int, stages: int, arena: int, scratch: int, part: int, parts: int) -> None:
    first, last, panel_first, panel_last = _share(step, images, part, parts)
    table, gathered = scratch + step.table, scratch + step.gathered
    binary, octets, terms, factor, block = (
        step.kind == _BINARY, step.kind == _BYTES, step.terms, step.factor, step.block,
    )  # fmt: skip
    in_lines, row_bytes = step.direct == _IN_LINES, step.source_pixel if step.direct else step.row
    runs, tap_line = (step.runs_y, step.tap_line) if in_lines else (1, 0)
    taps = (step.run // 4 if in_lines else terms, runs, tap_line)
    rest = terms - taps[0] * runs
    known = _known_stage(step, stages) if binary else -1
    # A processor loads the shortcuts of the next tile before it knows that this one is the last. Those pixels belong to
    # another part: taking their cache lines from the processor that is about to write them takes longer than the tile.
    backwards = int(part == 0 and parts > 1 and not step.pool)
    forget_scan(step, scratch)
    for start in range(first, last, block):
        rows = min(block, last - start)
        gather(step, start, rows, arena, scratch, table, gathered)
        rows_at = arena + step.source + start * row_bytes if step.direct else gathered
        panel = panel_first
        while panel < panel_last:
            weights = step.weight + panel * step.panel
            pair = not binary and panel + 1 < panel_last
            done = 0
            if binary and step.plain >= 0:  # all tiles are whole: they lie within a line
                done = rows
                kind = known if known >= 0 else len(_KNOWN)
                to = _finish(step, table, start, last, panel, stages, arena)
                plain_tiles((step.plain, rows_at, tap_line, weights, terms, factor, rows // ROWS, kind, backwards), to)
            elif known >= 0:
                done = rows // ROWS * ROWS
                to = _finish(step, table, start, last, panel, stages, arena)
                binary_tiles((rows_at, row_bytes, weights, terms, factor, rows // ROWS, known, backwards), to)
            for row in range(done, rows, ROWS):
                to = _finish(step, table + row * ROW_BYTES, start + row, last, panel, stages, arena)
                a = load_int(table + row * ROW_BYTES + TAPS) if in_lines else rows_at + row * row_bytes
                if binary:
                    binary_tile((a, row_bytes, weights, terms, factor), to)
                elif octets:
                    own = (a, row_bytes, weights, step.panel, *taps, gathered + row * step.row, rest, step.offsets)
                    if pair:
                        byte_tile_pair(own, to)
                    else:
                        byte_tile(own, to)
                elif pair:
                    real_tile_pair((a, row_bytes, weights, *taps), to)
                else:
                    real_tile((a, row_bytes, weights, *taps), to)
            panel += 2 if pair else 1


@inner
def _known_stage(step: Any, stages: int) -> int:
    """Return the index in `KNOWN` of the only stage of a step without surplus channels; otherwise -1."""
    if step.stage_count == 1 and step.channels % LANES == 0:
        kind = load_int(stages + step.stages)
        for index in range(len(_KNOWN)):
            if _KNOWN[index] == kind:
                return index
    return -1


@inner
def _transform(step: Any, images: int, arena: int, x: int, part: int, parts: int) -> None:
    tiles, lines = step.width, step.pixels // step.width
    sizes = (tiles, TERMS * lines * step.column, step.column)
    for number in range(images * lines * part // parts, images * lines * (part + 1) // parts):
        image, line = divmod(number, lines)
        from_line, inside = line - step.pad_y, step.width_in
        if from_line < 0 or from_line >= step.height_in:  # a line of zeros
            from_line = inside = 0
        at = x + image * step.source_image + from_line * step.source_line
        target = arena + step.target + image * step.target_image
        transform_line((target, at, step.source_channel, inside, step.pad_x, line, *sizes))


@inner
def _winograd(step: Any, images: int, stages: int, arena: int, scratch: int, part: int, parts: int) -> None:
    """Compute, line by line, the sums of all tiles at every point, and then their outputs, two tiles at a time."""
    table, sums, width = scratch + step.table, scratch + step.gathered, step.width
    lines, tiles, term_bytes = step.pixels // width, width // OUTPUTS, step.column
    point_bytes = step.block // OUTPUTS * SUM_BYTES
    for number in range(images * lines * part // parts, images * lines * (part + 1) // parts):
        image, line = divmod(number, lines)
        start = number * width
        gather(step, start, width, arena, scratch, table, sums)
        source = arena + step.source + image * step.source_image
        for panel in range(0, step.panels, 2):
            weights = step.weight + panel * step.panel
            for point in range(POINTS):
                per_line = COLOURS if point == POINTS - 1 else TERMS
                first = source + point * step.source_pixel + line * step.source_line * per_line * term_bytes
                terms = step.runs_y * per_line
                for tile in range(0, tiles, ROWS):
                    to = sums + point * point_bytes + tile * SUM_BYTES
                    point_sums((first + 4 * tile, term_bytes, weights, terms, to, tiles - tile))
                weights += terms * SUM_BYTES
            for tile in range(0, tiles, 2):
                at, place = sums + tile * SUM_BYTES, OUTPUTS * tile
                for further in range(2):
                    to_pixels = _finish(
                        step, table + place * ROW_BYTES, start + place, start + width, panel + further, stages, arena
                    )
                    output_tile((at + further * 4 * LANES, point_bytes), to_pixels)


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
        if overlapping(step, column):
            likeness = 3
            overlapping_rows(step, image, line, column, arena, table)
            column += ROWS
        else:
            for row in range(ROWS):
                entry = table + row * ROW_BYTES
                if start + row < last:
                    if row > 0 and column > 0 and like_before(step, column, entry):
                        next_row(step, entry)
                    else:
                        window_row(step, image, line, column, arena, entry)
                    column += 1
                    if column == width and row < ROWS - 1:
                        column = 0
                        line += 1
                        if line == lines:
                            line = 0
                            image += 1
                else:  # not a pixel: computed like the first row, but not stored
                    copy(entry, table, ROW_BYTES)
                    store_int(entry + _BITS, scratch)
            likeness = alike(table) if start + 1 < last else 0
        if column == width:
            column = 0
            line += 1
            if line == lines:
                line = 0
                image += 1
        own = (step.mode, likeness, *strides)
        for panel in range(panel_first, panel_last):
            window_tile(own, _finish(step, table, start, last, panel, stages, arena))


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
        done = 0
        if channels == 3 and source_pixel == target_channel == 4 and target_pixel == 12:  # an RGB image
            done = width // LANES * LANES
            copy_colours(to, at, source_channel, done)
        for _ in range(channels):
            for column in range(done, width):
                store_real(to + column * target_pixel, load_real(at + column * source_pixel))
            at += source_channel
            to += target_channel


@inner
def _quantize(step: Any, images: int, arena: int, x: int, part: int, parts: int) -> None:
    """Quantize images, whose numbers are contiguous, to bytes; every part computes the scale itself."""
    first = (x if step.space_from == _OUTSIDE else arena) + step.source
    width, lines, channels = step.width, step.pixels // step.width, step.channels
    source_pixel, source_channel, target_pixel = step.source_pixel, step.source_channel, step.target_pixel
    for image in range(images):
        source, target = first + image * step.source_image, arena + step.target + image * step.target_image
        most = largest(source, step.source_image // 4)
        inverse, scale = np.float32(0), most / np.float32(127)
        if most <= _LARGEST:  # finite; NaN and infinity make all sums NaN
            inverse = np.float32(127) / most if most > _SMALLEST else np.float32(0)
        else:
            scale = np.float32(np.nan)
        store_real(arena + step.scale + image * step.scale_image, scale)
        for line in range(lines * part // parts, lines * (part + 1) // parts):
            at, to = source + line * step.source_line, target + line * step.target_line
            if step.space_from != _OUTSIDE:  # numbers after the last channel are 0
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
