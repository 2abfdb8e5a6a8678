import assert from "node:assert/strict";
import { test } from "node:test";
import { ArrayLine } from "../../../../src/corral/web/static/js/jobs/arrays.js";
import { QosLinks, tasksAddress } from "../../../../src/corral/web/static/js/jobs/links.js";
import { Counts } from "../../../../src/corral/web/static/js/lib/view.js";
import { columnsOf, USUAL } from "../../../../src/corral/web/static/js/jobs/columns.js";
import {
  inParts,
  question,
  toggled,
  whose,
} from "../../../../src/corral/web/static/js/lib/bulk.js";
import { named } from "../../../../src/corral/web/static/js/nodes/node_bulk.js";
import {
  byWords,
  errorsOf,
  EventsCard,
  GpusCard,
  HealthCard,
} from "../../../../src/corral/web/static/js/nodes/node_cards.js";
import { NodeFacts } from "../../../../src/corral/web/static/js/nodes/node.js";
import { TokenTable } from "../../../../src/corral/web/static/js/operations/tokens.js";
import { ME, job, node, shown, texts } from "./records.js";

const CHOSEN = {
  ...{ targets: ["12", "13"], tasks: 340, exact: true, others: 0 },
  users: [
    { user: "kim", count: 300 },
    { user: "ada", count: 40 },
  ],
  ...{ nodes: "node[1-12]", node_count: 12 },
};

test("what is asked before jobs are cancelled has how many, whose and where they run", () => {
  assert.deepEqual(question(CHOSEN), {
    title: "Cancel 340 jobs?",
    text: "300 of kim, 40 of ada. On 12 nodes: node[1-12].",
  });
  const pending = question({ ...CHOSEN, nodes: "", node_count: 0 });
  assert.equal(pending.text, "300 of kim, 40 of ada. None of them has begun.");
  const long = question({ ...CHOSEN, nodes: `n[${"1,".repeat(200)}9]`, node_count: 201 });
  assert.ok(long.text.length < 200 && long.text.endsWith("…."), long.text);
  const left = question({ ...CHOSEN, exact: false, others: 1 });
  assert.equal(left.title, "Cancel at least 340 jobs?");
  assert.match(left.text, /1 job of other users is left out/);
});

test("of many users the first ones are named", () => {
  const users = [..."abcdefg"].map((user) => ({ user, count: 2 }));
  assert.equal(whose(users), "2 of a, 2 of b, 2 of c, 2 of d, 2 of e, 4 of others");
});

test("a set is changed by another set", () => {
  const before = new Set(["a"]);
  assert.deepEqual([...toggled(before, "b")], ["a", "b"]);
  assert.deepEqual([...toggled(before, "a")], []);
  assert.deepEqual([...before], ["a"]);
});

test("parts are sent one after the other, and a part that fails fails for each of its names", async () => {
  const names = Array.from({ length: 1200 }, (_, i) => String(i));
  /** @type {number[]} */
  const sizes = [];
  const { done, failed } = await inParts(names, async (part) => {
    sizes.push(part.length);
    if (sizes.length === 2) throw new Error("too many requests");
    return { done: part.slice(1), failed: [{ name: part[0], message: "no", hint: "" }] };
  });
  assert.deepEqual(sizes, [500, 500, 200]);
  assert.equal(done.length, 698);
  assert.equal(failed.length, 502);
  assert.equal(failed[1].message, "too many requests");
});

/** @type {import("../../../../src/corral/web/static/js/api.js").ArrayRow} */
const ARRAY = {
  ...{ array: "12", tasks: 1300, exact: true, alike: true, ended: false, running: true },
  counts: [
    { state: "PENDING", kind: "warn", count: 1200 },
    { state: "RUNNING", kind: "busy", count: 100 },
  ],
};

test("an array: its counts as badges in the server's words, and what each task has", () => {
  assert.equal(texts(Counts({ counts: ARRAY.counts })), "1,200 pending 100 running");
  const query = new URLSearchParams("show=running&q=user=kim train");
  const line = {
    ...{ job: job({ gpus: 8 }), array: ARRAY, open: false, ended: false, chosen: false },
    ...{ columns: columnsOf(USUAL, false), how: { me: ME } },
    address: tasksAddress("12", query, "all"),
  };
  const made = shown(ArrayLine({ ...line, choose: () => {}, unfold: () => {} }));
  assert.match(made, /8 each/);
  assert.match(made, /1,300 tasks/);
  assert.match(made, /href="#jobs\/all\?q=array%3D12\+user%3Dkim"/);
  const other = { ...ARRAY, alike: false, exact: false };
  const unlike = shown(ArrayLine({ ...line, array: other, choose: null, unfold: () => {} }));
  assert.doesNotMatch(unlike, /each|checkbox/);
  assert.match(unlike, /at least 1,300 tasks/);
});

test("what ended is listed where it ended, over the same period", () => {
  const address = (/** @type {string} */ query, /** @type {"all" | "ended"} */ tab = "ended") =>
    tasksAddress("12", new URLSearchParams(query), tab);
  assert.equal(address("days=30&q=train"), "#jobs/ended?q=array%3D12&days=30");
  assert.equal(address("days=7&q="), "#jobs/ended?q=array%3D12");
  assert.equal(address("show=waiting", "all"), "#jobs/all?q=array%3D12");
});

