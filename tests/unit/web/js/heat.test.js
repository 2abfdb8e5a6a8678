import assert from "node:assert/strict";
import { test } from "node:test";
import * as heat from "../../../../src/corral/web/static/js/nodes/heat.js";
import { node } from "./records.js";
/** @import { NodeFigures, NodeRow } from "../../../../src/corral/web/static/js/api.js" */

test("squares get smaller as nodes get more", () => {
  assert.deepEqual(
    [100, 1001, 4001].map((count) => heat.gridOf(count, 900).high),
    [16, 12, 9],
  );
});

test("a canvas narrower than a square still has one column", () => {
  const grid = heat.gridOf(3, 5);
  assert.equal(grid.across, 1);
  assert.equal(heat.heightOf(grid), 48);
});

test("each square's own points lead back to it, at every width", () => {
  for (const width of [1, 100, 391, 900, 1500]) {
    for (const count of [1, 61, 1500]) {
      const cell = count === 61 ? { wide: 59, high: 20 } : undefined;
      const grid = heat.gridOf(count, width, cell);
      for (let index = 0; index < count; index += 1) {
        const [x, y] = heat.cornerOf(grid, index);
        assert.equal(heat.indexAt(grid, x, y), index);
        assert.equal(heat.indexAt(grid, x + grid.wide - 1, y + grid.high - 1), index);
        assert.ok(y + grid.high <= heat.heightOf(grid));
      }
    }
  }
});

test("a point without a square names no node", () => {
  const grid = heat.gridOf(61, 320); // 20 across: the last row has one
  for (const [x, y] of [
    [-1, 0],
    [0, -1],
    [320, 0],
    [17, 49],
    [0, 64],
  ]) {
    assert.equal(heat.indexAt(grid, x, y), -1, `${x} ${y}`);
  }
});

test("keys go over the squares and stop at the edges", () => {
  const grid = heat.gridOf(61, 320);
  /** @type {[string, number, number | null][]} */
  const cases = [
    ["ArrowRight", 0, 1], ["ArrowLeft", 0, 0], ["ArrowDown", 0, 20], ["ArrowDown", 50, 50],
    ["ArrowUp", 20, 0], ["ArrowUp", 3, 3], ["Home", 40, 0], ["End", 0, 60], ["ArrowRight", 60, 60],
    ["ArrowDown", -1, 0], ["End", -1, 0], ["Enter", 3, null], ["toString", 3, null],
  ]; // prettier-ignore
  for (const [key, at, expected] of cases) {
    assert.equal(heat.moved(grid, key, at), expected, `${key} from ${at}`);
  }
});

test("states are distinguished without colours", () => {
  /** @param {Partial<NodeRow>} change */
  const paint = (change) => heat.paintOf(node(change), "state");
  assert.deepEqual(paint({ kind: "warn" }), { ink: "warn", alpha: 1, mark: "hollow" });
  assert.deepEqual(paint({ kind: "bad" }), { ink: "bad", alpha: 1, mark: "struck" });
  assert.deepEqual(paint({ gpus: 0, gpus_used: 0 }), { ink: "good", alpha: 1, mark: "" });
  const idle = paint({ gpus_used: 0 });
  const full = paint({ gpus_used: 4 });
  assert.ok(idle.alpha < full.alpha);
  assert.equal(full.alpha, 1);
});

test("shares: unknown is not nothing, and what is above all stays at all", () => {
  /**
   * @param {string} colouring
   * @param {Partial<NodeRow>} change
   * @param {NodeFigures} [figures]
   */
  const paint = (colouring, change, figures) => heat.paintOf(node(change), colouring, figures);
  assert.equal(paint("load", { load: null }).ink, "off");
  assert.equal(paint("load", { load: 0 }).ink, "bad");
  assert.equal(paint("load", { load: 100 }).alpha, 1);
  assert.equal(paint("GPUs", { gpus: 0, gpus_used: 0 }).ink, "off");
  assert.equal(paint("GPUs", { gpus_used: null }).ink, "off");
  assert.equal(paint("temperature", {}).ink, "off");
  assert.equal(paint("temperature", {}, { celsius: 90 }).alpha, 1);
  assert.equal(paint("power", { watts: 0 }).ink, "off");
  assert.equal(paint("power", { watts: 2800 }, {}).alpha, 1);
  assert.ok(Math.abs(paint("memory", {}).alpha - (0.12 + 0.88 / 4)) < 1e-9);
});

