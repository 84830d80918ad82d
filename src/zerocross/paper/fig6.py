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
    """With decay, and without."""
    return {
        label: scales.seeded(of_alpha(scale, ALPHA[scale], shape), SEEDS[scale])
        for label, shape in ((WITH, "cosine"), (WITHOUT, "constant"))
    }


def configs(scale: Scale) -> list[Config]:
    """All trainings."""
    return scales.flat(groups(scale))


def run(scale: Scale, session: Session) -> Content:
    """Train both."""
    made = session.run(groups(scale))
    final = {label: curves.final(group) for label, group in made.items()}
    return Content(
        panels=[
            *curves.flips_and_accuracy(made),
        ],
        tables=[],
        measured={
            "final": final,
            "last_ff": {label: [curves.last_flips(result) for result in group] for label, group in made.items()},
        },
        runs=curves.run_rows(made),
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
    """What was set."""
    whole = scale == "paper"
    return [
        *scales.shared(scale),
        scales.setting("method", "the filter (Eqs. 11-13)", "Section 4", stated=True),
        scales.setting(
            "alpha",
            f"{ALPHA[scale]:g}",
            "that of Section 4.1; unsaid for this figure" if whole else "larger, for a shorter run",
        ),
        scales.setting("alpha-decay", "cosine, or none", "Section 4", stated=True),
        scales.setting("seeds", SEEDS[scale], "ours"),
    ]


ARTEFACT = Artefact(
    name="fig6",
    title="Figure 6: with alpha-decay and without",
    caption="As alpha falls, the filter remembers longer and weights settle. Without decay they go on flipping to the "
    "end, and the network that is evaluated is one of many that it passes through.",
    claims=(
        Claim("With decay the FF ratio ends near zero", _settles, paper="goes to zero"),
        Claim("With decay accuracy ends higher", _ends_higher, judged_from="reduced", paper="a better end result"),
    ),
    settings=settings,
    configs=configs,
    run=run,
    plot=pictures.draw,
    paper={"figure": "Fig. 6", "says": "with decay flips end and accuracy goes on rising"},
)
