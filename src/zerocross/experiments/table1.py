"""Table 1: what there is to tune, with latent weights and with the filter."""

from __future__ import annotations

from typing import Any

from zerocross import methods
from zerocross.experiments import scales, style
from zerocross.experiments.artefact import Artefact, Claim, Data, Scale, Setting, Verdict, no_configs
from zerocross.experiments.session import Session
from zerocross.train import assign

# What the registry calls each of them -> the fields of a config that set it, and another value to try.
FIELDS = {
    "lr": {"optimizer.lr": "0.5"},
    "lr-decay": {"optimizer.schedule": "linear"},
    "start": {"optimizer.start": "0.5"},
    "momentum": {"optimizer.gamma": "0.5"},
    "weight decay": {"optimizer.weight_decay": "0.5"},
    "scaling": {"model.options.scale": "channel_mean"},
    "clipping": {"optimizer.clip_gradient": "0.5"},
    "alpha": {"optimizer.alpha": "0.5"},
    "gamma": {"optimizer.gamma": "0.5"},
    "alpha-decay": {"optimizer.schedule": "linear"},
}
# The filter's part in the place of a latent one, by the equations: decay of lr is decay of alpha (Eq. 9), and so on.
BECOMES = {"lr-decay": "alpha-decay", "momentum": "gamma", "weight decay": "alpha"}


def run(scale: Scale, session: Session) -> Data:
    """Read the registry of methods."""
    del scale, session
    tuned = {name: list(methods.get(name).tuned) for name in ("latent-sgd", "filter")}
    return {
        "tables": [
            {
                "title": "Hyperparameters of the binary weights",
                "columns": ["latent weights", "config field", "filter"],
                "rows": [[name, _fields(name), _counterpart(name, tuned["filter"])] for name in tuned["latent-sgd"]],
                "notes": [],
            },
            {
                "title": "All methods of this package",
                "columns": ["method", "number", "to tune"],
                "rows": [[name, len(each.tuned), ", ".join(each.tuned)] for name, each in methods.METHODS.items()],
                "notes": [],
            },
        ],
        "measured": {
            "tuned": tuned,
            "settable": {name: {word: _is_settable(name, word) for word in tuned[name]} for name in tuned},
        },
        "runs": [],
    }


def _fields(word: str) -> str:
    return ", ".join(FIELDS.get(word, {})) or "none"


def _counterpart(word: str, filters: list[str]) -> str:
    found = BECOMES.get(word)
    return found if found in filters else "-"


def _is_settable(method: str, word: str) -> bool:
    """Whether the registry's word is a field of the method's config whose value makes another run."""
    config = scales.varied(scales.base("smoke"), method)
    try:
        return assign.changed(config, FIELDS[word]).hash != config.hash
    except (KeyError, ValueError):
        return False


def _seven_to_three(data: Data) -> Verdict:
    counts = {name: len(words) for name, words in data["measured"]["tuned"].items()}
    return Verdict(
        counts == {"latent-sgd": 7, "filter": 3},
        "; ".join(f"{name}: {counts[name]} ({', '.join(words)})" for name, words in data["measured"]["tuned"].items()),
    )


def _all_settable(data: Data) -> Verdict:
    settable: dict[str, dict[str, Any]] = data["measured"]["settable"]
    missing = [f"{word} of {name}" for name, words in settable.items() for word, able in words.items() if not able]
    count = sum(map(len, settable.values()))
    return Verdict(not missing, f"{count - len(missing)} of {count}" + (f"; not {', '.join(missing)}" * bool(missing)))


def settings(scale: Scale) -> list[Setting]:
    """Nothing is trained."""
    del scale
    return [scales.setting("source", "the registry of methods", "counted, not typed in")]


ARTEFACT = Artefact(
    name="table1",
    title="Table 1: what there is to tune",
    caption="Latent weights ask for seven hyperparameters. Read as a filter, four of them go: lr only scales what a "
    "sign is taken of, scaling and clipping act on a magnitude that is not there, and the start is zero.",
    claims=(
        Claim("The filter has 3 hyperparameters where latent weights have 7", _seven_to_three, paper="7 and 3"),
        Claim("Each of them is a setting of a run that makes it another run", _all_settable),
    ),
    settings=settings,
    configs=no_configs,
    run=run,
    plot=style.draw,
    paper={"latent": 7, "filter": 3},
)
