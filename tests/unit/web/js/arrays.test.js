// What is asked before a job or the pending tasks of an array are cancelled.
import assert from "node:assert/strict";
import { test } from "node:test";
import { cancelQuestion, named } from "../../../../src/corral/web/static/js/jobs/arrays.js";

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
