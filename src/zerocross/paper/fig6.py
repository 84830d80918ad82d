"""Figure 6: with alpha-decay and without."""

from __future__ import annotations

import statistics

from zerocross.figures import pictures
from zerocross.paper import curves, judge, scales
from zerocross.paper.artefact import Artefact, Claim, Content, Measured, Scale, Setting, Verdict
from zerocross.paper.fig5 import of_alpha
from zerocross.paper.session import Session
from zerocross.train.config import Config

ALPHA = {"smoke": 1e-2, "reduced": 1e-2, "paper": 1e-3}
SEEDS = {"smoke": 1, "reduced": 3, "paper": 3}
WITH, WITHOUT = "cosine alpha-decay", "no alpha-decay"
NEAR_ZERO = 1e-3  # flips per weight and update: one weight in a thousand


def groups(scale: Scale) -> dict[str, list[Config]]:
    """Return the runs with and without decay."""
    return {
        label: scales.seeded(of_alpha(scale, ALPHA[scale], shape), SEEDS[scale])
        for label, shape in ((WITH, "cosine"), (WITHOUT, "constant"))
    }


def configs(scale: Scale) -> list[Config]:
    """Return all trainings."""
    return scales.flat(groups(scale))


def run(scale: Scale, session: Session) -> Content:
    """Train both."""
    results = session.run(groups(scale))
    final = {label: curves.final(group) for label, group in results.items()}
    return Content(
        panels=[
            *curves.flips_and_accuracy(results),
        ],
        tables=[],
        measured={
            "final": final,
            "last_ff": {label: [curves.last_flips(result) for result in group] for label, group in results.items()},
        },
        runs=curves.run_rows(results),
    )


def _settles(measured: Measured) -> Verdict:
    ends = {label: statistics.fmean(values) for label, values in measured["last_ff"].items()}
    return Verdict(
        ends[WITH] < NEAR_ZERO and ends[WITH] < ends[WITHOUT] / 10,
        f"FF ratio in the last 2 % of updates: {ends[WITH]:.1e} with decay, {ends[WITHOUT]:.1e} without",
    )


def _ends_higher(measured: Measured) -> Verdict:
    final = measured["final"]
    return judge.above(final[WITH], final[WITHOUT], (WITH, WITHOUT))


def settings(scale: Scale) -> list[Setting]:
    """Return the settings of this artefact."""
    full = scale == "paper"
    return [
        *scales.shared(scale),
        scales.setting("method", "the filter (Eqs. 11-13)", "Section 4", stated=True),
        scales.setting(
            "alpha",
            f"{ALPHA[scale]:g}",
            "that of Section 4.1; not stated for this figure" if full else "larger, for a shorter run",
        ),
        scales.setting("alpha-decay", "cosine, or none", "Section 4", stated=True),
        scales.setting("seeds", SEEDS[scale], "our choice"),
    ]


ARTEFACT = Artefact(
    name="fig6",
    title="Figure 6: with alpha-decay and without",
    caption="As alpha decays, the memory of the filter grows and weights settle. Without decay they keep flipping "
    "until the end, and the evaluated network is a random sample of the networks along the way.",
    claims=(
        Claim("With decay, the FF ratio ends near zero", _settles, paper="goes to zero"),
        Claim("With decay, accuracy ends higher", _ends_higher, judged_from="reduced", paper="a better end result"),
    ),
    settings=settings,
    configs=configs,
    run=run,
    plot=pictures.draw,
    paper={"figure": "Fig. 6", "says": "with decay, flips cease and accuracy keeps rising"},
)
