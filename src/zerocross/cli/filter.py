"""`zerocross filter`: the filter that is equivalent to an SGD, or the SGD equivalent to a filter, as table and plot."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from zerocross.filters import IIRFilter, Response

_SGD = "Settings of torch.optim.SGD"
_OWN = "Settings of a filter"
_COLOURS = ("#0072B2", "#D55E00", "#009E73")  # Okabe-Ito
_STYLES = ("-", "--", ":")
_CREATOR = b"zerocross filter"  # in a plot's metadata: marks files that may be replaced


class _Subject(NamedTuple):
    """The filters to show, the main one first, with a title and notes."""

    title: str
    filters: dict[str, IIRFilter]
    notes: list[str]


def command(
    lr: Annotated[float | None, typer.Option(help="Learning rate.", rich_help_panel=_SGD)] = None,
    momentum: Annotated[
        float | None, typer.Option(help="From 0 (the default) to below 1.", rich_help_panel=_SGD)
    ] = None,
    weight_decay: Annotated[float | None, typer.Option(help="0 (the default) or more.", rich_help_panel=_SGD)] = None,
    dampening: Annotated[
        float | None, typer.Option(help="From 0 (the default) to below 1.", rich_help_panel=_SGD)
    ] = None,
    nesterov: Annotated[bool, typer.Option("--nesterov", help="Nesterov's momentum.", rich_help_panel=_SGD)] = False,
    alpha: Annotated[float | None, typer.Option(help="Discount of an EMA, in (0, 1].", rich_help_panel=_OWN)] = None,
    gamma: Annotated[float | None, typer.Option(help="Discount of the EMA before it.", rich_help_panel=_OWN)] = None,
    order: Annotated[
        int | None, typer.Option(help="Instead of --gamma: number of EMAs of alpha in series.", rich_help_panel=_OWN)
    ] = None,
    out: Annotated[Path, typer.Option(help="File of the plot, .png or .svg.")] = Path("filter.png"),
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace any existing file; earlier plots of this command are always replaced."),
    ] = False,
) -> None:
    """Show the filter that is equivalent to an SGD, or the SGD equivalent to a filter; plot its responses.

    zerocross filter --lr 0.1 --momentum 0.9 --weight-decay 1e-4

    zerocross filter --alpha 1e-3 --gamma 0.1
    """
    from rich.console import Console

    from zerocross.filters import describe

    sgd = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "dampening": dampening}
    sgd = {name: value for name, value in sgd.items() if value is not None} | ({"nesterov": True} if nesterov else {})
    own = {"alpha": alpha, "gamma": gamma, "order": order}
    own = {name: value for name, value in own.items() if value is not None}
    _check_options(sgd, own)
    _check_picture(out)
    subject = _from_sgd(sgd) if sgd else _from_own(**own)

    console = Console(highlight=False)
    responses = {name: describe(filt) for name, filt in subject.filters.items()}
    notes = [*subject.notes, *_add_single_ema(responses)]
    console.print(subject.title)
    _print_table(console, responses)
    for note in notes:
        console.print(note + "\n")
    if next(iter(responses.values())).stability == "unstable":
        console.print("No plot: the filter is unstable, its response grows without bound.")
        return
    _draw(subject.title, responses, out, force)
    console.print(f"Plot: {out}", soft_wrap=True)


def _check_options(sgd: dict[str, float], own: dict[str, float]) -> None:
    names = {name: "--" + name.replace("_", "-") for name in (*sgd, *own)}
    if sgd and own:
        raise ValueError(
            f"{names[next(iter(sgd))]} is a setting of SGD and {names[next(iter(own))]} one of a filter: use --lr, "
            "--momentum, --weight-decay or --alpha, --gamma, not both"
        )
    if sgd and "lr" not in sgd:
        raise ValueError(f"--lr is required with {', '.join(names.values())}")
    if not sgd and ("alpha" not in own or len(own) != 2):
        raise ValueError(
            f"{' '.join(names.values()) or 'no option'} given: use --lr (with --momentum, --weight-decay), --alpha "
            "with --gamma, or --alpha with --order"
        )
    if own.get("order", 1) < 1:
        raise ValueError(f"--order {own['order']} must be 1 or more")


def _check_picture(out: Path) -> None:
    if out.suffix.lower() not in {".png", ".svg"}:
        raise ValueError(f"--out {out}: the file name must end in .png or .svg")
    if not out.absolute().parent.is_dir():
        raise FileNotFoundError(f"--out {out}: folder {out.parent} does not exist; create it first")


def _from_sgd(settings: dict[str, float]) -> _Subject:
    from zerocross.filters import SGDSettings, alpha_gamma, from_latent, from_sgd, stability

    sgd = SGDSettings(**settings)  # pyright: ignore[reportArgumentType]: nesterov is the one bool
    filt = from_sgd(*sgd)
    filters, notes = {"torch's SGD": filt}, []
    paper_alpha = sgd.lr * sgd.weight_decay
    if paper_alpha <= 1:
        filters["paper's reading"] = from_latent(sgd.lr, sgd.weight_decay, 1 - sgd.momentum)
    if stability(filt) == "integrator":
        notes.append("An integrator: without weight decay one pole is 1, and no gradient is ever forgotten.")
    try:
        alpha, _ = alpha_gamma(filt)
    except ValueError as reason:
        notes.append(f"No alpha and gamma: {reason}.")
    else:
        if sgd.momentum and sgd.weight_decay:
            notes.append(
                f"The paper reads alpha = lr * weight_decay (its Eq. 3). torch's SGD applies weight decay before "
                f"momentum, which accumulates it: its alpha is {alpha / paper_alpha:.4g} times that."
            )
    given = ", ".join(f"{name}={value}" for name, value in settings.items())
    return _Subject(f"SGD({given}) is a filter of order {filt.order}", filters, notes)


def _from_own(alpha: float, gamma: float | None = None, order: int = 2) -> _Subject:
    from zerocross.filters import cascade, ema, to_latent, to_sgd

    if gamma is not None:
        filt, title = cascade(ema(gamma), ema(alpha)), f"Two EMAs in series, gamma = {gamma:g}, alpha = {alpha:g}"
    else:
        filt = cascade(*[ema(alpha)] * order)
        title = f"{order} EMA{'s in series' if order > 1 else ''}, alpha = {alpha:g}"
        gamma = {1: 1.0, 2: alpha}.get(order)
    if gamma is None:
        return _Subject(
            title, {"filter": filt}, [f"No SGD is equivalent to a filter of order {order}: SGD has at most two poles."]
        )
    latent, sgd = to_latent(alpha, gamma, lr=0.1), to_sgd(alpha, gamma, lr=0.1)
    note = (
        "It gives the same signs as these SGDs, at constant rates and starting from zero; for another lr, scale "
        "weight_decay by 0.1 / lr.\n"
        f"  torch   SGD(params, lr=0.1, momentum={sgd.momentum:.6g}, weight_decay={sgd.weight_decay:.6g})\n"
        f"  paper   Eqs. 2 and 3 with lr=0.1, gamma={latent.gamma:.6g}, weight_decay={latent.weight_decay:.6g}"
    )
    return _Subject(title, {"filter": filt}, [note])


def _add_single_ema(responses: dict[str, Response]) -> list[str]:
    """Add the EMA of equal noise gain to the table, if there is one, and describe the effect of the order."""
    from zerocross.filters import compare_orders

    first = next(iter(responses.values()))
    if first.filt.order < 2 or first.stability != "stable":
        return []
    try:
        given, noise, flips = compare_orders(first.filt)
    except ValueError:
        return []
    responses["same-noise EMA"] = noise
    note = (
        f"Effect of the order: at equal noise gain one EMA has a mean delay of {_count(noise.mean_delay, 1)} steps "
        f"(this filter {_count(given.mean_delay, 1)}) and follows a reversal in {_count(noise.reversal)} "
        f"({_count(given.reversal)}), but noise flips it {noise.flip_rate / given.flip_rate:,.1f} times as often. "
        f"A single EMA with the same flip rate has {flips.mean_delay / given.mean_delay:,.1f} times the delay."
    )
    return [note]


def _print_table(console: Console, responses: dict[str, Response]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for name in responses:
        table.add_column(name, justify="right", no_wrap=True)
    columns = [_cells(response) for response in responses.values()]
    for label in columns[0]:
        table.add_row(label, *(column[label] for column in columns))
    console.print(table)
    console.print(
        "Reversal: until the sign follows a steady gradient that changed sign. Noise is white.\n", style="dim"
    )


def _cells(response: Response) -> dict[str, str]:
    from zerocross.filters import alpha_gamma

    try:
        alpha, gamma = (f"{value:.5g}" for value in alpha_gamma(response.filt))
    except ValueError:
        alpha = gamma = "-"
    poles = Counter(_pole(u) for u in response.filt.discounts.tolist() if u.imag <= 0)
    return {
        "alpha": alpha,
        "gamma": gamma,
        "poles": "\n".join(f"{n} x {pole}" if n > 1 else pole for pole, n in poles.items()) or "none",
        "stability": response.stability,
        "mean delay, steps": _count(response.mean_delay, 1),
        "window (95 %), steps": _count(response.window),
        "half-life, steps": _count(response.half_life, 1),
        "reversal, steps": _count(response.reversal),
        "noise gain": f"{response.noise_gain:.4g}" if response.noise_gain < float("inf") else "infinite",
        "noise flips per step": f"{response.flip_rate:.4g}",
    }


def _pole(discount: complex) -> str:
    pole = 1 - discount
    if pole.imag:
        return f"{pole.real:.6g} +- {pole.imag:.4g}j"
    return f"1 - {discount.real:.4g}" if 0 < abs(discount) < 1e-7 else f"{pole.real:.8g}"


def _count(steps: float, digits: int = 0) -> str:
    if steps == float("inf"):
        return "infinite"
    return f"{steps:,.{digits}f}" if steps < 1e7 else f"{steps:.4g}"


def _draw(title: str, responses: dict[str, Response], out: Path, force: bool) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    from zerocross.files import write_whole
    from zerocross.filters import frequency_response, impulse_response

    if out.exists() and not force and _CREATOR not in out.read_bytes():
        raise FileExistsError(f"{out} already exists: choose another --out, or use --force to replace it")
    longest = max((r.window for r in responses.values() if r.window < float("inf")), default=1000.0)
    ages = np.unique(np.geomspace(1, 2 * longest + 10, 600).astype(np.int64))
    frequencies = np.geomspace(0.02 / (longest + 10), 0.5, 600)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for (name, response), colour, style in zip(responses.items(), _COLOURS, _STYLES, strict=False):
        taps = impulse_response(response.filt, ages - 1)
        gain = np.abs(frequency_response(response.filt, frequencies)[1])
        look = {"label": name, "color": colour, "linestyle": style, "linewidth": 2}
        left.plot(ages, taps / np.abs(taps).max(), **look)
        right.plot(frequencies, 20 * np.log10(np.maximum(gain / gain[0], 1e-15)), **look)
    left.set(
        title="Impulse response", xlabel="age of a gradient in steps (the newest is 1)", ylabel="weight (largest = 1)"
    )
    right.set(title="Frequency response", xlabel="frequency, cycles per step", ylabel="gain, dB (leftmost = 0)")
    figure.suptitle(title)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.grid(alpha=0.3)
    left.set_xlim(1, ages[-1])
    right.set_xlim(frequencies[0], 0.5)
    right.legend(loc="lower left")
    kind = out.suffix[1:].lower()
    metadata = {"Software" if kind == "png" else "Creator": _CREATOR.decode()}
    write_whole(out, lambda file: figure.savefig(file, format=kind, dpi=120, metadata=metadata))
    plt.close(figure)
