"""The appendix: two moving averages in a row are one second-order filter (Eq. 17)."""

from __future__ import annotations

from typing import Any

import numpy as np

from zerocross import filters
from zerocross.figures import pictures
from zerocross.figures.panel import Table
from zerocross.paper import curves, scales
from zerocross.paper.artefact import Artefact, Claim, Content, Measured, Scale, Setting, Verdict, no_configs
from zerocross.paper.session import Session

PAIRS = ((1e-3, 0.1), (1e-5, 0.1), (0.05, 0.3))  # alpha, gamma: the paper's two, and a fast one
STEPS = {"smoke": 2_000, "reduced": 100_000, "paper": 100_000}
TOLERANCE = 1e-9  # of the output's size; float64 keeps 16 digits, and 1 / alpha = 1e5 of them are lost in (b, a)


def run(scale: Scale, session: Session) -> Content:
    """Prove the identity for symbols, and measure it for numbers."""
    del session
    symbolic = {"elimination": _eliminated(), "transfer_functions": _multiplied()}
    numeric = [_numeric(alpha, gamma, STEPS[scale]) for alpha, gamma in PAIRS]
    decayed = _decayed(1e-3, 0.1, STEPS[scale])
    steps = np.arange(0, 150)
    alpha, gamma = PAIRS[2]
    taps = {
        f"alpha = {alpha}": filters.ema(alpha),
        f"gamma = {gamma}": filters.ema(gamma),
        "both in a row (Eq. 17)": filters.cascade(filters.ema(gamma), filters.ema(alpha)),
    }
    return Content(
        panels=[
            curves.panel(
                "Weight given to a gradient of so many updates ago",
                "age (updates)",
                "weight",
                [
                    curves.curve(label, steps.tolist(), [[tap] for tap in filters.impulse_response(filt, 150)], n=None)
                    for label, filt in taps.items()
                ],
            )
        ],
        tables=[
            Table(
                title="Eq. 17 beside the cascade, on white noise, in float64",
                columns=["alpha", "gamma", "updates", "largest difference / output's size", "signs that differ"],
                rows=[[n["alpha"], n["gamma"], n["updates"], f"{n['difference']:.1e}", n["differ"]] for n in numeric],
            )
        ],
        measured={"symbolic": symbolic, "numeric": numeric, "decayed": decayed},
        runs=[],
    )


def _eliminated() -> str:
    """What is left when m is eliminated from Eqs. 11 and 12, as the appendix does it, and Eq. 17 is subtracted."""
    import sympy as sp

    alpha, gamma, x, m1, g1, g2 = sp.symbols("alpha gamma x m_1 g_1 g_2")
    m = (1 - gamma) * m1 + gamma * x  # Eq. 11
    g = (1 - alpha) * g1 + alpha * m  # Eq. 12
    earlier = sp.solve(sp.Eq(g1, (1 - alpha) * g2 + alpha * m1), m1)[0]  # Eq. 12, one update before
    direct = alpha * gamma * x - (alpha + gamma - 2) * g1 - (alpha - 1) * (gamma - 1) * g2  # Eq. 17
    return str(sp.simplify(g.subs(m1, earlier) - direct))


def _multiplied() -> str:
    """What is left of the product of both transfer functions (Eq. 16) when that of Eq. 17 is subtracted."""
    import sympy as sp

    alpha, gamma, z = sp.symbols("alpha gamma z")
    each = [d / (1 - (1 - d) / z) for d in (alpha, gamma)]
    direct = alpha * gamma / (1 + (alpha + gamma - 2) / z + (alpha - 1) * (gamma - 1) / z**2)
    return str(sp.simplify(sp.together(each[0] * each[1] - direct)))


def _numeric(alpha: float, gamma: float, steps: int) -> dict[str, Any]:
    from scipy.signal import lfilter, sosfilt

    x = np.random.default_rng(0).standard_normal(steps)
    direct = np.asarray(lfilter([alpha * gamma], [1, alpha + gamma - 2, (alpha - 1) * (gamma - 1)], x))  # Eq. 17
    cascade = np.asarray(sosfilt(filters.cascade(filters.ema(gamma), filters.ema(alpha)).sos, x))
    return {
        "alpha": alpha,
        "gamma": gamma,
        "updates": steps,
        "difference": float(np.abs(direct - cascade).max() / np.abs(cascade).max()),
        "differ": int((np.sign(direct) != np.sign(cascade)).sum()),
    }


def _decayed(alpha: float, gamma: float, steps: int) -> dict[str, Any]:
    """Eq. 17 with alpha replaced at each update, beside the cascade, under cosine alpha-decay."""
    x = np.random.default_rng(1).standard_normal((steps, 64))
    m, g, g1, g2 = np.zeros((4, 64))
    differ = 0
    for step, gradient in enumerate(x):
        now = alpha * (1 + np.cos(np.pi * step / steps)) / 2
        m += gamma * (gradient - m)
        g += now * (m - g)
        g1, g2 = now * gamma * gradient - (now + gamma - 2) * g1 - (now - 1) * (gamma - 1) * g2, g1
        differ += int((np.sign(g) != np.sign(g1)).sum())
    return {"alpha": alpha, "gamma": gamma, "signs": x.size, "differ": differ}


def _is_symbolic(measured: Measured) -> Verdict:
    left = measured["symbolic"]
    return Verdict(
        set(left.values()) == {"0"},
        f"left over: {left['elimination']} by elimination, {left['transfer_functions']} by transfer functions",
    )


def _is_numeric(measured: Measured) -> Verdict:
    found = measured["numeric"]
    worst = max(found, key=lambda each: each["difference"])
    signs = sum(each["differ"] for each in found)
    return Verdict(
        worst["difference"] < TOLERANCE and signs == 0,
        f"largest difference {worst['difference']:.1e} of the output's size, at alpha = {worst['alpha']}; {signs} of "
        f"{sum(each['updates'] for each in found):,} signs differ",
    )


def _only_constant(measured: Measured) -> Verdict:
    found = measured["decayed"]
    return Verdict(
        found["differ"] > 0,
        f"{found['differ']:,} of {found['signs']:,} signs differ ({found['differ'] / found['signs']:.2%}) under cosine "
        f"decay from {found['alpha']}",
    )


def settings(scale: Scale) -> list[Setting]:
    """What is put in."""
    return [
        scales.setting(
            "alpha, gamma", ", ".join(f"{a} and {c}" for a, c in PAIRS), "the paper's two pairs, and a fast one"
        ),
        scales.setting("input", f"white noise, {STEPS[scale]:,} updates", "the identity holds for any input"),
    ]


ARTEFACT = Artefact(
    name="appendix",
    title="Appendix: two averages in a row are one second-order filter",
    caption="An average of an average, multiplied out, is Eq. 17: for symbols it leaves nothing over, and for numbers "
    "rounding. Under alpha-decay it is no longer the same: there the cascade is what latent weights do.",
    claims=(
        Claim("Eqs. 11 and 12 give Eq. 17, for all alpha and gamma", _is_symbolic, paper="derived by hand"),
        Claim("Both forms give the same signs in float64 at constant alpha", _is_numeric),
        Claim("With alpha replaced at every update, Eq. 17 is not the cascade any more", _only_constant),
    ),
    settings=settings,
    configs=no_configs,
    run=run,
    plot=pictures.draw,
    paper={"equation": "Eq. 17"},
    notes=(
        "The third claim is ours: the paper trains with alpha-decay, and does not say that Eq. 17 then needs a factor.",
    ),
)
