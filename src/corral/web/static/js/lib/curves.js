// Plots over time by uPlot, which is loaded when the first one is drawn: what a job uses, and what
// the cluster uses.
import { Component, createRef, h } from "../../vendor/preact.mjs";
import { clock, colour, el, formatted } from "./view.js";
/** @import uPlot from "uplot" */

/** @typedef {{ what: string, title: string, scale?: number, top?: number }} Kind */
/**
 * What is drawn as one line; null: unknown, which is a gap.
 * @typedef {{ what: string, name: string, points: [number, number | null][] }} Plotted
 */
/**
 * What is in use over time. null: unknown.
 * @typedef {{ at: number[], used: (number | null)[], running: (number | null)[] }} Past
 */

const MIB = 1048576;
const MANY = 1000;
/** Without a scale: bytes. @type {Kind[]} */
const KINDS = [
  { what: "gpu", title: "GPU utilisation, %", scale: 100, top: 100 },
  { what: "gpu_memory", title: "GPU memory" },
  { what: "watts", title: "GPU power, W", scale: 1 },
  { what: "celsius", title: "GPU temperature, °C", scale: 1 },
  { what: "memory", title: "Memory" },
  { what: "cpus", title: "Processors in use", scale: 1 },
];
const INKS = ["busy", "accent", "mix", "warn", "bad", "good"];
/** Colours of states, as of nodes and jobs elsewhere. @type {Record<string, string>} */
const OWN = {
  ...{ idle: "good", mixed: "mix", allocated: "busy", down: "bad", other: "off" },
  ...{ drained: "warn", draining: "accent", maintenance: "text", "powered down": "off" },
  ...{ pending: "warn", running: "busy", completed: "good", failed: "bad", cancelled: "off" },
  ...{ suspended: "mix", completing: "accent" },
};
const MOST = 12;
/** Room for half of the last time at the right. @type {uPlot.Padding} */
const PADDING = [null, 28, null, null];
const HEIGHT = 170;
const TIMELINE_HEIGHT = 150;
const LEAST = 0.1; // of the values of an axis: uPlot rounds smaller steps to thousandths
const SHORTEST_S = 60; // of an axis
const LABEL_PX = 72; // between the times of an axis, so that they do not touch
const MINUTE_S = 60;
const DAY_S = 86400;

/** @type {Promise<typeof uPlot> | null} */
let loading = null;
function plotter() {
  loading ||= new Promise((resolve, reject) => {
    const style = document.createElement("link");
    style.rel = "stylesheet";
    style.href = "vendor/uPlot.min.css";
    const script = document.createElement("script");
    script.src = "vendor/uPlot.iife.min.js";
    script.onload = () => resolve(/** @type {any} */ (window).uPlot);
    script.onerror = () => reject(new Error("uPlot could not be loaded"));
    document.head.append(style, script);
  });
  return loading;
}

/** @returns {uPlot.Axis} */
const axis = () => ({
  stroke: () => colour("dim"),
  grid: { stroke: () => colour("line"), width: 1 },
  ticks: { stroke: () => colour("line"), width: 1 },
});

/**
 * The words for a time at an axis whose lines are so many seconds apart.
 * @param {number} at
 * @param {number} apart
 */
export function moment(at, apart) {
  const [day, time] = clock(at).split(" ");
  if (apart >= DAY_S) return day.slice(5);
  return apart >= MINUTE_S ? time.slice(0, 5) : time;
}

/** @returns {uPlot.Axis} */
const timeAxis = () => ({
  ...axis(),
  ...{ space: LABEL_PX, size: 36 },
  values: (_plot, at, _axis, _space, apart) => at.map((time) => moment(time, apart)),
});

/**
 * A value of a legend: where the pointer is, else the newest one.
 * @param {(value: number) => string} write
 * @returns {Exclude<uPlot.Series.Value, string>}
 */
export const newest = (write) => (plot, value, series, index) => {
  const shown = index === null ? plot.data[series].at(-1) : value;
  return shown === null || shown === undefined ? "-" : write(shown);
};

/** @type {uPlot.Series} */
const TIME = { label: "time", value: newest(clock) };

/**
 * Colours of a legend follow the theme on their own.
 * @param {string[]} inks
 * @returns {uPlot.Legend}
 */
const legend = (inks) => ({
  markers: { stroke: (_plot, i) => `var(--${inks[(i - 1) % inks.length]})` },
});

