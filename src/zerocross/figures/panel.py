"""Figures as data: panels of curves, and tables. Result files store them as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Json = dict[str, Any]


@dataclass(frozen=True)
class Curve:
    """Values over x, with their spread.

    Args:
        label: Label in the legend.
        x: Numbers or names.
        mean: Mean over seeds at each x.
        low: Lowest seed at each x; None for a single seed.
        high: Highest seed at each x; None for a single seed.
        n: Number of seeds, one number for all points or one per point; None for values of the paper.
        style: "line" or "points".
        dash: True draws a dashed line, for a curve that coincides with another one.
        muted: True draws a thin grey line, for the background.
    """

    label: str
    x: Sequence[Any]
    mean: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    n: int | Sequence[int] | None = None
    style: Literal["line", "points"] = "line"
    dash: bool | None = None
    muted: bool | None = None

    def to_dict(self) -> Json:
        """Return plain containers for JSON."""
        values = {**vars(self), "x": list(self.x)}
        return {key: value for key, value in values.items() if key not in {"dash", "muted"} or value is not None}


@dataclass(frozen=True)
class Line:
    """A reference value, drawn as a dashed line.

    Args:
        label: Label of the line.
        y: The value.
    """

    label: str
    y: float


@dataclass(frozen=True)
class Panel:
    """Curves that share axes.

    Args:
        title: Title above the panel.
        x: Name of the x axis.
        y: Name of the y axis.
        x_scale: "linear" or "log".
        y_scale: "linear" or "log"; a log axis draws a value of 0 at the bottom.
        curves: At least one curve.
        lines: Reference values, such as those of the paper.
    """

    title: str
    x: str
    y: str
    x_scale: Literal["linear", "log"] = "linear"
    y_scale: Literal["linear", "log"] = "linear"
    curves: Sequence[Curve] = ()
    lines: Sequence[Line] = ()

    def to_dict(self) -> Json:
        """Return plain containers for JSON."""
        curves, lines = [each.to_dict() for each in self.curves], [asdict(each) for each in self.lines]
        return {**vars(self), "curves": curves, "lines": lines}

    @property
    def named(self) -> bool:
        """True if x holds names instead of numbers."""
        return bool(self.curves) and bool(self.curves[0].x) and isinstance(self.curves[0].x[0], str)


@dataclass(frozen=True)
class Table:
    """A table of text and numbers.

    Args:
        title: Title above the table.
        columns: Names of the columns.
        rows: Rows, each with one cell per column.
        notes: Notes below the table.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = field(default_factory=list)

    def to_dict(self) -> Json:
        """Return plain containers for JSON."""
        return dict(vars(self))


def panel_from(values: Any) -> Panel:
    """Return the Panel of a dict from Panel.to_dict().

    Raises:
        ValueError: if the dict does not describe a panel.
    """
    if not isinstance(values, Mapping) or not isinstance(values.get("curves"), list) or not values["curves"]:
        raise ValueError("a panel must be an object with a non-empty list of curves")
    curves = [_curve_from(each) for each in values["curves"]]
    if len({isinstance(x, str) for each in curves for x in each.x}) > 1:
        raise ValueError("the x of a panel's curves must be all numbers or all names")
    scales: dict[str, Any] = {axis: values.get(axis) or "linear" for axis in ("x_scale", "y_scale")}
    for axis, scale in scales.items():
        if scale not in {"linear", "log"}:
            raise ValueError(f"{axis} is {scale!r}; it must be 'linear' or 'log'")
    names = {key: str(values.get(key) or "") for key in ("title", "x", "y")}
    lines = [
        Line(str(line.get("label") or ""), line["y"])
        for line in values.get("lines") or ()
        if isinstance(line, Mapping) and line.get("y") is not None
    ]
    return Panel(**names, **scales, curves=curves, lines=lines)


def _curve_from(values: Any) -> Curve:
    if not isinstance(values, Mapping):
        raise ValueError(f"a curve must be an object, not {type(values).__name__}")
    label = str(values.get("label") or "")
    lists = {key: values.get(key) for key in ("x", "mean", "low", "high")}
    for key, each in lists.items():
        if each is None and key in {"low", "high"}:
            continue
        if not isinstance(each, list) or len(each) != len(lists["x"] or ()):
            raise ValueError(f"curve {label!r}: {key} must be a list with as many values as x")
    rest = {key: values[key] for key in ("n", "style", "dash", "muted") if key in values}
    return Curve(label, **lists, **rest)  # type: ignore[arg-type]


def table_from(values: Mapping[str, Any]) -> Table:
    """Return the Table of a dict from Table.to_dict(); missing entries become empty."""

    def listed(key: str) -> list[Any]:
        value = values.get(key)
        return value if isinstance(value, list) else [] if value in (None, "") else [value]

    rows = [row for row in listed("rows") if isinstance(row, list)]
    return Table(str(values.get("title") or ""), listed("columns"), rows, listed("notes"))
