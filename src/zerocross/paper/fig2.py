"""Figure 2: real gradients of binary weights in one epoch, filtered at first and second order."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from torch import Tensor

from zerocross import filters, train
from zerocross.figures import pictures
from zerocross.figures.panel import Panel, Table
from zerocross.optim import split_params
from zerocross.paper import curves, scales
from zerocross.paper.artefact import Artefact, Claim, Content, Measured, Scale, Setting, Verdict, no_configs
from zerocross.paper.session import Session
from zerocross.train.build import build_model
from zerocross.train.config import Config, DataConfig, Stage, to_dict

GAMMA = 0.1
ALPHAS = (1e-3, 1e-2, 5e-2)
SHOWN_ALPHA = 1e-2
WEIGHTS = 512  # number of weights whose gradients are recorded
SHOWN = 6  # number of weights whose gradients are in the JSON
FAMILY = np.geomspace(1e-4, 1, 41)  # first-order discounts, for the curve


def recorded_config(scale: Scale) -> Config:
    """Return two epochs of the filter: the first fills the memory of the filters, the second is analysed."""
    config = scales.base(scale)
    if scale == "reduced":  # the paper's epoch: 195 updates of 256 images
        config = dataclasses.replace(config, data=DataConfig("cifar10", validate=False), batch_size=256)
    return dataclasses.replace(config, stages=(Stage(2),), log_every=50)


def record(config: Config, session: Session) -> dict[str, Any]:
    """Train, and record the gradients of randomly drawn weights: (updates, weights)."""
    dataset = train.load_data(config, session.here)
    model = build_model(config, config.stages[0], dataset)
    binary = split_params(model).binary
    names = {id(param): name for name, param in model.named_parameters()}
    sizes = np.cumsum([0, *(param.numel() for param in binary)])
    chosen = np.sort(np.random.default_rng(0).choice(sizes[-1], min(WEIGHTS, sizes[-1]), replace=False))
    labels: list[str] = []
    recorded: list[list[Tensor]] = []
    for param, first, last in zip(binary, sizes[:-1], sizes[1:], strict=True):
        indices = (chosen[(chosen >= first) & (chosen < last)] - first).tolist()
        labels += [f"{names[id(param)].removesuffix('.weight')}, weight {index}" for index in indices]
        recorded.append([])

        def keep(param: Tensor, indices: list[int] = indices, into: list[Tensor] = recorded[-1]) -> None:
            if param.grad is not None:
                into.append(param.grad.detach().flatten()[indices].cpu().clone())

        param.register_post_accumulate_grad_hook(keep)
    fabric = train.make_fabric(config, accelerator=session.here.accelerator)
    fitted = train.fit(config, dataset, model=model, fabric=fabric, show=session.show)
    gradients = np.concatenate([np.stack([each.numpy() for each in part]) for part in recorded], axis=1)
    return {
        "labels": labels,
        "gradients": [[float(f"{value:.5g}") for value in row] for row in gradients.tolist()],
        "updates_per_epoch": len(gradients) // config.stages[0].epochs,
        "top1": fitted.scores["top1"],
        "seconds": fitted.record.seconds,
    }


def run(scale: Scale, session: Session) -> Content:
    """Record gradients once, then filter them offline."""
    config = recorded_config(scale)
    recording = session.once(
        "fig2-gradients", {"config": to_dict(config), "weights": WEIGHTS}, lambda: record(config, session)
    )
    gradients = np.array(recording["gradients"])
    first = len(gradients) - recording["updates_per_epoch"]  # of the last epoch
    compared = [_compare(gradients, first, alpha) for alpha in ALPHAS]
    return Content(
        panels=[
            _shown(recording["labels"][0], gradients[:, 0], first),
            *_compared_panels(gradients, first, compared),
        ],
        tables=[_table(compared)],
        trace=[
            {"label": recording["labels"][i], "gradients": gradients[:, i].tolist()}
            for i in np.linspace(0, gradients.shape[1] - 1, SHOWN).astype(int)
        ],
        measured={
            "compared": compared,
            "weights": gradients.shape[1],
            "updates": recording["updates_per_epoch"],
        },
        runs=[
            {
                "label": "recorded",
                "seed": config.seed,
                "hash": config.hash,
                "top1": recording["top1"],
                "epochs": 2,
                "seconds": recording["seconds"],
            }
        ],
    )


def _shown(label: str, gradients: np.ndarray, first: int) -> Panel:
    """Return the panel of one weight in the epoch after update `first`."""
    outputs = {
        "gradient": gradients,
        f"first order, alpha {SHOWN_ALPHA:g}": _filtered(filters.ema(SHOWN_ALPHA), gradients),
        f"second order, alpha {SHOWN_ALPHA:g}, gamma {GAMMA:g}": _filtered(_second(SHOWN_ALPHA), gradients),
    }
    epoch = list(range(1, len(gradients) - first + 1))
    return curves.panel(
        f"One weight: {label}",
        "update of the epoch",
        "gradient and outputs, each scaled to a maximum of 1",
        [
            curves.curve(name, epoch, [[v] for v in (x / np.abs(x[first:]).max())[first:]], muted=name == "gradient")
            for name, x in outputs.items()
        ],
    )


def _compared_panels(gradients: np.ndarray, first: int, compared: list[dict[str, Any]]) -> list[Panel]:
    """Return the panels of sign changes over alpha, and over the delay of a filter."""
    n = gradients.shape[1]
    y = "sign changes per weight and update"
    family = [_figures(filters.ema(float(alpha)), gradients, first) for alpha in FAMILY]
    return [
        curves.panel(
            f"{n} weights: sign changes",
            "alpha",
            y,
            [
                curves.curve(label, list(ALPHAS), [[each[key]["sign_changes"]] for each in compared], "points", n=n)
                for label, key in (("first order", "first"), ("second order", "second"))
            ],
            log="xy",
        ),
        curves.panel(
            f"{n} weights: sign changes against reaction",
            "updates until the sign follows a reversed gradient",
            y,
            [
                curves.curve(
                    "first order", [f["reversal"] for f in family], [[f["sign_changes"]] for f in family], n=n
                ),
                curves.curve(
                    "second order",
                    [each["second"]["reversal"] for each in compared],
                    [[each["second"]["sign_changes"]] for each in compared],
                    "points",
                    n=n,
                ),
            ],
            log="xy",
        ),
    ]


def _second(alpha: float) -> filters.IIRFilter:
    return filters.cascade(filters.ema(GAMMA), filters.ema(alpha))


def _filtered(filt: filters.IIRFilter, gradients: np.ndarray) -> np.ndarray:
    from scipy.signal import sosfilt

    return np.asarray(sosfilt(filt.sos, gradients, axis=0))


def _figures(filt: filters.IIRFilter, gradients: np.ndarray, first: int) -> dict[str, float]:
    """Measure the filtered gradients after update `first`, over all weights, and the delay of the filter.

    noise: standard deviation of the change from one update to the next, relative to that of the output.
    """
    y = _filtered(filt, gradients)[first - 1 :]
    return {
        "sign_changes": float((np.sign(y[1:]) != np.sign(y[:-1])).mean()),
        "noise": float(np.median(np.std(np.diff(y, axis=0), axis=0) / np.std(y, axis=0))),
        "reversal": filters.reversal(filt),
        "mean_delay": filters.mean_delay(filt),
    }


def _compare(gradients: np.ndarray, first: int, alpha: float) -> dict[str, Any]:
    """Compare both orders at one alpha, and the first order that follows a reversed gradient as late as the second."""
    second = _figures(_second(alpha), gradients, first)
    as_late = 1 - 0.5 ** (1 / second["reversal"])  # then half of the sum of its taps lies within `reversal` updates
    return {
        "alpha": alpha,
        "first": _figures(filters.ema(alpha), gradients, first),
        "second": second,
        "as_late": {"alpha": as_late, **_figures(filters.ema(as_late), gradients, first)},
    }


def _table(compared: list[dict[str, Any]]) -> Table:
    rows = []
    for each in compared:
        for order, values, alpha in (
            ("first", each["first"], each["alpha"]),
            ("second", each["second"], each["alpha"]),
            ("first, same reversal", each["as_late"], each["as_late"]["alpha"]),
        ):
            figures = [f"{values[key]:.3g}" for key in ("sign_changes", "noise", "reversal", "mean_delay")]
            rows.append([order, f"{alpha:.2g}", *figures])
    return Table(
        title="In the recorded epoch",
        columns=["order", "alpha", "sign changes per update", "noise", "reversal (updates)", "mean delay (updates)"],
        rows=rows,
        notes=["noise: change from one update to the next, relative to the output; median over weights"],
    )


def _both(measured: Measured, key: str) -> list[tuple[float, float, float]]:
    return [(each["alpha"], each["first"][key], each["second"][key]) for each in measured["compared"]]


def _lower(key: str) -> Any:
    def check(measured: Measured) -> Verdict:
        values = _both(measured, key)
        figures = "; ".join(f"alpha {alpha:g}: {one:.3g} and {two:.3g}" for alpha, one, two in values)
        return Verdict(all(two < one for _, one, two in values), f"first and second order: {figures}")

    return check


def _rarer_at_equal_delay(measured: Measured) -> Verdict:
    compared = measured["compared"]
    figures = "; ".join(
        f"{each['second']['reversal']:.0f} updates: {each['as_late']['sign_changes']:.3g} (alpha "
        f"{each['as_late']['alpha']:.2g}) and {each['second']['sign_changes']:.3g}"
        for each in compared
    )
    holds = all(each["second"]["sign_changes"] < each["as_late"]["sign_changes"] for each in compared)
    return Verdict(holds, f"sign changes of first and second order at the same reversal: {figures}")


def settings(scale: Scale) -> list[Setting]:
    """Return the settings of this artefact."""
    config = recorded_config(scale)
    shared = [each for each in scales.shared(scale) if each.name not in {"data", "epochs", "batch"}]
    full = scale != "smoke"
    return [
        scales.setting("data", "CIFAR-10, one epoch" if full else "digits, one epoch", "Fig. 2", stated=full),
        scales.setting("batch", config.batch_size, "Section 4" if full else "reduced", stated=full),
        scales.setting("which epoch", "the second", "not stated; the first fills the memory of the filters"),
        scales.setting(
            "alpha", ", ".join(map(str, ALPHAS)), "not stated; 1e-3 as in Section 4.1, and larger ones that show more"
        ),
        scales.setting("weights", f"{WEIGHTS}, drawn at random; {SHOWN} in the file", "the paper shows one"),
        *shared,
    ]


ARTEFACT = Artefact(
    name="fig2",
    title="Figure 2: real gradients, filtered at first and second order",
    caption="Gradients of binary weights in one epoch of training are mostly noise. A first-order filter still crosses "
    "zero often; a second-order filter with the same alpha crosses it far less often.",
    claims=(
        Claim(
            "At the same alpha, a second-order filter changes its sign less often than a first-order filter",
            _lower("sign_changes"),
            paper="less oscillation",
        ),
        Claim(
            "At the same alpha, a second-order filter is smoother",
            _lower("noise"),
            paper="reduces the noise even further",
        ),
        Claim(
            "A first-order filter that reacts as quickly changes its sign more often",
            _rarer_at_equal_delay,
            paper="less noise and a quicker reaction",
        ),
    ),
    settings=settings,
    configs=no_configs,
    run=run,
    plot=pictures.draw,
    paper={"figure": "Fig. 2", "says": "the second order is smoother than the first"},
)
