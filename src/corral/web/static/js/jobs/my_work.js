// My work: what my jobs have of the limits, hours and cost, and what ended jobs did not use.
import { Component, h } from "../../vendor/preact.mjs";
import { tasksAddress } from "./links.js";
import { limitLines, resourceWords } from "../lib/limits.js";
import { call, Latest } from "../lib/server.js";
import * as view from "../lib/view.js";
/** @import { ComponentChildren } from "preact" */
/** @import { ArrayRow, Efficiency, EfficiencyRow, Me, Measured, MyWork, Quota, QuotaCell, QuotaRow } from "../api.js" */
/** @import { RunningJob, WorkHours, WorkPeriod } from "../api.js" */
/** @import { Refused } from "../lib/server.js" */

const { addressOf, badge, bar, barred, clock, el, formatted, gib, keepAddress, leadsTo, many } =
  view;
const { Counts, span, Table } = view;
const AGAIN_MS = 10000;
const HOURS_MS = 120000;
const PAGE = 50;
const FULL = 1;
const LOW = 0.5;
/** @type {[string, string][]} */
const PERIODS = [
  ["1", "24 hours"],
  ["7", "7 days"],
  ["30", "30 days"],
];
/** @type {Record<QuotaCell["what"], string>} */
const WHAT = {
  gpus: "GPUs",
  cpus: "CPUs",
  memory: "memory",
  nodes: "nodes",
  jobs: "running jobs",
  submitted: "running and pending",
};
/** @type {QuotaCell["what"][]} */
const ALWAYS = ["gpus", "cpus", "jobs", "submitted"];

/**
 * Hours as they are read: 0.25, 12.5, 1,234.
 * @param {number} amount
 */
export function hoursWords(amount) {
  if (amount > 0 && amount < 0.01) return "below 0.01";
  const digits = amount < 1 ? 2 : amount < 100 ? 1 : 0;
  return amount.toLocaleString("en", { maximumFractionDigits: digits });
}

/** @param {number} share */
const percent = (share) =>
  share > 0 && share < 0.01 ? "below 1 %" : `${Math.round(100 * share)} %`;

const unknown = () => el("span", { class: "dim" }, "unknown");

/**
 * What is used of one limit, in words.
 * @param {QuotaCell} cell
 */
export function cellWords({ what, used, exact, limit, unknown: hidden }) {
  const amount = (/** @type {number} */ n) => (what === "memory" ? gib(n) : formatted(n));
  const has = used === null ? "unknown" : `${amount(used)}${exact ? "" : "+"}`;
  if (hidden) return `${has}, limit unknown`;
  return limit === null ? `${has}, unlimited` : `${has} of ${amount(limit)}`;
}

/** @param {{ cell: QuotaCell }} props */
function Cell({ cell }) {
  const { used, limit, by } = cell;
  const words = cellWords(cell);
  if (limit === null) return el("span", { class: "dim nowrap" }, words);
  const full = used !== null && used >= limit * FULL;
  const shown = used === null ? null : bar(used, limit, true);
  const props = { class: full ? "nowrap reason" : "nowrap", title: `${by}=${limit}` };
  return el("span", props, shown, words);
}

/**
 * Whose row it is.
 * @param {QuotaRow} row
 * @param {string} user
 * @returns {[string, string]} its words, and where it is described
 */
export function rowName({ kind, name, account }, user) {
  const [policy, key] = kind.startsWith("qos") ? ["qos", name] : ["accounts", account];
  const address = addressOf(`policy/${policy}`, { q: key }, { q: "" });
  /** @type {Record<QuotaRow["kind"], string>} */
  const words = {
    user: `${user} in ${name}`,
    account: `account ${name}, all users`,
    "qos-user": `${user} in QOS ${name}`,
    "qos-account": `account ${account} in QOS ${name}`,
    qos: `QOS ${name}, all users`,
  };
  return [words[kind], address];
}

/** Limits without a column: minutes, memory, and those of each job.
 * @param {{ row: QuotaRow }} props */
