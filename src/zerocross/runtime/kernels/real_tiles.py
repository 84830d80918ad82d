"""Tiles of real numbers: products, for layers that stay real, and windows, for pooling and depthwise convolution."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from zerocross.runtime.kernels import vector_ir as v
from zerocross.runtime.kernels.finish import Finish, emit_finish, few_or_all, make_tile
from zerocross.runtime.kernels.steps import LANES, ROW_BYTES, ROWS, RowField, Window
from zerocross.runtime.kernels.target import rows_at_once
from zerocross.runtime.kernels.vector_ir import Builder, Value


def _emit_products(panels: int, b: Builder, own: list[Value], to: Finish) -> None:
    a, row_bytes, weights, *taps = own
    at_once = min(ROWS, rows_at_once(panels))

    def sums(first: int, number: int) -> list[Value]:
        rows = v.rows_from(b, a, row_bytes, range(first, first + number))
        zeros = [v.constant(0.0, v.REALS)] * (panels * number)
        return v.runs_of(b, rows, weights, (taps[0], taps[1], taps[2]), zeros, partial(emit_sums, b, panels))

    if at_once == ROWS:
        zeros = [v.constant(0.0, v.REALS)] * (panels * ROWS)
        values = few_or_all(b, to, lambda number: sums(0, number), zeros)
    else:
        values = [value for first in range(0, ROWS, at_once) for value in sums(first, at_once)]
    for panel in range(panels):
        emit_finish(b, values[panel::panels], to.next_panel(b, panel))


def emit_sums(
    b: Builder, panels: int, rows: list[Value], weights: Value, panel_bytes: Value, terms: Value, sums: list[Value],
    term_bytes: Value | None = None,
) -> list[Value]:  # fmt: skip
    """Add products to sums, row by row, and for each row panel by panel; terms are `term_bytes` apart, by default 4."""

    def add_products(index: Value, sums: list[Value]) -> list[Value]:
        at = v.plus(b, weights, index, 4 * LANES)
        columns = [v.load(b, v.plus(b, at, panel_bytes, panel), v.REALS, 4) for panel in range(panels)]
        place = b.mul(index, v.I64(4) if term_bytes is None else term_bytes)
        factors = [v.splat(b, v.load(b, b.add(row, place), v.F32, 4), v.REALS) for row in rows]
        pairs = [(factor, column) for factor in factors for column in columns]
        return [v.multiply_add(b, *pair, old) for pair, old in zip(pairs, sums, strict=True)]

    return v.loop(b, terms, sums, add_products)


def _emit_maximum(b: Builder, old: Value, new: Value) -> Value:
    """Return the maximum, or NaN if either is NaN."""
    # One instruction each, which returns its second operand if either is NaN. For numbers, both results have the same
    # bits, except for zeros of different sign; the bitwise or of NaN and anything else is NaN.
    pair = [b.select(b.fcmp_ordered(">", one, other), one, other) for one, other in ((old, new), (new, old))]
    return b.bitcast(b.or_(*(b.bitcast(each, v.WORDS) for each in pair)), v.REALS)


def _emit_window(b: Builder, own: list[Value], to: Finish) -> None:
    mode, likeness, *strides = own
    zero = [v.constant(0.0, v.REALS)]
    results = b.add(to.rows, v.I64(ROWS * ROW_BYTES))

    def one_by_one() -> list[Value]:
        def single(row: Value, carried: list[Value]) -> list[Value]:
            (value,) = v.choose(b, mode, [partial(_emit_windows, b, kind, [row], strides, to) for kind in Window], zero)
            v.store(b, value, v.plus(b, results, row, 4 * LANES), 4)
            return carried

        v.loop(b, b.add(to.last, v.I64(1)), [], single)
        return [v.load(b, b.add(results, v.I64(4 * LANES * row)), v.REALS, 4) for row in range(ROWS)]

    def together() -> list[Value]:
        rows = [v.I64(row) for row in range(ROWS)]
        at_once = min(ROWS, rows_at_once(2))
        parts = [rows[first : first + at_once] for first in range(0, ROWS, at_once)]

        def windows(kind: Window) -> list[Value]:
            return [value for part in parts for value in _emit_windows(b, kind, part, strides, to, rows[1])]

        return v.choose(b, mode, [partial(windows, kind) for kind in Window], zero * ROWS)

    def together_but_one() -> list[Value]:  # all as if they were equal, and then the first one separately
        _, *values = together()
        single = [partial(_emit_windows, b, kind, [v.I64(0)], strides, to) for kind in Window]
        return [*v.choose(b, mode, single, zero), *values]

    def overlapping() -> list[Value]:
        return _emit_overlapping(b, strides, to)

    emit_finish(b, v.choose(b, likeness, [one_by_one, together, together_but_one, overlapping], zero * ROWS), to)


def _emit_overlapping(b: Builder, strides: list[Value], to: Finish) -> list[Value]:
    """Return the maxima of 3 x 3 windows that are two pixels apart: neighbours share the maximum of a column.

    Windows may have fewer lines, and the first one may lack its first column. The next line or column then counts
    twice, which does not change a maximum.
    """
    line_bytes, pixel_bytes = strides[:2]
    last_line = b.sub(to.row(b, 0, RowField.HEIGHT), v.I64(1))
    lines = [v.I64(0), b.select(b.icmp_signed("<", last_line, v.I64(1)), last_line, v.I64(1)), last_line]
    first, second = (v.plus(b, to.row(b, row, RowField.SOURCE), to.panel, 4 * LANES) for row in range(2))

    def column(at: list[Value]) -> Value:
        top, middle, bottom = (v.load(b, each, v.REALS, 4) for each in at)
        return _emit_maximum(b, _emit_maximum(b, top, middle), bottom)

    left = column([b.add(first, b.mul(line, line_bytes)) for line in lines])
    at = [b.sub(b.add(second, b.mul(line, line_bytes)), pixel_bytes) for line in lines]
    values = []
    for _ in range(ROWS):
        middle, right = column(at), column([b.add(each, pixel_bytes) for each in at])
        values.append(_emit_maximum(b, _emit_maximum(b, left, middle), right))
        at = [v.apart(b, v.plus(b, each, pixel_bytes, 2)) for each in at]
        left = right
    return values


def _emit_windows(
    b: Builder, kind: Window, rows: list[Value], strides: list[Value], to: Finish, like: Value | None = None
) -> list[Value]:
    """Reduce windows that all have the size of the window of row `like`, or of the first row."""
    like = rows[0] if like is None else like
    line_bytes, pixel_bytes, weight_line_bytes, weight_pixel_bytes = strides
    sources = [v.plus(b, to.row(b, row, RowField.SOURCE), to.panel, 4 * LANES) for row in rows]
    weights = v.plus(b, to.row(b, like, RowField.WEIGHT), to.panel, 4 * LANES)
    step: Callable[[Value, Value, Value | None], Value] = {
        Window.MAX: lambda old, new, _: _emit_maximum(b, old, new),
        Window.WEIGHTED: lambda old, new, weight: b.fadd(old, b.fmul(new, weight)),
    }.get(kind, lambda old, new, _: b.fadd(old, new))

    def pixel(y: Value, x: Value, values: list[Value]) -> list[Value]:
        place = v.apart(b, b.add(b.mul(y, line_bytes), b.mul(x, pixel_bytes)))
        news = [v.load(b, b.add(source, place), v.REALS, 4) for source in sources]
        weight = None
        if kind is Window.WEIGHTED:  # the same for all windows of the same size
            place = b.add(b.mul(y, weight_line_bytes), b.mul(x, weight_pixel_bytes))
            weight = v.load(b, b.add(weights, place), v.REALS, 4)
        return [step(old, new, weight) for old, new in zip(values, news, strict=True)]

    width = to.row(b, like, RowField.WIDTH)
    values = v.loop(
        b,
        to.row(b, like, RowField.HEIGHT),
        [v.constant(float("-inf") if kind is Window.MAX else 0.0, v.REALS)] * len(rows),
        lambda y, values: v.loop(b, width, values, partial(pixel, y)),
    )
    if kind not in (Window.AVERAGE, Window.MEAN):
        return values
    counts = [v.splat(b, to.row(b, row, RowField.COUNT, v.F32), v.REALS) for row in rows]
    divide = b.fdiv if kind is Window.AVERAGE else b.fmul
    return [divide(value, count) for value, count in zip(values, counts, strict=True)]


real_tile, real_tile_pair = (
    make_tile(name, partial(_emit_products, panels)) for name, panels in (("real_tile", 1), ("real_tile_pair", 2))
)
"""Sums of real products for ROWS pixels and one panel, or two side by side.

Own arguments: address of the first row of float32, bytes from row to row, address of the panel's weights (for every
term LANES columns; the second panel follows the first); terms of a run, runs, and the bytes from one to the next.
"""

window_tile = make_tile("window_tile", _emit_window)
"""Maximum, average or weighted sum over the window of each of ROWS pixels, for a panel.

Own arguments: the `Window`; 1 where all windows are of the same size and place inside the image, 2 where only the first
is narrower, 3 for maxima of windows as `_emit_overlapping` takes them, else 0; bytes from line to line and from pixel
to pixel of a window; the same of its weights. Behind the table of rows there must be room for as much again.
"""
