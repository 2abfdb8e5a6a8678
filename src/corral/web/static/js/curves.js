// What a job uses over time: one plot for memory, processors, GPUs, their memory and power.
import { el, fill } from "./dom.js";
import { plotter } from "./plotter.js";

const GIB = 1073741824;
const KINDS = [
  { what: "gpu", title: "GPU utilisation, %", scale: 100, top: 100 },
  { what: "gpu_memory", title: "GPU memory, GiB", scale: 1 / GIB },
  { what: "watts", title: "GPU power, W", scale: 1 },
  { what: "memory", title: "Memory, GiB", scale: 1 / GIB },
  { what: "cpus", title: "Processors in use", scale: 1 },
];
const INKS = ["busy", "accent", "mix", "warn", "bad", "good"];
const MOST = 12;

const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// Curves share one axis of times; where one has no value there is a gap.
function table(curves, scale) {
  const times = [...new Set(curves.flatMap((c) => c.points.map((p) => Math.round(p[0]))))].sort(
    (a, b) => a - b,
  );
  const at = new Map(times.map((t, i) => [t, i]));
  return [
    times,
    ...curves.map((c) => {
      const row = new Array(times.length).fill(null);
      for (const [t, v] of c.points) row[at.get(Math.round(t))] = v * scale;
      return row;
    }),
  ];
}

export function curvesIn(target) {
  const shown = new Map();
  const wide = () =>
    Math.max(260, target.clientWidth > 760 ? (target.clientWidth - 24) / 2 : target.clientWidth);
  async function draw(curves) {
    const UPlot = await plotter();
    for (const kind of KINDS) {
      const mine = curves
        .filter((c) => c.what === kind.what && c.points.length)
        .sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }))
        .slice(0, MOST);
      if (!mine.length) continue;
      const data = table(mine, kind.scale),
        key = mine.map((c) => c.name).join("|"),
        before = shown.get(kind.what);
      const last = data.slice(1).map((row) => row.at(-1));
      const words = `${kind.title}: ${mine.map((c, i) => `${c.name} ${last[i] === null ? "-" : Number(last[i]).toPrecision(3)}`).join(", ")}`;
      if (before && before.key === key) {
        before.plot.setData(data);
        before.box.setAttribute("aria-label", words);
        continue;
      }
      if (before) {
        before.plot.destroy();
        before.box.remove();
      }
      const box = el(
        "figure",
        { class: "curve", role: "img", "aria-label": words },
        el("figcaption", { text: kind.title }),
      );
      target.append(box);
      const axis = () => ({
        stroke: () => colour("dim"),
        grid: { stroke: () => colour("line") },
        ticks: { stroke: () => colour("line") },
      });
      const plot = new UPlot(
        {
          width: wide(),
          height: 190,
          scales: {
            x: { range: (u, low, high) => (high - low < 60 ? [high - 60, high] : [low, high]) },
            y: { range: (u, low, high) => [0, kind.top || Math.max(high * 1.1, 0.01)] },
          },
          axes: [axis(), { ...axis(), size: 52 }],
          series: [
            {},
            ...mine.map((c, i) => ({
              label: c.name,
              stroke: () => colour(INKS[i % INKS.length]),
              width: 2,
              dash: i >= INKS.length ? [6, 4] : undefined,
              value: (u, v) => (v === null ? "-" : v.toPrecision(3)),
            })),
          ],
        },
        data,
        box,
      );
      shown.set(kind.what, { key, plot, box });
    }
  }
  const resize = () => {
    for (const { plot } of shown.values()) plot.setSize({ width: wide(), height: 190 });
  };
  addEventListener("resize", resize);
  target.classList.add("curves");
  return {
    draw,
    close: () => {
      removeEventListener("resize", resize);
      for (const { plot } of shown.values()) plot.destroy();
      shown.clear();
      fill(target);
    },
  };
}
