"""Gather the pixels of a block: the taps of each pixel as consecutive rows, and the table of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from zerocross.runtime.kernels.byte_tiles import gather_last_bytes
from zerocross.runtime.kernels.memory import (
    COPY_BYTES,
    copy,
    load_int,
    load_word,
    store_int,
    store_real,
    store_word,
)
from zerocross.runtime.kernels.parities import copy_runs, gather_tiles
from zerocross.runtime.kernels.steps import ROW_BYTES, ROWS, TILED, WORD, RowField, Rows, StepKind

_BITS, _BASE, TAPS, _POOLED, _PARTIAL, _SHARE = (
    8 * RowField[name] for name in ("BITS", "BASE", "TAPS", "POOLED", "PARTIAL", "SHARE")
)
_BINARY, _BYTES, _IN_LINES = int(StepKind.BINARY), int(StepKind.BYTES), int(Rows.IN_LINES)
_LOWER, _UPPER, _SHORT = 0xFFFFFFFF, -1 << 32, (1 << 48) - 1  # bits of an int64

# Code that needs neither Python nor Numba at run time: no wrappers, no reference counts, no exceptions.
OPTIONS: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False, "error_model": "numpy"}
inner = njit(**OPTIONS)


@inner
def gather(step: Any, start: int, rows: int, arena: int, scratch: int, table: int, gathered: int) -> None:
    """Write the taps of pixels start..start + rows as consecutive rows, and fill in the table of rows."""
    width, lines = step.width, step.pixels // step.width
    image, rest = divmod(start, step.pixels)
    line, column = divmod(rest, width)
    done = 0
    while done < rows:
        count = min(rows - done, width - column)
        if step.kind == _BYTES and step.direct == _IN_LINES:
            source = arena + step.source + image * step.source_image + line * step.source_line + step.run - 1
            source += column * step.source_pixel
            gather_last_bytes(gathered + done * step.row, source, step.tap_line, step.runs_y, count // ROWS)
        elif not step.direct:
            _gather_taps(step, arena, scratch, image, line, column, gathered + done * step.row, count)
        _fill_table(step, arena, image, line, column, table + done * ROW_BYTES, count)
        done += count
        column = 0
        line += 1
        if line == lines:
            line = 0
            image += 1
    base = arena + step.scale if step.kind == _BYTES else step.base
    for row in range(rows, (rows + ROWS - 1) // ROWS * ROWS):  # a last tile that is not full: arbitrary rows
        store_int(table + row * ROW_BYTES + _BASE, base)
        store_int(table + row * ROW_BYTES + _BITS, scratch)
    if step.kind == _BINARY and not (step.direct or step.scan_line or _whole_words(step) or _narrow(step)):
        # Not directly after gathering each row: loading its words would wait for the stores.
        for row in range(rows):
            _fold(gathered + row * step.row, step.row, step.repeats, step.tail)


@inner
def _whole_words(step: Any) -> bool:
    return step.run % WORD == 0 and step.repeats == 1


@inner
def _narrow(step: Any) -> bool:
    return step.run == 6 and step.runs_y == 3 and step.runs_x == 1 and step.repeats == 1


@inner
def _gather_taps(
    step: Any, arena: int, scratch: int, image: int, line: int, column: int, target: int, count: int
) -> None:
    """Write the taps of pixels of a line."""
    source = arena + step.source + image * step.source_image + line * step.source_line + column * step.source_pixel
    if step.kind == _BINARY and step.plain == TILED:
        taps, stride = step.run // (2 * WORD), step.source_pixel // (2 * WORD)
        gather_tiles((target, source, step.tap_line, step.runs_y, taps, stride, count // ROWS))
    elif step.scan_line:
        _gather_scanned(step, arena + step.source, image, line, column, scratch + step.scan, target, count)
    elif step.kind == _BINARY and _whole_words(step):
        _gather_words(step, source, target, count)
    elif step.kind == _BINARY and _narrow(step):
        _gather_narrow(step, source, target, count)
    else:
        _gather_line(step, source, target, count)


@inner
def _fill_table(step: Any, arena: int, image: int, line: int, column: int, table: int, count: int) -> None:
    """Fill in the table of rows for pixels of a line."""
    # Copy fields to locals: the compiler must assume that a store could change a record.
    base_column, bits_pixel, source_pixel = step.base_column, step.bits_pixel, step.source_pixel
    bits, end = bits_address(step, arena, image, line, column), table + count * ROW_BYTES
    if step.least >= 0:
        for entry in range(table, end, ROW_BYTES):
            store_int(entry + _BITS, bits)
            bits += bits_pixel
    if step.kind == _BINARY:
        base = step.base + load_int(step.base_line + 8 * line)
        base_column += 8 * column
        for entry in range(table, end, ROW_BYTES):
            store_int(entry + _BASE, base + load_int(base_column))
            base_column += 8
    elif step.kind == _BYTES:
        for entry in range(table, end, ROW_BYTES):
            store_int(entry + _BASE, arena + step.scale + image * step.scale_image)
    if step.pool:
        _fill_pooled(step, arena + step.real, image, line, column, table, end)
    if step.direct == _IN_LINES:
        taps = arena + step.source + image * step.source_image + line * step.source_line + column * source_pixel
        for entry in range(table, end, ROWS * ROW_BYTES):  # every tile starts with a pixel of this line
            store_int(entry + TAPS, taps)
            taps += ROWS * source_pixel


@inner
def _fill_pooled(step: Any, real: int, image: int, line: int, column: int, table: int, end: int) -> None:
    """Fill in where every second pixel of a line adds itself and the next one to the average of 2 x 2 pixels."""
    pitch, second, zeros = step.real_pitch, line % 2, step.pool
    average = real + image * step.pool_image + line // 2 * step.pool_line + column // 2 * pitch
    for entry in range(table, end, 2 * ROW_BYTES):
        store_int(entry + _POOLED, average)
        store_int(entry + _PARTIAL, average if second else zeros)
        store_real(entry + _SHARE, np.float32(0.25) if second else np.float32(1))
        average += pitch


@inner
def _fold(row: int, row_bytes: int, repeats: int, tail: int) -> None:
    """Replace the last word of a row, and every second word before it, by the parity of all words up to that one."""
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
def forget_scan(step: Any, scratch: int) -> None:
    """Mark all lines as not yet scanned."""
    if step.scan_line:
        store_int(scratch + step.scan, -1)


@inner
def _gather_scanned(
    step: Any, source: int, image: int, line: int, column: int, scan: int, target: int, count: int
) -> None:
    """As `_gather_words`, with parities of whole lines, which are scanned when they are first needed.

    The parity of a row up to a word is the parity of the line up to that word, xor a value that is the same for all
    words of a run: whole vectors are copied and corrected by one xor.
    """
    tap_line, source_pixel, scan_line = step.tap_line, step.source_pixel, step.scan_line
    stride, first = step.source_line // tap_line, scan + 2 * 8 + WORD
    source += image * step.source_image
    done = load_int(scan + 8) if load_int(scan) == image else line * stride
    end = line * stride + step.runs_y
    words = ((step.width - 1) * source_pixel + step.run) // WORD
    for number in range(max(done, line * stride), end):
        _scan_line(source + number * tap_line, first + number * scan_line, words)
    store_int(scan, image)
    store_int(scan + 8, max(done, end))
    place = column * source_pixel
    copy_runs((
        target, source + line * stride * tap_line + place, first + line * stride * scan_line + place,
        step.row, source_pixel, tap_line, scan_line, step.runs_y, step.run, step.terms & 1, count,
    ))  # fmt: skip


@inner
def _scan_line(source: int, target: int, words: int) -> None:
    """Store the parity of all words up to each word of a line, preceded by a word that is 0."""
    store_word(target - WORD, np.int32(0))
    parity = np.int32(0)
    for place in range(0, words * WORD, WORD):
        parity ^= load_word(source + place)
        store_word(target + place, parity)


@inner
def _gather_words(step: Any, source: int, target: int, count: int) -> None:
    """Write the taps of pixels of a line in the form that `_fold` produces, for runs of whole words."""
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
    """As `_gather_words`, for 3 x 3 taps of sixteen channels: five words from three runs of 48 bits."""
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
    """Write the taps of pixels of a line."""
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
def bits_address(step: Any, arena: int, image: int, line: int, column: int) -> int:
    """Return the address for the bits of a pixel of the output."""
    return arena + step.bits + image * step.bits_image + line * step.bits_line + column * step.bits_pixel
