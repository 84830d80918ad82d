"""What is drawn, as data: panels of curves, and tables. Their JSON form is what result files hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Json = dict[str, Any]


@dataclass(frozen=True)
class Curve:
    """Values over x, with their spread.

    Args:
        label: In the legend.
        x: Numbers, or names.
        mean: At each x, the mean over seeds.
        low: At each x, the lowest seed; None where there is one seed.
        high: At each x, the highest seed; None where there is one seed.
        n: Number of seeds: one for all points, or one for each; None for a number of the paper's.
        style: "line" or "points".
        dash: True draws a dashed line, for a curve that lies on another one.
        muted: True draws it in grey, for what stands behind.
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
        """Plain containers, fit for JSON."""
        values = {**vars(self), "x": list(self.x)}
        return {key: value for key, value in values.items() if key not in {"dash", "muted"} or value is not None}


@dataclass(frozen=True)
class Line:
    """A number to compare with, drawn as a dashed line.

    Args:
        label: What it is.
        y: Its value.
    """

    label: str
    y: float


@dataclass(frozen=True)
class Panel:
    """Curves that share axes.

    Args:
        title: Above it.
        x: Name of the x axis.
        y: Name of the y axis.
        x_scale: "linear" or "log".
        y_scale: "linear" or "log"; a value of 0 is then drawn at the bottom.
        curves: At least one.
        lines: Numbers of the paper.
    """

    title: str
    x: str
    y: str
    x_scale: Literal["linear", "log"] = "linear"
    y_scale: Literal["linear", "log"] = "linear"
    curves: Sequence[Curve] = ()
    lines: Sequence[Line] = ()

    def to_dict(self) -> Json:
        """Plain containers, fit for JSON."""
        curves, lines = [each.to_dict() for each in self.curves], [asdict(each) for each in self.lines]
        return {**vars(self), "curves": curves, "lines": lines}

    @property
    def named(self) -> bool:
        """Whether x are names instead of numbers."""
        return bool(self.curves) and bool(self.curves[0].x) and isinstance(self.curves[0].x[0], str)


@dataclass(frozen=True)
class Table:
    """Rows of cells.

    Args:
        title: Above it.
        columns: Their names.
        rows: A list of cells each, as many as there are columns.
        notes: What a reader must know about it.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = field(default_factory=list)

    def to_dict(self) -> Json:
        """Plain containers, fit for JSON."""
        return dict(vars(self))


def panel_from(values: Any) -> Panel:
    """The Panel of such a dict.

    Raises:
        ValueError: where the values are not those of a panel; it says why.
    """
    if not isinstance(values, Mapping) or not isinstance(values.get("curves"), list) or not values["curves"]:
        raise ValueError("a panel is an object with a list of curves")
    curves = [_curve_from(each) for each in values["curves"]]
    if len({isinstance(x, str) for each in curves for x in each.x}) > 1:
        raise ValueError("the x of a panel's curves are numbers, or names, and not both")
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
        raise ValueError(f"a curve is an object, not {type(values).__name__}")
    label = str(values.get("label") or "")
    lists = {key: values.get(key) for key in ("x", "mean", "low", "high")}
    for key, each in lists.items():
        if each is None and key in {"low", "high"}:
            continue
        if not isinstance(each, list) or len(each) != len(lists["x"] or ()):
            raise ValueError(f"curve {label!r}: {key} must be a list of as many values as x has")
    rest = {key: values[key] for key in ("n", "style", "dash", "muted") if key in values}
    return Curve(label, **lists, **rest)  # type: ignore[arg-type]


def table_from(values: Mapping[str, Any]) -> Table:
    """The Table of such a dict; what is missing is empty."""

    def listed(key: str) -> list[Any]:
        value = values.get(key)
        return value if isinstance(value, list) else [] if value in (None, "") else [value]

    rows = [row for row in listed("rows") if isinstance(row, list)]
    return Table(str(values.get("title") or ""), listed("columns"), rows, listed("notes"))