function Others({ row }) {
  const cells = row.cells
    .filter(({ what, limit }) => !ALWAYS.includes(what) && limit !== null)
    .map((cell) => el("li", { key: cell.what }, `${WHAT[cell.what]}: `, h(Cell, { cell })));
  const budgets = row.budgets.map(({ bounds, resource, used, limit }) => {
    const has = used === null ? "unknown" : hoursWords(used / 60);
    const of = `${hoursWords(limit / 60)} ${resourceWords(resource)} hours`;
    const words = `${bounds}: ${has} of ${of}`;
    const full = used !== null && used >= limit;
    const shown = used === null ? null : bar(used, limit, true);
    return el("li", { key: `minutes ${resource}`, class: full ? "reason" : "" }, shown, words);
  });
  const more = limitLines(row.more).map(({ words, title }) =>
    el("li", { key: title, title }, words),
  );
  const all = [...cells, ...budgets, ...more];
  return all.length
    ? el("ul", { class: "plain limits" }, all)
    : el("span", { class: "dim" }, "none");
}

/** @param {{ row: QuotaRow, user: string }} props */
function Line({ row, user }) {
  const [words, address] = rowName(row, user);
  const cells = ALWAYS.map((what) => {
    const cell = row.cells.find((each) => each.what === what);
    return el("td", { key: what, "data-label": WHAT[what] }, cell ? h(Cell, { cell }) : null);
  });
  return el(
    "tr",
    { "data-key": `${row.kind} ${row.name} ${row.account}`, ...leadsTo(address.slice(1)) },
    el("td", null, el("a", { class: "plain", href: address, tabIndex: -1 }, words)),
    cells,
    el("td", { "data-label": "other limits" }, h(Others, { row })),
  );
}

/**
 * Whether a row has a limit, or one that is unknown.
 * @param {QuotaRow} row
 */
export const limited = ({ cells, budgets, more }) =>
  budgets.length > 0 ||
  more.length > 0 ||
  cells.some(({ limit, unknown: hidden }) => limit !== null || hidden);

/** What is to be known about the limits. @param {Quota} limits */
function limitNotes({ known, why, why_no_qos }) {
  const notes = [];
  if (!known) notes.push(`The limits are unknown: ${why}.`);
  else if (why) notes.push(`These limits are of earlier: ${why}.`);
  if (why_no_qos) notes.push(`Limits of QOS are unknown: ${why_no_qos}.`);
  return notes.map((note) => el("p", { key: note, class: "reason" }, note));
}

/** @param {{ limits: Quota, user: string }} props */
export function LimitsCard({ limits, user }) {
  const { known, rows } = limits;
  const heads = ["whose", ...ALWAYS.map((what) => WHAT[what]), "other limits"];
  const lines = rows
    .filter((row) => row.kind === "user" || limited(row))
    .map((row) => h(Line, { key: `${row.kind} ${row.name} ${row.account}`, row, user }));
  const free = rows.filter((row) => row.kind !== "user" && !limited(row));
  const names = free.map((row) => rowName(row, user)[0]).join("; ");
  const none = known && !rows.length && `${user} has no account in Slurm's accounting.`;
  const about = el(
    "p",
    { class: "dim" },
    free.length ? `Unlimited: ${names}. ` : null,
    "A job starts when it is within all limits; one of its QOS goes before the same one of its account. ",
    el("a", { href: "#policy/accounts" }, "All accounts and QOS"),
  );
  return view.card("Limits", [
    limitNotes(limits),
    none ? el("p", { class: "dim" }, none) : null,
    lines.length
      ? [el("div", { key: "t", class: "stacked" }, h(Table, { heads }, lines)), about]
      : null,
  ]);
}

/**
 * How busy a running job's GPUs are, in words.
 * @param {RunningJob} job
 */
export function idleWords({ gpus, gpus_exact, known, use, idle_count: idle }) {
  if (!gpus && gpus_exact) return "no GPUs";
  if (!known || use === null) return "unknown";
  const of = known < gpus ? `${known} of ${gpus} measured, ` : "";
  return `${of}${percent(use)}${idle ? `, ${formatted(idle)} of ${formatted(gpus)} idle` : ""}`;
}

/**
 * Which GPUs do nothing: the first ones, and how many more.
 * @param {RunningJob} job
 */
export function idleNames({ idle, idle_count: count }) {
  const names = idle.map(({ node, index }) => `${node} GPU ${index}`).join(", ");
  return count > idle.length ? `${names} and ${formatted(count - idle.length)} more` : names;
}

/**
 * The list of an array's tasks; of one user accounting has more than of all.
 * @param {ArrayRow} array
 * @param {"running" | "ended"} tab
 * @param {{ user: string, days?: string }} of
 */
const tasksOf = ({ array }, tab, { user, days = "" }) =>
  tasksAddress(array, new URLSearchParams({ q: `user=${user}`, days }), tab);

