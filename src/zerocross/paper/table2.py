"""Table 2: seven methods on CIFAR-10 with Bi-RealNet-20."""

from __future__ import annotations

import dataclasses
import statistics
from dataclasses import dataclass
from typing import Literal

from zerocross.figures import pictures
from zerocross.figures.panel import Table
from zerocross.paper import curves, judge, scales
from zerocross.paper.artefact import Artefact, Claim, Content, Measured, Scale, Setting, Verdict
from zerocross.paper.session import Session
from zerocross.train import recipes
from zerocross.train.config import Config
from zerocross.train.variants import two_step, with_epochs, with_method

SEEDS = 3  # of the rows that claims compare
ALWAYS = ("IR-Net", "Bi-Real, one step", "Bi-Real, filter", "Bi-Real, two steps")
PRECISION: dict[Scale, Literal["32", "bf16"]] = {"smoke": "32", "reduced": "bf16", "paper": "bf16"}
EPOCHS = {"smoke": 3, "reduced": 5, "paper": 400}
OURS = "Bi-Real, filter"
SIMILAR = 0.5  # points of accuracy that count as similar


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Args:
        method: A name in zerocross.methods; None for full precision.
        paper: The accuracy in the paper.
        cited: True if the paper cites this accuracy from another publication.
        steps: Number of training steps (stages), 1 or 2.
    """

    method: str | None
    paper: float
    cited: bool
    steps: int = 1


ROWS = {
    "full precision": Row(None, 91.7, cited=True),
    "DoReFa-Net": Row("dorefa", 79.3, cited=True),
    "DSQ": Row("dsq", 84.1, cited=True),
    "IR-Net": Row("ir-net", 86.5, cited=True),
    "Bi-Real, one step": Row("torch-sgd", 85.0, cited=False),
    OURS: Row("filter", 86.5, cited=False),
    "Bi-Real, two steps": Row("torch-sgd", 86.7, cited=False, steps=2),
}


def config(scale: Scale, row: Row) -> Config:
    """Return the run of a row; `zerocross compare` has the same run for this recipe and number of epochs."""
    recipe = recipes.get("cifar10-birealnet20").config if scale != "smoke" else scales.base("smoke")
    base = dataclasses.replace(with_epochs(recipe, EPOCHS[scale]), precision=PRECISION[scale])
    if row.method is None:
        return dataclasses.replace(base, stages=(dataclasses.replace(base.stages[0], binarize="none"),))
    one_step = with_method(base, row.method)
    return two_step(one_step) if row.steps == 2 else one_step


def _required_seeds(scale: Scale, name: str) -> int:
    """Return the number of seeds of a row that are always trained."""
    return SEEDS if scale == "paper" or (scale == "reduced" and name in ALWAYS) else 1


def configs(scale: Scale) -> list[Config]:
    """Return the runs that are always trained."""
    return [
        each for name, row in ROWS.items() for each in scales.seeded(config(scale, row), _required_seeds(scale, name))
    ]


def run(scale: Scale, session: Session) -> Content:
    """Train each row, and include further seeds that are in the cache."""
    groups = {}
    for name, row in ROWS.items():
        wanted = scales.seeded(config(scale, row), SEEDS)
        groups[name] = [
            each for each in wanted if each.seed < _required_seeds(scale, name) or session.find(each) is not None
        ]
    results = session.run(groups)
    final = {name: curves.final(group) for name, group in results.items()}
    on, data = (results[OURS][0][key] for key in ("evaluated_on", "data"))
    epochs, listed = EPOCHS[scale], list(ROWS)
    ours = curves.curve(f"ours, {epochs} epochs", listed, [final[name] for name in listed], "points")
    papers = curves.curve("the paper, 400 epochs", listed, [[row.paper] for row in ROWS.values()], "points", n=None)
    return Content(
        panels=[
            curves.panel(
                data,
                "method",
                f"{on} accuracy (%), last epoch",
                [ours] if scale == "smoke" else [ours, papers],  # digits are not CIFAR-10
            ),
            curves.panel(
                "During training",
                "epoch",
                f"{on} accuracy (%)",
                [curves.accuracy(name, group) for name, group in results.items()],
            ),
        ],
        tables=[
            Table(
                title=f"{on} accuracy, last epoch",
                columns=[
                    "method",
                    "steps",
                    "bits (weights/activations)",
                    "ours",
                    "our epochs",
                    "paper",
                    "epochs in the paper",
                ],
                rows=[
                    [
                        name,
                        row.steps,
                        "32/32" if row.method is None else "1/1",
                        curves.percent(final[name]),
                        epochs,
                        f"{row.paper} (cited)" if row.cited else row.paper,
                        "as published" if row.cited else 400,
                    ]
                    for name, row in ROWS.items()
                ],
                notes=["cited: the paper cites this accuracy from the publication of the method"],
            )
        ],
        measured={"final": final, "epochs": epochs, "data": data},
        runs=curves.run_rows(results),
    )


def _against(measured: Measured, rival: str, margin: float = 0.0) -> Verdict:
    """Judge whether the filter is above a row plus a margin."""
    final = measured["final"]
    return judge.above(final[OURS], final[rival], (OURS, rival), margin)


def _above_one_step(measured: Measured) -> Verdict:
    return _against(measured, "Bi-Real, one step")


def _like_two_steps(measured: Measured) -> Verdict:
    return _against(measured, "Bi-Real, two steps", -SIMILAR)


def _best_of_one_step(measured: Measured) -> Verdict:
    """Check that no other one-step method is better by more than SIMILAR; rows with too few seeds are listed."""
    final = measured["final"]
    rivals = [name for name, row in ROWS.items() if row.method and row.steps == 1 and name != OURS]
    judged = [name for name in rivals if len(final[name]) >= judge.MIN_SEEDS]
    few = [f"{name} {judge.percent(final[name])}" for name in rivals if name not in judged]
    rest = f"; not judged, too few seeds: {', '.join(few)}" if few else ""
    if not judged:
        return Verdict(None, f"{OURS}: {judge.percent(final[OURS])}{rest}")
    best = max(judged, key=lambda name: statistics.fmean(final[name]))
    verdict = _against(measured, best, -SIMILAR)
    return Verdict(verdict.holds, f"the best rival with {judge.MIN_SEEDS} seeds is {best}. {verdict.figures}{rest}")


def _as_published(measured: Measured) -> Verdict:
    ours = statistics.fmean(measured["final"][OURS])
    return Verdict(
        abs(ours - 86.5) <= 2 * SIMILAR,
        f"{ours:.2f} after {measured['epochs']} epochs of {measured['data']}",
    )


def settings(scale: Scale) -> list[Setting]:
    """Return the settings of this artefact."""
    full = scale == "paper"
    if scale == "smoke":
        data, reduced = "digits, digits_net", "reduced to run in seconds, on data that a package ships"
    else:
        data, reduced = "CIFAR-10, all images, Bi-RealNet-20", "reduced to a budget of minutes"
    seeds = {"smoke": "1", "reduced": f"3 of {', '.join(ALWAYS)}; 1 of the others", "paper": "3"}[scale]
    return [
        scales.setting("data, network", data, "Section 4.1" if scale != "smoke" else reduced, stated=scale != "smoke"),
        scales.setting("epochs", EPOCHS[scale], "Section 4.1" if full else reduced, stated=full),
        scales.setting("filter", "alpha 1e-3 cosine, gamma 0.1", "Section 4.1", stated=True),
        scales.setting("Bi-Real", "SGD, lr 0.1 cosine, momentum 0.9, weight decay 1e-4", "Section 4.1", stated=True),
        scales.setting(
            "batch",
            256 if scale != "smoke" else 64,
            "Section 4" if scale != "smoke" else reduced,
            stated=scale != "smoke",
        ),
        scales.setting(
            "two steps", "half of the epochs each: real weights with binary activations, then both", "not stated"
        ),
        scales.setting(
            "DoReFa-Net, DSQ, IR-Net", "see `zerocross methods`", "the paper cites these, and did not run them"
        ),
        scales.setting("precision", PRECISION[scale], "bfloat16 autocast is faster and equally accurate"),
        scales.setting("seeds", seeds, "our choice"),
    ]


ARTEFACT = Artefact(
    name="table2",
    title="Table 2: CIFAR-10, Bi-RealNet-20",
    caption="Our accuracies and those of the paper. Budgets differ (see the table), and a ranking after a few epochs "
    "may differ from the ranking after 400.",
    claims=(
        Claim(
            "The filter is above one-step training of latent weights",
            _above_one_step,
            judged_from="reduced",
            paper="86.5 and 85.0",
        ),
        Claim(
            f"No other one-step method is above the filter by {SIMILAR} points",
            _best_of_one_step,
            judged_from="reduced",
            paper="86.5, the same as IR-Net",
        ),
        Claim(
            f"The filter is not below two-step training by {SIMILAR} points",
            _like_two_steps,
            judged_from="reduced",
            paper="86.5 and 86.7",
        ),
        Claim(
            "The filter reaches the paper's accuracy within 1 point", _as_published, judged_from="paper", paper="86.5"
        ),
    ),
    settings=settings,
    configs=configs,
    run=run,
    plot=pictures.draw,
    paper={name: row.paper for name, row in ROWS.items()},
    findings={
        "reduced": "After 5 epochs, methods that flip often are ahead (docs/compared.md), and IR-Net's recipe has "
        "hardly started. Three seeds cannot distinguish the filter from two-step training of latent weights. Rows "
        "without a spread have one seed. All rows use the same network, each with its published settings."
    },
)
