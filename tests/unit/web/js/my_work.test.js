import assert from "node:assert/strict";
import { test } from "node:test";
import * as limits from "../../../../src/corral/web/static/js/lib/limits.js";
import { IdleBadge, IdleGpus } from "../../../../src/corral/web/static/js/jobs/idle.js";
import * as mine from "../../../../src/corral/web/static/js/jobs/my_work.js";
import { UseFacts } from "../../../../src/corral/web/static/js/jobs/use.js";
import * as policy from "../../../../src/corral/web/static/js/cluster/policy.js";
import { el } from "../../../../src/corral/web/static/js/lib/view.js";
import { job, ME, shown, texts } from "./records.js";
/** @import { AccountRow, ArrayRow, EfficiencyRow, QuotaCell, QuotaRow, RunningJob } from "../../../../src/corral/web/static/js/api.js" */

/** @param {Partial<QuotaCell>} more @returns {QuotaCell} */
const cell = (more = {}) => ({
  ...{ what: "gpus", used: 3, exact: true, limit: 12, by: "GrpTRES", unknown: false, ...more },
});

test("used of a limit: unlimited and unknown are stated, and are not zero", () => {
  assert.equal(mine.cellWords(cell()), "3 of 12");
  assert.equal(mine.cellWords(cell({ exact: false })), "3+ of 12");
  assert.equal(mine.cellWords(cell({ limit: null })), "3, unlimited");
  assert.equal(mine.cellWords(cell({ used: null })), "unknown of 12");
  assert.equal(mine.cellWords(cell({ limit: null, unknown: true })), "3, limit unknown");
  assert.equal(mine.cellWords(cell({ used: 0, limit: 0 })), "0 of 0");
  const memory = cell({ what: "memory", used: 2048, limit: 10240 });
  assert.equal(mine.cellWords(memory), "2.0 GiB of 10 GiB");
});

/** @param {Partial<QuotaRow>} more @returns {QuotaRow} */
const row = (more = {}) => ({
  ...{ kind: "user", name: "vision", account: "vision", cells: [], budgets: [], more: [], ...more },
});

test("limits: rows without one are named in a sentence, and a full one stands out", () => {
  const free = ["gpus", "cpus", "jobs", "submitted"].map((what) =>
    cell({ what: /** @type {QuotaCell["what"]} */ (what), limit: null }),
  );
  const rows = [
    row({ cells: [cell({ used: 12 }), ...free.slice(1)] }),
    row({ kind: "account", name: "root", account: "root", cells: free }),
    row({
      ...{ kind: "qos", name: "high", account: "", cells: free },
      budgets: [{ bounds: "usage over time", resource: "gres/gpu", used: null, limit: 6000 }],
    }),
  ];
  const answer = { known: true, at: 1, why: "", why_no_qos: "", rows };
  const made = mine.LimitsCard({ limits: answer, user: "kim" });
  const words = texts(made);
  assert.match(words, /kim in vision 12 of 12/);
  assert.match(words, /Unlimited: account root, all users\./);
  assert.match(words, /usage over time: unknown of 100 GPU hours/);
  assert.ok(shown(made).includes('class="nowrap reason"'));
  assert.ok(shown(made).includes('href="#policy/qos?q=high"'));
  const silent = { ...answer, known: false, why: "slurmdbd does not answer", rows: [] };
  assert.match(
    texts(mine.LimitsCard({ limits: silent, user: "kim" })),
    /The limits are unknown: slurmdbd does not answer/,
  );
});

/** @param {Partial<RunningJob>} more @returns {RunningJob} */
const running = (more = {}) => ({
  ...{ id: 7, label: "7", name: "train", start_at: 1, limit: 60, cpus: 8, gpus: 8 },
  ...{ gpus_exact: true, known: 8, use: 0.75, idle: [], idle_count: 0, array: null, ...more },
});

