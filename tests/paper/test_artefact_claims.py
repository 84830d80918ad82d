"""Claims can fail: each is tested with figures that contradict it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from zerocross.paper.artefact import Claim, Verdict
from zerocross.paper.fig6 import WITH, WITHOUT
from zerocross.paper.fig7 import FILTER, LATENT
from zerocross.paper.registry import ARTEFACTS


def signs(differ: int, flips: int = 500, **more: Any) -> dict[str, Any]:
    return {"updates": 40, "signs": 1000, "differ": differ, "first": 7 if differ else None, "flips": flips, **more}


def order(alpha: float, changes: tuple[float, float, float], noise: tuple[float, float] = (0.4, 0.2)) -> dict[str, Any]:
    first, second, as_late = changes
    rest = {"reversal": 80.0, "mean_delay": 100.0}
    return {
        "alpha": alpha,
        "first": {"sign_changes": first, "noise": noise[0], **rest},
        "second": {"sign_changes": second, "noise": noise[1], **rest},
        "as_late": {"alpha": alpha, "sign_changes": as_late, "noise": noise[0], **rest},
    }


def seeds(mean: float, by: float = 0.5) -> list[float]:
    """Return accuracies of three seeds."""
    return [mean - by, mean, mean + by]


def about(mean: float, by: float = 0.5) -> dict[str, Any]:
    """Return an estimate with its interval."""
    return {"mean": mean, "low": mean - by, "high": mean + by, "n": 10}


PAIR = {"lr": "lr 16", "start": "start 1", "ff_difference": 0.0, "top1_difference": 0.0, "updates_counted": 9}
# Figures for which every claim holds.
GOOD: dict[str, dict[str, Any]] = {
    "table1": {
        "changed": {
            "torch-sgd": dict.fromkeys("abcdefg", 9),
            "filter": {
                **dict.fromkeys("abc", 9),
                "model.options.weight_surrogate": 0,
                "model.options.init_scale": 0,
            },
        }
    },
    "fig2": {"compared": [order(1e-3, (0.04, 0.01, 0.04)), order(1e-2, (0.05, 0.02, 0.05))]},
    "fig3": {
        "exact": [signs(0, factor=16.0, dtype="float64"), signs(3, factor=10.0, dtype="float32")],
        "pairs": [PAIR],
        "mean_ff": {"lr 0.1": 1e-4, "lr 1": 5e-3, "lr 10": 1e-2},
    },
    "fig4": {
        "rates": [0.01, 0.1, 1, 10, 100],
        "final": {
            "a": [seeds(mean) for mean in (40.0, 50.0, 60.0, 45.0, 30.0)],
            "b": [seeds(mean) for mean in (40.0, 55.0, 60.0, 60.2, 60.0)],
            "c": [seeds(mean) for mean in (60.0, 60.1, 60.0, 60.0, 60.0)],
        },
    },
    "fig5": {
        "alphas": [1e-3, 1e-2, 1e-1],
        "mean_ff": [[1.00e-3, 1.01e-3], [2.00e-3, 2.01e-3], [3.00e-3, 3.01e-3]],
        "final": [seeds(50.0), seeds(60.0), seeds(40.0)],
    },
    "fig6": {
        "final": {WITH: seeds(60.0), WITHOUT: seeds(50.0)},
        "last_ff": {WITH: [0.0, 1e-5], WITHOUT: [1e-2, 1e-2]},
    },
    "fig7": {
        "final": {LATENT: seeds(60.0), FILTER: seeds(60.2)},
        "exact": {
            f"{pair}, {dtype}": signs(9 if pair == "reading" else 0, dtype=dtype)
            for pair in ("latent", "torch", "reading")
            for dtype in ("float64", "float32")
        },
        "torch_discounts": {"alpha": 1.0009e-4, "gamma": 0.0999},
    },
    "table2": {
        "final": {
            "full precision": [91.0], "DoReFa-Net": [80.0], "DSQ": [84.0], "IR-Net": seeds(86.4, 0.1),
            "Bi-Real, one step": seeds(85.0, 0.1), "Bi-Real, filter": seeds(86.5, 0.1),
            "Bi-Real, two steps": seeds(86.6, 0.1),
        },
        "epochs": 400,
        "data": "CIFAR-10",
    },
    "table3": {
        "sample": {"all_signs": True, "binary_weights": 10, "loss": [3.0, 2.0, 1.0], "ff_ratio": [0.5, 0.1, 0.0]},
        "final": {"top1": 69.7, "top5": 88.9},
    },
    "fig8": {
        "sampler": "botorch",
        "trials": 25,
        "after": {
            "botorch": {
                "10": {"filter": about(93.0), "latent": about(91.0), "difference": about(2.0)},
                "25": {"filter": about(94.0), "latent": about(94.2), "difference": about(-0.2)},
            }
        },
        "needed": {
            "all": {
                "botorch": {
                    "filter": {**about(5.0), "never": 0}, "latent": {**about(14.0), "never": 2},
                    "difference": about(9.0),
                }
            }
        },
    },
    "appendix": {
        "symbolic": {"elimination": "0", "transfer_functions": "0"},
        "numeric": [{"alpha": 1e-3, "gamma": 0.1, "updates": 100, "difference": 1e-13, "differ": 0}],
        "decayed": {"alpha": 1e-3, "gamma": 0.1, "signs": 1000, "differ": 6},
    },
    "precision": {
        "final": {
            f"{method}, {precision}": seeds(60.0)
            for method in ("filter", "torch-sgd")
            for precision in ("float32", "bfloat16")
        },
        "flips": {
            f"{method}, {precision}": [1e-3, 1.01e-3]
            for method in ("filter", "torch-sgd")
            for precision in ("float32", "bfloat16")
        },
    },
    "one-number": {
        "final": {
            "default flip rate": seeds(72.0, 0.1), "the paper's alpha": seeds(72.0, 0.1),
            "the best alpha": seeds(72.2, 0.1),
        },
        "best": 3e-3,
    },
}  # fmt: skip
# (artefact, number of the claim) -> a change that makes it fail: a path in the figures, and another value.
WRONG: list[tuple[str, int, list[Any], Any]] = [
    ("table1", 0, ["changed", "torch-sgd", "a"], 0),
    ("table1", 0, ["changed", "filter", "model.options.init_scale"], 3),
    ("table1", 1, ["changed", "filter", "model.options.init_scale"], 3),
    ("fig2", 0, ["compared", 1], order(1e-2, (0.02, 0.02, 0.05))),
    ("fig2", 1, ["compared", 1], order(1e-2, (0.05, 0.02, 0.05), noise=(0.2, 0.3))),
    ("fig2", 2, ["compared", 1], order(1e-2, (0.05, 0.02, 0.015))),
    ("fig3", 0, ["exact", 0, "differ"], 1),
    ("fig3", 1, ["pairs", 0, "ff_difference"], 1e-6),
    ("fig3", 1, ["pairs", 0, "top1_difference"], 0.01),
    ("fig3", 2, ["mean_ff", "lr 0.1"], 9e-3),
    ("fig4", 0, ["final", "a", 4], seeds(70.0)),  # best at the end
    ("fig4", 0, ["final", "a", 0], seeds(59.5)),  # no decrease to the left
    ("fig4", 0, ["final", "a", 1], seeds(30.0)),  # decreases on its way up
    ("fig4", 1, ["final", "b", 0], seeds(59.5)),
    ("fig4", 1, ["final", "b", 4], seeds(50.0)),  # also fails for a large one
    ("fig4", 2, ["final", "c", 0], seeds(57.0)),
    ("fig5", 0, ["mean_ff", 2], [1e-3, 1e-3]),
    ("fig5", 1, ["final", 0], seeds(62.0)),
    ("fig6", 0, ["last_ff", WITH], [2e-3, 2e-3]),
    ("fig6", 0, ["last_ff", WITHOUT], [2e-5, 2e-5]),
    ("fig6", 1, ["final", WITH], seeds(48.0)),
    ("fig7", 0, ["exact", "latent, float64", "differ"], 1),
    ("fig7", 1, ["final", FILTER], seeds(55.0)),
    ("fig7", 2, ["exact", "torch, float64", "differ"], 1),
    ("fig7", 3, ["exact", "reading, float64", "differ"], 0),
    ("table2", 0, ["final", "Bi-Real, one step"], seeds(87.0, 0.1)),
    ("table2", 1, ["final", "DSQ"], seeds(87.4, 0.1)),
    ("table2", 2, ["final", "Bi-Real, two steps"], seeds(87.4, 0.1)),
    ("table2", 3, ["final", "Bi-Real, filter"], [85.0]),
    ("table3", 0, ["sample", "all_signs"], False),
    ("table3", 0, ["sample", "ff_ratio"], [0.0, 0.0, 0.0]),
    ("table3", 1, ["final", "top1"], 68.0),
    ("one-number", 0, ["final", "default flip rate"], seeds(70.0, 0.1)),
    ("one-number", 1, ["final", "the best alpha"], seeds(74.0, 0.1)),
    ("fig8", 0, ["after", "botorch", "10", "difference"], about(2.0, by=2.1)),  # 0 is not excluded
    ("fig8", 1, ["needed", "all", "botorch", "difference"], about(9.0, by=9.5)),
    ("fig8", 2, ["after", "botorch", "25", "difference"], about(0.6)),  # may be more than a point
    ("fig8", 2, ["after", "botorch", "25", "difference"], about(-0.6)),
    ("appendix", 0, ["symbolic", "elimination"], "alpha*g_1"),
    ("appendix", 1, ["numeric", 0, "difference"], 1e-3),
    ("appendix", 1, ["numeric", 0, "differ"], 1),
    ("appendix", 2, ["decayed", "differ"], 0),
    ("precision", 0, ["final", "torch-sgd, bfloat16"], seeds(57.0)),
    ("precision", 1, ["flips", "filter, bfloat16"], [1.1e-3, 1.1e-3]),
]


def changed(figures: dict[str, Any], path: list[Any], value: Any) -> dict[str, Any]:
    figures = copy.deepcopy(figures)
    here: Any = figures
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    return figures


@pytest.mark.parametrize("name", ARTEFACTS)
def test_all_claims_hold_for_good_figures(name: str) -> None:
    for claim in ARTEFACTS[name].claims:
        verdict = claim.verdict(GOOD[name], "paper")
        assert verdict.holds, (claim.sentence, verdict)


@pytest.mark.parametrize(("name", "number", "path", "value"), WRONG)
def test_a_claim_fails_if_its_figures_contradict_it(name: str, number: int, path: list[Any], value: Any) -> None:
    verdict = ARTEFACTS[name].claims[number].verdict(changed(GOOD[name], path, value), "paper")
    assert verdict.holds is False, verdict


def test_every_claim_has_figures_that_contradict_it() -> None:
    every = {(name, number) for name, artefact in ARTEFACTS.items() for number in range(len(artefact.claims))}
    assert {(name, number) for name, number, _, _ in WRONG} == every


@pytest.mark.parametrize(
    ("name", "number", "path", "value", "message"),
    [
        ("fig4", 0, ["final", "a", 1], [60.0], "of the 3 seeds"),
        ("fig4", 2, ["final", "c", 1], [61.0, 62.0], "of the 3 seeds"),
        ("fig5", 0, ["mean_ff"], [[1e-3], [2e-3], [3e-3]], "the noise between seeds is unknown"),
        ("fig5", 0, ["mean_ff", 2], [1.0e-3, 4e-3], "noise"),  # grows, but not beyond the seeds' noise
        ("fig5", 1, ["final", 2], [60.0, 61.0], "of the 3 seeds"),
        ("fig5", 1, ["final", 2], seeds(59.8), "against the ends"),
        ("fig6", 1, ["final", WITH], [60.0, 61.0], "of the 3 seeds"),
        ("fig6", 1, ["final", WITH], seeds(50.3), "too large to judge"),
        ("fig7", 1, ["final", FILTER], [60.0], "of the 3 seeds"),
        ("table2", 0, ["final", "Bi-Real, one step"], [40.0], "of the 3 seeds"),
        ("table2", 1, ["final", "Bi-Real, filter"], [86.5], "of the 3 seeds"),
        ("table2", 2, ["final", "Bi-Real, two steps"], [40.0], "of the 3 seeds"),
        ("table3", 0, ["sample"], None, "not trained at this scale"),
        ("table3", 1, ["final"], None, "GPUs"),
    ],
)
def test_undecided_claims_give_the_reason(name: str, number: int, path: list[Any], value: Any, message: str) -> None:
    verdict = ARTEFACTS[name].claims[number].verdict(changed(GOOD[name], path, value), "paper")
    assert verdict.holds is None
    assert message in verdict.figures


def test_signs_without_a_flip_leave_the_claim_undecided() -> None:
    still = changed(GOOD["fig3"], ["exact", 0, "flips"], 0)
    assert ARTEFACTS["fig3"].claims[0].verdict(still, "paper").holds is None


def test_below_its_scale_a_claim_is_not_judged() -> None:
    def check(data: dict[str, Any]) -> Verdict:
        return Verdict(holds=False, figures="59 %")

    claim = Claim("It is 60 %", check, judged_from="reduced")
    assert claim.verdict({}, "smoke").holds is None
    assert claim.verdict({}, "smoke").figures.startswith("59 %; not judged at this scale")
    assert claim.verdict({}, "reduced") == Verdict(holds=False, figures="59 %")
    assert claim.verdict({}, "paper").holds is False