/**
 * A job's first two cells: where it is described, and its name; of an array how many tasks it has.
 * @param {{ id: number, label: string, name: string, array: ArrayRow | null }} job
 * @param {string} address
 */
function nameCells({ label, name, array }, address) {
  const words = array ? `${array.array}_[…]` : label;
  const link = el("a", { class: "plain", href: address, tabIndex: -1 }, words);
  const tasks = array ? ` ${array.exact ? "" : "at least "}${many(array.tasks, "task")}` : "";
  return [
    el("td", { key: "job", class: "nowrap" }, link, tasks && el("small", { class: "dim" }, tasks)),
    el("td", { key: "name", class: "cut", title: name }, name),
  ];
}

/** @param {{ job: RunningJob }} props */
function IdleCell({ job }) {
  const [which, words] = [idleNames(job), idleWords(job)];
  return el(
    "td",
    { title: which, "data-label": "use of GPUs" },
    which
      ? [
          el("span", { key: "words", class: "state warn" }, words),
          el("small", { key: "which", class: "dim" }, ` ${which}`),
        ]
      : el("span", { class: "dim" }, words),
  );
}

/** @param {{ job: RunningJob, at: number, user: string }} props */
function RunningLine({ job, at, user }) {
  const { id, start_at, limit, array } = job;
  const ran = start_at ? at - start_at : null;
  const address = array ? tasksOf(array, "running", { user }) : `#job/${id}`;
  return el(
    "tr",
    { "data-job": id, "data-array": array?.array, ...leadsTo(address.slice(1)) },
    nameCells(job, address),
    el(
      "td",
      { class: "num", "data-label": "GPUs" },
      job.gpus_exact ? job.gpus || "-" : `${job.gpus || "?"}+`,
    ),
    el("td", { class: "num", "data-label": "CPUs" }, job.cpus),
    el(
      "td",
      { class: "num", "data-label": "time" },
      ran !== null && limit ? barred(ran, limit, span(ran)) : span(ran),
    ),
    h(IdleCell, { job }),
  );
}

/** How the use of GPUs was measured, in words. @param {Measured} measured */
export function measuredWords({ known, why, over_s }) {
  if (!known) return `Use of GPUs is unknown: ${why}.`;
  const old = why ? ` It is of earlier: ${why}.` : "";
  const how = over_s ? `the mean of ${span(over_s)}` : "of this moment";
  return `Use of GPUs is ${how}; idle is below 5 %, of jobs that run for 10 minutes or longer.${old}`;
}

/** @param {{ work: MyWork }} props */
export function RunningCard({ work: { running, measured, reasons, user, jobs } }) {
  const numbers = ["GPUs", "CPUs", "time"].map((label) => ({ label, numeric: true }));
  const heads = ["job", "name", ...numbers, "use of GPUs"];
  const at = Date.now() / 1000;
  const gpus = running.some((job) => job.gpus);
  const all = `#jobs/running/${encodeURIComponent(`user=${user}`)}`;
  const ordered = [...running].sort((a, b) => b.idle_count - a.idle_count || b.id - a.id);
  const lines = ordered.slice(0, PAGE).map((job) => h(RunningLine, { key: job.id, job, at, user }));
  const waits = reasons.map(({ reason, why, jobs: count }) =>
    el(
      "li",
      { key: `${reason} ${why}` },
      `${many(count, "job")}: ${why || reason || "no reason given"}`,
    ),
  );
  return view.card(
    "Running now",
    [
      lines.length
        ? el("div", { class: "stacked brief" }, h(Table, { heads }, lines))
        : el("p", { class: "dim" }, "No job is running."),
      gpus ? el("p", { class: "dim" }, measuredWords(measured)) : null,
      waits.length
        ? [el("h3", { key: "h" }, "Pending"), el("ul", { key: "w", class: "plain" }, waits)]
        : null,
    ],
    running.length ? el("a", { href: all }, `${many(jobs, "job")} in the list`) : null,
  );
}

/**
 * @param {string} words
 * @param {ComponentChildren} value
 * @param {string} [unit]
 */
const tile = (words, value, unit = "") =>
  el(
    "div",
    { key: words, class: words.length > 60 ? "tile wide" : "tile" },
    el("b", null, value, unit ? el("small", null, ` ${unit}`) : null),
    el("span", null, words),
  );

