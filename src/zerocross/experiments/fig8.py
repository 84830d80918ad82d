"""Figure 8: how many trials a search takes, with the filter and with latent weights."""

from __future__ import annotations

from zerocross.experiments import scales, style
from zerocross.experiments.artefact import Artefact, Data, NotReady, Scale, Setting, no_configs
from zerocross.experiments.session import Session


def run(scale: Scale, session: Session) -> Data:
    """The searches are made by another command."""
    del scale, session
    raise NotReady(
        "fig8 comes from zerocross tune; run: zerocross tune audiomnist-mlp --space filter --trials 25, and the same "
        "with --space latent"
    )


def settings(scale: Scale) -> list[Setting]:
    """What the paper says."""
    del scale
    return [
        scales.setting("data, network", "AudioMNIST, four linear layers, the first real", "Section 4.2", stated=True),
        scales.setting("searched", "filter: alpha, gamma; latent: 6", "Section 4.2, Table 1", stated=True),
        scales.setting("search", "BoTorch, 25 trials, 20 runs", "Section 4.2", stated=True),
    ]


ARTEFACT = Artefact(
    name="fig8",
    title="Figure 8: Bayesian search, the filter against latent weights",
    caption="Best accuracy so far over the trials of a search: fewer hyperparameters are found in fewer trials.",
    claims=(),
    settings=settings,
    configs=no_configs,
    run=run,
    plot=style.draw,
    paper={"figure": "Fig. 8", "says": "latent weights need about 10 trials more"},
)
