import assert from "node:assert/strict";
import { test } from "node:test";
import { HistoryView } from "../../../../src/corral/web/static/js/operations/history.js";
import { runsOf, summaryOf } from "../../../../src/corral/web/static/js/lib/runs.js";
import { EventsCard } from "../../../../src/corral/web/static/js/nodes/node_cards.js";
import { shown, texts } from "./records.js";

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

test("on a node's page a run of Corral is one row among its events, and unfolds", () => {
  const changes = Array.from({ length: 27 }, (_, i) => ({
    ...{ at: 200 + i, what: "change-done", by: "ada", why: `change ${i}`, source: "journal" },
    run: "r1",
  }));
  const failed = ["disk full", "no ssh"].map((why, i) => ({
    ...{ at: 230 + i, what: "node-failed", by: "ada", why, source: "journal", run: "r1" },
  }));
  const boot = { at: 210, what: "booted", by: "", why: "", source: "slurm", run: "" };
  const events = [...changes, ...failed, boot].sort((a, b) => b.at - a.at);
  const detail = { events, since: 100, journal: true, cut: true };
  const view = new EventsCard({ detail: /** @type {any} */ (detail) });
  view.setState = (/** @type {any} */ change) => Object.assign(view.state, change);
  const folded = shown(view.render());
  assert.equal(folded.match(/<tr/g)?.length, 1 + 2); // with the head
  const words = texts(view.render());
  assert.match(words, /apply ada 27 changes, 31 s; 2 failed: disk full Corral's journal/);
  assert.match(words, /booted/);
  assert.doesNotMatch(words, /change 3/);
  assert.match(words, /The newest 30 are shown/);
  view.toggle("r1");
  assert.equal(shown(view.render()).match(/<tr/g)?.length, 1 + 2 + 29);
  assert.match(texts(view.render()), /change done ada change 3 Corral's journal/);
});
