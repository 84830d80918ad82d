"""The table of a comparison, created from its JSON: rows for the terminal, and a Markdown page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zerocross import methods
from zerocross.sweep.progress import duration
from zerocross.train import recipes

_NETWORKS = {
    "common": "the same for all methods",
    "published": "the published network and batch size of each method, where it has one; otherwise the common network",
}


def header(summary: Mapping[str, Any]) -> list[str]:
    """Return the columns: the method, then numbers, which are right-aligned."""
    return ["method", f"{summary['evaluated_on']} accuracy %", "final FF ratio", "hyperparameters", "time per run"]


def rows(summary: Mapping[str, Any]) -> list[list[str]]:
    """Return one row of cells per method, the best first."""
    return [
        [name, score(row), last_flips(row), str(row["to_tune"]), "-" if row["n"] == 0 else duration(row["seconds"])]
        for name, row in summary["methods"].items()
    ]


def score(row: Mapping[str, Any]) -> str:
    """Format the accuracy of the last epoch as mean ± sample standard deviation (n)."""
    if row["n"] == 0:
        return "failed"
    spread = "" if row["sd"] is None else f" ± {row['sd']:.2f}"
    count = f"{row['n']} of {row['n'] + len(row['failed'])}" if row["failed"] else f"{row['n']}"
    return f"{row['mean']:.2f}{spread} ({count})"


def last_flips(row: Mapping[str, Any]) -> str:
    """Format the FF ratio at the end of training."""
    return f"{row['ff_ratio']['mean'][-1]:.1e}" if row["ff_ratio"] else "-"


def notes(summary: Mapping[str, Any]) -> list[str]:
    """Return the notes below the table."""
    lines = [
        "mean ± sample standard deviation (number of seeds) after the last epoch, not the best one",
        f"network: {summary['model']}, {_NETWORKS[summary.get('network', 'common')]}",
    ]
    planned = sum(stage.epochs for stage in recipes.get(summary["recipe"]).config.stages)
    if summary["epochs"] < planned:
        lines.append(
            f"budget: {summary['epochs']} epochs; the recipe has {planned}, at which the ranking may be different"
        )
    for name, row in summary["methods"].items():
        lines += [f"{name}, seed {seed} failed: {reason}" for seed, reason in row["failed"].items()]
    return lines


def markdown(summary: Mapping[str, Any], picture: str) -> str:
    """Return the Markdown page: table, notes, picture, settings of each method, and the command that creates it."""
    lines = [
        f"# Methods compared: {summary['recipe']}, {summary['epochs']} epochs",
        "",
        f"{summary['data']}. Created by `{summary['command']}`.",
        "",
        *_markdown_table(header(summary), rows(summary)),
        "",
        *(f"- {note}" for note in notes(summary)),
        "",
        f"![accuracy over epochs, FF ratio over updates]({picture})",
        "",
        "## Settings",
    ]
    for name, row in summary["methods"].items():
        lines += ["", f"**{name}**: {row['summary']}. {row['source']}.", ""]
        lines += [
            f"- hyperparameters: {', '.join(row['tuned'])}",
            f"- binary weights: {_values(row['config']['optimizer'])}",
        ]
        lines += [f"- real parameters: {_values(row['config']['real'])}"]
        if summary.get("network") == "published":
            network = _values(methods.get(name).network) or "common"
            lines.append(f"- network: {network}, batch {row['config']['batch_size']}")
        if len(row["config"]["stages"]) > 1:
            lines.append(f"- stages: {'; '.join(_stage(stage) for stage in row['config']['stages'])}")
        changed = f"; changed from {_values(row['changed'])}" if row["changed"] else ""
        lines.append(f"- source of the settings: {row['settings']}{changed}")
        runs = zip(row["seeds"].items(), row["hashes"], strict=True)
        lines.append("- runs: " + (", ".join(f"seed {s} {top1:.2f} % ({key})" for (s, top1), key in runs) or "none"))
    return "\n".join(lines) + "\n"


def _markdown_table(columns: list[str], cells: list[list[str]]) -> list[str]:
    rule = ["---", *["---:"] * (len(columns) - 1)]
    return ["| " + " | ".join(line) + " |" for line in [columns, rule, *cells]]


def _values(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items() if value is not None)


def _stage(stage: Mapping[str, Any]) -> str:
    different = {**stage["optimizer"], **{f"real {key}": value for key, value in stage["real"].items()}}
    extra = f" ({_values(different)})" if different else ""
    return f"{stage['epochs']} epochs, binarize {stage['binarize']}{extra}"
