"""`zerocross bench inference`: packed networks against OpenVINO, Larq Compute Engine, ONNX Runtime and PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from zerocross.bench.inference import InferenceTimes
    from zerocross.bench.target import Target


def command(
    rounds: Annotated[int, typer.Option(help="Timed calls of each contender; medians are printed.", min=1)] = 30,
    threads: Annotated[list[int], typer.Option(help="Number of threads. Repeatable.", min=1)] = [1, 2],  # noqa: B006
    no_compile: Annotated[
        bool, typer.Option("--no-compile", help="Leave out compiled PyTorch and ONNX Runtime.")
    ] = False,
    openvino: Annotated[
        str | None,
        typer.Option(metavar="PYTHON", help="A Python interpreter with OpenVINO (`make openvino` sets one up)."),
    ] = None,
    lce: Annotated[
        str | None,
        typer.Option(metavar="PYTHON", help="A Python interpreter with Larq Compute Engine (`make lce` sets one up)."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="NETWORK", help="Print only the time of every step of this network, and its limit."),
    ] = None,
    real: Annotated[
        str, typer.Option(help="With --profile: type of real weights, float32, float16 or int8.")
    ] = "float32",
    level: Annotated[str | None, typer.Option(help="Use code for older processors: avx512, avx2 or portable.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure one small network without compiling, to try the command.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Also write the results to this file, e.g. results/bench_inference.json.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Compare the speed of packed networks with ONNX Runtime, PyTorch, and optionally OpenVINO and Larq Compute Engine.

    Also measures the share of the processor's popcount limit, a single layer, memory, and the time to the first
    prediction. Contenders take turns, so that other load on the machine affects all of them. Compiling takes minutes.
    """
    from rich.console import Console

    if out is not None and out.exists() and not force:
        raise FileExistsError(f"{out} already exists: choose another file, or use --force to replace it")
    from zerocross.bench.inference import CASES, measure
    from zerocross.files import write_json
    from zerocross.provenance import provenance
    from zerocross.runtime.thread_pool import processors

    if level is not None:
        from zerocross.runtime.kernels.native import use_level

        use_level(level)
    if profile is not None:
        _profile(Console(highlight=False, markup=False, soft_wrap=True), profile, real, rounds)
        return
    if max(threads) > processors():
        raise ValueError(f"--threads {max(threads)}: this machine has {processors()} processors")
    console = Console(highlight=False, markup=False)
    say = Console(stderr=True, highlight=False, markup=False).print
    cases = CASES[:1] if quick else CASES
    footprint = None if quick else "birealnet18"
    for rival, option, given in (("OpenVINO", "openvino", openvino), ("Larq Compute Engine", "lce", lce)):
        if given is None:
            say(f"{rival} is left out: use --{option} PYTHON (`make {option}` sets one up).")
    how = {"compile_": not (quick or no_compile), "c_file": not quick}
    times = measure(cases, rounds, threads, **how, footprint=footprint, lce=lce, openvino=openvino, say=say)
    _print(console, times)
    if out is not None:
        write_json(out, {**times.as_dict(), "provenance": provenance()})
        console.print(f"Figures: {out}", soft_wrap=True)


def _profile(console: Console, name: str, real: str, rounds: int) -> None:
    from zerocross.bench.inference_profile import NAMES, measure_profile
    from zerocross.checks import check_choice
    from zerocross.models.registry import MODELS

    check_choice("--profile", name, MODELS)
    timings = measure_profile(name, real, max(50, 4 * rounds))
    rows = [
        (NAMES[step.kind], step.what, f"{1e6 * step.seconds:.1f}", f"{step.seconds / timings.seconds:.1%}",
         step.limit, f"{step.reached:.0%}")
        for step in timings.steps
    ]  # fmt: skip
    console.print(_table((f"{name}, {real}", "what", "us", "share", "limit", "reached"), rows))
    for kind, seconds in timings.kinds().items():
        console.print(f"{NAMES[kind]}: {1e6 * seconds:.0f} us, {seconds / timings.seconds:.1%}")
    limits = timings.limits
    console.print(
        f"Total {1e3 * timings.seconds:.3f} ms: one image, one thread, the fastest time of each step; "
        f"{1e3 * timings.limit_seconds:.3f} ms if every step reached its limit. Limits, measured in the same run: "
        f"{limits.binary:.0f} G binary products per second, {limits.real:.0f} of float32, "
        f"{limits.bytes:.0f} of bytes, {limits.memory:.0f} GB/s read and written. Above 100 %: from a nearer cache."
    )


def _print(console: Console, times: InferenceTimes) -> None:
    from zerocross.bench.inference import LABELS

    limit, layer, prints = times.limit, times.layer, times.footprints
    rates = ", ".join(f"{rate:.0f}" for rate in limit.products.values())
    console.print(f"Binary products, one thread: limit {limit.limit:.0f} GMAC/s in registers; matrices {rates}.")
    rivals = {"OpenVINO": layer.openvino, "Larq Compute Engine": layer.lce}
    others = "".join(f"{name}'s layer {1e3 * time:.3f} ms; " for name, time in rivals.items() if time is not None)
    console.print(
        f"256 -> 256 3 x 3 layer at 14 x 14: {1e3 * layer.ours:.3f} ms with batch norm, shortcut, sign and packing; "
        f"{others}PyTorch's float convolution alone {1e3 * layer.convolution:.3f} ms.",
        soft_wrap=True,
    )
    for run in times.networks:
        plural = "s" if run.threads > 1 else ""
        title = f"{run.model}, batch {run.batch}, {run.threads} thread{plural}"
        rows = [
            (LABELS[key], f"{1e3 * run.median(key):.2f}", f"{1e3 * min(run.seconds[key]):.2f}",
             f"{run.median(key) / run.median('zerocross'):.1f}")
            for key in run.seconds
        ]  # fmt: skip
        console.print(_table((title, "median\nms", "fastest\nms", "x ours"), rows))
    if prints is not None:
        rows = [
            (label, f"{process.seconds:.1f}", f"{process.own / 1e6:.0f}", f"{process.resident / 1e6:.0f}")
            for label, process in (("zerocross, packed", prints.ours), ("PyTorch, eager", prints.torch))
        ]
        header = (f"{prints.model}, a new process", "s to first\nprediction", "MB above\nimports", "MB\nresident")
        console.print(_table(header, rows))
    largest = max((run.difference for run in times.networks), default=0.0)
    compared = [run.openvino_difference for run in times.networks if run.openvino_difference is not None]
    from_openvino = f", from OpenVINO's: {max(compared):.1e}" if compared else ""
    console.print(
        f"{times.rounds} rounds, contenders in turn; "
        f"load average {times.load[0]:.1f} before, {times.load[1]:.1f} after. "
        f"Largest difference of a logit from PyTorch's: {largest:.1e}{from_openvino}.",
        soft_wrap=True,
    )
    if times.load[0] > 0.5:
        console.print("The machine was busy: the fastest calls are more reliable than the medians.")
    for claim in times.claims():
        console.print(_verdict(claim), soft_wrap=True)


def _verdict(claim: Target) -> str:
    bound = "at least" if claim.at_least else "at most"
    return f"{claim.text}: {claim.value:.2f}, target {bound} {claim.limit:g}: {'met' if claim.met else 'missed'}"


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, name in enumerate(header):
        table.add_column(name, justify="right" if column else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
