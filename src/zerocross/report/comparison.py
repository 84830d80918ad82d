"""Convert a result of `zerocross compare` to the form of an artefact: panels, tables, notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zerocross.figures.panel import Curve, Panel, Table
from zerocross.report.markup import duration


def as_artefact(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return a comparison in the form of an artefact; methods without a result appear only in the notes."""
    methods: Mapping[str, Any] = summary["methods"]
    finished = {name: row for name, row in methods.items() if row["n"]}
    epochs = f"{summary['epochs']} epoch{'s' * (summary['epochs'] != 1)}"
    return {
        "name": summary["name"],
        "title": f"Methods compared: {summary['recipe']}, {epochs}",
        "caption": (
            f"{summary['data']}, network {summary['model']}: the same data, network and budget for every method, each "
            "with its own settings. Accuracy after the last epoch, not the best one."
        ),
        "seconds": sum(row["seconds"] * row["n"] for row in finished.values()),
        "command": summary.get("command"),
        "claims": [],
        "notes": [
            f"{name}, seed {seed} failed: {reason}"
            for name, row in methods.items()
            for seed, reason in row["failed"].items()
        ],
        "data": {
            "tables": [_table(summary, finished).to_dict()],
            "panels": [panel.to_dict() for panel in _panels(summary, finished)],
        },
        "settings": [
            {"name": name, "value": row["config"]["optimizer"], "stated": None, "why": row["settings"]}
            for name, row in finished.items()
        ],
        "provenance": summary["provenance"],
    }


def _table(summary: Mapping[str, Any], rows: Mapping[str, Any]) -> Table:
    return Table(
        "",
        ["method", f"{summary['evaluated_on']} accuracy, %", "sd", "n", "final FF ratio", "to tune", "time per run"],
        [
            [name, f"{row['mean']:.2f}", _number(row["sd"], ".2f"), row["n"], _number(_last_flips(row), ".1e"),
             row["to_tune"], duration(row["seconds"])]
            for name, row in rows.items()
        ],
    )  # fmt: skip


def _number(value: float | None, form: str) -> str | None:
    return None if value is None else format(value, form)


def _last_flips(row: Mapping[str, Any]) -> float | None:
    return row["ff_ratio"]["mean"][-1] if row["ff_ratio"] else None


def _panels(summary: Mapping[str, Any], rows: Mapping[str, Any]) -> list[Panel]:
    def curves(of: str, over: str) -> list[Curve]:
        return [
            Curve(name, row[of][over], n=row["n"], **{key: row[of][key] for key in ("mean", "low", "high")})
            for name, row in rows.items()
            if row[of]
        ]

    accuracy = f"{summary['evaluated_on']} accuracy, %"
    flips = "FF ratio: share of binary weights that flip in an update"
    return [
        Panel("Accuracy: mean over seeds, and their extremes", "epoch", accuracy, curves=curves("accuracy", "epoch")),
        Panel(flips, "update", "FF ratio", y_scale="log", curves=curves("ff_ratio", "update")),
    ]