/** @param {{ work: MyWork | null }} props */
function NowTiles({ work }) {
  if (!work) return null;
  const { gpus, gpus_exact, cpus, jobs, pending, memory } = work;
  return [
    tile("GPUs in use", `${formatted(gpus)}${gpus_exact ? "" : "+"}`),
    tile("CPUs in use", formatted(cpus), memory ? `and ${gib(memory)}` : ""),
    tile("jobs running", formatted(jobs), pending ? `and ${formatted(pending)} pending` : ""),
  ];
}

/** @param {WorkPeriod} period @param {boolean} cut */
export function periodWords({ gpu_hours, gpus_exact, cpu_hours, cost, jobs }, cut) {
  const least = cut ? "at least " : "";
  const gpu = `${cut || !gpus_exact ? "at least " : ""}${hoursWords(gpu_hours)}`;
  const dollars = cost?.words === "?" ? "unknown" : cost?.words;
  const money = cost ? `, ${dollars} $ of rented machines` : "";
  return { gpu, rest: `${least}${hoursWords(cpu_hours)} CPU hours, ${many(jobs, "job")}${money}` };
}

/** @param {{ hours: WorkHours | null, failure: Refused | null }} props */
export function HourTiles({ hours, failure }) {
  if (failure || (hours && !hours.known)) {
    const why = failure ? failure.message : hours?.why;
    return tile(`GPU hours of 7 and 30 days: ${why}`, "unknown");
  }
  if (!hours) return tile("GPU hours", "…");
  const { why_no_cost: why } = hours;
  return [
    ...hours.periods.map((period) => {
      const { gpu, rest } = periodWords(period, hours.cut);
      return tile(`GPU hours in ${period.days} days; ${rest}`, gpu);
    }),
    why ? tile(`cost of 7 and 30 days: ${why}`, "unknown") : null,
  ];
}

/** @type {[keyof EfficiencyRow, string, boolean][]} */
const HEADS = [
  ["id", "job", false],
  ["name", "name", false],
  ["state", "state", false],
  ["end_at", "ended", true],
  ["elapsed", "ran", true],
  ["gpu", "GPUs used", true],
  ["cpu", "CPUs used", true],
  ["memory_used", "memory used", true],
  ["gpu_waste", "unused GPU hours", true],
  ["cpu_waste", "unused CPU hours", true],
];

/**
 * Jobs in an order; what is unknown is last in any. By unused GPU hours, equal ones by CPU hours.
 * @param {EfficiencyRow[]} jobs
 * @param {string} by
 * @param {boolean} down
 */
export function inOrder(jobs, by, down) {
  const key = /** @type {keyof EfficiencyRow} */ (by);
  const sign = down ? -1 : 1;
  /** @param {EfficiencyRow} a @param {EfficiencyRow} b @param {keyof EfficiencyRow} field */
  const compared = (a, b, field) => {
    const [x, y] = [a[field], b[field]];
    if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
    return sign * (x < y ? -1 : x > y ? 1 : 0);
  };
  return [...jobs].sort(
    (a, b) => compared(a, b, key) || compared(a, b, "cpu_waste") || b.id - a.id,
  );
}

/**
 * A share of what was asked for, and of how much.
 * @param {{ share: number | null, asked: string }} props
 */
function Share({ share, asked }) {
  if (share === null) return unknown();
  const low = share < LOW;
  return el(
    "span",
    { class: low ? "reason" : "" },
    barred(share, 1, `${percent(share)} of ${asked}`),
  );
}

/** How many of an array's tasks were measured, where not all were. @param {EfficiencyRow} job */
export function measuredOf({ array, measured }) {
  if (!array || measured >= array.tasks) return "";
  return `${formatted(measured)} of ${many(array.tasks, "task")} measured`;
}

