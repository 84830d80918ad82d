"""Figure 5: flips and accuracy over alpha."""

from __future__ import annotations

import statistics

from zerocross.figures import pictures
from zerocross.figures.panel import Table
from zerocross.paper import curves, judge, scales
from zerocross.paper.artefact import Artefact, Claim, Content, Measured, Scale, Setting, Verdict
from zerocross.paper.session import Session
from zerocross.train.config import Config

ALPHAS = {
    "smoke": (1e-3, 1e-2, 1.0),
    "reduced": (1e-4, 1e-3, 1e-2, 1e-1, 1.0),
    "paper": (1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
}
SEEDS = {"smoke": 1, "reduced": 2, "paper": 3}


def of_alpha(scale: Scale, alpha: float, schedule: str = "cosine") -> Config:
    """Return the filter with this alpha."""
    return scales.varied(scales.base(scale), optimizer={"alpha": alpha, "schedule": schedule})


def groups(scale: Scale) -> dict[str, list[Config]]:
    """Return the runs by alpha."""
    return {f"alpha {alpha:g}": scales.seeded(of_alpha(scale, alpha), SEEDS[scale]) for alpha in ALPHAS[scale]}


def configs(scale: Scale) -> list[Config]:
    """Return all trainings."""
    return scales.flat(groups(scale))


def run(scale: Scale, session: Session) -> Content:
    """Train the filter at every alpha."""
    results = session.run(groups(scale))
    alphas = list(ALPHAS[scale])
    final = [curves.final(group) for group in results.values()]
    ff = [[curves.mean_flips(result) for result in group] for group in results.values()]
    on = next(iter(results.values()))[0]["evaluated_on"]
    return Content(
        panels=[
            *curves.flips_and_accuracy(results),
            curves.panel(
                "Accuracy over alpha",
                "alpha",
                f"{on} accuracy (%), last epoch",
                [curves.curve("filter, gamma 0.1", alphas, final)],
                log="x",
            ),
        ],
        tables=[
            Table(
                title="Flips and accuracy over alpha",
                columns=["alpha", "mean FF ratio", f"{on} accuracy"],
                rows=[
                    [alpha, f"{statistics.fmean(f):.1e}", curves.percent(top1)]
                    for alpha, f, top1 in zip(alphas, ff, final, strict=True)
                ],
            )
        ],
        measured={"alphas": alphas, "mean_ff": ff, "final": final},
        runs=curves.run_rows(results),
    )


def _grows(measured: Measured) -> Verdict:
    groups = measured["mean_ff"]
    means = [statistics.fmean(values) for values in groups]
    figures = ", ".join(f"{m:.1e} at {a:g}" for a, m in zip(measured["alphas"], means, strict=True))
    if min(map(len, groups)) < 2:
        return Verdict(None, f"mean FF ratio {figures}; one seed each, so that the noise between seeds is unknown")
    return Verdict(
        judge.grows(groups), f"mean FF ratio {figures}; judged from first to last against the noise between seeds"
    )


def _inner_optimum(measured: Measured) -> Verdict:
    """Check that the best alpha lies inside the range, and that both ends are significantly below it."""
    alphas, final = measured["alphas"], measured["final"]
    means = [statistics.fmean(values) for values in final]
    best = means.index(max(means))
    figures = ", ".join(f"{judge.percent(values)} at {alpha:g}" for alpha, values in zip(alphas, final, strict=True))
    if reason := judge.too_few({f"alpha {alpha:g}": values for alpha, values in zip(alphas, final, strict=True)}):
        return Verdict(None, f"{figures}; {reason}")
    if best in (0, len(means) - 1):
        return Verdict(holds=False, figures=f"{figures}; the best is at the end of the range")
    ends = [judge.gain(final[best], final[end]) for end in (0, -1)]
    figures = f"{figures}; the best, {alphas[best]:g}, against the ends: {ends[0]}, {ends[1]}"
    return Verdict(True if all(each.low > 0 for each in ends) else None, figures)


def settings(scale: Scale) -> list[Setting]:
    """Return the settings of this artefact."""
    return [
        *scales.shared(scale),
        scales.setting("method", "the filter (Eqs. 11-13), cosine alpha-decay", "Section 4", stated=True),
        scales.setting(
            "alpha",
            ", ".join(f"{alpha:g}" for alpha in ALPHAS[scale]),
            "not stated; around the 1e-3 of Section 4.1"
            if scale == "paper"
            else "larger: the best window is a fraction of the run, and this run is shorter",
        ),
        scales.setting("seeds", SEEDS[scale], "our choice"),
    ]


ARTEFACT = Artefact(
    name="fig5",
    title="Figure 5: flips and accuracy over alpha",
    caption="alpha is the share of the past that the filter forgets at each update. With a large alpha, noise flips "
    "weights until the end; with a small alpha, signs are decided early and rarely change again.",
    claims=(
        Claim("The FF ratio grows with alpha", _grows, paper="a too large alpha causes too many flips"),
        Claim(
            "Accuracy is best at an alpha inside the range",
            _inner_optimum,
            judged_from="reduced",
            paper="tuning is essential",
        ),
    ),
    settings=settings,
    configs=configs,
    run=run,
    plot=pictures.draw,
    paper={"figure": "Fig. 5", "says": "flips grow with alpha; too large and too small values end at lower accuracy"},
)
