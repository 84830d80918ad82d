"""One number on CIFAR-10: the default flip rate compared with the paper's alpha and the best of five alphas."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from zerocross import methods
from zerocross.figures import pictures
from zerocross.figures.panel import Table
from zerocross.paper import curves, judge, scales
from zerocross.paper.artefact import Artefact, Claim, Content, Measured, Scale, Setting, Verdict
from zerocross.paper.session import Session
from zerocross.train import recipes
from zerocross.train.config import Config
from zerocross.train.variants import with_epochs, with_method

ALPHAS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
PAPER = 1e-3
EPOCHS = {"smoke": 3, "reduced": 15, "paper": 400}
SEEDS = {"smoke": 1, "reduced": 3, "paper": 3}
MARGIN = 1.0  # points that one number may lose
FLIP, FILTER, BEST = "default flip rate", "the paper's alpha", "the best alpha"


def _base(scale: Scale) -> Config:
    if scale == "smoke":
        return with_epochs(scales.base("smoke"), EPOCHS[scale])
    recipe = dataclasses.replace(recipes.get("cifar10-birealnet20").config, precision="bf16")
    return with_epochs(recipe, EPOCHS[scale])


def trials(scale: Scale) -> dict[str, list[Config]]:
    """Return the runs that choose among the alphas: one seed each, on held-out training data."""
    base = _base(scale)
    base = dataclasses.replace(base, data=dataclasses.replace(base.data, validate=True))
    return {f"alpha {alpha:g}, validation": [scales.varied(base, optimizer={"alpha": alpha})] for alpha in ALPHAS}


def compared(scale: Scale, best: float | None = None) -> dict[str, list[Config]]:
    """Return the runs on test data: the default flip rate, the paper's alpha, and the best one once it is known."""
    base = _base(scale)
    runs = {FLIP: with_method(base, "flip"), FILTER: scales.varied(base, optimizer={"alpha": PAPER})}
    if best is not None:
        runs[BEST] = scales.varied(base, optimizer={"alpha": best})
    return {name: scales.seeded(config, SEEDS[scale]) for name, config in runs.items()}


def configs(scale: Scale) -> list[Config]:
    """Return the trainings that do not depend on the results of others."""
    return scales.flat({**trials(scale), **compared(scale)})


def run(scale: Scale, session: Session) -> Content:
    """Choose among the alphas, then train on all training data."""
    tried = session.run(trials(scale))
    scores = [curves.final(group)[0] for group in tried.values()]
    best = ALPHAS[scores.index(max(scores))]
    results = session.run(compared(scale, best))
    final = {name: curves.final(group) for name, group in results.items()}
    on = results[FLIP][0]["evaluated_on"]
    rate = methods.get("flip").hyperparameters["flip_rate"]
    settings_of = {FLIP: f"flip rate {rate:g}", FILTER: f"alpha {PAPER:g}", BEST: f"alpha {best:g}"}
    return Content(
        panels=curves.flips_and_accuracy(results),
        tables=[
            Table(
                title=f"{on} accuracy, last epoch",
                columns=["", "setting", "accuracy", f"{FLIP}, difference"],
                rows=[
                    [name, settings_of[name], judge.percent(values), _difference(final, name)]
                    for name, values in final.items()
                ],
            ),
            Table(
                title="validation accuracy of the alphas, one seed",
                columns=[f"{alpha:g}" for alpha in ALPHAS],
                rows=[[f"{score:.2f}" for score in scores]],
            ),
        ],
        measured={"final": final, "best": best},
        runs=curves.run_rows({**tried, **results}),
    )


def _difference(final: Mapping[str, Sequence[float]], name: str) -> str:
    return "" if name == FLIP else str(judge.gain(final[FLIP], final[name]))


def _loses_little(name: str) -> Claim:
    def check(measured: Measured) -> Verdict:
        final = measured["final"]
        return judge.above(final[FLIP], final[name], (FLIP, name), margin=-MARGIN)

    return Claim(
        f"The {FLIP} loses at most {MARGIN:g} point against {name}"
        + (" of five, chosen on held-out training data" if name == BEST else ""),
        check,
        judged_from="reduced",
        paper="not in the paper",
    )


def settings(scale: Scale) -> list[Setting]:
    """Return the settings of this artefact."""
    data = "digits, digits_net" if scale == "smoke" else "CIFAR-10, all images, Bi-RealNet-20"
    listed = ", ".join(f"{alpha:g}" for alpha in ALPHAS)
    return [
        scales.setting("data, network", data, "as in Table 2"),
        scales.setting("epochs", EPOCHS[scale], "reduced" if scale != "paper" else "as in Table 2"),
        scales.setting("alphas", listed, "a decade to each side of the paper's; gamma 0.1"),
        scales.setting("precision", "32" if scale == "smoke" else "bf16", "faster and equally accurate"),
        scales.setting("seeds", SEEDS[scale], "our choice; one for each alpha that is tried"),
    ]


ARTEFACT = Artefact(
    name="one-number",
    title="Beyond the paper: one number on CIFAR-10",
    caption="The default flip rate, untouched, compared with the paper's alpha and with the best of five alphas. The "
    "suite chose the default on other tasks (zerocross suite one-number).",
    claims=(_loses_little(FILTER), _loses_little(BEST)),
    settings=settings,
    configs=configs,
    run=run,
    plot=pictures.draw,
    paper={"figure": "none", "says": "alpha 1e-3, gamma 0.1"},
)
