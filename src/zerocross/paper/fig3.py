"""Figure 3: a larger learning rate affects flips in the same way as smaller initial weights."""

from __future__ import annotations

from typing import Any

from zerocross.figures import pictures
from zerocross.figures.panel import Table
from zerocross.optim import LatentSGD
from zerocross.paper import curves, exact, scales
from zerocross.paper.artefact import Artefact, Claim, Content, Measured, Scale, Setting, Verdict
from zerocross.paper.scales import ALPHA, START
from zerocross.paper.session import Session
from zerocross.train.config import Config

FACTORS = {"smoke": (1 / 16, 1, 16), "reduced": (1 / 16, 1, 16, 256), "paper": (1 / 256, 1 / 16, 1, 16, 256)}
EXACT_FACTORS = (16.0, 10.0, 0.1)
EXACT_UPDATES = {"smoke": 24, "reduced": 400, "paper": 2_000}
_LR = 1.0  # of the second panel; stated by the paper


def by_lr(scale: Scale) -> dict[str, list[Config]]:
    """Vary lr with the same start; lr * weight decay and the lr of real parameters stay constant."""
    return {f"lr {_text(s)}": [_config(scale, lr=s * _LR, start=START)] for s in FACTORS[scale]}


def by_start(scale: Scale) -> dict[str, list[Config]]:
    """Vary the start at one lr, in the order of the lr that each should be equal to."""
    return {f"start {_text(START / s)}": [_config(scale, lr=_LR, start=START / s)] for s in FACTORS[scale]}


def _config(scale: Scale, lr: float, start: float) -> Config:
    optimizer = {"lr": lr, "weight_decay": ALPHA / lr, "start": start}
    return scales.varied(scales.base(scale), "latent-sgd", optimizer=optimizer)


def configs(scale: Scale) -> list[Config]:
    """Return all trainings."""
    return scales.flat(by_lr(scale) | by_start(scale))


def run(scale: Scale, session: Session) -> Content:
    """Train both families, and compare pairs with the same ratio; then compare signs in float64."""
    groups = session.run(by_lr(scale) | by_start(scale))
    rates, starts = ({label: groups[label] for label in family(scale)} for family in (by_lr, by_start))
    pairs = [
        {
            "lr": a,
            "start": b,
            "ff_difference": max(
                abs(p - q) for (_, p), (_, q) in zip(one[0]["ff_ratio"], other[0]["ff_ratio"], strict=True)
            ),
            "top1_difference": abs(one[0]["final"]["top1"] - other[0]["final"]["top1"]),
            "updates_counted": len(one[0]["ff_ratio"]),
            "mean_ff": curves.mean_flips(one[0]),
        }
        for (a, one), (b, other) in zip(rates.items(), starts.items(), strict=True)
        if one[0]["hash"] != other[0]["hash"]
    ]
    updates = EXACT_UPDATES[scale]
    about = {"updates": updates, "factors": EXACT_FACTORS, "alpha": ALPHA, "start": START}
    comparisons = session.once("fig3-signs", about, lambda: _exact(updates))
    return Content(
        panels=[
            curves.panel(
                f"(a) varying lr, start {START:g}",
                "update",
                "FF ratio (flips per weight)",
                [curves.flips(label, group) for label, group in rates.items()],
                log="y",
            ),
            curves.panel(
                f"(b) varying start, lr {_LR:g}",
                "update",
                "FF ratio (flips per weight)",
                [curves.flips(label, group) for label, group in starts.items()],
                log="y",
            ),
        ],
        tables=[
            Table(
                title="Signs with lr times s, compared with start divided by s: a small network",
                columns=["s", "type", "updates", "signs", "that differ", "first at update"],
                rows=[
                    [_text(e["factor"]), e["dtype"], e["updates"], e["signs"], e["differ"], e["first"]]
                    for e in comparisons
                ],
                notes=["A factor of 16 only changes the exponent, so that rounding is the same in any type."],
            )
        ],
        measured={
            "pairs": pairs,
            "exact": comparisons,
            "mean_ff": {k: curves.mean_flips(g[0]) for k, g in rates.items()},
        },
        runs=curves.run_rows(groups),
    )


