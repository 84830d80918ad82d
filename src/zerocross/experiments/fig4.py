"""Figure 4: how much the learning rate matters, with magnitudes and without."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from itertools import pairwise, zip_longest

from zerocross.experiments import curves, fig3, scales, style
from zerocross.experiments.artefact import Artefact, Claim, Data, Scale, Setting, Verdict
from zerocross.experiments.scales import ALPHA, START
from zerocross.experiments.session import Session
from zerocross.train.config import Config

RATES = fig3.FACTORS
BEYOND = {"smoke": (), "reduced": (4096.0, 65536.0), "paper": ()}  # of (a) and (b): clipping is felt there
SEEDS = {"smoke": 2, "reduced": 3, "paper": 3}  # at lr 1 of (c), whose noise is that of the seeds; 1 elsewhere
KINDS = {
    "a": "(a) standard: clipped gradients, scaling",
    "b": "(b) magnitude independent",
    "c": "(c) magnitude independent, start 0",
}


def rates(scale: Scale, kind: str) -> tuple[float, ...]:
    """The learning rates of a kind."""
    return RATES[scale] if kind == "c" else (*RATES[scale], *BEYOND[scale])


def groups(scale: Scale) -> dict[str, list[Config]]:
    """Kind and lr -> runs."""
    return {
        f"{kind} lr {rate:g}": scales.seeded(_config(scale, kind, rate), _seeds(scale, kind, rate))
        for kind in KINDS
        for rate in rates(scale, kind)
    }


def _seeds(scale: Scale, kind: str, rate: float) -> int:
    if scale == "paper" or (kind == "c" and rate == 1):
        return SEEDS[scale]
    return 1


def _config(scale: Scale, kind: str, rate: float) -> Config:
    optimizer = {"lr": float(rate), "weight_decay": ALPHA / rate, "start": 0.0 if kind == "c" else START}
    if kind == "a":
        return scales.varied(
            scales.base(scale),
            "latent-sgd",
            optimizer=optimizer | {"clip_gradient": 1.0},
            model={"scale": "channel_mean"},
        )
    return scales.varied(scales.base(scale), "latent-sgd", optimizer=optimizer)


def configs(scale: Scale) -> list[Config]:
    """All trainings."""
    return scales.flat(groups(scale))


def run(scale: Scale, session: Session) -> Data:
    """Train every kind at every lr."""
    made = session.run(groups(scale))
    asked = {kind: list(rates(scale, kind)) for kind in KINDS}
    final = {kind: [curves.final(made[f"{kind} lr {rate:g}"]) for rate in asked[kind]] for kind in KINDS}
    told = [[curves.percent(values) for values in final[kind]] for kind in KINDS]
    on = next(iter(made.values()))[0]["evaluated_on"]
    return {
        "panels": [
            curves.panel(
                "Accuracy over the learning rate of the latent weights",
                "lr (lr * weight decay held constant)",
                f"{on} accuracy (%), last epoch",
                [curves.curve(KINDS[kind], asked[kind], final[kind]) for kind in KINDS],
                log="x",
            )
        ],
        "tables": [
            {
                "title": f"{on} accuracy, last epoch",
                "columns": ["lr", *KINDS.values()],
                "rows": [[rate, *row] for rate, *row in zip_longest(asked["a"], *told, fillvalue="")],
                "notes": [],
            }
        ],
        "measured": {"rates": asked["a"], "final": final, "noise": curves.noise([v for k in KINDS for v in final[k]])},
        "runs": curves.run_rows(made),
    }


def _means(data: Data, kind: str) -> list[float]:
    return [statistics.fmean(values) for values in data["measured"]["final"][kind]]


def _told(data: Data, means: list[float]) -> str:
    rates = data["measured"]["rates"]
    # (c) has the first of the rates, perhaps not all.
    listed = ", ".join(f"{mean:.2f} at {rate:g}" for rate, mean in zip(rates, means, strict=False))
    noise = data["measured"]["noise"]
    return f"{listed}; seeds' noise {'unknown' if noise is None else f'{noise:.2f}'}"


def _one_optimum(data: Data) -> Verdict:
    """Rises to a best lr within the range and falls behind it, by more than the seeds' noise."""
    means, noise = _means(data, "a"), data["measured"]["noise"]
    if noise is None:
        return Verdict(None, f"{_told(data, means)}; one seed each")
    best = means.index(max(means))
    inner = 0 < best < len(means) - 1
    rises = all(later > earlier - noise for earlier, later in pairwise(means[: best + 1]))
    falls = all(later < earlier + noise for earlier, later in pairwise(means[best:]))
    clear = max(means[0], means[-1]) < means[best] - 2 * noise
    return Verdict(inner and rises and falls and clear, _told(data, means))


