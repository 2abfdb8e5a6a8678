import assert from "node:assert/strict";
import { test } from "node:test";
import {
  arranged,
  Card,
  ProofLine,
  Tiles,
  groupWords,
  noted,
} from "../../../../src/corral/web/static/js/cluster/cluster.js";
import { aligned, moment, shortest } from "../../../../src/corral/web/static/js/lib/curves.js";
import { FindingView } from "../../../../src/corral/web/static/js/lib/diagnosis.js";
import { ReportView } from "../../../../src/corral/web/static/js/operations/doctor.js";
import {
  choice,
  choicesOf,
  FreeWords,
  Offers,
  offersOf,
} from "../../../../src/corral/web/static/js/jobs/choices.js";
import { EndView } from "../../../../src/corral/web/static/js/jobs/failure.js";
import { askedWords, JobFacts } from "../../../../src/corral/web/static/js/jobs/job.js";
import {
  exitOf,
  gpus,
  timeOf,
  whereOf,
} from "../../../../src/corral/web/static/js/jobs/columns.js";
import { listAddress, listChoice } from "../../../../src/corral/web/static/js/jobs/jobs.js";
import * as plan from "../../../../src/corral/web/static/js/operations/plan.js";
import { Result } from "../../../../src/corral/web/static/js/operations/proof.js";
import { Latest, records } from "../../../../src/corral/web/static/js/lib/server.js";
import * as submit from "../../../../src/corral/web/static/js/jobs/submit.js";
import * as view from "../../../../src/corral/web/static/js/lib/view.js";
import { headOf, job, ME, node, shown, texts } from "./records.js";
/**
 * @import { Diagnosis, Directives, Doctor, JobChoices, JobDetail, JobEnd, LintFinding, ProofResult } from "../../../../src/corral/web/static/js/api.js"
 * @import { ShownChange, ShownNodeChange, ShownPlan } from "../../../../src/corral/web/static/js/api.js"
 */

/**
 * @param {Partial<ShownChange>} more
 * @returns {ShownNodeChange}
 */
const change = (more = {}) => ({
  nodes: ["node1", "node2"],
  change: {
    resource: "file:/etc/slurm/slurm.conf", summary: "slurm.conf: 2 keys", before: "", after: "A=1",
    impact: "restart", keeps: [], refuses: "", ...more,
  }, // prettier-ignore
});
/** @type {ShownPlan} */
const PLAN = {
  ...{
    id: "3fa2c1d0",
    empty: false,
    impact: "restart",
    format: 2,
    cluster: "lab",
    spec_digest: "",
    observed: "",
  },
  machines: [{ node: "gpu3", action: "create", summary: "8 H200" }],
  stages: [{ name: "slurm", title: "Slurm", changes: [change()], roll: null }],
  ...{ deferred: [], leaving: [], unreachable: {} },
};

test("a plan: worst impact, machines, stages, each change with before and after", () => {
  const words = texts(plan.PlanView({ plan: PLAN }));
  assert.match(words, /worst impact: restart 1 machine, 1 change in 1 stage/);
  assert.match(words, /gpu3: create: 8 H200/);
  assert.match(words, /slurm: Slurm node1,node2 slurm.conf: 2 keys restart \(nothing\) A=1/);
});

