"""Figure 3: a larger learning rate does to flips what a smaller start does."""

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
_LR = 1.0  # of the second panel: stated


def by_lr(scale: Scale) -> dict[str, list[Config]]:
    """Varying lr at one start; lr * weight decay, and the real parameters' lr, stay."""
    return {f"lr {_text(s)}": [_config(scale, lr=s * _LR, start=START)] for s in FACTORS[scale]}


def by_start(scale: Scale) -> dict[str, list[Config]]:
    """Varying start at one lr, in the order of the lr that each should equal."""
    return {f"start {_text(START / s)}": [_config(scale, lr=_LR, start=START / s)] for s in FACTORS[scale]}


def _config(scale: Scale, lr: float, start: float) -> Config:
    optimizer = {"lr": lr, "weight_decay": ALPHA / lr, "start": start}
    return scales.varied(scales.base(scale), "latent-sgd", optimizer=optimizer)


def configs(scale: Scale) -> list[Config]:
    """All trainings."""
    return scales.flat(by_lr(scale) | by_start(scale))


def run(scale: Scale, session: Session) -> Content:
    """Train both families, and compare pairs of equal ratio; then sign by sign in float64."""
    groups = session.run(by_lr(scale) | by_start(scale))
    rates, starts = ({label: groups[label] for label in asked(scale)} for asked in (by_lr, by_start))
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
    found = session.once("fig3-signs", about, lambda: _exact(updates))
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
                title="lr times s beside start divided by s, sign by sign: a small network",
                columns=["s", "type", "updates", "signs", "that differ", "first at update"],
                rows=[
                    [_text(e["factor"]), e["dtype"], e["updates"], e["signs"], e["differ"], e["first"]] for e in found
                ],
                notes=["A factor of 16 only moves the exponent: rounding is the same, in any type."],
            )
        ],
        measured={"pairs": pairs, "exact": found, "mean_ff": {k: curves.mean_flips(g[0]) for k, g in rates.items()}},
        runs=curves.run_rows(groups),
    )


def _exact(updates: int) -> list[dict[str, Any]]:
    found = []
    for dtype in ("float64", "float32"):
        small = exact.Small(updates, dtype=dtype)

        def latent(lr: float, start: float, small: exact.Small = small) -> Any:
            return exact.signs(
                small, "latent", lambda weights: LatentSGD(weights, lr=lr, weight_decay=ALPHA / lr, start=start)
            )

        for factor in EXACT_FACTORS:
            both = exact.compared(latent(factor * _LR, START), latent(_LR, START / factor))
            found.append({"factor": factor, "dtype": dtype, **both})
    return found


def _text(value: float) -> str:
    return f"{value:g}" if value >= 1 else f"{value:.3g}"


def _in_float64(measured: Measured) -> Verdict:
    found = [each for each in measured["exact"] if each["dtype"] == "float64"]
    flips = min(each["flips"] for each in found)
    told = "; ".join(f"s = {_text(each['factor'])}: {exact.told(each)}" for each in found)
    if not flips:
        return Verdict(None, f"{told}; without a flip there is nothing to compare")
    return Verdict(all(each["differ"] == 0 for each in found), told)


def _in_float32(measured: Measured) -> Verdict:
    pairs = measured["pairs"]
    told = "; ".join(
        f"{p['lr']} and {p['start']}: FF ratios differ by {p['ff_difference']:.1e} at most over {p['updates_counted']} "
        f"updates, accuracy by {p['top1_difference']:.2f} points"
        for p in pairs
    )
    return Verdict(all(p["ff_difference"] == 0 and p["top1_difference"] == 0 for p in pairs), told)


def _too_small(measured: Measured) -> Verdict:
    """The smallest ratio of lr to start flips less than the largest."""
    means = measured["mean_ff"]
    (least, low), *_, (most, high) = means.items()
    return Verdict(low < 0.5 * high, f"mean FF ratio {low:.1e} at {least}, {high:.1e} at {most}")


def settings(scale: Scale) -> list[Setting]:
    """What was set."""
    factors = ", ".join(map(_text, FACTORS[scale]))
    return [
        *scales.shared(scale),
        scales.setting("method", "latent SGD, no clipping, no scaling (Eqs. 1-5)", "Section 4", stated=True),
        scales.setting("lr * weight decay", ALPHA, "0.1 * 1e-4, held constant as in Section 4", stated=True),
        scales.setting("lr in (b)", f"{_LR:g}", "Fig. 3's caption", stated=True),
        scales.setting("lr in (a)", factors, "unsaid; steps of 16, which change no rounding"),
        scales.setting("start in (a)", f"standard deviation {START}", "unsaid; about torch's own"),
        scales.setting("start in (b)", f"{START} / ({factors})", "the inverse of (a)"),
        scales.setting("seeds", "1", "pairs are compared run by run"),
        scales.setting(
            "sign by sign", f"digits, 4 binary layers, {EXACT_UPDATES[scale]} updates, s = 16 and 10", "ours"
        ),
    ]


ARTEFACT = Artefact(
    name="fig3",
    title="Figure 3: scaling the learning rate is scaling the start by the inverse",
    caption="Latent weights without clipping and scaling. A binary weight flips when what it has gathered outweighs "
    "its start, so only the ratio of lr to start counts: each curve of (a) is one of (b).",
    claims=(
        Claim(
            "Pairs of equal lr / start have the same signs, to the bit in float64",
            _in_float64,
            paper="the exact same effect",
        ),
        Claim("In float32, as trained, such pairs have the same flips and the same accuracy", _in_float32),
        Claim(
            "A too small ratio of lr to start flips less",
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