def _exact(updates: int) -> list[dict[str, Any]]:
    comparisons = []
    for dtype in ("float64", "float32"):
        small = exact.Small(updates, dtype=dtype)

        def latent(lr: float, start: float, small: exact.Small = small) -> Any:
            return exact.signs(
                small, "latent", lambda weights: LatentSGD(weights, lr=lr, weight_decay=ALPHA / lr, start=start)
            )

        for factor in EXACT_FACTORS:
            comparison = exact.compared(latent(factor * _LR, START), latent(_LR, START / factor))
            comparisons.append({"factor": factor, "dtype": dtype, **comparison})
    return comparisons


def _text(value: float) -> str:
    return f"{value:g}" if value >= 1 else f"{value:.3g}"


def _in_float64(measured: Measured) -> Verdict:
    comparisons = [each for each in measured["exact"] if each["dtype"] == "float64"]
    flips = min(each["flips"] for each in comparisons)
    figures = "; ".join(f"s = {_text(each['factor'])}: {exact.describe(each)}" for each in comparisons)
    if not flips:
        return Verdict(None, f"{figures}; no flips to compare")
    return Verdict(all(each["differ"] == 0 for each in comparisons), figures)


def _in_float32(measured: Measured) -> Verdict:
    pairs = measured["pairs"]
    figures = "; ".join(
        f"{p['lr']} and {p['start']}: FF ratios differ by at most {p['ff_difference']:.1e} over {p['updates_counted']} "
        f"updates, accuracy by {p['top1_difference']:.2f} points"
        for p in pairs
    )
    return Verdict(all(p["ff_difference"] == 0 and p["top1_difference"] == 0 for p in pairs), figures)


def _too_small(measured: Measured) -> Verdict:
    """Check that the smallest ratio of lr to start flips fewer weights than the largest."""
    means = measured["mean_ff"]
    (smallest, low), *_, (largest, high) = means.items()
    return Verdict(low < 0.5 * high, f"mean FF ratio {low:.1e} at {smallest}, {high:.1e} at {largest}")


def settings(scale: Scale) -> list[Setting]:
    """Return the settings of this artefact."""
    factors = ", ".join(map(_text, FACTORS[scale]))
    return [
        *scales.shared(scale),
        scales.setting("method", "latent SGD, no clipping, no scaling (Eqs. 1-5)", "Section 4", stated=True),
        scales.setting("lr * weight decay", ALPHA, "0.1 * 1e-4, held constant as in Section 4", stated=True),
        scales.setting("lr in (b)", f"{_LR:g}", "Fig. 3's caption", stated=True),
        scales.setting("lr in (a)", factors, "not stated; factors of 16, which do not change rounding"),
        scales.setting("start in (a)", f"standard deviation {START}", "not stated; about that of torch's layers"),
        scales.setting("start in (b)", f"{START} / ({factors})", "the inverse of (a)"),
        scales.setting("seeds", "1", "pairs are compared run by run"),
        scales.setting(
            "comparison of signs",
            f"digits, 4 binary layers, {EXACT_UPDATES[scale]} updates, s = 16 and 10",
            "our choice",
        ),
    ]


ARTEFACT = Artefact(
    name="fig3",
    title="Figure 3: scaling the learning rate equals scaling the initial weights by the inverse",
    caption="Latent weights without clipping and scaling. A binary weight flips when its accumulated gradients "
    "outweigh its initial value, so that only the ratio of lr to start matters: each curve in (a) equals one in (b).",
    claims=(
        Claim(
            "Pairs with the same lr / start have the same signs in float64",
            _in_float64,
            paper="the exact same effect",
        ),
        Claim("When trained in float32, such pairs have the same flips and the same accuracy", _in_float32),
        Claim(
            "If the ratio of lr to start is too small, fewer weights flip",
            _too_small,
            paper="does not reach the same flipping ratios",
        ),
    ),
    settings=settings,
    configs=configs,
    run=run,
    plot=pictures.draw,
    paper={"figure": "Fig. 3", "says": "curves of (a) and (b) coincide in pairs"},
)