/**
 * The axis of times: where there is one sample, uPlot has a tenth of its time around it, 11 years.
 * @param {{ data: ArrayLike<number | null | undefined>[] | uPlot.AlignedData }} plot
 * @param {number} low
 * @param {number} high
 * @returns {[number, number]}
 */
export function shortest({ data: [times] }, low, high) {
  const last = times.length === 1 ? Number(times[0]) : high;
  return last === high && high - low >= SHORTEST_S ? [low, high] : [last - SHORTEST_S, last];
}

/**
 * Curves share one axis of times; where one has no value there is a gap.
 * @param {Plotted[]} curves
 * @param {number} scale
 * @returns {[number[], ...(number | null)[][]]}
 */
export function aligned(curves, scale) {
  const all = curves.flatMap((curve) => curve.points.map(([at]) => Math.round(at)));
  const times = [...new Set(all)].sort((a, b) => a - b);
  const index = new Map(times.map((time, i) => [time, i]));
  const rows = curves.map((curve) => {
    /** @type {(number | null)[]} */
    const row = new Array(times.length).fill(null);
    for (const [at, value] of curve.points) {
      row[index.get(Math.round(at)) ?? 0] = value === null ? null : value * scale;
    }
    return row;
  });
  return [times, ...rows];
}

/**
 * @param {HTMLElement | null} target
 * @param {Past} past
 * @param {boolean} gpus
 */
export async function timeline(target, past, gpus) {
  if (!target) return { more: () => {}, close: () => {} };
  const UPlot = await plotter();
  /** @returns {uPlot.AlignedData} */
  const data = () => [past.at, past.used, past.running];
  const width = () => target.clientWidth || 800;
  const paths = UPlot.paths.stepped?.({ align: 1 });
  const plot = new UPlot(
    {
      width: width(),
      height: TIMELINE_HEIGHT,
      padding: PADDING,
      scales: {
        x: { range: shortest },
        y: { range: (_u, _low, high) => [0, Math.max(4, high * 1.1)] },
      },
      axes: [timeAxis(), axis()],
      legend: legend(["accent", "busy"]),
      series: [
        TIME,
        {
          ...{ label: gpus ? "GPUs in use" : "CPUs in use", width: 2, paths },
          ...{ stroke: () => colour("accent"), value: newest(formatted) },
        },
        {
          ...{ label: "jobs running", width: 2, paths },
          ...{ stroke: () => colour("busy"), value: newest(formatted) },
        },
      ],
    },
    data(),
    target,
  );
  const resize = () => plot.setSize({ width: width(), height: TIMELINE_HEIGHT });
  const redraw = () => plot.redraw();
  addEventListener("resize", resize);
  document.addEventListener("theme", redraw);
  return {
    more: () => plot.setData(data()),
    close: () => {
      removeEventListener("resize", resize);
      document.removeEventListener("theme", redraw);
      plot.destroy();
    },
  };
}

/** @param {number} value */
export const digits = (value) =>
  Number.isInteger(value) || Math.abs(value) >= MANY
    ? formatted(Math.round(value))
    : value.toPrecision(3);

/**
 * Names of curves below a plot whose title has the word GPU already, and the node of all of them:
 * "7" on gpu003 of "gpu003 GPU 7", of several nodes "gpu003:7".
 * @param {string[]} names
 */
export function briefly(names) {
  const parts = names.map((name) => /^(?:(\S+) )?GPU (\d+)$/.exec(name));
  const nodes = new Set(parts.map((part) => part?.[1] ?? ""));
  if (names.length < 2 || parts.includes(null)) return { labels: names, node: "" };
  const [node] = nodes.size === 1 ? nodes : [""];
  const labels = parts.map((part) =>
    nodes.size > 1 ? `${part?.[1]}:${part?.[2]}` : (part?.[2] ?? ""),
  );
  return { labels, node };
}

/**
 * @param {Plotted[]} curves
 * @param {number} width
 * @param {number | undefined} top
 * @returns {uPlot.Options}
 */
function options(curves, width, top) {
  const inks = curves.map(({ name }, i) => OWN[name] ?? INKS[i % INKS.length]);
  const { labels } = briefly(curves.map(({ name }) => name));
  return {
    width,
    height: HEIGHT,
    padding: PADDING,
    scales: {
      x: { range: shortest },
      y: { range: (_u, _low, high) => [0, top || Math.max(high * 1.1, LEAST)] },
    },
    axes: [timeAxis(), { ...axis(), size: 52 }],
    cursor: { sync: { key: "curves" } },
    legend: legend(inks),
    series: [
      TIME,
      ...labels.map((label, i) => ({
        label,
        stroke: () => colour(inks[i]),
        width: 2,
        dash: i >= INKS.length ? [6, 4] : undefined,
        value: newest(digits),
      })),
    ],
  };
}

