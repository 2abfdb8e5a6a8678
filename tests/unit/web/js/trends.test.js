import assert from "node:assert/strict";
import { test } from "node:test";
import {
  aligned,
  briefly,
  digits,
  fitted,
  newest,
} from "../../../../src/corral/web/static/js/lib/curves.js";
import { plotted, Trends } from "../../../../src/corral/web/static/js/cluster/trends.js";
import { shown } from "./records.js";

const PAST = {
  from: "prometheus",
  at: [10, 20, 30],
  curves: [{ what: "power", name: "GPUs", values: [1000, null, 3000] }],
};

/**
 * The card as it is drawn in a state.
 * @param {any} state
 */
function card(state) {
  const view = new Trends({ span: "day", choose: () => {}, none: () => {} });
  view.state = { past: null, wrong: "", ...state };
  return shown(view.render());
}

test("what is unknown stays a gap instead of a zero", () => {
  const curves = plotted(PAST);
  assert.deepEqual(curves[0].points, [[10, 1000], [20, null], [30, 3000]]); // prettier-ignore
  assert.deepEqual(aligned(curves, 0.001), [[10, 20, 30], [1, null, 3]]); // prettier-ignore
});

test("numbers of an axis are written out", () => {
  assert.equal(digits(9987.4), "9,987");
  assert.equal(digits(0.12345), "0.123");
  assert.equal(digits(63), "63", "a number of nodes has no decimals");
  assert.equal(digits(61.04), "61.0");
});

test("bytes are in GiB from one on, else in MiB", () => {
  const kind = { what: "memory", title: "Memory" };
  /** @param {number} bytes @returns {import("../../../../src/corral/web/static/js/lib/curves.js").Plotted[]} */
  const curve = (bytes) => [{ what: "memory", name: "all", points: [[1, null], [2, bytes]] }]; // prettier-ignore
  assert.deepEqual(fitted(kind, curve(2e6)), { ...kind, title: "Memory, MiB", scale: 2 ** -20 });
  assert.equal(fitted(kind, curve(2 ** 30)).title, "Memory, GiB");
  const percent = { what: "gpu", title: "GPU utilisation, %", scale: 100, top: 100 };
  assert.deepEqual(fitted(percent, curve(1)), percent);
});

test("names below a plot of GPUs leave out what its title has", () => {
  const same = briefly(["gpu003 GPU 0", "gpu003 GPU 11"]);
  assert.deepEqual(same, { labels: ["0", "11"], node: "gpu003" });
  const two = briefly(["gpu003 GPU 0", "gpu004 GPU 0"]);
  assert.deepEqual(two, { labels: ["gpu003:0", "gpu004:0"], node: "" });
  assert.deepEqual(briefly(["GPU 0", "GPU 1"]), { labels: ["0", "1"], node: "" });
  assert.deepEqual(briefly(["GPU 0"]), { labels: ["GPU 0"], node: "" });
  assert.deepEqual(briefly(["all", "GPU 1"]), { labels: ["all", "GPU 1"], node: "" });
});

test("history: curves, an empty one, a failure, and nothing without Prometheus", () => {
  assert.match(card({ past: PAST }), /Power, kW|CurvePlot/);
  assert.match(card({ past: { ...PAST, curves: [] } }), /Prometheus knows nothing of this time/);
  assert.match(card({ wrong: "Prometheus does not answer" }), /Prometheus does not answer/);
  assert.match(card({ past: PAST, wrong: "Prometheus does not answer" }), /does not answer/);
  assert.equal(card({ past: { ...PAST, from: "", curves: [] } }), "");
  assert.equal(card({}), "");
});

test("a legend shows what is pointed at, else the newest value", () => {
  const written = newest((value) => `${value} W`);
  /** @type {any} */
  const plot = { data: [[10, 20, 30], [1, 2, 3], [1, 2, null], []] };
  assert.equal(written(plot, 2, 1, 1), "2 W");
  assert.equal(written(plot, /** @type {any} */ (null), 1, null), "3 W");
  assert.equal(written(plot, /** @type {any} */ (null), 2, null), "-");
  assert.equal(written(plot, /** @type {any} */ (null), 2, 1), "-");
  assert.equal(written(plot, /** @type {any} */ (null), 3, null), "-");
});
