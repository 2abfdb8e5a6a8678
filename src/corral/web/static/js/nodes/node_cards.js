// The parts of a node's page: GPUs, jobs, events, health checks. What is not known is named so.
import { Component, h } from "../../vendor/preact.mjs";
import { gpus, timeOf } from "../jobs/columns.js";
import { foldOf, runsOf, summaryOf, toggledRun } from "../lib/runs.js";
import { records } from "../lib/server.js";
import {
  badge,
  card,
  clock,
  clockAgo,
  el,
  formatted,
  gib,
  leadsTo,
  many,
  Table,
} from "../lib/view.js";
/** @import { HealthLine, JobRow, LastHealth, NamedJob, NodeDetail, NodeEvent, NodeGpu, NodeHealth } from "../api.js" */
/** @import { Run } from "../lib/runs.js" */
/** @import { Kind } from "../lib/view.js" */

const MIB = 1048576;
const NOT_KNOWN = "unknown";
/** @type {Record<HealthLine["word"], Kind>} */
const WORDS = { ok: "good", warn: "warn", fail: "bad", none: "off" };
const SHOWN = 12;

/**
 * A value in words, or that it is unknown.
 * @param {number | null} value
 * @param {(value: number) => string} words
 */
export const orUnknown = (value, words) => (value === null ? NOT_KNOWN : words(value));

/** @param {string} text */
const dimmed = (text) => (text === NOT_KNOWN ? el("span", { class: "dim" }, text) : text);

/** @param {NodeGpu} gpu */
export function errorsOf({ xid, ecc }) {
  if (xid === null && ecc === null) return NOT_KNOWN;
  const errors = [
    xid ? `Xid ${xid}` : "",
    ecc ? `${formatted(ecc)} uncorrected memory errors` : "",
  ].filter(Boolean);
  return errors.join(", ") || "none";
}

/** @param {{ jobs: NamedJob[] | null }} props */
function Owners({ jobs }) {
  if (jobs === null) return el("span", { class: "dim" }, NOT_KNOWN);
  if (!jobs.length) return el("span", { class: "dim" }, "free");
  return el(
    "span",
    null,
    jobs.map(({ id, label, name, user }) =>
      el("span", { key: id }, el("a", { href: `#job/${id}` }, label), ` ${name}, ${user} `),
    ),
  );
}

/** @param {NodeGpu} gpu */
const memoryOf = ({ memory, memory_total }) =>
  orUnknown(
    memory,
    (used) => `${gib(used / MIB)}${memory_total ? ` / ${gib(memory_total / MIB)}` : ""}`,
  );

/** @param {{ gpu: NodeGpu, measured: boolean }} props */
function GpuLine({ gpu, measured }) {
  const errors = errorsOf(gpu);
  const number = (/** @type {string} */ text) => el("td", { class: "num" }, dimmed(text));
  const figures = [
    number(orUnknown(gpu.use, (share) => `${Math.round(100 * share)} %`)),
    number(memoryOf(gpu)),
    number(orUnknown(gpu.celsius, (value) => `${Math.round(value)} °C`)),
    number(orUnknown(gpu.watts, (value) => `${Math.round(value)} W`)),
    el("td", { class: gpu.faulty ? "reason" : "" }, dimmed(errors)),
  ];
  return el(
    "tr",
    null,
    el("td", null, String(gpu.index)),
    el("td", null, h(Owners, { jobs: gpu.jobs })),
    measured ? figures : null,
  );
}

const LOADING = () => el("p", { class: "dim" }, "Loading…");

/** @param {{ detail: NodeDetail | null }} props */
export function GpusCard({ detail }) {
  if (!detail) return card("GPUs", h(LOADING, null));
  const measured = detail.readings;
  const numbers = ["in use", "memory", "temperature", "power"].map((label) => ({
    ...{ label, numeric: true },
  }));
  const table = h(
    Table,
    { heads: ["GPU", "job", ...(measured ? [...numbers, "errors"] : [])] },
    detail.gpus.map((gpu) => h(GpuLine, { key: gpu.index, gpu, measured })),
  );
  const none =
    "Use, memory, temperature, power and errors are unknown: no metrics of this node answer.";
  return card("GPUs", [table, measured ? null : el("p", { class: "dim" }, none)]);
}

/** @param {{ name: string, detail: NodeDetail | null }} props */
export function JobsCard({ name, detail }) {
  if (!detail) return card("Jobs", h(LOADING, null));
  /** @type {JobRow[]} */
  const jobs = records(detail.jobs.columns, detail.jobs.rows);
  const all = `#jobs/running/${encodeURIComponent(`nodes=${name}`)}`;
  const lines = jobs
    .slice(0, SHOWN)
    .map((job) =>
      el(
        "tr",
        { key: job.id, "data-job": job.id, ...leadsTo(`job/${job.id}`) },
        el(
          "td",
          { class: "nowrap" },
          el("a", { class: "plain", href: `#job/${job.id}`, tabIndex: -1 }, job.label),
        ),
        el("td", { class: "cut", title: job.name }, job.name),
        el("td", null, job.user),
        el("td", { class: "num", "data-label": "GPUs" }, gpus(job) || "-"),
        el("td", { class: "num", "data-label": "CPUs" }, job.cpus),
        el("td", { class: "num", "data-label": "time" }, timeOf(job)),
      ),
    );
  const numbers = ["GPUs", "CPUs", "time"].map((label) => ({ label, numeric: true }));
  const content = jobs.length
    ? el(
        "div",
        { class: "stacked brief" },
        h(Table, { heads: ["job", "name", "user", ...numbers] }, lines),
      )
    : el("p", { class: "dim" }, "No job is running on this node.");
  return card("Jobs", content, el("a", { href: all }, "Jobs on this node in the list"));
}

