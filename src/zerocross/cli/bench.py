"""`zerocross bench`: speed compared with other implementations, measured in the same run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zerocross.cli import bench_inference, bench_serve, bench_state, bench_train, bench_tune

if TYPE_CHECKING:
    from rich.table import Table

    from zerocross.bench.optimizer import OptimizerTimes

app = typer.Typer(help="Measure speed against other implementations, in the same run.", no_args_is_help=True)

_PEAKS = {
    "bfloat16": "GradientFilter with bfloat16 state, compiled",
    "compiled": "with float32 state",
    "sgd-fused": "SGD, fused",
    "adam-fused": "Adam, fused",
}
_QUICK = [(8, 8, 3, 3), (8, 8, 1, 1), (16, 8)]
_HEADER = ("step", "median\nms", "fastest\nms", "x SGD\nfused", "x SGD\nforeach", "state\nbytes", "temp.\nbytes")
app.command("train")(bench_train.command)
app.command("inference")(bench_inference.command)
app.command("tune")(bench_tune.command)
app.command("serve")(bench_serve.command)
app.command("state")(bench_state.command)


@app.command()
def optimizer(
    rounds: Annotated[int, typer.Option(help="Timed steps of each contender; medians are printed.")] = 40,
    threads: Annotated[int, typer.Option(help="Number of torch threads.")] = 2,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use a few weights instead of ReActNet-A's, to try the command.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Also write the results to this file, e.g. results/bench_optimizer.json.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Compare the step time of GradientFilter with torch's SGD and Adam, on ReActNet-A's 28 million binary weights.

    Contenders take turns, so that other load on the machine affects all of them. Needs 2 GB of memory.
    """
    from rich.console import Console

    if out is not None and out.exists() and not force:
        raise FileExistsError(f"{out} already exists: choose another file, or use --force to replace it")
    from zerocross.bench.optimizer import measure
    from zerocross.files import write_json
    from zerocross.provenance import provenance

    console = Console(highlight=False, markup=False)
    say = Console(stderr=True, highlight=False).print
    times = measure(_QUICK if quick else None, rounds, threads=threads, memory=not quick, say=say)
    notes = ["Measured on a few weights only: not representative of real networks."] if quick else _notes(times)
    if markdown:
        console.print("\n".join([_markdown(times), "", *(f"- {note}" for note in notes)]), soft_wrap=True)
    else:
        console.print(_table(times), *notes, sep="\n")
    if out is not None:
        write_json(out, {**times.as_dict(), "provenance": provenance()})
        console.print(f"Figures: {out}", soft_wrap=True)


def _rows(times: OptimizerTimes) -> list[list[str]]:
    from zerocross.bench.optimizer import CONTENDERS

    rows = []
    for key, contender in CONTENDERS.items():
        temporary = times.temporary_bytes[key]
        rows.append(
            [
                contender.label,
                f"{1e3 * times.median(key):.1f}",
                f"{1e3 * min(times.seconds[key]):.1f}",
                f"{times.ratio(key, 'sgd-fused'):.2f}",
                f"{times.ratio(key, 'sgd-foreach'):.2f}",
                f"{times.state_bytes[key]:.1f}",
                "-" if temporary is None else f"{temporary:.1f}",
            ]
        )
    return rows


def _notes(times: OptimizerTimes) -> list[str]:
    first, last = times.load
    raising = [f"{times.ratio(f'{key}-raise', key) - 1:+.0%}" for key in ("filter", "compiled")]
    notes = [
        (
            f"{times.weights:,} weights; {times.rounds} rounds, contenders in turn; {times.threads} threads; "
            f"load average {first:.1f} before, {last:.1f} after."
        ),
        "state: bytes of state per weight; temp.: temporary bytes per weight during a step.",
        f"nonfinite='raise', GradientFilter's default, costs {raising[0]} of a step, {raising[1]} of a compiled one.",
    ]
    peaks = [(name, times.peak_bytes(key)) for key, name in _PEAKS.items()]
    if all(peak is not None for _, peak in peaks):
        listed = ", ".join(f"{name} {(peak or 0) / 2**20:.0f} MiB" for name, peak in peaks)
        notes.append(f"Peak memory of these weights, their gradients, state and temporaries: {listed}.")
    if first > 0.5:
        notes.append("The machine was busy: the fastest steps are more reliable than the medians.")
    for target, fastest in zip(times.targets(), times.targets(min), strict=True):
        median, best, limit = (_ratio(value, target.limit) for value in (target.value, fastest.value, target.limit))
        verdict = "met" if target.met else "missed"
        notes.append(f"{target.text}: {median} (fastest steps: {best}), target {limit}: {verdict}")
    return notes


def _ratio(value: float, limit: float) -> str:
    return f"{value:.2f}" if limit >= 1 else f"{value:.1%}"


def _table(times: OptimizerTimes) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in _HEADER:
        table.add_column(name, justify="left" if name == "step" else "right", no_wrap=True)
    for row in _rows(times):
        table.add_row(*row)
    return table


def _markdown(times: OptimizerTimes) -> str:
    lines = [[name.replace("\n", " ") for name in _HEADER], ["---", *["---:"] * (len(_HEADER) - 1)], *_rows(times)]
    table = ["| " + " | ".join(cell.replace("  ", "&nbsp;&nbsp;") for cell in line) + " |" for line in lines]
    return "\n".join(table)
