"""The table of a comparison, from its JSON alone: rows for the terminal, and a page of Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zerocross import methods
from zerocross.sweep.progress import duration
from zerocross.train import recipes

_NETWORKS = {
    "common": "the same for all methods",
    "published": "in each method's own published form and batch size, where it has one; else the common one",
}


def header(summary: Mapping[str, Any]) -> list[str]:
    """The columns: one that reads, then those that are flush right."""
    return ["method", f"{summary['evaluated_on']} accuracy %", "FF ratio, end", "to tune", "time a run"]


def rows(summary: Mapping[str, Any]) -> list[list[str]]:
    """A line of cells per method, the best first."""
    return [
        [name, score(row), last_flips(row), str(row["to_tune"]), "-" if row["n"] == 0 else duration(row["seconds"])]
        for name, row in summary["methods"].items()
    ]


def score(row: Mapping[str, Any]) -> str:
    """Mean ± sample standard deviation (n), of the last epoch."""
    if row["n"] == 0:
        return "failed"
    spread = "" if row["sd"] is None else f" ± {row['sd']:.2f}"
    count = f"{row['n']} of {row['n'] + len(row['failed'])}" if row["failed"] else f"{row['n']}"
    return f"{row['mean']:.2f}{spread} ({count})"


def last_flips(row: Mapping[str, Any]) -> str:
    """Where the FF ratio ends."""
    return f"{row['ff_ratio']['mean'][-1]:.1e}" if row["ff_ratio"] else "-"


def notes(summary: Mapping[str, Any]) -> list[str]:
    """What a reader of the table must know."""
    said = [
        "mean ± sample standard deviation (number of seeds), after the last epoch, never the best one",
        f"network: {summary['model']}, {_NETWORKS[summary.get('network', 'common')]}",
    ]
    planned = sum(stage.epochs for stage in recipes.get(summary["recipe"]).config.stages)
    if summary["epochs"] < planned:
        said.append(
            f"a budget of {summary['epochs']} epochs; the recipe has {planned}, and who wins here need not win there"
        )
    for name, row in summary["methods"].items():
        said += [f"{name}, seed {seed} failed: {reason}" for seed, reason in row["failed"].items()]
    return said


def markdown(summary: Mapping[str, Any], picture: str) -> str:
    """The page: table, notes, picture, settings of each method, and the command that makes it all."""
    lines = [
        f"# Methods compared: {summary['recipe']}, {summary['epochs']} epochs",
        "",
        f"{summary['data']}. Made by `{summary['command']}`.",
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
        lines += [f"- to tune: {', '.join(row['tuned'])}", f"- binary weights: {_values(row['config']['optimizer'])}"]
        lines += [f"- real parameters: {_values(row['config']['real'])}"]
        if summary.get("network") == "published":
            own = _values(methods.get(name).network) or "the common one"
            lines.append(f"- network: {own}, batch {row['config']['batch_size']}")
        if len(row["config"]["stages"]) > 1:
            lines.append(f"- stages: {'; '.join(_stage(stage) for stage in row['config']['stages'])}")
        changed = f"; changed here from {_values(row['changed'])}" if row["changed"] else ""
        lines.append(f"- where they come from: {row['settings']}{changed}")
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