/**
 * Who did it, in words; a resume is in no record of Slurm's.
 * @param {NodeEvent} event
 */
export function byWords({ what, by }) {
  if (by) return by;
  if (what === "resumed") return "unknown: Slurm records nobody";
  return what === "drained" || what === "rebooted" ? NOT_KNOWN : "";
}

/** @type {Record<NodeEvent["source"], string>} */
const SOURCES = { page: "seen here", slurm: "Slurm's record", journal: "Corral's journal" };

/** @param {{ event: NodeEvent }} props */
function EventLine({ event }) {
  return el(
    "tr",
    null,
    el("td", { class: "nowrap" }, clock(event.at)),
    el("td", null, event.what.replace("-", " ")),
    el("td", null, dimmed(byWords(event))),
    el("td", { class: "wrap" }, event.why),
    el("td", { class: "dim nowrap" }, SOURCES[event.source]),
  );
}

/** What one run of Corral did to the node, as a row that unfolds.
 * @param {{ run: Run<NodeEvent>, open: boolean, toggle: () => void }} props */
function RunLines({ run: { records: events }, open, toggle }) {
  if (events.length === 1) return h(EventLine, { event: events[0] });
  const { what, kind, words } = summaryOf(events.map((event) => ({ ...event, text: event.why })));
  const last = events[events.length - 1];
  return [
    el(
      "tr",
      { key: "run", class: "run" },
      el("td", { class: "nowrap" }, foldOf(events.length, open, toggle), clock(last.at)),
      el("td", null, badge(what.replace("-", " "), kind)),
      el("td", null, dimmed(byWords(last))),
      el("td", { class: "wrap" }, words),
      el("td", { class: "dim nowrap" }, SOURCES[last.source]),
    ),
    open ? events.map((event, i) => h(EventLine, { key: i, event })) : null,
  ];
}

/** @extends {Component<{ detail: NodeDetail | null }, { open: Set<string> }>} */
export class EventsCard extends Component {
  state = { open: new Set() };

  /** @param {string} run */
  toggle(run) {
    this.setState({ open: toggledRun(this.state.open, run) });
  }

  render() {
    const { detail } = this.props;
    if (!detail) return card("Events", h(LOADING, null));
    const rows = runsOf(detail.events).map((run) =>
      h(RunLines, {
        key: run.run,
        run,
        open: this.state.open.has(run.run),
        toggle: () => this.toggle(run.run),
      }),
    );
    const journal = detail.journal
      ? ""
      : ", and Corral's journal is on the machine with the cluster file";
    const outages = detail.outages
      ? "slurmctld keeps the last boot, accounting outages of 30 days"
      : "slurmctld keeps the last reason and the last boot; accounting has outages, and does not show them here";
    const before = `What happened before ${clock(detail.since)} is known in part: ${outages}${journal}.`;
    const cut = detail.cut ? ` The newest ${formatted(detail.events.length)} are shown.` : "";
    const table = h(Table, { heads: ["time", "event", "by", "reason", "source"] }, rows);
    return card("Events", [rows.length ? table : null, el("p", { class: "dim" }, before + cut)]);
  }
}

/** @param {{ checks: HealthLine[] }} props */
function HealthTable({ checks }) {
  if (!checks.length) return null;
  const rows = checks.map((line) =>
    el(
      "tr",
      { key: line.check },
      el("td", null, badge(line.word === "none" ? "not here" : line.word, WORDS[line.word])),
      el("td", null, line.check),
      el("td", { class: "wrap" }, line.text),
    ),
  );
  return h(Table, { heads: ["result", "check", "what it reports"] }, rows);
}

/** Those that fail are first. @type {HealthLine["word"][]} */
const ORDER = ["fail", "warn", "ok", "none"];

/**
 * The last results that the node's metrics or Slurm's reason have.
 * @param {{ last: LastHealth | null }} props
 */
export function LastChecks({ last }) {
  if (!last) return card("Last health checks", h(LOADING, null));
  const { at, checks, why } = last;
  const ordered = [...checks].sort((a, b) => ORDER.indexOf(a.word) - ORDER.indexOf(b.word));
  const rest = checks.length ? "The other checks are unknown" : "Unknown";
  const when = at === null ? "" : `${many(checks.length, "check")}, ${clockAgo(at)}`;
  return card("Last health checks", [
    h(HealthTable, { checks: ordered }),
    when ? el("p", { class: "dim" }, when) : null,
    why ? el("p", { class: "dim" }, `${rest}: ${why}.`) : null,
  ]);
}

/**
 * @param {{ owner: boolean, last: LastHealth | null, health: NodeHealth | null, wrong: string, checking: boolean, check: () => void }} props
 */
export function HealthCard({ owner, last, health, wrong, checking, check }) {
  if (!owner) return h(LastChecks, { last });
  const again = el("button", { onClick: check, disabled: checking }, "Check again");
  if (wrong) return card("Health checks", el("p", { class: "reason" }, wrong), again);
  if (!health) return card("Health checks", el("p", { class: "dim" }, "Checking…"));
  const counts = many(health.checks.length, "check");
  return card(
    "Health checks",
    [
      health.silent.map((text) => el("p", { key: text, class: "reason" }, text)),
      h(HealthTable, { checks: health.checks }),
      el("p", { class: "dim" }, `${counts}, ${clock(health.at)}`),
    ],
    again,
  );
}
