"""Figure 8: how many trials a search takes, with the filter's two hyperparameters and with six of latent weights."""

from __future__ import annotations

import dataclasses
import importlib.util

from zerocross.figures import focus
from zerocross.paper import scales
from zerocross.paper.artefact import Artefact, Claim, Content, Measured, NotReady, Scale, Setting, Verdict, no_configs
from zerocross.paper.fig8_figures import EARLY, NEAR, SAMPLERS, SPACES, figures, told
from zerocross.paper.session import Session
from zerocross.sweep.job import Result
from zerocross.sweep.searches import Search
from zerocross.train import recipes
from zerocross.train.config import Config, DataConfig, ModelConfig, Stage

RUNS = {  # sampler -> searches of each space; the first is the one that claims are judged by
    "smoke": {"random": 2},
    "reduced": {"botorch": 10, "tpe": 4, "random": 4},
    "paper": {"botorch": 20},
}
# The searches of the reduced scale were made with the gradient multiplied by the scale.
LATENT_SPACE = {"smoke": "latent", "reduced": "latent-magnitude-aware", "paper": "latent"}
TRIALS = {"smoke": 3, "reduced": 25, "paper": 25}
WIDTH, EPOCHS, BATCH = 16, 3, 64  # of the reduced scale; see settings()


def base(scale: Scale) -> Config:
    """What the trials' settings change."""
    recipe = recipes.get("audiomnist-mlp").config
    recipe = dataclasses.replace(recipe, data=DataConfig("audiomnist", validate=True))
    if scale == "paper":
        return recipe
    if scale == "reduced":
        return dataclasses.replace(
            recipe,
            model=ModelConfig("audio_mlp", {"width": WIDTH}),
            stages=(Stage(EPOCHS),),
            batch_size=BATCH,
            compile="off",
            log_every=1000,
        )
    return dataclasses.replace(
        recipes.get("digits").config,
        data=DataConfig("digits", validate=True),
        model=ModelConfig("digits_net", {"width": 4}),
        stages=(Stage(1),),
        batch_size=128,
        compile="off",
    )


def searches(scale: Scale) -> list[Search]:
    """All searches, one of each kind first."""
    every = [
        Search(LATENT_SPACE[scale] if space == "latent" else space, sampler, seed, TRIALS[scale], base(scale))
        for sampler, runs in RUNS[scale].items()
        for seed in range(runs)
        for space in SPACES
    ]
    return sorted(every, key=lambda search: search.seed)


def run(scale: Scale, session: Session) -> Content:
    """Make all searches."""
    if importlib.util.find_spec("optuna") is None:
        raise NotReady("fig8 is made of searches, which need packages: pip install 'zerocross[tune]'")
    asked = searches(scale)
    made = session.search(asked)
    groups: dict[str, dict[str, list[Result]]] = {sampler: {space: [] for space in SPACES} for sampler in RUNS[scale]}
    for search, result in zip(asked, made, strict=True):
        groups[search.sampler]["filter" if search.space == "filter" else "latent"].append(result)
    return figures(groups)


def _ahead_early(measured: Measured) -> Verdict:
    mark = str(min(EARLY, measured["trials"]))
    found = measured["after"][measured["sampler"]][mark]
    words = f"after {mark} trials filter {told(found['filter'], 2)}, latent {told(found['latent'], 2)} %"
    return Verdict(found["difference"]["low"] > 0, f"{words}; difference {told(found['difference'], 2)} points")


def _fewer_trials(measured: Measured) -> Verdict:
    found = measured["needed"]["all"][measured["sampler"]]
    words = ", ".join(
        f"{space} {told(found[space])} trials, {found[space]['never']} of {found[space]['n']} runs never near"
        for space in SPACES
    )
    return Verdict(found["difference"]["low"] > 0, f"{words}; saved {told(found['difference'])}")


def _equal_in_the_end(measured: Measured) -> Verdict:
    found = measured["after"][measured["sampler"]][str(measured["trials"])]
    words = f"after {measured['trials']} trials filter {told(found['filter'], 2)}, latent {told(found['latent'], 2)} %"
    gap = found["difference"]
    return Verdict(gap["low"] > -NEAR and gap["high"] < NEAR, f"{words}; difference {told(gap, 2)} points")