test("idle GPUs of a running job", () => {
  assert.equal(mine.idleWords(running()), "75 %");
  const idle = [{ node: "n1", index: 6 }];
  assert.equal(mine.idleWords(running({ idle, idle_count: 1 })), "75 %, 1 of 8 idle");
  assert.equal(mine.idleNames(running({ idle, idle_count: 1 })), "n1 GPU 6");
  assert.equal(mine.idleNames(running({ idle, idle_count: 1200 })), "n1 GPU 6 and 1,199 more");
  assert.equal(mine.idleWords(running({ known: 0, use: null })), "unknown");
  assert.equal(mine.idleWords(running({ known: 2 })), "2 of 8 measured, 75 %");
  assert.equal(mine.idleWords(running({ gpus: 0 })), "no GPUs");
  const silent = { known: false, at: 0, why: "no metrics", over_s: 0 };
  assert.equal(mine.measuredWords(silent), "Use of GPUs is unknown: no metrics.");
});

/** @param {number} id @param {Partial<EfficiencyRow>} more @returns {EfficiencyRow} */
const ended = (id, more) => ({
  ...{ id, label: `${id}`, name: "a", state: "COMPLETED", kind: "good", end_at: 1, elapsed: 60 },
  ...{ cpus: 2, gpus: 1, gpus_exact: true, memory: 1024, cpu: 0.5, memory_used: 0.5, gpu: 0.5 },
  ...{ cpu_waste: 1, gpu_waste: 1, memory_waste: 1, array: null, measured: 1, ...more },
});

/** @param {Partial<ArrayRow>} [more] @returns {ArrayRow} */
const sweep = (more = {}) => ({
  ...{ array: "1000", tasks: 600, exact: true, alike: true, ended: true },
  ...{ running: false, ...more },
  counts: [{ state: "COMPLETED", kind: "good", count: 600 }],
});

test("a sweep is one row of the running and one of the ended jobs, and opens its tasks", () => {
  const work = /** @type {any} */ ({
    ...{ user: "kim", jobs: 601, reasons: [] },
    ...{ measured: { known: true, at: 1, why: "", over_s: 0 } },
    running: [running({ array: sweep(), gpus: 1200, label: "1000_7" }), running({ id: 8 })],
  });
  const now = mine.RunningCard({ work });
  assert.match(texts(now), /1000_\[…\] 600 tasks train 1200/);
  assert.match(texts(now), /601 jobs in the list/);
  assert.ok(shown(now).includes('href="#jobs/running?q=array%3D1000+user%3Dkim"'));
  assert.ok(shown(now).includes('href="#job/8"'));
  const jobs = [ended(7, { array: sweep(), measured: 500 }), ended(8, {})];
  const answer = {
    ...{ user: "kim", days: 30, most: 500, known: true, why: "", cut: false },
    jobs,
  };
  const past = { ...answer, why_no_gpus: "" };
  const how = { by: "gpu_waste", down: true, order: () => {}, more: false, all: () => {} };
  const table = el("div", null, mine.EfficiencyTable({ ended: past, ...how }));
  assert.match(texts(table), /1000_\[…\] 600 tasks a 600 completed/);
  assert.match(texts(table), /50 % of 1 each 50 % of 2 each 50 % of 1.0 GiB each/);
  assert.ok(
    shown(table).includes('href="#jobs/ended?q=array%3D1000+user%3Dkim&days=30"'),
    shown(table),
  );
  assert.match(mine.aboutEnded(past).join(" "), /means over its measured tasks/);
  assert.equal(mine.measuredOf(jobs[0]), "500 of 600 tasks measured");
  assert.equal(mine.measuredOf(jobs[1]), "");
});

test("an array's row in the list of jobs has its idle GPUs", () => {
  const badge = IdleBadge({ job: running({ array: sweep(), idle_count: 3 }) });
  assert.match(texts(badge), /3 idle/);
});

test("idle GPUs are asked for every 20 s at most, whichever jobs the list has", async () => {
  let at = 1000;
  let asked = 0;
  const plain = { now: Date.now, fetch: globalThis.fetch };
  Date.now = () => at;
  globalThis.fetch = async () => {
    asked += 1;
    return new Response(JSON.stringify({ running: [], measured: {} }));
  };
  const idle = new IdleGpus();
  for (const id of [1, 2, 2, 3]) {
    idle.ask({ ...ME, figures: true }, [job({ id })], () => {});
    at += 5000;
  }
  assert.equal(asked, 1);
  await new Promise((answered) => {
    idle.ask({ ...ME, figures: true }, [job({ id: 3 })], () => answered(null));
  });
  assert.equal(asked, 2);
  Date.now = plain.now;
  globalThis.fetch = plain.fetch;
});