/** @param {{ job: EfficiencyRow, days: string, user: string }} props */
function EndedLine({ job, days, user }) {
  const { id, state, kind, gpus, gpus_exact, array } = job;
  const address = array ? tasksOf(array, "ended", { user, days }) : `#job/${id}`;
  const each = array ? " each" : "";
  const of = (/** @type {string} */ amount) =>
    array && !array.alike ? "different amounts" : `${amount}${each}`;
  const none = el("span", { class: "dim" }, "-");
  const had = gpus || !gpus_exact;
  const waste = (/** @type {number | null} */ hours) =>
    hours === null ? unknown() : hoursWords(hours);
  return el(
    "tr",
    { "data-job": id, "data-array": array?.array, ...leadsTo(address.slice(1)) },
    nameCells(job, address),
    el(
      "td",
      { "data-label": "state", title: measuredOf(job) },
      array ? h(Counts, { counts: array.counts }) : badge(state, kind),
    ),
    el("td", { class: "num nowrap", "data-label": "ended" }, clock(job.end_at)),
    el("td", { class: "num", "data-label": "ran" }, span(job.elapsed)),
    el(
      "td",
      { class: "num", "data-label": "GPUs used" },
      had ? Share({ share: job.gpu, asked: of(gpus_exact ? `${gpus}` : `${gpus || "?"}+`) }) : none,
    ),
    el(
      "td",
      { class: "num", "data-label": "CPUs used" },
      Share({ share: job.cpu, asked: of(formatted(job.cpus)) }),
    ),
    el(
      "td",
      { class: "num", "data-label": "memory used" },
      Share({ share: job.memory_used, asked: of(gib(job.memory)) }),
    ),
    el("td", { class: "num", "data-label": "unused GPU hours" }, had ? waste(job.gpu_waste) : none),
    el("td", { class: "num", "data-label": "unused CPU hours" }, waste(job.cpu_waste)),
  );
}

/**
 * @typedef {{ by: string, down: boolean, order: (key: string) => void }} Order
 * @param {{ ended: Efficiency, more: boolean, all: () => void } & Order} props
 */
export function EfficiencyTable({ ended, by, down, order, more, all }) {
  const cells = HEADS.map(([key, word, numeric]) => {
    const chosen = by === key;
    const label = `${word}${chosen ? (down ? " ↓" : " ↑") : ""}`;
    const sort = chosen ? (down ? "descending" : "ascending") : undefined;
    return el(
      "th",
      { key, class: numeric ? "num" : "", "aria-sort": sort },
      el("button", { "data-key": `by ${key}`, onClick: () => order(key) }, label),
    );
  });
  const jobs = inOrder(ended.jobs, by, down);
  const shown = more ? jobs : jobs.slice(0, PAGE);
  const rest = jobs.length - shown.length;
  return [
    el(
      "div",
      { key: "table", class: "scroll stacked", tabIndex: 0 },
      el(
        "table",
        null,
        el("thead", null, el("tr", null, cells)),
        el(
          "tbody",
          null,
          shown.map((job) =>
            h(EndedLine, { key: job.id, job, days: String(ended.days), user: ended.user }),
          ),
        ),
      ),
    ),
    rest ? el("button", { key: "more", onClick: all }, `Show ${formatted(rest)} more`) : null,
  ];
}

/** What is to be known about these figures. @param {Efficiency} ended */
export function aboutEnded({ why, cut, most, why_no_gpus, jobs }) {
  const lines = [];
  if (why) lines.push(`CPU and memory are unknown or of earlier: ${why}.`);
  if (why_no_gpus && jobs.some((job) => job.gpus))
    lines.push(`Use of GPUs of ended jobs is unknown: ${why_no_gpus}.`);
  if (cut) lines.push(`The newest ${formatted(most)} jobs and arrays at most; there were more.`);
  const some = jobs.filter((job) => measuredOf(job)).length;
  if (some) lines.push(`Shares of an array are means over its measured tasks, by their hours.`);
  lines.push(
    "Unknown is not measured: the job was short, or samples are missing. Memory is the peak of its largest step.",
  );
  return lines;
}

/**
 * What the address chooses.
 * @param {URLSearchParams} query
 */
export function choiceOf(query) {
  const days = query.get("days") ?? "";
  const by = query.get("by") ?? "";
  return {
    days: PERIODS.some(([key]) => key === days) ? days : "7",
    by: HEADS.some(([key]) => key === by) ? by : "gpu_waste",
    down: query.get("order") !== "up",
  };
}

/**
 * @typedef {object} WorkState
 * @property {MyWork | null} work
 * @property {WorkHours | null} hours
 * @property {Efficiency | null} ended
 * @property {Refused | null} wrong
 * @property {Refused | null} noHours
 * @property {Refused | null} noEnded
 * @property {string} days
 * @property {string} by
 * @property {boolean} down
 * @property {boolean} more
 */