def settings(scale: Scale) -> list[Setting]:
    """What was set."""
    runs = ", ".join(f"{SAMPLERS[sampler]} {count}" for sampler, count in RUNS[scale].items())
    whole = scale == "paper"
    data = {
        "smoke": "scikit-learn's digits; accuracy on a part of the training images, held out",
        "reduced": "AudioMNIST, 40 x 32 log-mel; 18,000 clips to train on, accuracy on 6,000 of other speakers",
        "paper": "AudioMNIST, 40 x 32 log-mel; 18,000 clips to train on, accuracy on 6,000 of other speakers",
    }[scale]
    config = base(scale)
    network = "digits_net, width 4" if scale == "smoke" else "four linear layers with batch norm, the first real"
    why = {
        "smoke": "cut to seconds",
        "reduced": "of seven tried, the one where settings are furthest apart, measured by seeds: random ones ended "
        "between 79.8 and 89.5 % (filter) and 73.9 and 90.9 % (latent), seeds of one setting 0.7 and 3.4 points apart. "
        "In the recipe's wide network they are hardly further apart than seeds are",
        "paper": "unsaid; those of the recipe",
    }[scale]
    return [
        scales.setting("data", data, "Section 4.2; features and speakers' split unsaid", stated=scale != "smoke"),
        scales.setting("network", network, "Section 4.2" if scale != "smoke" else why, stated=scale != "smoke"),
        scales.setting("width", config.model.options.get("width", 256), why),
        scales.setting("epochs, batch", f"{config.stages[0].epochs}, {config.batch_size}", why),
        scales.setting("searched", "filter: alpha, gamma; latent: 6", "Section 4.2, Table 1", stated=True),
        scales.setting("ranges", "those of zerocross.tune.SPACES", "unsaid; two decades and more around usual values"),
        scales.setting("trials", TRIALS[scale], "Section 4.2" if scale != "smoke" else why, stated=scale != "smoke"),
        scales.setting("first trials", "5 at random", "unsaid"),
        scales.setting(
            "runs of each space", runs, "Section 4.2" if whole else "20 with BoTorch in the paper", stated=whole
        ),
        scales.setting(
            "seeds", "a run's own, of the sampler and of all its trainings", "independent runs, Section 4.2"
        ),
    ]


ARTEFACT = Artefact(
    name="fig8",
    title="Figure 8: Bayesian search, the filter against latent weights",
    caption="Best validation accuracy so far over the trials of a search: the mean of independent runs and their "
    "extremes. The filter has two hyperparameters to find, latent weights have six.",
    claims=(
        Claim(
            f"After {EARLY} trials the filter's best is above that of latent weights",
            _ahead_early,
            judged_from="reduced",
            paper="the filter's curve is above, early on",
        ),
        Claim(
            f"The filter needs fewer trials to come within {NEAR:g} point of the best",
            _fewer_trials,
            judged_from="reduced",
            paper="about 10 trials fewer",
        ),
        Claim(
            f"After all trials both are equally accurate, within {NEAR:g} point",
            _equal_in_the_end,
            judged_from="reduced",
            paper="equal for good hyperparameters",
        ),
    ),
    settings=settings,
    configs=no_configs,
    run=run,
    plot=focus.draw,
    paper={"figure": "Fig. 8", "says": "latent weights need about 10 trials more"},
    notes=("Accuracy is that on validation data, which the search maximises: test data stay unread.",),
    findings={
        "reduced": "Why two claims fail: a random setting of the filter is good for 88.1 %, one of latent weights for "
        "82.7 %, but from the fifth trial on nothing is left of that, under any sampler, random included. Within our "
        "ranges (the paper gives none) large parts of both spaces are good: the six latent settings are redundant, "
        "which makes their space larger, not harder. And the best of 900 trainings is luck to a part: seeds of one "
        "setting differ by 0.7 to 3.4 points, more than the searches' means, so that few searches come within 1 point "
        "of it. The margin was set before the searches ran, and left. Where these searches scale latent weights, the "
        "gradient is multiplied by the scale, too (`latent-magnitude-aware`), as Larq has it and published PyTorch "
        "code does not."
    },
)
