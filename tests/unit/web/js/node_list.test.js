import assert from "node:assert/strict";
import { test } from "node:test";
import { expand } from "../../../../src/corral/web/static/js/lib/hostlist.js";
import {
  folded,
  NodeList,
  ordered,
  rowsOf,
} from "../../../../src/corral/web/static/js/nodes/node_list.js";
import { node, shown, texts } from "./records.js";
/** @import { NodeRow } from "../../../../src/corral/web/static/js/api.js" */

/** @param {number} count @param {(i: number) => Partial<NodeRow>} [change] */
const many = (count, change = () => ({})) =>
  Array.from({ length: count }, (_, i) => node({ name: `n${i + 1}`, ...change(i) }));

/** @param {NodeRow[]} nodes @param {string} order */
const names = (nodes, order) => ordered(nodes, order).map(({ name }) => name);

test("each column orders, what is unknown is last in both orders", () => {
  const nodes = many(12, (i) => ({
    gpus_used: i === 3 ? null : i % 3,
    load: i === 0 ? null : 12 - i,
    reason: i === 5 ? "fan" : "",
  }));
  assert.deepEqual(names(nodes, "node").slice(0, 2), ["n1", "n2"]);
  assert.deepEqual(names(nodes, "-node").slice(0, 2), ["n12", "n11"]);
  assert.deepEqual(names(nodes, "-GPUs").slice(0, 2), ["n3", "n6"]);
  assert.equal(names(nodes, "-GPUs").at(-1), "n4");
  assert.equal(names(nodes, "GPUs").at(-1), "n4");
  assert.equal(names(nodes, "load").at(-1), "n1");
  assert.equal(names(nodes, "-reason")[0], "n6");
  assert.deepEqual(names(nodes, "nothing"), names(nodes, "node"));
});

test("names fold to a hostlist of the same names", () => {
  const cases = [
    ["n1"],
    ["n1", "n2", "n3", "n7"],
    ["gpu001", "gpu002", "gpu010"],
    ["n8", "n9", "n10", "n11"],
    ["n08", "n09", "n10", "n11"],
    ["a1-ib", "a2-ib", "login", "b1"],
    ["rack1-n1", "rack1-n2", "rack2-n1"],
  ];
  for (const list of cases) {
    assert.deepEqual([...(expand(folded(list)) ?? [])].sort(), [...list].sort(), folded(list));
  }
  assert.equal(folded(cases[1]), "n[1-3,7]");
  assert.equal(folded(["n8", "n9", "n10"]), "n[8-10]");
});

test("nodes that are alike are one row, whatever their load", () => {
  const nodes = many(100, (i) => ({ load: i, cpus_used: i < 60 ? 8 : 0 }));
  const rows = rowsOf(ordered(nodes, "node"), true);
  assert.deepEqual(
    rows.map((row) => [row.names, row.nodes.length]),
    [["n[1-60]", 60], ["n[61-100]", 40]], // prettier-ignore
  );
  assert.equal(rowsOf(nodes, false).length, 100);
  const other = many(3, (i) => ({ reason: i ? "" : "fan" }));
  assert.equal(rowsOf(other, true).length, 2);
});

const choose = () => {};

test("the table has a page of the nodes, and where it is", () => {
  const list = { nodes: many(250), order: "node", fold: "", choose };
  const first = shown(NodeList({ ...list, page: "1" }));
  assert.match(first, /1 to 100 of 250 nodes/);
  assert.match(first, /href="#node\/n100"/);
  assert.ok(!first.includes('href="#node/n101"'));
  assert.match(shown(NodeList({ ...list, page: "3" })), /201 to 250 of 250 nodes/);
  assert.match(shown(NodeList({ ...list, page: "99" })), /201 to 250 of 250 nodes/);
  const alike = shown(NodeList({ ...list, page: "1", fold: "alike" }));
  assert.match(alike, /1 row, 250 nodes/);
  assert.match(alike, /href="#cluster\?filter=n%5B1-250%5D&view=table"/);
});

test("a row has all that the table is for", () => {
  const drained = node({ reason: "fan", partitions: ["main", "long"], state: "MIXED+DRAIN" });
  const words = texts(NodeList({ nodes: [drained], order: "-CPUs", page: "1", fold: "", choose }));
  assert.match(words, /node1 mixed drain 2 \/ 8 1\.0 GiB \/ 4\.0 GiB 1 \/ 4 1\.5 main long fan/);
  const unknown = node({ gpus_used: null, load: null });
  const row = texts(NodeList({ nodes: [unknown], order: "node", page: "1", fold: "", choose }));
  assert.match(row, /\? \/ 4 - main/);
});