/** The curves of a kind, in the order of their names.
 * @param {Plotted[]} curves
 * @param {string} what
 */
const ofKind = (curves, what) =>
  curves
    .filter((curve) => curve.what === what && curve.points.length)
    .sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));

/**
 * Bytes in GiB from one on, else in MiB.
 * @param {Kind} kind
 * @param {Plotted[]} curves
 */
export function fitted({ title, scale, ...kind }, curves) {
  if (scale) return { ...kind, title, scale };
  const large = curves.some(({ points }) => points.some(([, value]) => (value ?? 0) >= 1024 * MIB));
  const [unit, size] = large ? ["GiB", 1024 * MIB] : ["MiB", MIB];
  return { ...kind, title: `${title}, ${unit}`, scale: 1 / Number(size) };
}

/** Whether no part is drawn out. @param {uPlot} plot */
function showsAll({ scales: { x }, data: [times] }) {
  const [first, last] = [times[0], times.at(-1)];
  if (first === undefined || last === undefined) return true;
  return (x.min ?? first) <= first && (x.max ?? last) >= last;
}

/** One kind of curves, drawn again only where other curves come; all: how many there are.
 * @typedef {{ kind: ReturnType<typeof fitted>, curves: Plotted[], all: number }} CurveProps
 * @extends {Component<CurveProps>} */
class CurvePlot extends Component {
  /** @type {{ current: HTMLElement | null }} */
  box = createRef();
  /** @type {uPlot | null} */
  plot = null;
  names = "";
  ended = false;

  resize = () => this.plot?.setSize({ width: this.width(), height: HEIGHT });
  redraw = () => this.plot?.redraw();

  width() {
    const all = this.box.current?.parentElement?.clientWidth ?? 0;
    return Math.max(240, all > 500 ? Math.floor((all - 24) / 2) : all);
  }

  async draw() {
    const UPlot = await plotter();
    const { kind, curves } = this.props;
    if (this.ended || !this.box.current) return;
    const names = curves.map((curve) => curve.name).join("|");
    const data = aligned(curves, kind.scale);
    if (this.plot && this.names === names) {
      const entire = showsAll(this.plot);
      this.plot.setData(data, entire);
      if (!entire) this.plot.redraw();
      return;
    }
    this.plot?.destroy();
    this.plot = new UPlot(options(curves, this.width(), kind.top), data, this.box.current);
    this.names = names;
  }

  componentDidMount() {
    addEventListener("resize", this.resize);
    document.addEventListener("theme", this.redraw);
    this.draw();
  }

  componentDidUpdate() {
    this.draw();
  }

  componentWillUnmount() {
    this.ended = true;
    removeEventListener("resize", this.resize);
    document.removeEventListener("theme", this.redraw);
    this.plot?.destroy();
  }

  render() {
    const { kind, curves, all } = this.props;
    const values = curves.map((curve) => {
      const last = curve.points.at(-1);
      const value = last?.[1] ?? null;
      return `${curve.name} ${value === null ? "-" : digits(value * kind.scale)}`;
    });
    const label = `${kind.title}: ${values.join(", ")}`;
    const { node } = briefly(curves.map(({ name }) => name));
    const part = all > curves.length ? `${curves.length} of ${all}` : "";
    return el(
      "figure",
      { class: "curve", role: "img", "aria-label": label, ref: this.box },
      el("figcaption", null, [kind.title, node, part].filter(Boolean).join(" · ")),
    );
  }
}

/** @param {{ curves: Plotted[], kinds?: Kind[] }} props */
export function Curves({ curves, kinds = KINDS }) {
  const plots = kinds
    .map((kind) => ({ kind, known: ofKind(curves, kind.what) }))
    .filter(({ known }) => known.length)
    .map(({ kind, known }) => ({
      kind: fitted(kind, known),
      curves: known.slice(0, MOST),
      all: known.length,
    }));
  return el(
    "div",
    { class: "curves" },
    plots.map((plot) => h(CurvePlot, { key: plot.kind.what, ...plot })),
  );
}