def _fails_when_small(data: Data) -> Verdict:
    means, noise = _means(data, "b"), data["measured"]["noise"]
    if noise is None:
        return Verdict(None, f"{_told(data, means)}; one seed each")
    small = means[0] < max(means) - 3 * noise
    large = means[-1] > max(means) - 3 * noise
    return Verdict(small and large, _told(data, means))


def _flat(data: Data) -> Verdict:
    """At the first seed, which all rates share."""
    firsts = [values[0] for values in data["measured"]["final"]["c"]]
    noise = data["measured"]["noise"]
    spread = max(firsts) - min(firsts)
    told = f"{_told(data, firsts)}; spread {spread:.2f}"
    if noise is None:
        return Verdict(None, f"{told}; one seed each")
    return Verdict(spread <= noise, told)


def _listed(numbers: Iterable[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


def settings(scale: Scale) -> list[Setting]:
    """What was set."""
    return [
        *scales.shared(scale),
        scales.setting("method", "latent SGD (Eqs. 1-5)", "Section 4", stated=True),
        scales.setting(
            "(a)", "gradients stopped beyond |w| = 1, scaled by the channel's mean |w|", "Section 4", stated=True
        ),
        scales.setting("(c)", "starts at 0 (the smallest number, with a random sign)", "Section 4", stated=True),
        scales.setting("lr * weight decay", ALPHA, "held constant, Section 4", stated=True),
        scales.setting("lr of (c)", _listed(rates(scale, "c")), "unsaid; steps of 16 change no rounding"),
        scales.setting("lr of (a) and (b)", _listed(rates(scale, "a")), "as far as (a) needs to feel the clipping"),
        scales.setting("start of (a) and (b)", f"standard deviation {START}", "unsaid; about torch's own"),
        scales.setting(
            "seeds", f"{SEEDS[scale]} at lr 1 of (c), 1 elsewhere" if scale != "paper" else SEEDS[scale], "ours"
        ),
    ]


ARTEFACT = Artefact(
    name="fig4",
    title="Figure 4: accuracy over the learning rate, in three settings",
    caption="With clipping and scaling the learning rate must fit the start and the clipping range. Without them only "
    "a small one fails, against the start. From a zero start it makes no difference at all: it scales what a sign is "
    "taken of.",
    claims=(
        Claim(
            "(a) has one optimum, inside the range", _one_optimum, judged_from="reduced", paper="just a single optimum"
        ),
        Claim(
            "(b) fails for a small learning rate only",
            _fails_when_small,
            judged_from="reduced",
            paper="sensitive to small lr",
        ),
        Claim("(c) is flat: its spread is within the seeds' noise", _flat, paper="independent of the learning rate"),
    ),
    settings=settings,
    configs=configs,
    run=run,
    plot=style.draw,
    paper={"figure": "Fig. 4", "says": "(a) one optimum, (b) sensitive to small learning rates, (c) flat"},
    findings={
        "reduced": "All kinds were first run at the rates of (c) alone. (a) rose up to the last of them, so that the "
        "first claim failed: a latent weight feels the clipping only when it has gone from its start to 1, which takes "
        "a large lr in so few updates. Two rates beyond were added to see whether (a) then falls, and (b) does not. "
        "All points but lr 1 of (c) are one seed: that (b) is above the mean of (c) from 256 on, by up to twice the "
        "seeds' noise, may be chance, since there the start counts for little."
    },
)
