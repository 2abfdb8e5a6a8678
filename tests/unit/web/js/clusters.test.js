import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ClusterCard,
  Figures,
  Matches,
  reasonOf,
  stateOf,
} from "../../../../src/corral/web/static/js/cluster/clusters.js";
import {
  resultOf,
  originOf,
  summaryOf,
  Unanswered,
} from "../../../../src/corral/web/static/js/lib/others.js";
import { shown as markup, texts } from "./records.js";

/** The addresses that a view leads to. @param {any} made */
const links = (made) => [...markup(made).matchAll(/href="([^"]*)"/g)].map(([, href]) => href);

const SUMMARY = {
  ...{ cluster: "west", user: "kim", at: 1000, seen_at: 999, trouble: "" },
  ...{ nodes: 4, usable: 2, down: 1, drained: 1, gpus: 32, gpus_free: 5 },
  ...{ running: 7, waiting: 0, mine_running: 2, mine_waiting: 0 },
};
const JOB = {
  ...{ id: 7, label: "7", name: "train", user: "kim", state: "RUNNING" },
  ...{ kind: "busy", nodes: "gpu-1" },
};
const RESULT = {
  ...{ jobs: [JOB], jobs_total: 1, nodes: [], nodes_total: 0, users: [], users_total: 0 },
  ...{ users_known: true, known: true, trouble: "" },
};
const WEST = "http://127.0.0.1:8002/";

test("a summary is read field by field, and more is left out", () => {
  assert.deepEqual(summaryOf({ ...SUMMARY, token: "x", __proto__: { evil: 1 } }), SUMMARY);
  assert.equal(summaryOf({ ...SUMMARY, gpus_free: null }).gpus_free, null);
});

test("what is not a summary or a search result is refused", () => {
  const wrong = [
    ...[null, undefined, 1, "x", [], {}],
    ...[
      { ...SUMMARY, nodes: "4" },
      { ...SUMMARY, gpus: Number.NaN },
      { ...SUMMARY, gpus: -1 },
    ],
  ];
  for (const answer of wrong) assert.throws(() => summaryOf(answer), Unanswered);
  const odd = [
    ...[
      { ...RESULT, jobs: "x" },
      { ...RESULT, jobs: [null] },
    ],
    { ...RESULT, jobs: [{ ...JOB, id: "7/../../x" }] },
  ];
  for (const answer of odd) assert.throws(() => resultOf(answer), Unanswered);
});

test("a hostile cluster's texts are cut, its lists too, and a kind is one of ours", () => {
  const long = { ...JOB, name: "x".repeat(1e6), kind: 'bad" onclick=' };
  const read = resultOf({ ...RESULT, jobs: Array.from({ length: 5000 }, () => long) });
  assert.equal(read.jobs.length, 20);
  assert.equal(read.jobs[0].name.length, 200);
  assert.equal(read.jobs[0].kind, "off");
});

test("links lead to the cluster that was asked, whatever its answer holds", () => {
  const nodes = [{ name: "data:text/html,x//#x", state: "IDLE", kind: "good", reason: "" }];
  const users = [{ name: "a b&q=c", running: 1, waiting: 0 }];
  const result = resultOf({ ...RESULT, nodes, nodes_total: 1, users, users_total: 1 });
  const shown = Matches({ name: "west", url: WEST, searched: { why: "", found: result } });
  for (const href of links(shown)) assert.ok(href.startsWith(`${WEST}#`), href);
  assert.deepEqual(links(shown), [
    `${WEST}#job/7`,
    `${WEST}#node/data%3Atext%2Fhtml%2Cx%2F%2F%23x`,
    `${WEST}#jobs?q=user%3Da%20b%26q%3Dc`,
  ]);
});

test("an unknown answer is unknown, and never nothing", () => {
  for (const why of ["silent", "logged-out", "odd", "refused", "asking"]) {
    const words = texts(Matches({ name: "west", url: WEST, searched: { why } }));
    assert.match(words, /Unknown/);
    assert.doesNotMatch(words, /Nothing found/);
    assert.ok(reasonOf({ why }));
  }
  const none = { ...RESULT, jobs: [], jobs_total: 0 };
  const empty = { why: "", found: resultOf(none) };
  assert.match(texts(Matches({ name: "west", url: WEST, searched: empty })), /Nothing found/);
  const partly = { why: "", found: resultOf({ ...none, known: false, users_known: false }) };
  const words = texts(Matches({ name: "west", url: WEST, searched: partly }));
  assert.match(words, /jobs are not known yet.*Users without jobs are unknown/s);
});

test("a cluster that stopped keeps its figures, as old ones", () => {
  const live = { why: "", summary: SUMMARY, at: 5000 };
  assert.equal(stateOf(live, 5001).word, "live");
  assert.equal(stateOf(live, 5100).word, "1 min old");
  const silent = stateOf({ ...live, why: "silent" }, 5119);
  assert.equal(silent.word, "unknown");
  assert.match(silent.about, /does not answer\. These figures are 2 min old/);
  assert.match(stateOf({ why: "silent" }, 5119).about, /^Unknown: its page does not answer/);
  const gone = { ...live, summary: { ...SUMMARY, trouble: "slurmctld does not answer" } };
  assert.deepEqual(stateOf(gone, 5001).kind, "bad");
});

test("figures that Slurm does not report are unknown, not zero", () => {
  const words = texts(Figures({ summary: { ...SUMMARY, gpus_free: null, mine_running: null } }));
  assert.match(words, /\? free of 32/);
  assert.match(words, /\? running, 0 pending/);
});

test("who is logged out is led to that cluster's own login", () => {
  const seen = { why: "logged-out" };
  const shown = ClusterCard({ name: "west", url: WEST, seen, now: 0 });
  assert.deepEqual(links(shown), [`${WEST}#cluster`, WEST]);
  assert.match(texts(shown), /logged out.*you are not logged in there.*Log in/s);
});

test("both names of the loopback are taken for the one that this page is opened by", () => {
  assert.equal(originOf("http://127.0.0.1:8002/", "localhost"), "http://localhost:8002");
  assert.equal(originOf("http://127.0.0.1:8002/", "127.0.0.1"), "http://127.0.0.1:8002");
  assert.equal(originOf("https://west.example.org", "localhost"), "https://west.example.org");
});
