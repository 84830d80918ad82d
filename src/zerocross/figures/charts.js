"use strict";
// Plotly charts in the colours of the page; they are redrawn when the colour scheme (light or dark) changes.
const charts = (() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map(); // node -> make
  const DASHES = ["solid", "dash", "dot"];

  // Plotly interprets text as HTML.
  const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;");
  const wrapped = (text, least = 18) => escaped(text).replace(new RegExp(`(.{${least},}?) `, "g"), "$1<br>");

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    return {
      ink: read("--ink"), muted: read("--muted"), line: read("--line"), paper: read("--paper"),
      colours: [1, 2, 3, 4, 5, 6].map((i) => read(`--c${i}`)),
    };
  }

  function axis(colours, label, more) {
    return {
      title: { text: wrapped(label, 34), font: { size: 13 }, standoff: 8 }, gridcolor: colours.line, linecolor: colours.muted,
      tickcolor: colours.muted, zerolinecolor: colours.muted, zerolinewidth: 1, ticks: "outside", ticklen: 4,
      automargin: true, exponentformat: "power", ...more,
    };
  }

  function layout(colours, more) {
    return {
      paper_bgcolor: colours.paper, plot_bgcolor: colours.paper, showlegend: false, hovermode: "closest",
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", // a finger scrolls the page
      font: { family: "system-ui, sans-serif", size: 12, color: colours.ink },
      hoverlabel: { bgcolor: colours.paper, bordercolor: colours.muted, font: { color: colours.ink }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colours.muted, activecolor: colours.ink },
      margin: { l: 48, r: 12, t: 28, b: 40 }, ...more,
    };
  }

  // `make(colours)` returns { data, layout }; it is called again when the colours change.
  function draw(node, make) {
    drawn.set(node, make);
    const { data, layout: asked } = make(theme());
    return Plotly.react(node, data, asked, {
      responsive: true, displaylogo: false, modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    });
  }

  dark.addEventListener("change", () => drawn.forEach((make, node) => draw(node, make)));

  const faint = (hex) => `${hex}2b`;
  const digits = (value) => (value == null ? "" : String(Number(Number(value).toPrecision(4))));
  const isNamed = ({ curves }) => typeof curves[0].x[0] === "string";
  const names = ({ curves }) => [...new Set(curves.flatMap(({ x }) => x))];
  const values = ({ curves }) => curves.flatMap(({ mean }) => mean).filter((each) => each != null);

  // A logarithmic axis has no 0: it is drawn at the bottom, at half of the smallest value, and the axis label says so.
  function raised(panel, numbers) {
    if (panel.y_scale !== "log" || !numbers) return numbers;
    const bottom = Math.min(...values(panel).filter((each) => each > 0)) / 2;
    return numbers.map((each) => (each == null ? null : Math.max(each, bottom)));
  }

  function count(n) {
    if (n == null) return "";
    const [least, most] = [Math.min(...[n].flat()), Math.max(...[n].flat())];
    return ` (n = ${least === most ? least : `${least} to ${most}`})`;
  }

  // One curve of a panel as a list of Plotly traces, its spread first.
  function traces(curve, i, panel, colours) {
    const { label = "", x, n, style = "line" } = curve;
    const [mean, low, high] = ["mean", "low", "high"].map((key) => raised(panel, curve[key]));
    const own = curve.muted ? colours.muted : colours.colours[i % 6];
    const known = low && high ? x.flatMap((_, j) => (low[j] == null || high[j] == null ? [] : [j])) : [];
    const spread = new Set(known);
    const text = x.map((at, j) => {
      const range = spread.has(j) ? ` (${digits(curve.low[j])} to ${digits(curve.high[j])})` : "";
      const seeds = Array.isArray(n) ? n[j] : n;
      const where = isNamed(panel) ? wrapped(at) : `${escaped(panel.x || "x")}: ${digits(at)}`;
      return `${wrapped(label)}<br>${where}<br>${digits(curve.mean[j])}${range}${seeds == null ? "" : `, n = ${seeds}`}`;
    });
    const bars = known.length ? {
      type: "data", symmetric: false, thickness: 1.2, width: 4, color: own,
      array: x.map((_, j) => (spread.has(j) ? high[j] - mean[j] : 0)),
      arrayminus: x.map((_, j) => (spread.has(j) ? mean[j] - low[j] : 0)),
    } : undefined;
    const line = { color: own, width: curve.muted ? 1 : 2, dash: curve.dash ? "dash" : DASHES[Math.floor(i / 6) % 3] };
    const main = {
      type: "scatter", mode: "markers", name: label, text, hovertemplate: "%{text}<extra></extra>", line,
      marker: { color: own, size: 7, symbol: i % 6 },
    };
    if (isNamed(panel)) {
      const rows = names(panel);
      const beside = 0.16 * (i - (panel.curves.length - 1) / 2);
      return [{ ...main, x: mean, y: x.map((name) => rows.indexOf(name) + beside), error_x: bars }];
    }
    if (style !== "line") return [{ ...main, x, y: mean, error_y: bars, ...(style === "bars" ? { type: "bar" } : {}) }];
    const back = [...known].reverse();
    const band = {
      type: "scatter", mode: "lines", fill: "toself", fillcolor: faint(own), line: { width: 0 }, hoverinfo: "skip",
      x: [...known, ...back].map((j) => x[j]),
      y: [...known.map((j) => high[j]), ...back.map((j) => low[j])],
    };
    const drawnLine = { ...main, x, y: mean, mode: x.length > 40 ? "lines" : "lines+markers" };
    return known.length > 1 ? [band, drawnLine] : [drawnLine];
  }

  // Reference values of the paper: dashed lines across the panel, with labels.
  function marks(lines, colours, panel) {
    const [along, across] = isNamed(panel) ? ["y", "x"] : ["x", "y"];
    const at = (value) => (panel.y_scale === "log" ? Math.log10(value) : value); // annotations use log10
    return {
      shapes: lines.map(({ y }) => ({
        type: "line", [`${along}ref`]: "paper", [`${along}0`]: 0, [`${along}1`]: 1, [`${across}0`]: y, [`${across}1`]: y,
        line: { color: colours.muted, width: 1.5, dash: "dash" },
      })),
      annotations: lines.map(({ y, label }) => ({
        [`${along}ref`]: "paper", [along]: 1, [across]: at(y), xanchor: "right", yanchor: "bottom", showarrow: false,
        text: escaped(label || ""), font: { size: 11, color: colours.muted },
      })),
    };
  }

  function legend(node, curves, hidden, redraw) {
    node.replaceChildren(...curves.map(({ label, n, muted }, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.style.setProperty("--own", muted ? "var(--muted)" : `var(--c${(i % 6) + 1})`);
      button.dataset.dash = DASHES[Math.floor(i / 6) % 3];
      button.append(`${label || "curve"}${count(n)}`);
      button.setAttribute("aria-pressed", "true");
      button.title = "show or hide";
      button.addEventListener("click", () => {
        if (!hidden.delete(i)) hidden.add(i);
        button.setAttribute("aria-pressed", String(!hidden.has(i)));
        redraw();
      });
      return button;
    }));
  }

  // A logarithmic axis with ticks at powers of ten; over few decades also at twos and fives, labelled with numbers.
  function scale(type, numbers) {
    if (type !== "log") return { type };
    const positive = numbers.filter((each) => each > 0);
    const [low, high] = [Math.min(...positive), Math.max(...positive)];
    if (high > 50 * low) return { type, dtick: 1 };
    const decades = [-1, 0, 1, 2].map((k) => Math.floor(Math.log10(low)) + k);
    const tickvals = decades.flatMap((k) => [1, 2, 5].map((digit) => Number(`${digit}e${k}`)));
    return { type, tickvals, ticktext: tickvals.map(digits) };
  }

  function axes(panel, colours) {
    const zero = panel.y_scale === "log" && values(panel).some((each) => each <= 0) ? " (bottom: 0)" : "";
    const value = axis(colours, `${panel.y || ""}${zero}`, scale(panel.y_scale, values(panel)));
    if (isNamed(panel)) {
      const rows = names(panel);
      const named = { tickvals: rows.map((_, i) => i), ticktext: rows.map(wrapped), range: [rows.length - 0.5, -0.5], zeroline: false };
      return { xaxis: value, yaxis: axis(colours, "", named) };
    }
    const over = scale(panel.x_scale, panel.curves.flatMap(({ x }) => x));
    return { xaxis: axis(colours, panel.x || "", over), yaxis: value };
  }

  // A panel of an artefact: { title, x, y, x_scale, y_scale, curves, lines }.
  function panel(figure, asked) {
    const { curves, lines = [] } = asked;
    const node = figure.querySelector(".chart");
    const hidden = new Set();
    const make = (colours) => ({
      data: curves.flatMap((curve, i) => (hidden.has(i) ? [] : traces(curve, i, asked, colours))),
      layout: layout(colours, {
        barmode: "group", ...axes(asked, colours),
        ...marks((lines || []).filter(({ y }) => y != null), colours, asked),
      }),
    });
    legend(figure.querySelector(".legend"), curves, hidden, () => draw(node, make));
    draw(node, make);
  }

  return { draw, panel, layout, axis, scale, faint };
})();

const panels = JSON.parse(document.getElementById("panels").textContent);
const panelsDrawn = (async () => {
  for (const figure of document.querySelectorAll("figure[data-panel]")) {
    await new Promise((next) => setTimeout(next)); // one at a time, so that the page stays responsive
    charts.panel(figure, panels[figure.dataset.panel]);
  }
})();