test("what an ended job used has its GPUs, and why they are unknown", () => {
  const use = { cpu_s: 60, cpu_given_s: 120, memory: 1, memory_given: 2 };
  const gpus = { gpus: 2, gpu_s: 600, gpu_given_s: 7200, why_no_gpus: "" };
  assert.match(texts(UseFacts({ use: { ...use, ...gpus } })), /GPU time 10 min of 2 h, 8 %/);
  const silent = { ...gpus, gpu_s: null, why_no_gpus: "this cluster has no metrics" };
  assert.match(
    texts(UseFacts({ use: { ...use, ...silent } })),
    /GPU time unknown: this cluster has no metrics/,
  );
  const none = { ...silent, gpus: 0 };
  assert.doesNotMatch(texts(UseFacts({ use: { ...use, ...none } })), /GPU time unknown/);
});

test("ended jobs by waste: what is unknown comes last in any order", () => {
  const jobs = [
    ended(1, { gpu_waste: null, cpu_waste: 9 }),
    ended(2, { gpu_waste: 2 }),
    ended(3, { gpu_waste: 5 }),
    ended(4, { gpu_waste: null, cpu_waste: 3 }),
  ];
  const ids = (/** @type {string} */ by, /** @type {boolean} */ down) =>
    mine.inOrder(jobs, by, down).map(({ id }) => id);
  assert.deepEqual(ids("gpu_waste", true), [3, 2, 1, 4]);
  assert.deepEqual(ids("gpu_waste", false), [2, 3, 4, 1]);
  const choice = mine.choiceOf(new URLSearchParams("days=30&by=nothing&order=up"));
  assert.deepEqual(choice, { days: "30", by: "gpu_waste", down: false });
});

test("hours and cost of a period", () => {
  const period = { days: 7, jobs: 1, gpu_hours: 1234.4, gpus_exact: true, cpu_hours: 0.004 };
  const cost = { dollars: 3, words: "at least 3.00" };
  const { gpu, rest } = mine.periodWords({ ...period, cost }, false);
  assert.equal(gpu, "1,234");
  assert.equal(rest, "below 0.01 CPU hours, 1 job, at least 3.00 $ of rented machines");
  assert.equal(mine.periodWords({ ...period, cost: null }, true).gpu, "at least 1,234");
  const hidden = mine.periodWords({ ...period, cost: { dollars: 0, words: "?" } }, false);
  assert.match(hidden.rest, /unknown \$ of rented machines/);
  const why = { why_no_cost: "the cluster file has no price" };
  const known = { user: "kim", known: true, why: "", cut: false };
  const tiles = { ...known, ...why, periods: [{ ...period, cost: null }] };
  const words = texts(el("div", null, mine.HourTiles({ hours: tiles, failure: null })));
  assert.match(words, /unknown cost of 7 and 30 days: the cluster file has no price/);
  const none = { ...known, known: false, why: "no accounting", periods: [], why_no_cost: "" };
  assert.match(texts(mine.HourTiles({ hours: none, failure: null })), /^unknown .*no accounting/);
});

test("limits in words, those of one name together", () => {
  const lines = limits.limitLines([
    { name: "GrpTRES", bounds: "together", resource: "cpu", value: 31 },
    { name: "GrpTRES", bounds: "together", resource: "gres/gpu", value: 1 },
    { name: "MaxWall", bounds: "time limit of each job", resource: "", value: 5400 },
    { name: "GrpTRESMins", bounds: "usage over time, together", resource: "gres/gpu", value: 90 },
    { name: "MaxTRES", bounds: "others", resource: "mem", value: 2048 },
  ]);
  assert.deepEqual(
    lines.map(({ words }) => words),
    [
      "together: 31 CPUs, 1 GPU",
      "time limit of each job: 1 h 30 min",
      "usage over time, together: 1.5 GPU hours",
      "others: 2.0 GiB of memory",
    ],
  );
  assert.equal(lines[0].title, "GrpTRES=cpu=31 GrpTRES=gres/gpu=1");
  assert.equal(lines[1].title, "MaxWall=90");
});

