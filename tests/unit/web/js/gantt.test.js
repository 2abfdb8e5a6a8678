import assert from "node:assert/strict";
import { test } from "node:test";
import * as gantt from "../../../../src/corral/web/static/js/cluster/gantt.js";
import {
  countWords,
  jobsOn,
  notesOf,
  rowsOf,
} from "../../../../src/corral/web/static/js/cluster/timeline.js";
import { node } from "./records.js";
/** @import { Timeline, TimelineJob } from "../../../../src/corral/web/static/js/api.js" */

/** @param {Partial<TimelineJob>} more @returns {TimelineJob} */
const job = (more) => ({
  ...{ id: 1, label: "1", name: "train", user: "kim", state: "COMPLETED", kind: "good" },
  ...{ start_at: 100, end_at: 200, runs: [[0, 1]] },
  ...more,
});
const SCALE = { from: 0, to: 1000, left: 100, width: 1100 };

/** @param {Partial<Timeline>} more @returns {Timeline} */
const answer = (more) => ({
  ...{ known: true, at: 1000, why: "", from: 0, to: 1000, nodes: ["n0", "n1", "old9"] },
  ...{ jobs: [job({})], cut: false, complete_from: 0, why_no_past: "", most: 10000 },
  ...more,
});

test("jobs of a node at the same time are in lanes, and a lane is used again", () => {
  const jobs = [
    job({ id: 4, start_at: 900, end_at: null }),
    job({ id: 3, start_at: 200, end_at: 300 }),
    job({ id: 2, start_at: 150, end_at: 400 }),
    job({ id: 1 }),
    job({ id: 9, runs: [[2, 7]] }),
  ];
  const { bars, lanes } = gantt.lanesOf(jobs, 1);
  const placed = bars.map(({ job: { id }, lane }) => [id, lane]);
  assert.deepEqual(placed, [[1, 0], [2, 1], [3, 0], [4, 0]]); // prettier-ignore
  assert.equal(lanes, 2);
  assert.deepEqual(gantt.lanesOf(jobs, 8), { bars: [], lanes: 1 });
});

test("a job still running ends at the edge, and the shortest can be seen within it", () => {
  assert.deepEqual(gantt.extentOf(SCALE, job({})), [200, 300]);
  assert.deepEqual(gantt.extentOf(SCALE, job({ start_at: -50, end_at: null })), [100, 1100]);
  assert.deepEqual(gantt.extentOf(SCALE, job({ start_at: 1000, end_at: 1000 })), [1098, 1100]);
});

test("lanes share a row and stay within it", () => {
  for (const lanes of [1, 2, 5, 40]) {
    for (let lane = 0; lane < lanes; lane += 1) {
      const [top, height] = gantt.laneBox(lane, lanes);
      assert.ok(height >= 1 && top >= 3 && top + height <= gantt.ROW);
    }
  }
});

test("a point leads to the bar that is drawn there", () => {
  const lanes = gantt.lanesOf([job({ id: 1 }), job({ id: 2, start_at: 150, end_at: 400 })], 0);
  lanes.bars.forEach(({ job: each, lane }, i) => {
    const [begin, end] = gantt.extentOf(SCALE, each);
    const [top, height] = gantt.laneBox(lane, lanes.lanes);
    assert.equal(gantt.barAt(lanes, SCALE, (begin + end) / 2, top + height / 2), i);
  });
  assert.equal(gantt.barAt(lanes, SCALE, 900, 10), -1);
});

test("the axis has full hours or days, as many as fit", () => {
  const from = Date.UTC(2026, 10, 24, 10, 7) / 1000;
  for (const [seconds, width] of [
    [3600, 1440],
    [86400, 1440],
    [604800, 1440],
    [604800, 390],
  ]) {
    const scale = { from, to: from + seconds, left: 78, width };
    const ticks = gantt.ticksOf(scale);
    assert.ok(ticks.length >= 2 && ticks.length * 60 <= width, `${seconds} ${width}`);
    for (const { at, words } of ticks) {
      assert.ok(at >= scale.from && at <= scale.to);
      assert.match(words, /^\d\d:\d[05]$|^\d\d-\d\d$/);
    }
  }
});

