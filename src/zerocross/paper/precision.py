"""bfloat16 compared with float32. Not a figure of the paper; tables trained in bfloat16 rely on this comparison."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Literal

from zerocross.figures import pictures
from zerocross.figures.panel import Table
from zerocross.paper import curves, judge, scales
from zerocross.paper.artefact import Artefact, Claim, Content, Measured, Scale, Setting, Verdict
from zerocross.paper.session import Session
from zerocross.train import recipes
from zerocross.train.config import Config
from zerocross.train.variants import with_epochs, with_method

METHODS = ("filter", "torch-sgd")
PRECISIONS: dict[Literal["32", "bf16"], str] = {"32": "float32", "bf16": "bfloat16"}
EPOCHS = {"smoke": 3, "reduced": 5, "paper": 400}
SEEDS = {"smoke": 1, "reduced": 3, "paper": 3}
MARGIN = 0.05  # the relative difference allowed between the mean FF ratios


def groups(scale: Scale) -> dict[str, list[Config]]:
    """Return the runs by method and precision; Table 2 and `zerocross compare` share them."""
    recipe = recipes.get("cifar10-birealnet20").config if scale != "smoke" else scales.base("smoke")
    config = with_epochs(recipe, EPOCHS[scale])
    return {
        f"{method}, {name}": scales.seeded(
            with_method(dataclasses.replace(config, precision=precision), method), SEEDS[scale]
        )
        for method in METHODS
        for precision, name in PRECISIONS.items()
    }


def configs(scale: Scale) -> list[Config]:
    """Return all trainings."""
    return scales.flat(groups(scale))


def run(scale: Scale, session: Session) -> Content:
    """Train both methods in both precisions."""
    results = session.run(groups(scale))
    final = {name: curves.final(group) for name, group in results.items()}
    flips = {name: [curves.mean_flips(result) for result in group] for name, group in results.items()}
    on = next(iter(results.values()))[0]["evaluated_on"]
    return Content(
        panels=curves.flips_and_accuracy(results),
        tables=[
            Table(
                title=f"{on} accuracy, last epoch",
                columns=["method", *PRECISIONS.values(), "bfloat16 - float32"],
                rows=[
                    [
                        method,
                        *(judge.percent(final[f"{method}, {name}"]) for name in PRECISIONS.values()),
                        str(judge.gain(final[f"{method}, bfloat16"], final[f"{method}, float32"])),
                    ]
                    for method in METHODS
                ],
            )
        ],
        measured={"final": final, "flips": flips},
        runs=curves.run_rows(results),
    )


def _same_accuracy(measured: Measured) -> Verdict:
    """Check that the interval of the difference contains zero for both methods."""
    final = measured["final"]
    if reason := judge.too_few(final):
        return Verdict(None, reason)
    gains = {method: judge.gain(final[f"{method}, bfloat16"], final[f"{method}, float32"]) for method in METHODS}
    figures = "; ".join(f"{method}: {difference}" for method, difference in gains.items())
    return Verdict(all(each.low <= 0 <= each.high for each in gains.values()), figures)


def _same_flips(measured: Measured) -> Verdict:
    """Check that the mean FF ratios of both methods differ by no more than the margin."""
    means = {name: statistics.fmean(values) for name, values in measured["flips"].items()}
    ratios = {method: means[f"{method}, bfloat16"] / means[f"{method}, float32"] for method in METHODS}
    figures = "; ".join(f"{method}: {ratio:.3f} x" for method, ratio in ratios.items())
    return Verdict(all(abs(ratio - 1) <= MARGIN for ratio in ratios.values()), f"bfloat16 over float32, {figures}")


def settings(scale: Scale) -> list[Setting]:
    """Return the settings of this artefact."""
    data = "digits, digits_net" if scale == "smoke" else "CIFAR-10, all images, Bi-RealNet-20"
    return [
        scales.setting("data, network", data, "as in Table 2"),
        scales.setting("epochs", EPOCHS[scale], "as in Table 2"),
        scales.setting("methods", ", ".join(METHODS), "the filter, and latent weights under torch's SGD"),
        scales.setting(
            "bfloat16", "autocast; parameters, filter state and batch statistics stay float32", "our choice"
        ),
        scales.setting("seeds", SEEDS[scale], "our choice"),
    ]


ARTEFACT = Artefact(
    name="precision",
    title="Beyond the paper: bfloat16 compared with float32",
    caption="The paper trains in float32. Here most CIFAR-10 runs use bfloat16, which is faster on processors and GPUs "
    "that support it. It changes neither flips nor accuracy beyond the noise between seeds.",
    claims=(
        Claim(
            "Accuracy in bfloat16 does not differ significantly from float32",
            _same_accuracy,
            judged_from="reduced",
            paper="not in the paper",
        ),
        Claim(
            f"Mean FF ratios differ by less than {MARGIN:.0%}",
            _same_flips,
            judged_from="reduced",
            paper="not in the paper",
        ),
    ),
    settings=settings,
    configs=configs,
    run=run,
    plot=pictures.draw,
    paper={"figure": "none", "says": "trained in float32"},
)
