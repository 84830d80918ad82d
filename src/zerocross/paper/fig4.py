"""Figure 4: the effect of the learning rate with and without weight magnitudes."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Literal

from scipy import stats

from zerocross.figures import pictures
from zerocross.figures.panel import Table
from zerocross.paper import curves, judge, scales
from zerocross.paper.artefact import Artefact, Claim, Content, Measured, Scale, Setting, Verdict
from zerocross.paper.scales import ALPHA, START
from zerocross.paper.session import Session
from zerocross.train.config import Config

# Powers of two near 1e-3, 1e-2, 0.1, 1, 10, 100: scaling by them does not change rounding, so (c) can be bit-identical.
RATES = {
    "smoke": (2**-3, 1.0, 2**3),
    "reduced": (2**-10, 2**-7, 2**-3, 1.0, 2**3, 2**7),
    "paper": (2**-10, 2**-7, 2**-3, 1.0, 2**3, 2**7),
}
SEEDS = {"smoke": {"a": 1, "b": 1, "c": 1}, "reduced": {"a": 3, "b": 1, "c": 1}, "paper": {"a": 3, "b": 3, "c": 3}}
PRECISION: dict[str, Literal["32", "bf16"]] = {"smoke": "32", "reduced": "bf16", "paper": "32"}
KINDS = {
    "a": "(a) standard: clipped gradients, scaling",
    "b": "(b) magnitude independent",
    "c": "(c) magnitude independent, start 0",
}


def groups(scale: Scale) -> dict[str, list[Config]]:
    """Return the runs by kind and lr."""
    return {
        f"{kind} lr {rate:.3g}": scales.seeded(_config(scale, kind, rate), SEEDS[scale][kind])
        for kind in KINDS
        for rate in RATES[scale]
    }


def _config(scale: Scale, kind: str, rate: float) -> Config:
    optimizer = {"lr": float(rate), "weight_decay": ALPHA / rate, "start": 0.0 if kind == "c" else START}
    base = dataclasses.replace(scales.base(scale), precision=PRECISION[scale])
    if kind != "a":
        return scales.varied(base, "latent-sgd", optimizer=optimizer)
    return scales.varied(
        base, "latent-sgd", optimizer=optimizer | {"clip_gradient": 1.0}, model={"scale": "channel_mean"}
    )


def configs(scale: Scale) -> list[Config]:
    """Return all trainings."""
    return scales.flat(groups(scale))


def run(scale: Scale, session: Session) -> Content:
    """Train every kind at every lr."""
    results = session.run(groups(scale))
    rates = list(RATES[scale])
    final = {kind: [curves.final(results[f"{kind} lr {rate:.3g}"]) for rate in rates] for kind in KINDS}
    on = next(iter(results.values()))[0]["evaluated_on"]
    return Content(
        panels=[
            curves.panel(
                "Accuracy over the learning rate of the latent weights",
                "lr (lr * weight decay held constant)",
                f"{on} accuracy (%), last epoch",
                [curves.curve(name, rates, final[kind]) for kind, name in KINDS.items()],
                log="x",
            )
        ],
        tables=[
            Table(
                title=f"{on} accuracy, last epoch",
                columns=["lr", *KINDS.values()],
                rows=[
                    [rate, *(judge.percent(final[kind][number]) for kind in KINDS)] for number, rate in enumerate(rates)
                ],
            )
        ],
        measured={"rates": rates, "final": final},
        runs=curves.run_rows(results),
    )


def _figures(measured: Measured, kind: str) -> tuple[list[list[float]], int, str]:
    """Return the accuracies of a kind, the index of its best lr, and the figures in words, with missing seeds."""
    rates, final = measured["rates"], measured["final"][kind]
    means = [statistics.fmean(values) for values in final]
    figures = ", ".join(f"{judge.percent(values)} at {rate:.3g}" for rate, values in zip(rates, final, strict=True))
    reason = judge.too_few({f"lr {rate:.3g}": values for rate, values in zip(rates, final, strict=True)})
    return final, means.index(max(means)), f"{figures}; {reason}" if reason else figures


def _one_optimum(measured: Measured) -> Verdict:
    """Check that accuracy rises to a best lr inside the range and falls beyond it, significantly at both ends."""
    final, best, figures = _figures(measured, "a")
    if "not judged" in figures:
        return Verdict(None, figures)
    inner = 0 < best < len(final) - 1
    single = judge.grows(final[: best + 1]) is not False and judge.grows(final[best:][::-1]) is not False
    ends = all(judge.gain(final[best], final[end]).low > 0 for end in (0, -1))
    return Verdict(inner and single and ends, figures)


def _fails_when_small(measured: Measured) -> Verdict:
    """Check that the smallest lr is significantly below the best one, and that the largest is not."""
    final, best, figures = _figures(measured, "b")
    if "not judged" in figures:
        return Verdict(None, figures)
    small, large = (judge.gain(final[best], final[end]) for end in (0, -1))
    figures = f"{figures}; the best lr exceeds the smallest by {small}, the largest by {large}"
    return Verdict(small.low > 0 >= large.low, figures)


def _flat(measured: Measured) -> Verdict:
    """Check that means over rates differ no more than seeds do (one-way analysis of variance, 5 %)."""
    final, _, figures = _figures(measured, "c")
    if all(values == final[0] for values in final):
        return Verdict(holds=True, figures=f"{figures.partition('; not judged')[0]}; the same at every rate")
    if "not judged" in figures:
        return Verdict(None, figures)
    p = float(stats.f_oneway(*final).pvalue)
    return Verdict(p > 1 - judge.CONFIDENCE, f"{figures}; analysis of variance over rates: p = {p:.2f}")


def settings(scale: Scale) -> list[Setting]:
    """Return the settings of this artefact."""
    return [
        *scales.shared(scale),
        scales.setting("method", "latent SGD (Eqs. 1-5)", "Section 4", stated=True),
        scales.setting(
            "(a)",
            "gradients stopped beyond |w| = 1, weights scaled by the channel's mean |w|",
            "Section 4",
            stated=True,
        ),
        scales.setting("gradient of (a)", "passes the scaling unchanged", "as in the paper's repository"),
        scales.setting(
            "(c)", "starts at 0 (the smallest positive number, with a random sign)", "Section 4", stated=True
        ),
        scales.setting("lr * weight decay", ALPHA, "held constant, Section 4", stated=True),
        scales.setting(
            "lr", ", ".join(f"{rate:.3g}" for rate in RATES[scale]), "not stated; about one value per decade"
        ),
        scales.setting(
            "start of (a) and (b)", f"standard deviation {START}", "not stated; about that of torch's layers"
        ),
        scales.setting("precision", PRECISION[scale], "bfloat16 autocast is faster and equally accurate"),
        scales.setting("seeds", ", ".join(f"{n} of ({kind})" for kind, n in SEEDS[scale].items()), "our choice"),
    ]


ARTEFACT = Artefact(
    name="fig4",
    title="Figure 4: accuracy over the learning rate, in three settings",
    caption="With clipping and scaling, the learning rate must suit the initial weights and the clipping range. "
    "Without them, only a small learning rate fails, because it cannot overcome the initial weights. With a zero start "
    "it has no effect at all: it scales a value of which only the sign is used.",
    claims=(
        Claim(
            "(a) has one optimum, inside the range", _one_optimum, judged_from="reduced", paper="just a single optimum"
        ),
        Claim(
            "(b) fails only for a small learning rate",
            _fails_when_small,
            judged_from="reduced",
            paper="sensitive to small lr",
        ),
        Claim("(c) is flat: rates differ no more than seeds do", _flat, paper="independent of the learning rate"),
    ),
    settings=settings,
    configs=configs,
    run=run,
    plot=pictures.draw,
    paper={"figure": "Fig. 4", "says": "(a) one optimum, (b) sensitive to small learning rates, (c) flat"},
    findings={
        "reduced": "(b) has one seed per point, so that its claim is not judged; its figures agree with the paper and "
        "rise up to the last rate. (c) is identical at every rate, which needs no further seeds."
    },
)
