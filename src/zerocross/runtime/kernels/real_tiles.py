"""Tiles of real numbers: products, for layers that stay real, and windows, for pooling and depthwise convolution."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from zerocross.runtime.kernels import vector_ir as v
from zerocross.runtime.kernels.finish import Finish, emit_finish, make_tile
from zerocross.runtime.kernels.steps import LANES, ROWS, RowField, Window
from zerocross.runtime.kernels.vector_ir import Builder, Value


def _emit_products(panels: int, b: Builder, own: list[Value], to: Finish) -> None:
    a, row_bytes, weights, terms = own
    rows = [b.add(a, b.mul(row_bytes, v.I64(row))) for row in range(ROWS)]

    def add_products(index: Value, sums: list[Value]) -> list[Value]:
        at = v.plus(b, weights, index, 4 * LANES)
        columns = [v.load(b, v.plus(b, at, terms, 4 * LANES * panel), v.REALS, 4) for panel in range(panels)]
        factors = [v.splat(b, v.load(b, v.plus(b, row, index, 4), v.F32, 4), v.REALS) for row in rows]
        pairs = [(factor, column) for column in columns for factor in factors]
        return [
            v.call(b, f"llvm.fmuladd.v{LANES}f32", v.REALS, *pair, old) for pair, old in zip(pairs, sums, strict=True)
        ]

    sums = v.loop(b, terms, [v.constant(0.0, v.REALS)] * (ROWS * panels), add_products)
    for panel in range(panels):
        emit_finish(b, sums[ROWS * panel : ROWS * (panel + 1)], to.next_panel(b, panel))


def _emit_maximum(b: Builder, old: Value, new: Value) -> Value:
    """The larger one, or NaN where one of them is."""
    larger = b.select(b.fcmp_ordered(">", new, old), new, old)
    return b.select(b.fcmp_unordered("uno", new, new), new, larger)


def _emit_window(b: Builder, own: list[Value], to: Finish) -> None:
    mode, row_bytes, pixel_bytes, weight_row_bytes, weight_pixel_bytes = own
    steps: dict[Window, tuple[float, Callable[[Value, Value, Value], Value]]] = {
        Window.MAX: (float("-inf"), lambda old, new, _: _emit_maximum(b, old, new)),
        Window.AVERAGE: (0.0, lambda old, new, _: b.fadd(old, new)),
        Window.WEIGHTED: (0.0, lambda old, new, at: b.fadd(old, b.fmul(new, v.load(b, at, v.REALS, 4)))),
    }

    def over_window(row: int, kind: Window) -> list[Value]:
        start, step = steps[kind]
        source, weight = (
            v.plus(b, to.row(b, row, field), to.panel, 4 * LANES) for field in (RowField.SOURCE, RowField.WEIGHT)
        )

        def pixel(y: Value, x: Value, sums: list[Value]) -> list[Value]:
            at = b.add(source, b.add(b.mul(y, row_bytes), b.mul(x, pixel_bytes)))
            its_weight = b.add(weight, b.add(b.mul(y, weight_row_bytes), b.mul(x, weight_pixel_bytes)))
            return [step(sums[0], v.load(b, at, v.REALS, 4), its_weight)]

        width = to.row(b, row, RowField.WIDTH)
        result = v.loop(
            b,
            to.row(b, row, RowField.HEIGHT),
            [v.constant(start, v.REALS)],
            lambda y, sums: v.loop(b, width, sums, partial(pixel, y)),
        )
        if kind is Window.AVERAGE:
            return [b.fdiv(result[0], v.splat(b, to.row(b, row, RowField.COUNT, v.F32), v.REALS))]
        return result

    values = []
    for row in range(ROWS):
        values += v.choose(b, mode, [partial(over_window, row, kind) for kind in Window], [v.constant(0.0, v.REALS)])
    emit_finish(b, values, to)


real_tile, real_tile_pair = (
    make_tile(name, partial(_emit_products, panels)) for name, panels in (("real_tile", 1), ("real_tile_pair", 2))
)
"""Sums of real products for ROWS pixels and one panel, or two side by side.

Own arguments: address of the first row of float32, bytes from row to row, address of the panel's weights (for every
term LANES columns; the second panel follows the first), terms.
"""

window_tile = make_tile("window_tile", _emit_window)
"""Maximum, average or weighted sum over the window of each of ROWS pixels, for a panel.

Own arguments: the `Window`; bytes from row to row and from pixel to pixel of a window; the same of its weights.
"""