test("CPUs that jobs have are a separate share, next to the load", () => {
  const paint = (/** @type {Partial<NodeRow>} */ change) => heat.paintOf(node(change), "CPUs");
  assert.equal(paint({ cpus: 8, cpus_used: 8 }).alpha, 1);
  assert.ok(Math.abs(paint({ cpus: 8, cpus_used: 2 }).alpha - (0.12 + 0.88 / 4)) < 1e-9);
  assert.equal(paint({ cpus: 0, cpus_used: 0 }).ink, "off");
});

test("squares have room for names where nodes are few and their names short", () => {
  const names = (/** @type {number} */ count) =>
    Array.from({ length: count }, (_, i) => `gpu${String(i).padStart(3, "0")}`);
  assert.deepEqual(heat.namedCell(names(100)), { wide: 52, high: 20 });
  assert.equal(heat.namedCell(names(501)), undefined);
  assert.equal(heat.namedCell(["a-node-with-a-long-name"]), undefined);
  assert.equal(heat.namedCell([]), undefined);
});

test("a wall display has the largest squares with which all groups fit", () => {
  const screen = { width: 1900, height: 900, head: 60 };
  const named = { wide: 52, high: 20 };
  for (const counts of [[4], [100], [60, 60, 300], [2000], [10000]]) {
    const cell = heat.fittingCell(counts, named, screen);
    const height = counts.reduce(
      (sum, count) => sum + 60 + heat.heightOf(heat.gridOf(count, 1900, cell)),
      0,
    );
    assert.ok(height <= 900, `${counts}: ${height}`);
  }
  assert.deepEqual(heat.fittingCell([4], named, screen), { wide: 208, high: 80 });
  assert.ok(heat.fittingCell([100], named, screen).wide > 100);
  const crowd = heat.fittingCell([10000], undefined, screen);
  assert.equal(crowd.wide, crowd.high);
  assert.deepEqual(heat.fittingCell([65536], named, { width: 300, height: 200, head: 60 }), {
    wide: 5,
    high: 5,
  });
});

test("a name on a square has the colour that can be read there", () => {
  const light = { text: "#16202a", card: "#fff" };
  const dark = { text: "#e6ebef", card: "#182028" };
  assert.equal(heat.readable("#13713f", 1, light), light.card);
  assert.equal(heat.readable("#13713f", 0.45, light), light.text);
  assert.equal(heat.readable("#6fd59a", 1, dark), dark.card);
  assert.equal(heat.readable("#6fd59a", 0.2, dark), dark.text);
});

test("one line about a node", () => {
  const line = heat.lineOf(node({ reason: "fan" }), { celsius: 61.2, watts: 402.5 });
  assert.equal(line, "node1  IDLE  GPUs 1/4  CPUs 2/8  61 °C · 403 W  fan");
  assert.equal(heat.lineOf(undefined), "\u00a0");
});

test("a heat map is drawn again only where one of its nodes is another", () => {
  const nodes = [node(), node({ name: "node2" })];
  const props = { nodes, label: "rack-1", colouring: "state", figures: {} };
  assert.ok(heat.alike(props, { ...props, nodes: [...nodes] }));
  assert.ok(!heat.alike(props, { ...props, nodes: [nodes[0], { ...nodes[1] }] }));
  assert.ok(!heat.alike(props, { ...props, nodes: [nodes[0]] }));
  assert.ok(!heat.alike(props, { ...props, figures: {} }));
  assert.ok(!heat.alike(props, { ...props, colouring: "load" }));
  assert.ok(!heat.alike(props, { ...props, cell: { wide: 52, high: 20 } }));
});
