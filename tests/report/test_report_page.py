"""The page in a real browser: its numbers equal those of zerocross.filters, sliders work, and text is legible."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.signal import sosfilt

from report.chromium import Chromium
from zerocross import filters as zf

# Slow and fast, equal, first-order, integrator (no weight decay), complex poles; with and without momentum.
OWN = [(1e-3, 0.1), (1e-5, 0.1), (0.05, 0.05), (1e-6, 1e-4), (0.3, 1.0), (1.0, 1.0), (1e-2, 0.9)]
SGD = [(0.1, 0.9, 1e-4), (1.0, 0.9, 0.1), (0.01, 0.0, 1e-3), (0.1, 0.99, 0.0), (1.0, 0.999, 1e-2), (1e-4, 0.5, 1e-6)]
AGES = [0, 1, 2, 5, 17, 100, 1_000, 30_000]
FREQUENCIES = [1e-5, 1e-3, 0.02, 0.1, 0.5]
WIDTHS_AND_LIGHTS = list(itertools.product((400, 1400), ("light", "dark")))

_FIGURES = ("meanDelay", "window", "halfLife", "reversal", "noiseGain", "flipRate")


@pytest.fixture(scope="module")
def shown(browser: Chromium, page: Path) -> Chromium:
    browser.look(1400, "light")
    browser.open(page)
    browser.run("panelsDrawn.then(() => true)")
    return browser


def in_javascript(browser: Chromium, filt: str, gradients: Sequence[float]) -> dict[str, Any]:
    """Return all that the page computes for a filter; infinity, which JSON lacks, is a string."""
    return browser.run(f"""(() => {{
      const filt = {filt};
      const words = (value) => (typeof value === "number" && !Number.isFinite(value) ? String(value) : value);
      const figures = Object.entries(filters.describe(filt)).map(([key, value]) => [key, words(value)]);
      const x = {json.dumps(list(gradients))};
      return {{
        ...Object.fromEntries(figures), pair: filters.alphaGamma(filt), output: filters.apply(filt, x),
        taps: filters.impulseResponse(filt, {AGES}), gain: filters.frequencyResponse(filt, {FREQUENCIES}),
        flips: filters.flips(filt, x),
      }};
    }})()""")


def check_against_python(results: dict[str, Any], filt: zf.IIRFilter, gradients: np.ndarray) -> None:
    expected = zf.describe(filt)
    assert results["stability"] == expected.stability
    for name in _FIGURES:
        value = getattr(expected, "".join(f"_{c.lower()}" if c.isupper() else c for c in name))
        assert float(results[name]) == pytest.approx(value, rel=1e-6), name
    np.testing.assert_allclose(results["taps"], zf.impulse_response(filt, np.array(AGES)), rtol=1e-6, atol=1e-300)
    np.testing.assert_allclose(results["gain"], np.abs(zf.frequency_response(filt, FREQUENCIES)[1]), rtol=1e-6)
    output = np.asarray(sosfilt(filt.sos, gradients))
    np.testing.assert_allclose(results["output"], output, rtol=1e-6, atol=1e-12 * np.abs(output).max())
    assert results["flips"] == (np.flatnonzero(np.diff(np.sign(output))) + 2).tolist()  # counted from 1
    try:
        pair = zf.alpha_gamma(filt)
    except ValueError:
        assert results["pair"] is None
    else:
        assert (results["pair"]["alpha"], results["pair"]["gamma"]) == pytest.approx(pair, rel=1e-6)


@pytest.mark.parametrize(("alpha", "gamma"), OWN)
def test_filters_of_the_page_equal_python(shown: Chromium, alpha: float, gamma: float) -> None:
    gradients = np.random.default_rng(1).normal(size=200)
    result = in_javascript(shown, f"filters.cascade(filters.ema({gamma}), filters.ema({alpha}))", gradients.tolist())
    check_against_python(result, zf.cascade(zf.ema(gamma), zf.ema(alpha)), gradients)


@pytest.mark.parametrize(("lr", "momentum", "decay"), SGD)
def test_sgd_of_the_page_equals_python(shown: Chromium, lr: float, momentum: float, decay: float) -> None:
    gradients = np.random.default_rng(2).normal(size=200)
    result = in_javascript(shown, f"filters.fromSgd({lr}, {momentum}, {decay})", gradients.tolist())
    check_against_python(result, zf.from_sgd(lr, momentum, decay), gradients)


@pytest.mark.parametrize(("alpha", "gamma"), OWN)
def test_sgd_of_a_filter_in_the_page_equals_python(shown: Chromium, alpha: float, gamma: float) -> None:
    result = shown.run(f"filters.toSgd({alpha}, {gamma}, 0.1)")
    sgd = zf.to_sgd(alpha, gamma, 0.1)
    assert (result["momentum"], result["weightDecay"]) == pytest.approx((sgd.momentum, sgd.weight_decay), rel=1e-9)


def test_an_output_of_exactly_zero_keeps_the_weight(shown: Chromium) -> None:
    assert shown.run("filters.weights(filters.ema(1), [0, 1, 0, 1, -1, 0, 0, -1])") == [0, -1, -1, -1, 1, 1, 1, 1]
    assert shown.run("filters.flips(filters.ema(1), [0, 1, 0, 1, -1, 0, 0, -1])") == [5]


# ---- the explorer


def curve(browser: Chromium, role: str, name: str = "this filter") -> tuple[np.ndarray, np.ndarray]:
    """Return a curve as drawn."""
    result = browser.run(f"""(() => {{
      const drawn = document.querySelector('[data-role="{role}"]').data.find((each) => each.name === "{name}");
      return [Array.from(drawn.x), Array.from(drawn.y)];
    }})()""")
    return np.array(result[0]), np.array(result[1])


def figure(browser: Chromium, label: str) -> str:
    rows = browser.run("""Array.from(document.querySelectorAll('[data-role="figures"] tr'),
      (row) => Array.from(row.children, (cell) => cell.textContent))""")
    return next(row[1] for row in rows if row[0].startswith(label))


def choose(browser: Chromium, mode: str) -> None:
    browser.run(f"""document.querySelector('input[name="mode"][value="{mode}"]').click()""")
    browser.settle()


def type_in(browser: Chromium, name: str, value: float) -> None:
    browser.run(f"""(() => {{
      const field = document.querySelector('input[type="number"][name="{name}"]');
      field.value = "{value}";
      field.dispatchEvent(new Event("change"));
    }})()""")
    browser.settle()


def test_the_drawn_filter_matches_the_sliders(shown: Chromium) -> None:
    choose(shown, "filter")
    type_in(shown, "alpha", 2e-3)
    type_in(shown, "gamma", 0.05)
    filt = zf.cascade(zf.ema(0.05), zf.ema(2e-3))
    ages, taps = curve(shown, "impulse")
    expected = zf.impulse_response(filt, ages.astype(int) - 1)
    np.testing.assert_allclose(taps, expected / expected.max(), rtol=1e-6)
    frequencies, gain = curve(shown, "frequency")
    expected = np.abs(zf.frequency_response(filt, frequencies)[1])
    np.testing.assert_allclose(gain, 20 * np.log10(expected / expected[0]), rtol=1e-6, atol=1e-9)
    ages, share = curve(shown, "window")
    summed = np.cumsum(zf.impulse_response(filt, int(ages[-1])))
    np.testing.assert_allclose(share, summed[ages.astype(int) - 1], rtol=1e-6)
    assert figure(shown, "window") == f"{zf.window(filt):,.0f}"
    single = curve(shown, "impulse", "one average, same alpha")[1]
    np.testing.assert_allclose(single, zf.impulse_response(zf.ema(2e-3), ages.astype(int) - 1) / 2e-3, rtol=1e-6)


def test_flips_of_the_recorded_gradient_are_drawn(shown: Chromium, results: Path) -> None:
    gradients = json.loads((results / "fig2-reduced.json").read_text())["data"]["trace"]["gradients"]
    choose(shown, "filter")
    counts = []
    for alpha in (0.5, 1e-2):
        type_in(shown, "alpha", alpha)
        type_in(shown, "gamma", 0.2)
        output = np.asarray(sosfilt(zf.cascade(zf.ema(0.2), zf.ema(alpha)).sos, gradients))
        counts.append(int((np.diff(np.sign(output)) != 0).sum()))
        assert figure(shown, "flips in 300") == str(counts[-1])
        drawn = curve(shown, "trace")[1]
        np.testing.assert_allclose(drawn, output / np.abs(output).max(), rtol=1e-6, atol=1e-9)
    assert counts[0] > counts[1] > 0  # a slower filter flips less often


@pytest.mark.parametrize(
    ("mode", "name"),
    [("filter", "alpha"), ("filter", "gamma"), ("sgd", "lr"), ("sgd", "momentum"), ("sgd", "weightDecay")],
)
def test_every_slider_moves_the_curve_by_keyboard(shown: Chromium, mode: str, name: str) -> None:
    choose(shown, mode)
    before = {role: curve(shown, role) for role in ("impulse", "frequency")}
    window, typed = figure(shown, "window"), f'document.querySelector(\'input[type="number"][name="{name}"]\').value'
    value = float(shown.run(typed))
    shown.run(f"""document.querySelector('input[type="range"][name="{name}"]').focus()""")
    shown.press("ArrowLeft", 5)
    assert float(shown.run(typed)) < value
    for role, (x, y) in before.items():
        now = curve(shown, role)
        assert now[0].shape != x.shape or not np.allclose(now, (x, y), rtol=1e-9)
    assert figure(shown, "window") != window


def test_settings_of_torch_and_of_the_filter_are_converted(shown: Chromium) -> None:
    choose(shown, "sgd")
    for name, value in (("lr", 0.1), ("momentum", 0.9), ("weightDecay", 1e-4)):
        type_in(shown, name, value)
    filt = zf.from_sgd(0.1, 0.9, 1e-4)
    alpha, gamma = zf.alpha_gamma(filt)
    output = shown.run("""document.querySelector('[data-role="same-signs"]').textContent""")
    assert output == f"zerocross.GradientFilter(params, alpha={alpha:.8g}, gamma={gamma:.8g})"
    assert figure(shown, "window") == f"{zf.window(filt):,.0f}"


@pytest.mark.parametrize(
    ("settings", "message"),
    [((0.1, 0.9, 0.0), "every gradient is remembered"), ((1.0, 0.9, 0.1), "the poles are complex")],
    ids=["integrator", "complex"],
)
def test_filters_that_are_not_two_averages(shown: Chromium, settings: tuple[float, float, float], message: str) -> None:
    choose(shown, "sgd")
    for name, value in zip(("lr", "momentum", "weightDecay"), settings, strict=True):
        type_in(shown, name, value)
    assert message in shown.run("""document.querySelector('[data-role="same-signs"]').textContent""")
    lr, momentum, decay = settings
    window = zf.window(zf.from_sgd(lr, momentum, decay))
    assert figure(shown, "window") == (f"{window:,.0f}" if math.isfinite(window) else "infinite")
    assert math.isfinite(curve(shown, "frequency")[1].sum())


def test_a_value_out_of_range_is_clamped(shown: Chromium) -> None:
    choose(shown, "filter")
    type_in(shown, "alpha", 7)
    assert shown.run("explorer.values.alpha") == 1
    shown.run("""document.querySelector('input[type="number"][name="alpha"]').value = ''""")
    shown.run("""document.querySelector('input[type="number"][name="alpha"]').dispatchEvent(new Event("change"))""")
    assert shown.run("explorer.values.alpha") == 1


# ---- the page around it


def test_every_panel_is_drawn_with_its_legend(shown: Chromium) -> None:
    assert shown.run("""Array.from(document.querySelectorAll("figure[data-panel]"),
      (each) => each.querySelectorAll(".chart svg").length > 0 && each.querySelector(".legend").innerText)""") == [
        "filter (n = 3)\na <b>bold</b> name (n = 1)",
        "ours (n = 2 to 3)",
        "filter (n = 2)\nlatent-sgd (n = 1)",
        "filter (n = 2)\nlatent-sgd (n = 1)",
    ]


def test_a_legend_hides_its_curve(shown: Chromium) -> None:
    drawn = """document.querySelector('[data-panel="0"] .chart').data.map((each) => each.name ?? "spread")"""
    button = """document.querySelector('[data-panel="0"] .legend button')"""
    assert shown.run(drawn) == ["spread", "filter", "a <b>bold</b> name"]
    shown.run(f"{button}.click()")
    assert shown.run(drawn) == ["a <b>bold</b> name"]
    assert shown.run(f"{button}.getAttribute('aria-pressed')") == "false"
    shown.run(f"{button}.click()")
    assert shown.run(drawn) == ["spread", "filter", "a <b>bold</b> name"]


# For every element with its own text: contrast with the background, size, and whether it is cut off at the right.
_READABLE = """(() => {
  const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const found = numbers(getComputedStyle(node).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const wrong = [];
  for (const node of document.querySelectorAll("body *")) {
    if (node.closest("svg, script, noscript, .hidden, .skip") || !node.checkVisibility()) continue;
    if (![...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim())) continue;
    const style = getComputedStyle(node);
    const [front, back] = [luminance(numbers(style.color)), luminance(behind(node))];
    const contrast = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    const box = node.getBoundingClientRect();
    const cut = !node.closest(".wide") && !node.closest("thead") && box.right > innerWidth + 1;
    if (contrast < 4.5 || parseFloat(style.fontSize) < 12 || cut)
      wrong.push([node.tagName, node.textContent.trim().slice(0, 40), contrast, style.fontSize, box.right]);
  }
  return wrong;
})()"""


@pytest.mark.parametrize(("width", "light"), WIDTHS_AND_LIGHTS)
def test_the_page_is_legible(shown: Chromium, width: int, light: str) -> None:
    shown.look(width, light)
    assert shown.run("document.documentElement.scrollWidth") <= width
    assert shown.run(_READABLE) == []
    widths = shown.run(
        "Array.from(document.querySelectorAll('.chart'), (each) => each.querySelector('svg').clientWidth)"
    )
    assert len(widths) == 8
    assert all(200 < each <= width for each in widths)
    paper = shown.run("document.querySelector('.chart').layout.paper_bgcolor")
    assert paper == {"light": "#ffffff", "dark": "#171b20"}[light]  # charts follow the colour scheme


def test_there_are_no_errors_and_no_requests(shown: Chromium) -> None:
    """Since the page was opened: in this test, and in all tests before it."""
    choose(shown, "sgd")
    type_in(shown, "momentum", 0.5)
    shown.look(400, "dark")
    assert shown.errors_and_warnings() == []
    assert shown.requests() == []
