// The columns of the list of jobs: what each shows of a job or an array, what it is ordered by, and which are shown.
import { h } from "../../vendor/preact.mjs";
import { IdleBadge } from "./idle.js";
import { mineOf } from "./links.js";
import { now } from "../lib/event_stream.js";
import {
  badge,
  Counts,
  barred,
  clock,
  el,
  formatted,
  gib,
  many,
  since,
  span,
} from "../lib/view.js";
/** @import { ComponentChildren, VNode } from "preact" */
/** @import { ArrayRow, JobRow, Me, RunningJob } from "../api.js" */

/**
 * "2"; "2+": at least so many; "?": unknown; "" for none.
 * @param {JobRow} job
 */
export function gpus(job) {
  if (job.gpus_exact) return String(job.gpus || "");
  return job.gpus ? `${job.gpus}+` : "?";
}

/**
 * How long a job has been pending, has been running, or ran.
 * @param {JobRow} job
 * @param {number} [at] unix seconds
 */
export function timeOf(job, at = Date.now() / 1000) {
  if (job.waiting) return `pending ${since(job.submit_at, at).replace(" ago", "")}`;
  if (!job.start_at) return "-";
  const over = job.end_at && job.end_at < at && !job.running;
  const end = over ? Number(job.end_at) : at + now.skew;
  return span(Math.max(0, end - job.start_at));
}

/** @param {JobRow} job */
export const exitOf = (job) => job.exit || "exit status unknown";

/**
 * Why a job is pending, or where it runs, or how it failed.
 * @param {JobRow} job
 */
export function whereOf(job) {
  if (job.why) return job.why;
  if (job.failed || (job.exit_signal && !job.cancelled)) {
    return `${exitOf(job)}${job.nodes ? ` on ${job.nodes}` : ""}`;
  }
  // The reason of a job that was cancelled in the queue is why it had been pending.
  return job.nodes || (job.cancelled ? "it had not started" : job.reason) || "-";
}

/** Its time, and how much of its limit that is. @param {JobRow} job */
function timeWords(job) {
  const elapsed = job.running && job.limit && job.start_at;
  const used = elapsed ? Date.now() / 1000 + now.skew - Number(job.start_at) : 0;
  const time = timeOf(job);
  return elapsed ? barred(used, Number(job.limit), time) : time;
}

/**
 * "8 each"; nothing where tasks differ.
 * @param {ArrayRow} array
 * @param {string | number} each
 */
const ofEach = ({ alike }, each) => (alike && each ? `${each} each` : "");

/**
 * What a row is of besides its job.
 * @typedef {object} Shown
 * @property {Me} me
 * @property {RunningJob} [idle] how busy its GPUs are
 *
 * @typedef {object} Column
 * @property {string} key
 * @property {string} head
 * @property {string} [by] what the server orders by; none: nothing
 * @property {boolean} [fixed] it cannot be left out
 * @property {boolean} [more] it is shown where a viewer chose it, and never on a narrow screen
 * @property {string} [class] of its cells
 * @property {string} [label] in front of its value on a narrow screen
 * @property {(job: JobRow, how: Shown) => ComponentChildren} cell
 * @property {(array: ArrayRow, job: JobRow, how: Shown) => ComponentChildren} [array] what an array has; else as
 *   its first task
 */

const nothing = () => null;

/** @type {(job: JobRow, how: Shown) => ComponentChildren} */
const userCell = ({ user }, { me }) => {
  const address = me.role === "user" ? "" : mineOf(user, me);
  return address
    ? el("a", { class: "plain", href: address, title: `Work of ${user}` }, user)
    : user;
};

/** The place of a job that has no name there. @param {string | number | null} value */
const some = (value) => (value === "" || value === null ? "-" : value);

/** In the order in which they are shown. @type {Column[]} */
export const COLUMNS = [
  {
    ...{ key: "id", head: "job", by: "id", fixed: true, class: "nowrap" },
    cell: (job) => el("a", { class: "plain", href: `#job/${job.id}`, tabIndex: -1 }, job.label),
  },
  { key: "name", head: "name", by: "name", class: "cut", cell: (job) => job.name },
  { key: "user", head: "user", by: "user", cell: userCell },
  {
    ...{ key: "account", head: "account", by: "account", more: true },
    cell: (j) => some(j.account),
  },
  {
    ...{ key: "partition", head: "partition", by: "partition", more: true },
    cell: (job) => some(job.partition),
  },
  { ...{ key: "qos", head: "QOS", by: "qos", more: true }, cell: (job) => some(job.qos) },
  {
    ...{ key: "state", head: "state", by: "state", fixed: true },
    cell: (job) => badge(job.state, job.kind),
    array: ({ counts }) => h(Counts, { counts }),
  },
  { key: "why", head: "why pending, or where it runs", class: "cut why", cell: whereOf },
  {
    ...{ key: "priority", head: "priority", by: "priority", more: true, class: "num" },
    cell: (job) => some(job.priority),
    array: nothing,
  },
  {
    ...{ key: "node_count", head: "nodes", by: "node_count", more: true, class: "num" },
    cell: (job) => formatted(job.node_count),
    array: nothing,
  },
  {
    ...{ key: "gpus", head: "GPUs", by: "gpus", class: "num", label: "GPUs" },
    cell: (job, { idle }) => [gpus(job) || "-", h(IdleBadge, { job: idle })],
    array: (array, job, { idle }) => [ofEach(array, gpus(job)), h(IdleBadge, { job: idle })],
  },
  {
    ...{ key: "cpus", head: "CPUs", by: "cpus", class: "num hide-narrow" },
    cell: (job) => job.cpus,
    array: (array, job) => ofEach(array, job.cpus),
  },
  {
    ...{ key: "memory", head: "memory", by: "memory", more: true, class: "num" },
    cell: (job) => gib(job.memory),
    array: nothing,
  },
  {
    ...{ key: "limit", head: "limit", by: "limit", more: true, class: "num nowrap" },
    cell: (job) => (job.limit ? span(job.limit) : "-"),
    array: nothing,
  },
  {
    ...{ key: "submit_at", head: "submitted", by: "submit_at", more: true, class: "num nowrap" },
    cell: (job) => clock(job.submit_at),
  },
  {
    ...{ key: "time", head: "time", by: "start_at", class: "num" },
    cell: timeWords,
    array: ({ exact, tasks }) => `${exact ? "" : "at least "}${many(tasks, "task")}`,
  },
];

