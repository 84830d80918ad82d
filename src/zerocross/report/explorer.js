"use strict";
// The filter explorer: controls -> a filter -> its responses, its figures, and the flips of a recorded gradient.
const explorer = (() => {
  const root = document.getElementById("explorer");
  const by = (name) => root.querySelector(`[data-role="${name}"]`);
  const traces = JSON.parse(document.getElementById("traces").textContent);
  const power = { value: (p) => 10 ** p, position: (v) => Math.log10(v) };
  // Slider position <-> value; the ranges are those of the sliders.
  const SCALES = {
    alpha: power,
    gamma: power,
    lr: power,
    momentum: { value: (p) => 1 - 10 ** -p, position: (v) => -Math.log10(1 - v) },
    weightDecay: { value: (p) => (p > -7 ? 10 ** p : 0), position: (v) => (v > 0 ? Math.log10(v) : -7) },
  };
  const values = { alpha: 1e-2, gamma: 0.1, lr: 0.1, momentum: 0.9, weightDecay: 1e-4 };
  const short = (value, digits = 4) => String(Number(value.toPrecision(digits)));
  const steps = (value, digits = 0) =>
    Number.isFinite(value) ? value.toLocaleString("en", { maximumFractionDigits: value < 1e7 ? digits : 0 }) : "infinite";

  const spaced = (low, high, count) => Array.from({ length: count }, (_, i) => low * (high / low) ** (i / (count - 1)));
  const whole = (numbers) => [...new Set(numbers.map(Math.floor))];

  function mode() {
    return root.querySelector('input[name="mode"]:checked').value;
  }

  // The filters to show: the selected one, and the single average with the same alpha.
  function asked() {
    const own = mode() === "filter"
      ? filters.cascade(filters.ema(values.gamma), filters.ema(values.alpha))
      : filters.fromSgd(values.lr, values.momentum, values.weightDecay);
    const pair = filters.alphaGamma(own);
    const single = pair && pair.alpha > 0 ? filters.ema(pair.alpha) : null;
    return { own, pair, single };
  }

  const curve = (name, colours, i, x, y, more) => ({
    type: "scatter", mode: "lines", name, x, y, line: { color: colours.colours[i], width: 2, dash: i ? "dash" : "solid" },
    hovertemplate: `${name}<br>%{x:.4~g}: %{y:.4~g}<extra></extra>`, ...more,
  });
  const OWN = "this filter";
  const SINGLE = "one average, same alpha";

  function both({ own, single }, colours, x, y) {
    const found = [curve(OWN, colours, 0, x, y(own))];
    if (single) found.unshift(curve(SINGLE, colours, 1, x, y(single)));
    return found;
  }

  function drawResponses(shown) {
    const spans = [shown.own, shown.single].filter(Boolean).map((filt) => filters.window(filt)).filter(Number.isFinite);
    const longest = Math.max(...spans, spans.length ? 0 : 1000);
    const ages = whole(spaced(1, 2 * longest + 10, 240));
    const frequencies = spaced(0.02 / (longest + 10), 0.5, 200);
    const span = filters.window(shown.own);
    const marked = (colours) => (Number.isFinite(span) ? [
      { type: "rect", xref: "x", yref: "paper", x0: 1, x1: Math.max(span, 1.02), y0: 0, y1: 1, line: { width: 0 },
        fillcolor: charts.faint(colours.colours[0]), layer: "below" },
    ] : []);
    const age = (colours) => charts.axis(colours, "age of a gradient, in steps", charts.scale("log", ages));
    charts.draw(by("impulse"), (colours) => ({
      data: both(shown, colours, ages, (filt) => {
        const taps = filters.impulseResponse(filt, ages.map((n) => n - 1));
        const largest = Math.max(...taps.map(Math.abs));
        return taps.map((tap) => tap / largest);
      }),
      layout: charts.layout(colours, {
        xaxis: age(colours), yaxis: charts.axis(colours, "weight (largest: 1)"), shapes: marked(colours),
      }),
    }));
    charts.draw(by("frequency"), (colours) => ({
      data: both(shown, colours, frequencies, (filt) => {
        const gain = filters.frequencyResponse(filt, frequencies);
        return gain.map((each) => 20 * Math.log10(Math.max(each / gain[0], 1e-15)));
      }),
      layout: charts.layout(colours, {
        xaxis: charts.axis(colours, "frequency, cycles per step", charts.scale("log", frequencies)),
        yaxis: charts.axis(colours, "gain, dB (leftmost: 0)"),
      }),
    }));
    charts.draw(by("window"), (colours) => ({
      data: Number.isFinite(span) ? both(shown, colours, ages, (filt) => ages.map(filters.sharer(filt))) : [],
      layout: charts.layout(colours, {
        xaxis: age(colours), yaxis: charts.axis(colours, "share of the response", { range: [0, 1.04], tickformat: ".0%" }),
        shapes: marked(colours),
        annotations: [{
          xref: "paper", yref: "paper", x: 0.02, y: 0.98, xanchor: "left", yanchor: "top", showarrow: false, align: "left",
          text: Number.isFinite(span) ? `95 % in ${steps(span)} step${span === 1 ? "" : "s"}` : "no window: nothing is forgotten",
        }],
      }),
    }));
  }

  function drawTrace(shown, gradients) {
    const updates = gradients.map((_, i) => i + 1);
    const scaled = (numbers) => {
      const largest = Math.max(...numbers.map(Math.abs)) || 1;
      return numbers.map((each) => each / largest);
    };
    charts.draw(by("trace"), (colours) => {
      const step = (name, i, filt) => curve(name, colours, i, updates, filters.weights(filt, gradients), {
        yaxis: "y2", line: { color: colours.colours[i], width: 2, shape: "hv", dash: i ? "dot" : "solid" },
      });
      return {
        data: [
          curve("gradient", colours, 0, updates, scaled(gradients), { line: { color: colours.muted, width: 0.8 }, opacity: 0.7 }),
          ...both(shown, colours, updates, (filt) => scaled(filters.apply(filt, gradients))),
          ...(shown.single ? [step(SINGLE, 1, shown.single)] : []),
          step(OWN, 0, shown.own),
        ],
        layout: charts.layout(colours, {
          xaxis: charts.axis(colours, "update", { anchor: "y2", range: [1, updates.length] }),
          yaxis: charts.axis(colours, "each scaled to 1", { domain: [0.34, 1], range: [-1.05, 1.05] }),
          yaxis2: charts.axis(colours, "weight", { domain: [0, 0.26], range: [-1.4, 1.4], tickvals: [-1, 1], ticktext: ["−1", "+1"] }),
        }),
      };
    });
    const count = (filt) => filters.flips(filt, gradients).length;
    return { own: count(shown.own), single: shown.single ? count(shown.single) : null };
  }

  function fill(shown, flips, gradients) {
    const rows = {
      alpha: (r, pair) => (pair ? short(pair.alpha, 5) : "complex poles"),
      gamma: (r, pair) => (pair ? short(pair.gamma, 5) : "complex poles"),
      "window (95 %), steps": (r) => steps(r.window),
      "mean delay, steps": (r) => steps(r.meanDelay, 1),
      "half-life, steps": (r) => steps(r.halfLife, 1),
      "reversal, steps": (r) => steps(r.reversal),
      "noise gain": (r) => (Number.isFinite(r.noiseGain) ? short(r.noiseGain) : "infinite"),
      "flips per step, noise alone": (r) => short(r.flipRate),
    };
    const columns = [shown.own, shown.single].map((filt) => filt && [filters.describe(filt), filters.alphaGamma(filt)]);
    const cells = Object.entries(rows).map(([label, text]) => [label, ...columns.map((found) => (found ? text(...found) : "–"))]);
    if (flips) cells.push([`flips in ${gradients.length} recorded updates`, flips.own, flips.single ?? "–"]);
    by("figures").replaceChildren(...cells.map(([label, ...found]) => {
      const row = document.createElement("tr");
      const head = Object.assign(document.createElement("th"), { scope: "row", textContent: label });
      row.append(head, ...found.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
      return row;
    }));
  }

  function say({ pair }) {
    const optimizer = by("same-signs");
    if (mode() === "filter") {
      const { lr, momentum, weightDecay } = filters.toSgd(values.alpha, values.gamma, 0.1);
      optimizer.textContent =
        `torch.optim.SGD(params, lr=${lr}, momentum=${short(momentum, 8)}, weight_decay=${short(weightDecay, 8)})`;
    } else if (pair && pair.alpha > 0) {
      optimizer.textContent = `zerocross.GradientFilter(params, alpha=${short(pair.alpha, 8)}, gamma=${short(pair.gamma, 8)})`;
    } else {
      optimizer.textContent = pair
        ? "none: without weight decay alpha is 0, and every gradient is remembered for ever"
        : "none: the poles are complex, which no cascade of two averages has";
    }
  }

  function redraw() {
    const shown = asked();
    root.querySelectorAll("[data-mode]").forEach((part) => { part.hidden = part.dataset.mode !== mode(); });
    drawResponses(shown);
    const gradients = traces.length ? traces[by("which")?.value || 0].gradients : null;
    const flips = gradients && drawTrace(shown, gradients);
    fill(shown, flips, gradients);
    say(shown);
  }

  let waiting = false;
  function later() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      redraw();
    });
  }

  for (const [name, { value, position }] of Object.entries(SCALES)) {
    const slider = root.querySelector(`input[type="range"][name="${name}"]`);
    const number = root.querySelector(`input[type="number"][name="${name}"]`);
    const show = () => {
      number.value = short(values[name], 6);
      slider.setAttribute("aria-valuetext", number.value);
    };
    slider.value = position(values[name]);
    show();
    slider.addEventListener("input", () => {
      values[name] = value(Number(slider.value));
      show();
      later();
    });
    number.addEventListener("change", () => {
      const wanted = Number(number.value);
      const [low, high] = [Number(number.min), Number(number.max)];
      if (number.value !== "" && Number.isFinite(wanted)) values[name] = Math.min(high, Math.max(low, wanted));
      slider.value = position(values[name]);
      show();
      later();
    });
  }
  root.querySelectorAll('input[name="mode"], select').forEach((each) => each.addEventListener("change", later));
  redraw();
  return { values };
})();
