// A job that is submitted again: its values in the form's fields, and what is wrong with one.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  begunWith,
  SubmitAgain,
  typedOf,
  wordsOf,
} from "../../../../src/corral/web/static/js/jobs/resubmission.js";
import { valueOf } from "../../../../src/corral/web/static/js/jobs/submit.js";
import { UseFacts } from "../../../../src/corral/web/static/js/jobs/use.js";
import { job, shown, texts } from "./records.js";
/** @import { JobUse } from "../../../../src/corral/web/static/js/api.js" */

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
  const words = { type: "object", additionalProperties: { type: "string" } };
  const lists = { type: "object", additionalProperties: { type: "array" } };
  /** @type {(value: any, schema: any) => unknown} */
  const back = (value, schema) => valueOf(/** @type {any} */ ({ value: typedOf(value) }), schema);
  assert.deepEqual(back({ A: "b c", D: "" }, words), { A: "b c", D: "" });
  assert.deepEqual(back({ lr: ["1", "2"] }, lists), { lr: ["1", "2"] });
  assert.equal(back(3, { type: "integer", default: 1 }), 3);
  assert.deepEqual(begunWith(true), { defaultChecked: true });
  assert.deepEqual(begunWith(undefined), {});
  assert.deepEqual(begunWith(["a"]), { defaultValue: "a" });
});

test("each of one's own jobs that ended is offered to be submitted again", () => {
  /** @type {(more: object, me?: any) => string} */
  const offered = (more, me = { mine: true }) =>
    shown(SubmitAgain({ job: job({ id: 7, ended: true, mine: true, ...more }), me }) ?? "");
  assert.match(offered({}), /href="#submit\?again=7"/);
  assert.equal(offered({ ended: false }), "");
  assert.equal(offered({ mine: false }), "");
  assert.equal(offered({}, { mine: false }), "");
});

test("what a job used of what it was given", () => {
  const gpus = { gpus: 0, gpu_s: null, gpu_given_s: null, why_no_gpus: "" };
  /** @param {Omit<JobUse, keyof typeof gpus>} use */
  const words = (use) => texts(UseFacts({ use: { ...use, ...gpus } }));
  const used = { cpu_s: 3600, cpu_given_s: 4 * 3600, memory: 512.4, memory_given: 640 };
  assert.match(words(used), /CPU time 1 h of 4 h, 25 % memory 512 MiB of 640 MiB, 80 %/);
  const none = { cpu_s: null, cpu_given_s: 100, memory: null, memory_given: 640 };
  assert.match(words(none), /CPU time not measured memory not measured Accounting has no samples/);
  const little = { cpu_s: 1, cpu_given_s: null, memory: 0.4, memory_given: 640 };
  assert.match(
    words(little),
    /1 s; what it was given is unknown memory below 1 MiB of 640 MiB, below 1 %/,
  );
});