/** @type {Column} */
const ENDED = {
  ...{ key: "end_at", head: "ended", by: "end_at", fixed: true, class: "num nowrap" },
  cell: (job) => clock(job.end_at),
  array: nothing,
};

/** What the list may be ordered by. */
export const ORDERS = [...COLUMNS, ENDED].flatMap(({ by }) => (by ? [by] : []));

/** Those that are shown where nobody chose. */
export const USUAL = COLUMNS.filter(({ more }) => !more).map(({ key }) => key);

const KEPT = "columns";

/** What is chosen in this browser: these are of who looks, and no address has them. */
export function keptColumns() {
  try {
    const kept = localStorage.getItem(KEPT)?.split(",");
    return kept ? COLUMNS.map(({ key }) => key).filter((key) => kept.includes(key)) : USUAL;
  } catch {
    return USUAL;
  }
}

/** @param {string[]} keys */
export function keepColumns(keys) {
  try {
    if (String(keys) === String(USUAL)) localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, String(keys));
  } catch {
    // A private window without storage: the choice is this page's.
  }
}

/**
 * The columns of a list.
 * @param {string[]} keys that are chosen
 * @param {boolean} ended the list is that of ended jobs
 */
export function columnsOf(keys, ended) {
  const chosen = COLUMNS.filter(({ key, fixed }) => fixed || keys.includes(key));
  return ended ? [...chosen, ENDED] : chosen;
}

/**
 * A choice of the columns.
 * @param {{ keys: string[], choose: (keys: string[]) => void }} props
 */
export function ColumnChoice({ keys, choose }) {
  const boxes = COLUMNS.filter(({ fixed }) => !fixed).map(({ key, head }) => {
    const checked = keys.includes(key);
    const next = COLUMNS.map((column) => column.key).filter((each) =>
      each === key ? !checked : keys.includes(each),
    );
    const onChange = () => choose(next);
    const box = el("input", { type: "checkbox", class: "box", "data-key": key, checked, onChange });
    return el("label", { key, class: "row" }, box, head);
  });
  const usual = el("button", { type: "button", onClick: () => choose(USUAL) }, "The usual ones");
  return el(
    "details",
    { class: "choice hide-narrow" },
    el("summary", { class: "button" }, "Columns"),
    el("div", { class: "row boxes", role: "group", "aria-label": "Columns" }, boxes, usual),
  );
}

/**
 * The class of a column's cells.
 * @param {Column} column
 */
const classOf = ({ class: own = "", more }) => `${own}${more ? " hide-narrow" : ""}`.trim();

/**
 * @param {Column[]} columns
 * @param {JobRow} job
 * @param {Shown} how
 * @returns {VNode[]}
 */
export const jobCells = (columns, job, how) =>
  columns.map((column) => {
    const content = column.cell(job, how);
    const title = typeof content === "string" && /\bcut\b/.test(column.class ?? "") ? content : "";
    const label = column.label ? { "data-label": column.label } : {};
    return el(
      "td",
      { key: column.key, class: classOf(column), ...(title ? { title } : {}), ...label },
      content,
    );
  });

/**
 * The cells of an array; the first has `lead` in place of a job's number, and its counts are as wide as state and
 * place together.
 * @param {Column[]} columns
 * @param {{ job: JobRow, array: ArrayRow, lead: ComponentChildren }} row
 * @param {Shown} how
 */
export function arrayCells(columns, { job, array, lead }, how) {
  const wide = columns.some(({ key }) => key === "why");
  return columns
    .filter(({ key }) => key !== "why")
    .map((column) => {
      const { key, label } = column;
      const of = column.array ? column.array(array, job, how) : column.cell(job, how);
      const props = { key, class: classOf(column), ...(label ? { "data-label": label } : {}) };
      const title = key === "name" ? { title: job.name } : {};
      const colSpan = key === "state" && wide ? { colSpan: 2 } : {};
      return el("td", { ...props, ...title, ...colSpan }, key === "id" ? lead : of);
    });
}

/**
 * The headings, each of which orders by its column.
 * @param {{ columns: Column[], by: string, down: boolean, order: (by: string) => void }} props
 */
export const headCells = ({ columns, by: chosen, down, order }) =>
  columns.map((column) => {
    const { key, head, by } = column;
    const ordered = by !== undefined && by === chosen;
    const arrow = ordered ? (down ? " ↓" : " ↑") : "";
    const sort = ordered ? (down ? "descending" : "ascending") : undefined;
    const label = by
      ? el("button", { "data-key": `by ${by}`, onClick: () => order(by) }, `${head}${arrow}`)
      : head;
    const numeric = /\bnum\b/.test(column.class ?? "") ? "num" : "";
    const kind = `${numeric}${column.more ? " hide-narrow" : ""}`.trim();
    return el("th", { key, class: kind, "aria-sort": sort }, label);
  });