/** @param {string} name @param {Partial<AccountRow>} more @returns {AccountRow} */
const account = (name, more = {}) => ({
  ...{
    account: name,
    user: "",
    parent: "",
    partition: "",
    depth: 0,
    is_default: false,
    shares: "1",
  },
  ...{ qos: [], default_qos: "", limits: [], part: null, usage: null, factor: null, ...more },
});

test("accounts: a filter keeps those above; what is inherited is stated once", () => {
  const most = { name: "MaxJobs", bounds: "jobs running of each user", resource: "", value: 30 };
  const rows = [
    account("root"),
    account("research", { parent: "root", limits: [most] }),
    account("vision", { parent: "research", limits: [most] }),
    account("vision", { user: "kim", limits: [{ ...most, value: 3 }] }),
    account("other", { parent: "root" }),
  ];
  const matches = policy.matching(rows, "kim vis").map(({ account: name, user }) => name + user);
  assert.deepEqual(matches, ["root", "research", "vision", "visionkim"]);
  const byName = new Map(rows.filter(({ user }) => !user).map((each) => [each.account, each]));
  assert.deepEqual(
    rows.map((each) => policy.ownLimits(each, byName).length),
    [0, 1, 0, 1, 0],
  );
  const data = { known: true, at: 1, why: "", why_no_shares: "too old", accounts: rows };
  const words = texts(policy.AccountsView({ data, q: "" }));
  assert.match(words, /Usage and fair share are unknown: too old\./);
  assert.match(words, /research account 1 unknown unknown unknown jobs running of each user: 30/);
  assert.match(words, /other account 1 unknown unknown unknown unlimited/);
});

test("accounts: of more than 200 rows the next ones are shown by a button", () => {
  const rows = Array.from({ length: 450 }, (_, n) => account(`team${n}`));
  const data = { known: true, at: 1, why: "", why_no_shares: "", accounts: rows };
  assert.match(texts(policy.AccountsView({ data, q: "" })), /Show 200 more 200 of 450/);
  const further = texts(policy.AccountsView({ data, q: "", most: 400 }));
  assert.match(further, /team399 account .* Show 50 more 400 of 450/s);
  assert.doesNotMatch(texts(policy.AccountsView({ data, q: "", most: 600 })), /more/);
});

test("a limit that Slurm's answer does not have is unknown, not unlimited", () => {
  assert.equal(texts(policy.Limits({ limits: [] })), "unlimited");
  const words = texts(policy.Limits({ limits: [], unreported: ["GrpTRESMins"] }));
  assert.equal(words, "unknown in this API version: GrpTRESMins");
});

test("reservations before, in and after their time", () => {
  const times = { start: 100, end: 200 };
  const made = (/** @type {number} */ at) => policy.phaseOf(/** @type {any} */ (times), at)[0];
  assert.deepEqual([made(40), made(150), made(200)], ["in 1 min", "active", "over"]);
});

test("the scheduler in words", () => {
  const cycle = {
    ...{ count: 4, last: 534, mean: 2_500_000, longest: 9_000_000, depth: 3, queue: 2 },
    ...{ last_at: null, last_depth: null, exits: { max_rpc_cnt: 2, newer: 1 } },
    meanings: { max_rpc_cnt: "too many requests were pending (max_rpc_cnt)" },
  };
  const figures = {
    ...{ since: 100, threads: 1, agents: 0, database: 7, backfilled: null, by_type: [] },
    ...{ jobs: {}, by_user: [] },
    events: [
      { name: "submitted", jobs: 4 },
      { name: "cancelled", jobs: 3 },
    ],
    main: cycle,
    backfill: { ...cycle, count: 0 },
  };
  const data = { known: true, at: 1, why: "", figures };
  const words = texts(policy.SchedulerView({ data }));
  assert.match(words, /4 submitted, 3 cancelled/);
  assert.match(words, /last 534 µs, mean 2\.5 s, longest 9\.0 s: slow/);
  assert.match(words, /too many requests were pending \(max_rpc_cnt\): 2 times/);
  assert.match(words, /newer: 1 times/);
  assert.match(words, /7 records: slurmdbd is slow or does not answer/);
  assert.match(words, /jobs that it started unknown/);
  assert.match(words, /cycles none since the counters were reset/);
});
