"""The appendix: a cascade of two moving averages is one second-order filter (Eq. 17)."""

from __future__ import annotations

from typing import Any

import numpy as np

from zerocross import filters
from zerocross.figures import pictures
from zerocross.figures.panel import Table
from zerocross.paper import curves, scales
from zerocross.paper.artefact import Artefact, Claim, Content, Measured, Scale, Setting, Verdict, no_configs
from zerocross.paper.session import Session

PAIRS = ((1e-3, 0.1), (1e-5, 0.1), (0.05, 0.3))  # (alpha, gamma): the paper's two pairs, and a fast one
STEPS = {"smoke": 2_000, "reduced": 100_000, "paper": 100_000}
TOLERANCE = 1e-9  # relative to the output; float64 has 16 digits, and the (b, a) form loses 5 of them at alpha = 1e-5


def run(scale: Scale, session: Session) -> Content:
    """Prove the identity symbolically, and measure it numerically."""
    del session
    symbolic = {"elimination": _eliminated(), "transfer_functions": _multiplied()}
    numeric = [_numeric(alpha, gamma, STEPS[scale]) for alpha, gamma in PAIRS]
    decayed = _decayed(1e-3, 0.1, STEPS[scale])
    steps = np.arange(0, 150)
    alpha, gamma = PAIRS[2]
    taps = {
        f"alpha = {alpha}": filters.ema(alpha),
        f"gamma = {gamma}": filters.ema(gamma),
        "cascade of both (Eq. 17)": filters.cascade(filters.ema(gamma), filters.ema(alpha)),
    }
    return Content(
        panels=[
            curves.panel(
                "Weight of a gradient by its age",
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
                columns=["alpha", "gamma", "updates", "largest relative difference", "signs that differ"],
                rows=[[n["alpha"], n["gamma"], n["updates"], f"{n['difference']:.1e}", n["differ"]] for n in numeric],
            )
        ],
        measured={"symbolic": symbolic, "numeric": numeric, "decayed": decayed},
        runs=[],
    )


def _eliminated() -> str:
    """Eliminate m from Eqs. 11 and 12, as in the appendix, and return the difference to Eq. 17."""
    import sympy as sp

    alpha, gamma, x, m1, g1, g2 = sp.symbols("alpha gamma x m_1 g_1 g_2")
    m = (1 - gamma) * m1 + gamma * x  # Eq. 11
    g = (1 - alpha) * g1 + alpha * m  # Eq. 12
    previous = sp.solve(sp.Eq(g1, (1 - alpha) * g2 + alpha * m1), m1)[0]  # Eq. 12, one update earlier
    direct = alpha * gamma * x - (alpha + gamma - 2) * g1 - (alpha - 1) * (gamma - 1) * g2  # Eq. 17
    return str(sp.simplify(g.subs(m1, previous) - direct))


def _multiplied() -> str:
    """Multiply both transfer functions (Eq. 16), and return the difference to that of Eq. 17."""
    import sympy as sp

    alpha, gamma, z = sp.symbols("alpha gamma z")
    factors = [d / (1 - (1 - d) / z) for d in (alpha, gamma)]
    direct = alpha * gamma / (1 + (alpha + gamma - 2) / z + (alpha - 1) * (gamma - 1) / z**2)
    return str(sp.simplify(sp.together(factors[0] * factors[1] - direct)))


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
    """Compare the cascade with Eq. 17 under cosine alpha-decay, where Eq. 17 takes the new alpha at each update."""
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
    remainders = measured["symbolic"]
    return Verdict(
        set(remainders.values()) == {"0"},
        f"remainder: {remainders['elimination']} by elimination, {remainders['transfer_functions']} by multiplication",
    )


def _is_numeric(measured: Measured) -> Verdict:
    pairs = measured["numeric"]
    worst = max(pairs, key=lambda pair: pair["difference"])
    signs = sum(pair["differ"] for pair in pairs)
    return Verdict(
        worst["difference"] < TOLERANCE and signs == 0,
        f"largest relative difference {worst['difference']:.1e}, at alpha = {worst['alpha']}; {signs} of "
        f"{sum(pair['updates'] for pair in pairs):,} signs differ",
    )


def _only_constant(measured: Measured) -> Verdict:
    decayed = measured["decayed"]
    return Verdict(
        decayed["differ"] > 0,
        f"{decayed['differ']:,} of {decayed['signs']:,} signs differ ({decayed['differ'] / decayed['signs']:.2%}) "
        f"under cosine decay from {decayed['alpha']}",
    )


def settings(scale: Scale) -> list[Setting]:
    """List the inputs of the measurement."""
    return [
        scales.setting(
            "alpha, gamma", ", ".join(f"{a} and {c}" for a, c in PAIRS), "the paper's two pairs, and a fast one"
        ),
        scales.setting("input", f"white noise, {STEPS[scale]:,} updates", "the identity holds for any input"),
    ]


ARTEFACT = Artefact(
    name="appendix",
    title="Appendix: a cascade of two averages is one second-order filter",
    caption="An average of an average, multiplied out, is Eq. 17: exactly in symbols, up to rounding in numbers. Under "
    "alpha-decay the two forms differ, and latent weights follow the cascade.",
    claims=(
        Claim("Eqs. 11 and 12 imply Eq. 17 for all alpha and gamma", _is_symbolic, paper="derived by hand"),
        Claim("Both forms give the same signs in float64 at constant alpha", _is_numeric),
        Claim("If alpha changes at every update, Eq. 17 differs from the cascade", _only_constant),
    ),
    settings=settings,
    configs=no_configs,
    run=run,
    plot=pictures.draw,
    paper={"equation": "Eq. 17"},
    notes=("The third claim is ours: the paper trains with alpha-decay, for which Eq. 17 lacks a factor.",),
)