test("a plan: each impact has a class, and none no badge", () => {
  /** @type {[ShownChange["impact"], string][]} */
  const kinds = [
    ["reload", "busy"],
    ["drain", "warn"],
    ["recreate", "bad"],
  ];
  for (const [impact, kind] of kinds) {
    const stages = [{ ...PLAN.stages[0], changes: [change({ impact })] }];
    const made = shown(plan.PlanView({ plan: { ...PLAN, stages } }));
    assert.ok(made.includes(`<span class="state ${kind}">${impact}</span>`), impact);
  }
  const stages = [{ ...PLAN.stages[0], changes: [change({ impact: "none" })] }];
  const made = shown(plan.PlanView({ plan: { ...PLAN, impact: "none", stages } }));
  assert.equal(made.match(/class="state /g)?.length, 1);
});

test("a plan: what is refused is named, and a text is never markup", () => {
  const refuses = "<b>ask</b> your storage";
  const stages = [{ ...PLAN.stages[0], changes: [change({ refuses })] }];
  const made = plan.PlanView({ plan: { ...PLAN, stages } });
  assert.ok(shown(made).includes(`<span class="reason"> refused: ${refuses}</span>`));
});

test("a plan is applied by its id; a program's is only read", () => {
  const form = (/** @type {string} */ id) =>
    texts(new plan.PlanToApply({ plan: { ...PLAN, id } }).form());
  const person = form("3fa2c1d0");
  assert.match(person, /shows the code of plan 3fa2c1d0: /);
  assert.match(person, /Apply exactly this plan/);
  const program = form("");
  assert.match(program, /^A program made this plan/);
  assert.doesNotMatch(program, /Apply exactly/);
});

test("a plan with nothing to do states that", () => {
  const words = texts(plan.PlanView({ plan: { ...PLAN, empty: true, machines: [], stages: [] } }));
  assert.equal(words, "nothing to do The cluster is as the file declares.");
});

test("findings of a cluster file are at their lines; the first of a line gives its mark", () => {
  /**
   * @param {number} line
   * @param {LintFinding["level"]} level
   */
  const finding = (line, level) => ({
    ...{
      file: "",
      line,
      column: 1,
      level,
      rule: `r${line}`,
      where: "",
      message: "wrong",
      hint: "",
    },
  });
  const marks = plan.lineMarks("a\nb\nc", [
    finding(2, "error"),
    finding(2, "warning"),
    finding(3, "info"),
  ]);
  assert.deepEqual(
    marks.map(({ mark }) => mark),
    ["", "err", ""],
  );
  assert.match(
    texts(plan.Findings({ findings: [finding(0, "error")], jump: () => {} })),
    /^file wrong/,
  );
});

test("the extent of a line", () => {
  const text = "one\ntwo\n\nfour";
  /** @param {number} line */
  const cut = (line) => text.slice(...plan.extentOf(text, line));
  assert.deepEqual([1, 2, 3, 4].map(cut), ["one", "two", "", "four"]);
  assert.deepEqual(
    plan.extentOf(text, 9),
    [14, 14].map((n) => n),
  ); // below the end: nothing
});

test("nodes in their groups, in the order of their numbers, and counted once by kind", () => {
  const nodes = [10, 9, 1].map((n) => node({ name: `node${n}`, partitions: ["main", "long"] }));
  const { groups, kinds, count } = arranged(nodes, () => true, "partition");
  assert.deepEqual(
    groups.map(([name]) => name),
    ["long", "main"],
  );
  assert.deepEqual(
    groups[0][1].map(({ name }) => name),
    ["node1", "node9", "node10"],
  );
  assert.equal(count, 3);
  assert.deepEqual(kinds, { good: 3 });
  /** @param {string} grouping */
  const by = (grouping) => arranged([node()], () => true, grouping).groups.map(([name]) => name);
  assert.deepEqual(by("island"), ["a"]);
  assert.deepEqual(by("rack"), ["no rack"]);
  assert.deepEqual(by("feature"), ["ib", "island-a"]);
  assert.deepEqual(by("state"), ["idle"]);
  assert.deepEqual(by("none"), [""]);
});

test("a group's nodes and GPUs", () => {
  assert.equal(groupWords([node({ gpus: 0 })]), "1 node");
  assert.equal(groupWords([node(), node()]), "2 nodes, 2 of 8 GPUs in use");
  assert.equal(groupWords([node(), node({ gpus_used: null })]), "2 nodes, 1+ of 8 GPUs in use");
});

test("a node's card", () => {
  const made = Card({
    node: node({ state: "IDLE+DRAIN", kind: "warn", reason: "fan", load: null }),
  });
  assert.match(texts(made), /node1 idle drain CPU 2\/8 load - 1.0 GiB of 4.0 GiB fan/);
  assert.equal(shown(made).match(/<i class="used">/g)?.length, 1);
  assert.match(shown(made), /aria-label="1 of 4 GPUs in use"/);
});

test("figures at the top: nothing about GPUs where there are none, jobs once they were seen", () => {
  const counts = {
    nodes: 3,
    usable: 2,
    gpus: 0,
    gpus_used: 0,
    gpus_used_exact: true,
    cpus: 8,
    cpus_used: 1,
    jobs: {},
    partitions: [],
  };
  const head = headOf({ ...counts, shown: { all: 3, running: 2, waiting: 1 } });
  assert.match(
    texts(Tiles({ head, cost: null })),
    /2 \/ 3 nodes take jobs 1 \/ 8 CPUs in use 2 jobs running, 1 pending/,
  );
  assert.match(
    texts(Tiles({ head: { ...head, complete: false }, cost: null })),
    /still asking Slurm/,
  );
  const cost = { rented: true, rate: "at least 3.50", spent: "at least 12.25", unpriced: 1 };
  assert.match(
    texts(Tiles({ head, cost })),
    /at least 3.50 \$ an hour at least 12.25 \$ so far, 1 machine without/,
  );
});

test("the last proof in one line", () => {
  /** @type {(more: object) => any} */
  const proof = (more) => ({ at: 1, good: true, results: [{ verdict: "pass" }], ...more });
  /** @param {object} more */
  const line = (more) => texts(ProofLine({ proof: proof(more) }));
  assert.match(texts(ProofLine({ proof: null })), /^not proven/);
  assert.match(line({}), /^proven 1 check/); // of a version that did not note it
  assert.match(line({ proven: false }), /^passed in part/);
  assert.match(
    line({ results: [{ verdict: "fail" }, { verdict: "pass" }] }),
    /^proof failed .*, 1 failed/,
  );
});

test("a job's GPUs, time and place", () => {
  assert.deepEqual(
    [job(), job({ gpus: 0 }), job({ gpus_exact: false }), job({ gpus: 0, gpus_exact: false })].map(
      gpus,
    ),
    ["2", "", "2+", "?"],
  );
  assert.equal(
    timeOf(job({ waiting: true, running: false, submit_at: 1000 }), 1120),
    "pending 2 min",
  );
  assert.equal(timeOf(job(), 2090), "1 min");
  assert.equal(timeOf(job({ running: false, end_at: 2060 }), 9999), "1 min");
  assert.equal(whereOf(job({ why: "Priority", nodes: "" })), "Priority");
  const failed = { failed: true, exit_signal: 9, exit: "ended by SIGKILL" };
  assert.equal(whereOf(job(failed)), "ended by SIGKILL on node1");
  assert.equal(whereOf(job({ cancelled: true, exit_signal: 15 })), "node1");
  const unstarted = { cancelled: true, nodes: "", reason: "Resources" };
  assert.equal(whereOf(job(unstarted)), "it had not started");
  assert.equal(exitOf(job()), "exit status unknown");
});

test("a job's facts leave out what is not known", () => {
  const words = texts(JobFacts({ job: job({ reason: "None" }), me: ME, at: 2090 }));
  assert.match(
    words,
    /user kim account lab partition main nodes node1 given 2 GPUs, 8 CPUs, 2.0 GiB time 1 min of 1 h/,
  );
  assert.doesNotMatch(words, /comment|depends on|restarts|why pending|ended|reason/);
  const over = job({
    state: "FAILED",
    ended: true,
    end_at: 2100,
    exit: "exit status 1",
    reason: "NonZeroExitCode",
  });
  assert.match(
    texts(JobFacts({ job: over, me: ME, at: 9999 })),
    /reason NonZeroExitCode ended .*, exit status 1/,
  );
});

test("a job's facts lead to its user's work, account, partition, QOS and nodes", () => {
  const more = { group: "vision", wckey: "paper", qos: "high", user: "ada" };
  const facts = (/** @type {typeof ME} */ me, nodes = "gpu[1-2]") =>
    shown(JobFacts({ job: job({ ...more, nodes, tres_asked: "cpu=4,mem=8G,node=2" }), me }));
  const of = facts({ ...ME, role: "operator" });
  for (const address of [
    ...["#mine/ada", "#policy/accounts?q=lab", "#policy/qos?q=high", "#node/gpu1", "#node/gpu2"],
    ...["#cluster?filter=partition%3Dmain", "#cluster?filter=gpu%5B1-2%5D"],
  ])
    assert.ok(of.includes(`href="${address}"`), address);
  assert.match(of, /group vision/);
  assert.match(of, /paper/);
  assert.doesNotMatch(facts(ME), /#mine/);
  assert.equal(shown(JobFacts({ job: job(), me: ME })).match(/#mine"/g)?.length, 1);
  assert.equal(facts(ME, "gpu[001-200]").match(/#node/g)?.length, 48);
  assert.match(facts(ME, "gpu[001-200]"), /, and 152 more/);
  assert.match(facts(ME, "gpu[1-"), /gpu\[1-/);
});

test("what a job asks for, in words", () => {
  assert.equal(
    askedWords("cpu=2,mem=1536M,node=1,billing=2,gres/gpu=1,gres/shard=3"),
    "1 node, 1 GPU, 2 CPUs, 1.5 GiB, 3 shard",
  );
  assert.equal(askedWords("mem=2T,cpu=1"), "1 CPU, 2.0 TiB");
  assert.equal(askedWords(""), "");
});

test("the doctor's findings, and healthy only without any", () => {
  /** @type {Diagnosis} */
  const finding = {
    ...{ line: 0, contrary: "", source: "nodes", severity: "error", fix_by: "" },
    id: "F001",
    title: "slurmd is down",
    name: "x",
    nodes: ["node1"],
    detail: "d",
    cause: "c",
    fix: "f",
    evidence: ["e1", "e2"],
  };
  assert.equal(
    texts(FindingView({ finding })),
    "slurmd is down node1 d Cause: c Fix: f Evidence e1 e2",
  );
  const none = { out_of_service: [], failed_checks: [] };
  const report = { healthy: false, fixable: true, findings: [finding], ...none };
  const words = texts(ReportView({ report, fix: () => {} }));
  assert.match(words, /^Show the plan that fixes this/);
  assert.doesNotMatch(words, /healthy/);
  assert.match(
    texts(
      ReportView({
        report: { healthy: true, fixable: false, findings: [], ...none },
        fix: () => {},
      }),
    ),
    /^healthy/,
  );
});

test("why a job failed: causes, what Slurm counted, lines that no cause is known of", () => {
  /** @type {JobEnd} */
  /** @type {JobEnd} */
  const nothing = {
    ...{
      seen: "output",
      known: true,
      at: 1,
      why: "",
      findings: [],
      lines: [],
      no_output: "",
      memory: null,
      about: "",
    },
  };
  /**
   * @param {Partial<JobEnd>} more
   * @param {Partial<JobDetail>} about
   */
  const words = (more, about = {}) => {
    const failed = job({ ended: true, mine: true, kind: "bad", exit: "exit status 1", ...about });
    return texts(EndView({ job: failed, end: { ...nothing, ...more } }));
  };
  /** @type {Diagnosis} */
  const finding = {
    ...{ id: "F90", name: "job-out-of-memory", title: "too much", nodes: [], detail: "rank 3" },
    ...{ line: 1, evidence: ["<b>oom_kill</b>"], contrary: "", cause: "its limit", fix: "`--mem`" },
    ...{ source: "", severity: "error", fix_by: "none" },
  };
  const memory = words({ findings: [finding], memory: 1900, about: "memory" });
  assert.match(memory, /too much rank 3 Cause: its limit Fix: --mem Evidence/);
  assert.match(memory, /memory 2\.0 GiB asked for, 1\.9 GiB used/);
  assert.match(words({ findings: [finding], about: "memory" }), /its use was not measured/);
  const late = { limit: 60, start_at: 1000, end_at: 1070 };
  assert.match(words({ about: "time" }, late), /time limit 1 min asked for, ran 1 min/);
  assert.match(words({ about: "nodes" }, { nodes: "gpu3" }), /nodes gpu3/);
  assert.match(words({}), /knows no cause, and no line .* ended exit status 1/);
  assert.match(words({ lines: [{ line: 3, text: "FAILED to frob" }] }), /an error: FAILED to frob/);
  assert.match(words({ no_output: "no such file" }), /Without its output: no such file/);
  assert.match(words({ known: false, why: "too slow" }), /could not be asked: too slow/);
  const failed = { state: "OUT_OF_MEMORY", reason: "OutOfMemory", ...late, mine: false };
  const record = words({ seen: "record", memory: 1900, no_output: "kim alone reads it" }, failed);
  assert.match(
    record,
    /record of its end shows no cause .* Without its output: kim alone reads it/,
  );
  assert.match(
    record,
    /state out of memory reason OutOfMemory memory 2\.0 GiB asked for, 1\.9 GiB/,
  );
  assert.match(record, /time limit 1 min asked for, ran 1 min .*ended exit status 1/);
  assert.equal(words({ seen: "state" }, failed), "state out of memory ended exit status 1");
});

test("no cluster is healthy next to a drained node or a failed proof", () => {
  const drained = { node: "node2", state: "IDLE+DRAIN", reason: "fan", by: "ada" };
  const quiet = { healthy: true, fixable: false, findings: [] };
  /** @param {Partial<Doctor>} more */
  const words = (more) =>
    texts(
      ReportView({
        report: { ...quiet, out_of_service: [], failed_checks: [], ...more },
        fix: () => {},
      }),
    );
  assert.doesNotMatch(words({ out_of_service: [drained] }), /healthy/);
  assert.match(words({ out_of_service: [drained] }), /idle drain node2 fan set by ada/);
  assert.doesNotMatch(words({ failed_checks: ["GPUs"] }), /healthy/);
  assert.match(words({ failed_checks: ["GPUs"] }), /The last proof failed in 1 check: GPUs\./);
});

test("a check that did not pass has its hint, with its commands as such", () => {
  /** @type {ProofResult} */
  const result = {
    ...{ check: "c", title: "Limits", group: "", summary: "2 wait", evidence: [], hint: "" },
    ...{ verdict: "fail", seconds: 1, uncovered: false },
  };
  const made = Result({ result: { ...result, hint: "see `sacctmgr show assoc` first" } });
  assert.match(texts(made), /Limits: 2 wait Hint: see sacctmgr show assoc first/);
  assert.ok(shown(made).includes("<code>sacctmgr show assoc</code>"));
  assert.doesNotMatch(texts(Result({ result: { ...result, hint: "" } })), /Hint/);
});

test("what is in use stays so until it changes, and a quiet day is two points", () => {
  const past = { at: [], used: [], running: [] };
  for (const [at, used] of [[1, 0], [16, 0], [31, 0], [46, 4], [46, 5], [61, 5]]) noted(past, at, used, 1); // prettier-ignore
  assert.deepEqual(past.at, [1, 31, 46, 61]);
  assert.deepEqual(past.used, [0, 0, 5, 5]);
  noted(past, 70, null, null);
  assert.equal(past.used.at(-1), null);
});

test("an axis of times has at least a minute, also for one sample", () => {
  const several = { data: [[1000, 1500, 2000]] };
  assert.deepEqual(shortest(several, 1000, 1000), [940, 1000]);
  assert.deepEqual(shortest(several, 1000, 2000), [1000, 2000]);
  assert.deepEqual(shortest({ data: [[1000]] }, 900, 1100), [940, 1000]);
});

test("times at an axis are as exact as its lines are apart, and short", () => {
  const at = new Date(2026, 10, 25, 23, 5, 30).getTime() / 1000;
  assert.deepEqual(
    [5, 60, 3600, 86400].map((apart) => moment(at, apart)),
    ["23:05:30", "23:05", "23:05", "11-25"],
  );
});

test("curves share their times; where one has no value there is a gap", () => {
  /**
   * @param {string} name
   * @param {[number, number][]} points
   */
  const curve = (name, points) => ({ what: "watts", name, points });
  const data = aligned([curve("a", [[1, 5], [3, 6]]), curve("b", [[2, 7], [3.4, 8]])], 10); // prettier-ignore
  assert.deepEqual(data, [[1, 2, 3], [50, null, 60], [null, 70, 80]]); // prettier-ignore
});

test("what a form's fields stand for", () => {
  /** @type {(value: string, checked?: boolean) => any} */
  const field = (value, checked = false) => ({ value, checked });
  assert.equal(submit.valueOf(field(" "), { type: "string" }), undefined);
  assert.equal(submit.valueOf(field("4"), { type: "integer" }), 4);
  assert.equal(submit.valueOf(field("1"), { type: "integer", default: 1 }), undefined);
  assert.deepEqual(submit.valueOf(field("a  b"), { type: "array" }), ["a", "b"]);
  assert.equal(submit.valueOf(field("on", true), { type: "boolean", default: false }), true);
  assert.equal(submit.valueOf(field("on", false), { type: "boolean", default: false }), undefined);
  const env = { type: "object", additionalProperties: { type: "string" } };
  assert.deepEqual(submit.valueOf(field("A=1 B=x=y C"), env), { A: "1", B: "x=y", C: "" });
  const sweep = { type: "object", patternProperties: { x: { type: "array" } } };
  assert.deepEqual(submit.valueOf(field("lr=1,2"), sweep), { lr: ["1", "2"] });
});

test("how many jobs a sweep makes is shown before they go", () => {
  const words = (/** @type {number | null} */ jobs, /** @type {number | null} */ most) =>
    texts(submit.JobCount({ shown: { jobs, at_once: most } }));
  assert.equal(words(1, null), "");
  assert.equal(words(null, null), ""); // an array that cannot be read
  assert.equal(words(1200, null), "1,200 jobs as one array.");
  assert.equal(words(1200, 8), "1,200 jobs as one array, 8 of them at once at most.");
  assert.equal(words(4, 8), "4 jobs as one array.");
});

test("when a job would start", () => {
  const words = (/** @type {any} */ expected) =>
    texts(
      submit.StartWords({
        expected:
          expected && typeof expected === "object"
            ? { waits: "", beyond: {}, ...expected }
            : expected,
        now: 1_000_000,
      }),
    );
  const waits = "2 GPUs of account lab are free (7 of 8 GPUs in use, GrpTRES)";
  assert.equal(words({ start_at: 1_000_010, nodes: "n1", waits }), `It waits until ${waits}.`);
  assert.match(words({ start_at: 1, nodes: "n1", beyond: { gpus: "2" } }), /would not start it/);
  assert.match(words(null), /^Slurm is asked/);
  assert.match(words("no answer"), /unknown: no answer$/);
  assert.equal(words({ start_at: 1_000_010, nodes: "n1" }), "Slurm would start it now on n1.");
  const later = words({ start_at: 1_007_200, nodes: "n[1-2]" });
  assert.match(later, /^Slurm would start it at 1970-01-12 .*, in 2 h on n\[1-2\], as/);
  assert.match(words({ start_at: null, nodes: "" }), /does not report/);
});

test("partitions, accounts and QOS are choices with what is free or left", () => {
  const main = {
    ...{ name: "main", state: "UP", takes_jobs: true, is_default: true, max_time: 7200, nodes: 4 },
    ...{ idle: 3, cpus: 64, cpus_free: 40, gpus: 16, gpus_free: 12 },
  };
  const cpu = { ...main, name: "cpu", is_default: false, gpus: 0, gpus_free: 0, max_time: null };
  const old = { ...cpu, name: "old", state: "DRAIN", takes_jobs: false };
  /** @type {JobChoices} */
  const choices = {
    ...{ known: true, at: 1, why: "", partitions: [main, { ...cpu, gpus_free: null }, old] },
    accounts: [
      {
        ...{ name: "lab", gpus_left: 3, jobs_left: 1, is_default: true, qos: ["high"] },
        default_qos: "",
      },
    ],
    qos: [{ name: "high", gpus_left: null, jobs_left: null }],
  };
  const words = (/** @type {string} */ name) =>
    (choicesOf(name, choices) ?? []).map(({ words: each }) => each);
  assert.deepEqual(words("partition"), [
    "the default one, main: 3 of 4 nodes idle, 12 of 16 GPUs free, 2 h at most",
    "main: 3 of 4 nodes idle, 12 of 16 GPUs free, 2 h at most",
    "cpu: 3 of 4 nodes idle, 40 of 64 CPUs free",
    "old: takes no jobs (drain)",
  ]);
  assert.deepEqual(words("account"), [
    "the usual one, lab: 3 GPUs left, 1 job left",
    "lab: 3 GPUs left, 1 job left",
  ]);
  assert.deepEqual(words("qos"), ["the account's", "high"]);
  const free = (/** @type {string} */ name, /** @type {string} */ chosen) =>
    texts(FreeWords({ offered: choicesOf(name, choices), chosen }));
  const all = "3 of 4 nodes idle, 12 of 16 GPUs free, 2 h at most";
  assert.equal(free("partition", "").trim(), `main: ${all}`);
  assert.equal(free("partition", "main").trim(), all);
  assert.equal(free("account", "lab").trim(), "3 GPUs left, 1 job left");
  assert.equal(FreeWords({ offered: choicesOf("qos", choices), chosen: "high" }), null);
  assert.equal(FreeWords({ offered: null, chosen: "" }), null);
  assert.equal(choicesOf("partition", null), null);
  assert.equal(choicesOf("mem", choices), null);
  const kept = shown(choice({ name: "qos", id: "q" }, choicesOf("qos", choices) ?? [], "old"));
  assert.match(kept, /old: not offered to you now/);
});

test("images and environments that are there are offered next to what is typed", () => {
  const images = [{ path: "/shared/<b>.sqsh", size: 5_000_000 }];
  const there = { images, pythons: ["/shared/env"], cut: false };
  const [offer] = offersOf("container", there);
  assert.equal(offer.value, "/shared/<b>.sqsh");
  assert.deepEqual(offersOf("python", there), [{ value: "/shared/env" }]);
  assert.deepEqual(offersOf("mem", there), []);
  assert.deepEqual(offersOf("container", null), []);
  assert.equal(Offers({ name: "container", offers: [], cut: false }), null);
  const [list, words] = Offers({ name: "container", offers: [offer], cut: false }) ?? [];
  assert.equal(list.props.id, "offers-container");
  assert.match(texts(words), /1 image on shared storage: choose/);
  const [, more] = Offers({ name: "container", offers: [offer], cut: true }) ?? [];
  assert.match(texts(more), /1 image on shared storage, not all that are there: choose/);
});

test("a schema's references and optional fields are followed", () => {
  const root = {
    properties: { profile: { anyOf: [{ $ref: "#/$defs/Tool" }, { type: "null" }], title: "T" } },
    $defs: { Tool: { type: "string", enum: ["torch", "nsys"] } },
  };
  const [[name, schema]] = submit.fieldsOf(root);
  assert.equal(name, "profile");
  assert.deepEqual(schema.enum, ["torch", "nsys"]);
  assert.equal(schema.title, "T");
});

const GIVEN = {
  name: { line: 2, value: "train" },
  nodes: { line: 3, value: "2" },
  gpus: { line: 3, value: "h100:2" },
  workdir: { line: 4, value: "/shared/run" },
};
const BLANK = submit.scriptValues({}, {}, "");

test("the fields next to a script hold what its lines ask for, and send what was changed", () => {
  const script = "#!/bin/sh\r\nls\r\n";
  const values = submit.scriptValues({}, GIVEN, "/shared");
  assert.deepEqual(values, {
    ...BLANK,
    ...{ name: "train", workdir: "/shared/run", nodes: "2", gpus: "h100:2" },
  });
  const plain = { script: "#!/bin/sh\nls\n", workdir: "/shared/run" };
  assert.deepEqual(submit.scriptBody(script, values, GIVEN), plain);
  /** @param {Partial<typeof BLANK>} typed */
  const sent = (typed) =>
    submit.scriptBody(script, submit.scriptValues(typed, GIVEN, "/shared"), GIVEN);
  assert.deepEqual(sent({ nodes: "3", gpus: "h200:1", memory: " 8G " }), {
    ...{ ...plain, nodes: 3, gpus_per_node: 1, gpu_type: "h200", memory: "8G" },
  });
  assert.deepEqual(sent({ name: "", gpus: "0" }), { ...plain, without: ["name", "gpus"] });
  assert.deepEqual(sent({ exclusive: "yes" }), { ...plain, exclusive: true });
  assert.equal(submit.scriptValues({}, {}, "/shared").workdir, "/shared");
});

test("each field next to a script overrides its line, emptied and with a zero too", () => {
  for (const [name, blank] of Object.entries(BLANK)) {
    const given = { [name]: { line: 7, value: "5" } };
    /** @param {string} text */
    const words = (text) => submit.lineWords(name, { ...BLANK, [name]: text }, given);
    assert.equal(words("5"), "from line 7 of the script", name);
    for (const text of [blank, " ", "0", "6"])
      assert.equal(words(text), "overrides line 7 of the script", `${name} ${text}`);
    if (name === "workdir") continue; // it is required
    const body = submit.scriptBody("#!/bin/sh", { ...BLANK, workdir: "/", [name]: "" }, given);
    assert.deepEqual(body, { script: "#!/bin/sh", workdir: "/", without: [name] });
  }
});

test("lines of a script that no field has are listed, those that cannot be read as errors", () => {
  const others = [{ line: 2, text: "--nodes=1-4", field: "nodes" }];
  const faults = [{ line: 3, text: "--foo: sbatch has no such option" }];
  const NONE = { fields: {}, sbatch: [], ignored: [], jobs: 1, at_once: null };
  /** @param {Partial<Directives>} read @param {Partial<typeof BLANK>} values */
  const lines = (read, values = {}) =>
    texts(
      submit.DirectiveLines({
        read: { ...NONE, others: [], faults: [], ...read },
        values: { ...BLANK, ...values },
      }),
    );
  assert.match(lines({ others }), /^Also asked for by the script: line 2: --nodes=1-4/);
  assert.match(
    lines({ others }, { nodes: "3" }),
    /^Overridden by a field below: line 2: --nodes=1-4$/,
  );
  assert.match(lines({ others, faults }), /^These lines cannot be .* line 3: --foo: sbatch has no/);
  assert.equal(lines({ others: [], faults: [] }), "");
  const behind = [{ line: 6, text: "#SBATCH --time=99" }];
  const words =
    "Slurm ignores these lines: they are behind the first command. line 6: #SBATCH --time=99";
  assert.equal(lines({ others: [], faults: [], ignored: behind }), words);
  const sbatch = [{ line: 4, text: "--export: the REST API has no such field" }];
  assert.match(lines({ sbatch }), /^It is submitted by sbatch, as you: .* line 4: --export$/);
  const valued = [{ line: 4, text: "--export=NONE", field: "" }];
  assert.match(lines({ sbatch, others: valued }), /^It is submitted by .* line 4: --export=NONE$/);
  assert.doesNotMatch(lines({ sbatch, faults }), /by sbatch, as you/);
});

test("of two answers the later question's is shown, whichever comes first", async () => {
  const newest = new Latest();
  /** @type {string[]} */
  const taken = [];
  /** @type {(answer: string) => void} */
  let slow = () => {};
  /** @type {Promise<string>} */
  const early = new Promise((settle) => { slow = settle; }); // prettier-ignore
  /** @param {Promise<string>} answer */
  const take = (answer) =>
    newest.take(
      answer,
      (data) => taken.push(data),
      (failure) => taken.push(failure.message),
    );
  const first = take(early);
  await take(Promise.resolve("late question"));
  slow("early question");
  await first;
  const failing = take(Promise.reject(new Error("broken")));
  newest.drop();
  await failing;
  assert.deepEqual(taken, ["late question"]);
});

test("rows of columns, spans, sizes", () => {
  assert.deepEqual(records(["a", "b"], [[1, 2]]), [{ a: 1, b: 2 }]);
  assert.deepEqual([null, 59, 60, 3661, 90000].map(view.span), [
    "-",
    "59 s",
    "1 min",
    "1 h 1 min",
    "1 d 1 h",
  ]);
  assert.deepEqual([0, 512, 2048, 20480, 1572864].map(view.gib), [
    "-",
    "512 MiB",
    "2.0 GiB",
    "20 GiB",
    "1.5 TiB",
  ]);
  assert.deepEqual([view.many(1, "job"), view.many(1200, "job")], ["1 job", "1,200 jobs"]);
  assert.equal(view.clock("2026-11-23T10:00"), "2026-11-23T10:00"); // Slurm's local time as it is
});

test("GPUs in use that Slurm does not report are unknown, not none", () => {
  const unreported = node({ gpus_used: null });
  assert.match(shown(Card({ node: unreported })), /aria-label="\? of 4 GPUs in use"/);
  const counts = { nodes: 1, usable: 1, gpus: 8, cpus: 8, cpus_used: 1, jobs: {}, partitions: [] };
  /**
   * @param {number} gpus_used
   * @param {boolean} gpus_used_exact
   */
  const tiles = (gpus_used, gpus_used_exact) => {
    const shownJobs = { all: 0, running: 0, waiting: 0 };
    const head = headOf({ ...counts, gpus_used, gpus_used_exact, shown: shownJobs });
    return texts(Tiles({ head, cost: null }));
  };
  assert.match(tiles(0, false), /\? \/ 8 GPUs in use/);
  assert.match(tiles(3, false), /3\+ \/ 8 GPUs in use/);
  assert.match(tiles(3, true), / 3 \/ 8 GPUs in use/);
});

test("the list of jobs is in its address, and an address of anybody's chooses it", () => {
  const usual = listChoice([], new URLSearchParams());
  assert.equal(listAddress(usual), "#jobs/all");
  const chosen = {
    ...{ show: "ended", q: "user=kim a/b&c", by: "end_at", down: false, offset: 200, days: "30" },
    open: new Set(["12", "40"]),
  };
  const address = listAddress(chosen);
  const [path, query] = address.split("?");
  assert.equal(path, "#jobs/ended");
  assert.deepEqual(listChoice(["ended"], new URLSearchParams(query)), chosen);
  const wrong = new URLSearchParams("by=password&page=-3&days=400&order=x&open=a,<b>");
  assert.deepEqual(listChoice(["none"], wrong), usual);
  assert.equal(listChoice(["all", "partition=main"], new URLSearchParams()).q, "partition=main");
});

test("how old the state is, and where jobs are older than their states", () => {
  assert.equal(view.ageWords(null, 100), "");
  assert.equal(view.ageWords({ seen_at: 0, jobs_at: 0 }, 100), "");
  assert.equal(view.ageWords({ seen_at: 98, jobs_at: 97 }, 100), "Slurm reported this 2 s ago");
  assert.match(
    view.ageWords({ seen_at: 98, jobs_at: 60 }, 100),
    /^Slurm reported this 2 s ago\. Of a job whose state has not changed, .* at most 40 s old$/,
  );
});
