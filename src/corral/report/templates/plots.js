"use strict";
// Draws each plot of a report by uPlot, in the colours of the page's style sheet.

/**
 * What charts.py writes: corral.prove.figures.Plot as JSON.
 * @typedef {{ name: string, unit: string, log: boolean }} PlotAxis
 * @typedef {{ name: string, points: [number, number][] }} PlotSeries
 * @typedef {{ mark: string, y: number, words: string }} PlotLevel
 * @typedef {{ x: PlotAxis, y: PlotAxis, series: PlotSeries[], levels: PlotLevel[] }} Plot
 */

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
/** @type {number[][]} */
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
const HEIGHT = 300;

/**
 * @param {number | null | undefined} value
 * @param {string} unit
 */
function written(value, unit) {
  if (value === null || value === undefined) return "";
  let size = value;
  let at = 0;
  const last = unit === "B" ? UNITS.length - 1 : 0;
  while (size >= 1024 && at < last) {
    size /= 1024;
    at += 1;
  }
  const text = String(Number(size.toPrecision(4)));
  return unit === "B" ? `${text} ${UNITS[at]}` : text;
}

/** @param {string} name */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * @param {PlotAxis} about
 * @param {number} size
 * @returns {uPlot.Axis}
 */
function axis(about, size) {
  const named = about.unit && about.unit !== "B" ? `${about.name} (${about.unit})` : about.name;
  return {
    label: named,
    stroke: colour("--ink"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line"), width: 1 },
    size,
    values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : written(tick, about.unit))),
  };
}

/**
 * @param {PlotAxis} about
 * @returns {uPlot.Scale}
 */
function scale(about) {
  if (about.log) return { time: false, distr: 3, log: about.unit === "B" ? 2 : 10 };
  return { time: false };
}

/**
 * @param {PlotSeries} series
 * @param {number} index
 * @param {Plot} plot
 * @returns {uPlot.Series}
 */
function curve(series, index, plot) {
  const stroke = colour(`--s${index % 8}`);
  return {
    label: series.name,
    stroke,
    width: 2,
    // Eight colours with a dash each; the next eight have other dashes.
    dash: DASHES[(index + Math.floor(index / 8)) % DASHES.length],
    spanGaps: true,
    points: { show: series.points.length <= 40, size: 6, fill: stroke },
    value: (_, value) => written(value, plot.y.unit),
  };
}

/**
 * @param {PlotLevel} line
 * @param {Plot} plot
 * @returns {uPlot.Series}
 */
function level(line, plot) {
  return {
    label: line.words || `${line.mark} ${written(line.y, plot.y.unit)} ${plot.y.unit}`,
    stroke: colour(`--${line.mark}`),
    width: 1.5,
    dash: line.mark === "limit" ? [] : [6, 4],
    spanGaps: true,
    points: { show: false },
    value: () => "",
  };
}

/**
 * @param {HTMLElement} target
 * @param {Plot} plot
 */
function draw(target, plot) {
  const places = [...new Set(plot.series.flatMap((series) => series.points.map(([x]) => x)))].sort(
    (a, b) => a - b,
  );
  const columns = plot.series.map((series) => {
    const known = new Map(series.points);
    return places.map((x) => known.get(x) ?? null);
  });
  const y = scale(plot.y);
  if (!plot.y.log) y.range = (_, low, high) => [Math.min(0, low), (high || 1) * 1.08];
  return new uPlot(
    {
      width: target.clientWidth,
      height: HEIGHT,
      scales: { x: scale(plot.x), y },
      axes: [axis(plot.x, 44), axis(plot.y, 66)],
      legend: { markers: { width: 3 } },
      series: [
        { label: plot.x.name, value: (_, value) => written(value, plot.x.unit) },
        ...plot.series.map((series, index) => curve(series, index, plot)),
        ...plot.levels.map((line) => level(line, plot)),
      ],
    },
    [places, ...columns, ...plot.levels.map((line) => places.map(() => line.y))],
    target,
  );
}

/** @type {{ target: HTMLElement, plot: Plot, drawn: uPlot | null }[]} */
const plots = [...document.querySelectorAll(".plot")].map((element) => {
  const target = /** @type {HTMLElement} */ (element);
  const plot = JSON.parse(target.firstElementChild?.textContent ?? "");
  return { target, plot, drawn: null };
});

function drawAll() {
  for (const entry of plots) {
    entry.drawn?.destroy();
    entry.drawn = draw(entry.target, entry.plot);
  }
}

drawAll();
// Without scripts the numbers are what there is to see.
/** @type {NodeListOf<HTMLDetailsElement>} */
const tables = document.querySelectorAll(".numbers");
for (const numbers of tables) numbers.open = false;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
addEventListener("resize", () => {
  for (const { drawn, target } of plots) {
    drawn?.setSize({ width: target.clientWidth, height: HEIGHT });
  }
});
// Paper is white, whatever the screen is.
for (const name of ["beforeprint", "afterprint"]) {
  addEventListener(name, () => {
    document.documentElement.classList.toggle("paper", name === "beforeprint");
    drawAll();
  });
}