test("keys go from node to node and from job to job, and stop at the edges", () => {
  const rows = [
    [job({ id: 1, start_at: 10 }), job({ id: 2, start_at: 500 })],
    [job({ id: 3, start_at: 20 }), job({ id: 4, start_at: 300 }), job({ id: 5, start_at: 450 })],
    [],
  ].map((jobs) => gantt.lanesOf(jobs, 0).bars);
  /** @type {[string, [number, number], [number, number] | null][]} */
  const cases = [
    ["ArrowDown", [-1, -1], [0, -1]],
    ["ArrowUp", [0, -1], [0, -1]],
    ["ArrowRight", [0, -1], [0, 0]],
    ["ArrowRight", [0, 1], [0, 1]],
    ["ArrowLeft", [0, 0], [0, -1]],
    ["ArrowLeft", [0, -1], [0, -1]],
    ["ArrowDown", [0, 1], [1, 2]], // the job that began closest in time
    ["ArrowDown", [1, 2], [2, -1]],
    ["End", [0, -1], [2, -1]],
    ["PageDown", [0, -1], [2, -1]],
    ["Home", [2, -1], [0, -1]],
    ["x", [0, 0], null],
  ];
  for (const [key, [row, bar], to] of cases) {
    const next = gantt.moved(key, { row, bar }, rows.length, 10, (at) => rows[at]);
    assert.deepEqual(next && [next.row, next.bar], to, `${key} ${row} ${bar}`);
  }
  assert.equal(
    gantt.moved("ArrowDown", { row: -1, bar: -1 }, 0, 10, () => []),
    null,
  );
});

test("states differ by more than their colours, and others' jobs are pale", () => {
  const paint = (/** @type {Partial<TimelineJob>} */ more, mine = "", width = 50) =>
    gantt.paintOf(job(more), mine, width, 20);
  assert.deepEqual(paint({ kind: "bad" }), { ink: "bad", alpha: 1, mark: "lined" });
  assert.equal(paint({ kind: "off" }).mark, "hollow");
  assert.equal(paint({ kind: "off" }, "", 3).mark, "", "no room");
  assert.equal(paint({}, "kim").alpha, 1);
  assert.ok(paint({}, "ada").alpha < 0.5);
});

test("a long name keeps its end", () => {
  assert.equal(gantt.fitted("gpu-012", 78), "gpu-012");
  assert.equal(gantt.fitted("rack-with-long-name-017", 70), "…-name-017");
});

test("a line names node, job, user, state and times; a node without a job its jobs", () => {
  const line = gantt.lineOf("n0", job({ end_at: null, state: "RUNNING" }), [], 7300);
  assert.match(line, /^n0 {2}1 {2}train {2}kim {2}running .* to now {2}2 h$/);
  assert.equal(gantt.lineOf("n0", undefined, gantt.lanesOf([job({})], 0).bars), "n0  1 job");
});

test("rows: by the filter, those with jobs; a node that is gone goes by its name", () => {
  const nodes = new Map([
    ["n0", node({ name: "n0" })],
    ["n1", node({ name: "n1", state: "DOWN", kind: "bad" })],
  ]);
  const names = (/** @type {string} */ q, which = "all", more = {}) =>
    rowsOf(answer(more), nodes, { q, nodes: which }).rows.map(({ name, place }) => [name, place]);
  assert.deepEqual(names(""), [["n0", 0], ["n1", 1], ["old9", 2]]); // prettier-ignore
  assert.deepEqual(names("state=down"), [["n1", 1]]);
  assert.deepEqual(names("old"), [["old9", 2]]);
  assert.deepEqual(names("", "used", { jobs: [job({ runs: [[1, 1]] })] }), [["n1", 1]]);
  assert.match(rowsOf(answer({}), nodes, { q: "cpus=x", nodes: "all" }).wrong, /needs a number/);
});

test("what is missing is stated", () => {
  assert.deepEqual(notesOf(answer({})), []);
  assert.match(notesOf(answer({ known: false, why: "slow" }))[0], /unknown: slow/);
  assert.match(notesOf(answer({ why: "slow" }))[0], /of earlier: slow/);
  assert.match(notesOf(answer({ why_no_past: "no accounting" }))[0], /not shown: no accounting/);
  assert.match(notesOf(answer({ cut: true, complete_from: 7200 }))[0], /before 1970-01-01 .*left/);
});

test("the number of jobs is that of the nodes that are shown", () => {
  const data = answer({
    jobs: [job({}), job({ id: 2, runs: [[2, 2]] }), job({ id: 3, runs: [[0, 0], [2, 2]] })], // prettier-ignore
  });
  const [n0, n1, old9] = data.nodes.map((name, place) => ({ name, place }));
  assert.equal(jobsOn(data, [n0, n1, old9]), 3);
  assert.equal(jobsOn(data, [n1]), 1);
  assert.equal(jobsOn(data, [old9]), 2);
  assert.equal(jobsOn(data, []), 0);
  assert.match(countWords(data, [n1], 1), /^1 of 3 jobs on 1 of 3 nodes, /);
  assert.match(countWords(data, [n0, n1, old9], 3), /^3 jobs, /);
});