/** @extends {Component<{ me: Me, args: string[], query: URLSearchParams }, WorkState>} */
export class MinePage extends Component {
  newest = { work: new Latest(), hours: new Latest(), ended: new Latest() };
  /** @type {ReturnType<typeof setInterval>[]} */
  timers = [];
  user = this.props.args[0] ?? "";
  /** @type {WorkState} */
  state = {
    ...{ work: null, hours: null, ended: null, wrong: null, noHours: null, noEnded: null },
    ...choiceOf(this.props.query),
    more: false,
  };

  componentDidMount() {
    this.loadWork();
    this.loadPast();
    this.timers = [
      setInterval(this.loadWork, AGAIN_MS),
      setInterval(() => this.loadPast(), HOURS_MS),
    ];
  }

  componentWillUnmount() {
    for (const timer of this.timers) clearInterval(timer);
    for (const latest of Object.values(this.newest)) latest.drop();
  }

  /** @param {string} path @param {Record<string, string>} [query] */
  asked(path, query = {}) {
    const chosen = new URLSearchParams({ ...query, ...(this.user ? { user: this.user } : {}) });
    return call(`${path}?${chosen}`);
  }

  loadWork = () => {
    /** @type {Promise<MyWork>} */
    const answer = this.asked("mine");
    this.newest.work.take(
      answer,
      (work) => this.setState({ work, wrong: null }),
      (wrong) => this.setState({ wrong }),
    );
  };

  loadPast() {
    /** @type {Promise<WorkHours>} */
    const answer = this.asked("mine/hours");
    this.newest.hours.take(
      answer,
      (hours) => this.setState({ hours, noHours: null }),
      (noHours) => this.setState({ noHours }),
    );
    this.loadEnded(this.state.days);
  }

  /** @param {string} days */
  loadEnded(days) {
    /** @type {Promise<Efficiency>} */
    const answer = this.asked("mine/efficiency", { days });
    this.newest.ended.take(
      answer,
      (ended) => this.setState({ ended, noEnded: null }),
      (noEnded) => this.setState({ noEnded }),
    );
  }

  /** @param {Partial<Pick<WorkState, "days" | "by" | "down">>} change */
  choose(change) {
    const { days, by, down } = { ...this.state, ...change };
    this.setState({ days, by, down });
    const chosen = { days, by, order: down ? "down" : "up" };
    const path = this.user ? `mine/${encodeURIComponent(this.user)}` : "mine";
    keepAddress(addressOf(path, chosen, { days: "7", by: "gpu_waste", order: "down" }));
    if (change.days) {
      this.setState({ ended: null });
      this.loadEnded(days);
    }
  }

  ended() {
    const { ended, noEnded, days, by, down, more } = this.state;
    const order = (/** @type {string} */ key) =>
      this.choose({ by: key, down: key === by ? !down : true });
    const chips = PERIODS.map(([key, words]) =>
      el(
        "button",
        {
          key,
          class: "chip",
          "data-key": key,
          "aria-pressed": days === key ? "true" : "false",
          onClick: () => this.choose({ days: key }),
        },
        words,
      ),
    );
    const why = noEnded?.message ?? (ended && !ended.known ? ended.why : "");
    const all = () => this.setState({ more: true });
    let content = el("p", { class: "dim" }, "Loading…");
    if (why) content = el("p", { class: "reason" }, `Unknown: ${why}.`);
    else if (ended && !ended.jobs.length)
      content = el("p", { class: "dim" }, "No job ended in this time.");
    else if (ended)
      content = el(
        "div",
        null,
        h(EfficiencyTable, { ended, by, down, order, more, all }),
        aboutEnded(ended).map((line) => el("p", { key: line, class: "dim" }, line)),
      );
    return view.card(
      "Asked for and used, by ended jobs",
      content,
      el("div", { class: "row", role: "group", "aria-label": "Period" }, chips),
      { key: "ended" },
    );
  }

  render() {
    const { work, hours, wrong, noHours } = this.state;
    const name = this.user || this.props.me.user;
    const tiles = el(
      "div",
      { key: "tiles", class: "tiles", "data-key": "now" },
      h(NowTiles, { work }),
      h(HourTiles, { hours, failure: noHours }),
    );
    return [
      this.user ? el("h1", { key: "who" }, `Work of ${name}`) : null,
      wrong ? h(view.FailureCard, { key: "wrong", failure: wrong }) : null,
      tiles,
      work ? h(RunningCard, { key: "running", work }) : null,
      work ? h(LimitsCard, { key: "limits", limits: work.limits, user: work.user }) : null,
      this.ended(),
    ];
  }
}
