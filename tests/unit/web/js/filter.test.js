import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeTest } from "../../../../src/corral/web/static/js/nodes/filter.js";
import { node } from "./records.js";

const NODES = [
  node(),
  node({ name: "node2", state: "IDLE+DRAIN", reason: "fan is loud", kind: "warn" }),
  node({
    name: "gpu-07",
    state: "ALLOCATED",
    gpus_used: 4,
    load: null,
    partitions: ["long", "Main"],
  }),
  node({
    name: "cpu1",
    state: "DOWN",
    gpus: 0,
    gpus_used: 0,
    features: [],
    watts: 420,
    memory_free: null,
  }),
];

/** @param {string} text */
const names = (text) => {
  const { test: passes, wrong } = nodeTest(text);
  assert.equal(wrong, "", text);
  return NODES.filter(passes).map((each) => each.name);
};

/** @type {[string, string[]][]} */
const CASES = [
  ["", ["node1", "node2", "gpu-07", "cpu1"]],
  ["   ", ["node1", "node2", "gpu-07", "cpu1"]],
  ["node", ["node1", "node2"]],
  ["FAN", ["node2"]],
  ["drain", ["node2"]],
  ["node[1-2]", ["node1", "node2"]],
  ["gpu-[06-07]", ["gpu-07"]],
  ["gpu-[6-7]", []],
  ["node[1-2],cpu1", ["node1", "node2", "cpu1"]],
  ["node[1-", []], // not yet a hostlist: a part of a text
  ["state=drain", ["node2"]],
  ["state=idle,alloc", ["node1", "node2", "gpu-07"]],
  ["state!=idle", ["gpu-07", "cpu1"]],
  ["partition=main", ["node1", "node2", "gpu-07", "cpu1"]],
  ["partition=long", ["gpu-07"]],
  ["partitions!=long", ["node1", "node2", "cpu1"]],
  ["feature=ib", ["node1", "node2", "gpu-07"]],
  ["features!=ib", ["cpu1"]],
  ["feature=i", []], // a list holds entire names
  ["gpus>0", ["node1", "node2", "gpu-07"]],
  ["gpus=0", ["cpu1"]],
  ["GPUS>=4 gpus_free<=2", ["gpu-07"]],
  ["gpus_free>0", ["node1", "node2"]],
  ["load>=1.5", ["node1", "node2", "cpu1"]],
  ["load<1", []], // unknown is not 0
  ["watts!=0", ["cpu1"]],
  ["memory_free<1", []],
  ["reason=loud state=drain", ["node2"]],
  ["reason=loud state=down", []],
  ["name=node1,cpu", ["node1", "cpu1"]],
  ["version=24.11 address=10.0", ["node1", "node2", "gpu-07", "cpu1"]],
];
for (const [text, expected] of CASES) {
  test(`filter: ${text || "(nothing)"}`, () => assert.deepEqual(names(text), expected));
}

/** @type {[string, RegExp][]} */
const WRONG = [
  ["colour=red", /no colour/],
  ["colour>3", /no colour/],
  ["constructor=1", /no constructor/],
  ["gpus>", /gpus needs a number/],
  ["load=high", /load needs a number/],
  ["state>idle", /state takes = or !=/],
  ["partition<=main", /partition takes = or !=/],
];
for (const [text, why] of WRONG) {
  test(`filter refuses ${text}`, () => {
    const { test: passes, wrong } = nodeTest(text);
    assert.match(wrong, why);
    assert.ok(NODES.every(passes), "a wrong filter hides nothing");
  });
}
