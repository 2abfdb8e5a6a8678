// A job that is submitted again: its values in the form's fields, and what is wrong with one.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  begunWith,
  faultsOf,
  typedOf,
  wordsOf,
} from "../../../../src/corral/web/static/js/again.js";
import { SubmitAgain } from "../../../../src/corral/web/static/js/job.js";
import { valueOf } from "../../../../src/corral/web/static/js/submit.js";
import { job, shown } from "./records.js";

test("words with quotes are read as a shell reads them, and typed so that they are", () => {
  assert.deepEqual(wordsOf("a  b"), ["a", "b"]);
  assert.deepEqual(wordsOf('sh -c \'echo "a b"\'  "it\'s" x\\ y'), [
    ...["sh", "-c", 'echo "a b"', "it's", "x y"],
  ]);
  assert.deepEqual(wordsOf(" "), []);
  assert.deepEqual(wordsOf('"" a'), ["", "a"]);
  assert.deepEqual(wordsOf("it's"), ["it's"]); // a mark that is not closed is itself
  for (const words of [
    ["a b", 'c"d', "e\\f", ""],
    ["--lr", "1e-3"],
    ["it's", "a\nb"],
  ])
    assert.deepEqual(wordsOf(typedOf(words)), words);
});

test("a value comes back from its field as it was", () => {
  const texts = { type: "object", additionalProperties: { type: "string" } };
  const lists = { type: "object", additionalProperties: { type: "array" } };
  const back = (value, schema) => valueOf({ value: typedOf(value) }, schema);
  assert.deepEqual(back({ A: "b c", D: "" }, texts), { A: "b c", D: "" });
  assert.deepEqual(back({ lr: ["1", "2"] }, lists), { lr: ["1", "2"] });
  assert.equal(back(3, { type: "integer", default: 1 }), 3);
  assert.deepEqual(begunWith(true), { defaultChecked: true });
  assert.deepEqual(begunWith(undefined), {});
  assert.deepEqual(begunWith(["a"]), { defaultValue: "a" });
});

test("what a refusal states of a field is found", () => {
  const message =
    "the job cannot be run as asked: nodes: too few; time: String should match pattern '^x$'; a: b";
  assert.deepEqual(faultsOf(message, ["nodes", "time"]), {
    nodes: "too few",
    time: "this is not in the form that is described here",
  });
  assert.deepEqual(faultsOf("the job cannot be run as asked: env.A: wrong", ["env"]), {
    env: "wrong",
  });
  assert.deepEqual(faultsOf("slurmctld does not answer", ["nodes"]), {});
});

test("each of one's own jobs that ended is offered to be submitted again", () => {
  const offered = (more, me = { mine: true }) =>
    shown(SubmitAgain({ job: job({ id: 7, ended: true, mine: true, ...more }), me }) ?? "");
  assert.match(offered({}), /href="#submit\?again=7"/);
  assert.equal(offered({ ended: false }), "");
  assert.equal(offered({ mine: false }), "");
  assert.equal(offered({}, { mine: false }), "");
});
