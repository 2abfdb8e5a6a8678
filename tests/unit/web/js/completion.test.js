// What a filter offers as it is typed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { offersOf, wordAt } from "../../../../src/corral/web/static/js/lib/completion.js";
import { complete } from "../../../../src/corral/web/static/js/jobs/jobs.js";
import { nodeTest, nodeWords } from "../../../../src/corral/web/static/js/nodes/filter.js";
import { node } from "./records.js";

const WORDS = {
  state: ["pending", "running", "completed"],
  user: ["kim", "ada", "akim"],
  partition: ["main", "long"],
  name: [],
};
/** @param {string} word */
const offered = (word) => offersOf(word, WORDS).map((offer) => offer.word);

test("the word at the caret", () => {
  assert.deepEqual(wordAt("state=run us train", 12), { start: 10, end: 12, word: "us" });
  assert.deepEqual(wordAt("state=run us train", 9), { start: 0, end: 9, word: "state=run" });
  assert.deepEqual(wordAt("a ", 2), { start: 2, end: 2, word: "" });
  assert.deepEqual(wordAt("", 0), { start: 0, end: 0, word: "" });
});

test("keys, then their values, those that begin as what is typed first", () => {
  assert.deepEqual(offered(""), ["state=", "user=", "partition=", "name="]);
  assert.deepEqual(offered("pa"), ["partition="]);
  assert.deepEqual(offered("state="), ["state=pending", "state=running", "state=completed"]);
  assert.deepEqual(offered("user=ki"), ["user=kim", "user=akim"]);
  assert.deepEqual(offered("user!=K"), ["user!=kim", "user!=akim"]);
  assert.deepEqual(offered("state=pending,r"), ["state=pending,running"]);
  assert.deepEqual(offered("state=pending,pen"), []);
  assert.deepEqual(offered("name=x"), []);
  assert.deepEqual(offered("constructor=x"), []);
});

test("a key whose value is yet to be typed leaves nothing out", () => {
  assert.equal(complete(" user=kim  account= train "), "user=kim train");
  assert.equal(complete("account!="), "");
  assert.equal(complete("kim nodes=gpu[00"), "kim");
  assert.equal(complete("nodes!=a[0-1],b["), "");
  assert.equal(complete("nodes=a[0-1],b gpu[00"), "nodes=a[0-1],b gpu[00");
  for (const text of ["state=", "state!=", "partition=,"])
    assert.ok(nodeTest(text).test(node()), text);
  assert.match(nodeTest("colour=").wrong, /no colour/);
});

test("a value without its key", () => {
  assert.deepEqual(offered("run"), ["state=running"]);
  assert.deepEqual(offered("r"), []);
  assert.deepEqual(offered("train"), []);
});

test("all keys of the nodes' filter are offered, and each offer is one that it takes", () => {
  const nodes = [
    node(),
    node({ state: "MIXED+DRAIN", partitions: ["long"], features: ["rack-1"] }),
  ];
  const words = nodeWords(nodes);
  assert.deepEqual(words.state, ["drain", "idle", "mixed"]);
  assert.deepEqual(words.partition, ["long", "main"]);
  for (const key of Object.keys(words))
    assert.equal(nodeTest(`${key}=${words[key][0] ?? 1}`).wrong, "", key);
  assert.ok(Object.keys(words).includes("gpus_free"));
});
