import assert from "node:assert/strict";
import { test } from "node:test";
import {
  HistoryView,
  runsOf,
  summaryOf,
} from "../../../../src/corral/web/static/js/operations/history.js";
import { shown } from "./records.js";

/** @param {string} what @param {object} [more] */
const record = (what, more = {}) => ({
  ...{ at: 100, run: "r1", by: "ada", what, text: `${what} text` },
  ...more,
});
const APPLY = [
  record("stage-done", { at: 190, text: "slurm" }),
  record("change-done", { at: 160, node: "node2" }),
  record("change-done", { at: 130, node: "node1" }),
  record("plan", { at: 100, changes: ["node1: write slurm.conf"] }),
];

test("records of a run are together in the order of time, though another ran meanwhile", () => {
  const [plan, ...rest] = [...APPLY].reverse();
  const records = [...rest].reverse();
  records.splice(1, 0, record("note", { run: "r2" }), record("note", { run: "" }));
  records.push(plan, record("note", { run: "" }));
  const runs = runsOf(records);
  assert.deepEqual(
    runs.map((run) => run.records.map(({ what }) => what)),
    [["plan", "change-done", "change-done", "stage-done"], ["note"], ["note"], ["note"]],
  );
  assert.equal(new Set(runs.map(({ run }) => run)).size, 4);
});

test("a run in one sentence", () => {
  const inTime = [...APPLY].reverse();
  assert.deepEqual(summaryOf(inTime), {
    ...{ what: "apply", kind: "good", words: "2 changes in 1 stage, 1 min" },
    nodes: ["node1", "node2"],
  });
  const wrong = summaryOf([...inTime, record("node-failed", { at: 160, text: "no ssh" })]);
  assert.equal(wrong.kind, "bad");
  assert.match(wrong.words, /, 1 min; 1 failed: no ssh$/);
  const proof = summaryOf([record("plan"), record("proof", { text: "proof of 9 checks: good" })]);
  assert.deepEqual([proof.what, proof.words], ["proof", "proof of 9 checks: good"]);
});

test("a run is one row, and unfolds", () => {
  const view = new HistoryView({ journal: { records: APPLY } });
  view.setState = (/** @type {any} */ change) => Object.assign(view.state, change);
  assert.match(shown(view.render()), /2 changes in 1 stage/);
  assert.doesNotMatch(shown(view.render()), /write slurm.conf/);
  view.toggle("r1");
  assert.match(shown(view.render()), /write slurm.conf/);
  view.toggle("r1");
  assert.doesNotMatch(shown(view.render()), /write slurm.conf/);
  const none = new HistoryView({ journal: { records: [] } });
  assert.match(shown(none.render()), /Nothing was done/);
});