test("each QOS of a pending job that names several leads to its own limits", () => {
  const made = shown(QosLinks({ qos: "high,low" }));
  assert.match(made, /href="#policy\/qos\?q=high".*, .*href="#policy\/qos\?q=low"/);
  assert.doesNotMatch(shown(QosLinks({ qos: "" })), /href/);
});

test("a node that is in no partition has no link", () => {
  assert.match(texts(NodeFacts({ node: node({ partitions: [] }) })), /partitions - /);
  assert.doesNotMatch(shown(NodeFacts({ node: node({ partitions: [] }) })), /href/);
  assert.match(shown(NodeFacts({ node: node() })), /href="#cluster\?filter=partition%3Dmain"/);
});

test("of many nodes the first names are shown", () => {
  const nodes = Array.from({ length: 11 }, (_, i) => ({ ...node(), name: `n${i}` }));
  assert.equal(named(nodes), "n0, n1, n2, n3, n4, n5, n6, n7 and 3 more nodes");
  assert.equal(named(nodes.slice(0, 2)), "n0, n1");
});

const GPU = {
  ...{ index: 0, jobs: null, use: null, memory: null, memory_total: null },
  ...{ celsius: null, watts: null, xid: null, ecc: null, faulty: false },
};
/** @type {import("../../../../src/corral/web/static/js/api.js").NodeDetail} */
const DETAIL = {
  ...{ jobs: { columns: [], rows: [] }, gpus: [GPU], readings: true, events: [] },
  ...{ since: 1000, journal: false, outages: false, cut: false },
  machine: { kernel: "", architecture: "", sockets: 0, cores: 0, threads: 0, busy_at: null },
  health: { at: null, checks: [], why: "no metrics" },
};

test("a GPU: what is unknown is neither free nor 0", () => {
  assert.equal(errorsOf(GPU), "unknown");
  assert.equal(errorsOf({ ...GPU, xid: 0 }), "none");
  assert.equal(errorsOf({ ...GPU, xid: 79, ecc: 2 }), "Xid 79, 2 uncorrected memory errors");
  const marked = (/** @type {object} */ more) =>
    JSON.stringify(GpusCard({ detail: { ...DETAIL, gpus: [{ ...GPU, xid: 43, ...more }] } }));
  assert.doesNotMatch(marked({}), /"reason"/);
  const words = texts(GpusCard({ detail: DETAIL }));
  assert.equal(words.match(/unknown/g)?.length, 6);
  assert.match(texts(GpusCard({ detail: { ...DETAIL, gpus: [{ ...GPU, jobs: [] }] } })), /free/);
  const none = texts(GpusCard({ detail: { ...DETAIL, readings: false } }));
  assert.match(none, /errors are unknown/);
});

test("an event: who did it, or that nothing records it", () => {
  /** @type {import("../../../../src/corral/web/static/js/api.js").NodeEvent} */
  const event = { at: 1000, what: "resumed", by: "", why: "", source: "page", run: "" };
  assert.match(byWords(event), /Slurm records nobody/);
  assert.equal(byWords({ ...event, by: "ola" }), "ola");
  assert.equal(byWords({ ...event, what: "drained" }), "unknown");
  assert.equal(byWords({ ...event, what: "booted" }), "");
  const card = new EventsCard({ detail: { ...DETAIL, events: [{ ...event, by: "ola" }] } });
  const words = texts(card.render());
  assert.match(words, /resumed ola seen here/);
  assert.match(words, /known in part/);
});

test("health checks: the result of each; who may not read them sees that", () => {
  const check = () => {};
  const off = { owner: false, last: null, health: null, wrong: "", checking: false, check };
  const last = (
    /** @type {import("../../../../src/corral/web/static/js/api.js").LastHealth} */ of,
  ) => shown(HealthCard({ ...off, last: of }));
  assert.match(last(DETAIL.health), /Unknown: no metrics\./);
  /** @type {import("../../../../src/corral/web/static/js/api.js").HealthLine[]} */
  const checks = [
    { check: "health.disk", word: "ok", text: "" },
    { check: "health.xid", word: "fail", text: "Xid 79" },
  ];
  const known = last({ at: 1000, checks, why: "" });
  assert.ok(known.indexOf("health.xid") < known.indexOf("health.disk"), "what fails is first");
  assert.match(known, /<span class="state bad">fail<\/span>/);
  assert.match(known, /2 checks/);
  const part = last({ at: 1000, checks: [checks[1]], why: "no metrics" });
  assert.match(part, /The other checks are unknown: no metrics\./);
  /** @type {import("../../../../src/corral/web/static/js/api.js").NodeHealth} */
  const health = { at: 1000, checks: [{ check: "xid", word: "fail", text: "79" }], silent: [] };
  const made = shown(HealthCard({ ...off, owner: true, health }));
  assert.match(made, /<span class="state bad">fail<\/span>/);
});

test("tokens: none, or each with what it may do", () => {
  const revoke = () => {};
  assert.equal(texts(TokenTable({ tokens: [], revoke })), "There are no tokens.");
  /** @type {import("../../../../src/corral/web/static/js/api.js").ApiToken} */
  const token = { id: "1", name: "ci", user: "kim", scopes: ["read", "submit"], made: 1, ends: 2 };
  assert.match(texts(TokenTable({ tokens: [token], revoke })), /ci kim read, submit/);
});
