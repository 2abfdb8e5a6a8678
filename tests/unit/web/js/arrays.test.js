// The page of an array, and what is asked before a job or the pending tasks of an array are cancelled.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CancelArray,
  countWords,
  pointWords,
  tallyOf,
  TaskChoice,
  taskShown,
} from "../../../../src/corral/web/static/js/jobs/array_page.js";
import { cancelQuestion, named } from "../../../../src/corral/web/static/js/jobs/arrays.js";
import { shown } from "./records.js";
/** @import { ArrayTask, ArrayTasks } from "../../../../src/corral/web/static/js/api.js" */

test("the question states what ends and what goes on", () => {
  const pending = cancelQuestion("1000_[6-127%8]");
  assert.equal(pending.title, "Cancel pending tasks 6-127 of array 1000?");
  assert.match(pending.text, /Tasks of array 1000 that have begun go on/);
  assert.equal(pending.confirm, "Cancel pending tasks");
  for (const label of ["1000_127", "7", "7+1"]) {
    const single = cancelQuestion(label);
    assert.equal(single.title, `Cancel job ${label}?`);
    assert.doesNotMatch(single.text, /go on/);
  }
});

test("pending tasks are named as Slurm names them", () => {
  assert.equal(named("12_[3-30:3,40%4]"), "pending tasks 3-30:3,40 of array 12");
  assert.equal(named("12_[5]"), "pending tasks 5 of array 12");
  assert.equal(named("12_[1,3,5,...]"), "pending tasks 1,3,5,... of array 12");
  assert.equal(named("12_3"), "job 12_3");
});

/** @type {(id: number, task: number, kind: "good" | "busy" | "bad", state: string) => ArrayTask} */
const task = (id, number, kind, state) => {
  const label = `52_${number}`;
  return { id, label, task: number, kind, state, waiting: false };
};
const [FIRST, SECOND] = [task(53, 0, "bad", "FAILED"), task(54, 1, "bad", "FAILED")];
const [GOOD, RUNNING] = [task(52, 2, "good", "COMPLETED"), task(55, 3, "busy", "RUNNING")];
/** @type {ArrayTasks} */
const READ = {
  array: {
    ...{ array: "52", tasks: 3, exact: true, alike: true, ended: true, running: false },
    counts: [
      { state: "FAILED", kind: "bad", count: 2 },
      { state: "COMPLETED", kind: "good", count: 1 },
    ],
  },
  ...{ tasks: [FIRST, SECOND, GOOD], total: 3, failed: [FIRST, SECOND] },
};

test("an array's page is of the array: its counts, and its first failed task", () => {
  assert.equal(countWords(READ), "2 failed, 1 completed");
  assert.equal(taskShown(READ, 52, 52), 53);
  assert.equal(taskShown({ ...READ, tasks: [GOOD], failed: [] }, 52), 52);
  assert.equal(taskShown({ ...READ, tasks: [FIRST, RUNNING] }, 52, 55), 55); // its log is read
  assert.equal(taskShown({ ...READ, tasks: [GOOD, RUNNING], failed: [] }, 52), 55);
  assert.equal(taskShown(READ, 52, 54), 54);
});

test("the tasks of an array are a choice, and failed ones are one click away", () => {
  const choice = TaskChoice({ read: READ, shown: 53, own: 52, choose: () => {} });
  const words = shown(choice);
  assert.match(words, /task 2 \(completed\)/);
  assert.match(words, /Failed tasks:/);
  const many = {
    ...READ,
    array: { ...READ.array, counts: [{ ...READ.array.counts[0], count: 50 }] },
  };
  assert.match(
    shown(TaskChoice({ read: many, shown: 53, own: 52, choose: () => {} })),
    /Of 50 failed tasks/,
  );
  const pending = { ...READ, tasks: [FIRST], total: 1 };
  assert.match(
    shown(TaskChoice({ read: pending, shown: 53, own: 52, choose: () => {} })),
    /not begun/,
  );
});

test("a task of a sweep is named by its point", () => {
  const sweep = {
    names: ["lr", "seed"],
    points: [
      ["1e-3", "0"],
      ["1e-3", "1"],
    ],
  };
  assert.equal(pointWords(sweep, 1), "lr=1e-3, seed=1");
  assert.equal(pointWords(sweep, 7), "");
  assert.equal(pointWords(undefined, 1), "");
  const words = shown(TaskChoice({ read: READ, shown: 53, own: 52, choose: () => {}, sweep }));
  assert.match(words, /task 1 lr=1e-3, seed=1 \(failed\)/);
  assert.match(words, /task 2 \(completed\)/);
});

test("of an array that goes on the pending tasks can be cancelled alone", () => {
  const count = (/** @type {"bad" | "busy" | "warn"} */ kind, /** @type {number} */ n) => ({
    ...{ state: kind, kind, count: n },
  });
  /** @type {(...counts: ArrayTasks["array"]["counts"]) => ArrayTasks} */
  const of = (...counts) => ({ ...READ, array: { ...READ.array, counts } });
  const cancel = () => {};
  const words = (/** @type {ArrayTasks} */ read) => shown(CancelArray({ read, cancel }));
  assert.deepEqual(tallyOf(of(count("bad", 2), count("warn", 7), count("busy", 1))), {
    ...{ bad: 2, waiting: 7, going: 1 },
  });
  assert.match(
    words(of(count("warn", 7), count("busy", 1))),
    /Cancel 7 pending tasks….*Cancel the array…/,
  );
  assert.doesNotMatch(words(of(count("warn", 7))), /pending/);
  assert.doesNotMatch(words(of(count("busy", 7))), /pending/);
  assert.equal(CancelArray({ read: of(count("bad", 2)), cancel }), null);
});
