// The queue: pending, running, ended; filtered and ordered by the server, page by page.
import { Component, h } from "../vendor/preact.mjs";
import { listen, now } from "./live.js";
import { call, Latest, records } from "./server.js";
import * as view from "./view.js";
/** @import { ComponentChildren } from "preact" */
/** @import { JobRow, Jobs, Me, Past } from "./api.js" */
/** @import { Refused } from "./server.js" */

const { addressOf, badge, bar, clock, complain, el, keepAddress, leadsTo, many } = view;
const { since, span, formatted } = view;
/** @type {["all" | "running" | "waiting" | "ended", string][]} */
const TABS = [
  ["all", "All"],
  ["running", "Running"],
  ["waiting", "Pending"],
  ["ended", "Ended"],
];
/** @type {[string | null, string, boolean][]} key to order by, heading, whether it is a number */
const HEADS = [
  ["id", "job", false],
  ["name", "name", false],
  ["user", "user", false],
  ["state", "state", false],
  [null, "why pending, or where it runs", false],
  ["gpus", "GPUs", true],
  ["cpus", "CPUs", true],
  ["start_at", "time", true],
];
/** @type {typeof HEADS[number]} */
const ENDED = ["end_at", "ended", true];
const PAGE = 100;
/** Of accounting, for what has ended. @type {[string, string][]} */
const PERIODS = [
  ["1", "24 hours"],
  ["7", "7 days"],
  ["30", "30 days"],
];
const TYPED_MS = 250;
const NEWS_MS = 300;
const AGAIN_MS = 30000;

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
export function exitOf(job) {
  const signal = job.exit_signal ? `signal ${job.exit_signal}` : "";
  const status = `exit status ${job.exit_status ?? "-"}`;
  if (signal && (job.exit_status ?? null) === null) return signal;
  return signal ? `${status}, ${signal}` : status;
}

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

/** @param {{ job: JobRow, ended: boolean }} props */
function Row({ job, ended }) {
  const where = whereOf(job);
  const elapsed = job.running && job.limit && job.start_at;
  const used = elapsed ? Date.now() / 1000 + now.skew - Number(job.start_at) : 0;
  return el(
    "tr",
    { "data-job": job.id, "data-key": job.id, ...leadsTo(`job/${job.id}`) },
    el(
      "td",
      { class: "nowrap" },
      el("a", { class: "plain", href: `#job/${job.id}`, tabIndex: -1 }, job.label),
    ),
    el("td", { class: "cut", title: job.name }, job.name),
    el("td", null, job.user),
    el("td", null, badge(job.state, job.kind)),
    el("td", { class: "cut why", title: where }, where),
    el("td", { class: "num" }, gpus(job) || "-"),
    el("td", { class: "num" }, job.cpus),
    el("td", { class: "num" }, elapsed ? bar(used, Number(job.limit), true) : null, timeOf(job)),
    ended ? el("td", { class: "num nowrap" }, clock(job.end_at)) : null,
  );
}

/**
 * @typedef {{ by: string, down: boolean, ended: boolean, order: (key: string) => void }} Order
 * @param {{ jobs: JobRow[] } & Order} props
 */
export function JobsTable({ jobs, by, down, ended, order }) {
  /** @type {typeof HEADS} */
  const heads = ended ? [...HEADS, ENDED] : HEADS;
  const cells = heads.map(([key, word, numeric]) => {
    const chosen = key !== null && by === key;
    const arrow = chosen ? (down ? " ↓" : " ↑") : "";
    const sort = chosen ? (down ? "descending" : "ascending") : undefined;
    const label = key
      ? el("button", { "data-key": `by ${key}`, onClick: () => order(key) }, `${word}${arrow}`)
      : word;
    return el("th", { key: word, class: numeric ? "num" : "", "aria-sort": sort }, label);
  });
  const rows = jobs.map((job) => h(Row, { key: job.id, job, ended }));
  return el(
    "div",
    { class: "scroll", tabIndex: 0 },
    el("table", null, el("thead", null, el("tr", null, cells)), el("tbody", null, rows)),
  );
}

/**
 * @param {{ choices: [string, string][], chosen: string, label: string, hidden?: boolean, choose: (key: string) => void }} props
 */
const Chips = ({ choices, chosen, label, hidden, choose }) =>
  el(
    "div",
    { class: "row", role: "group", "aria-label": label, hidden },
    choices.map(([key, words]) =>
      el(
        "button",
        {
          key,
          class: "chip",
          "data-key": key,
          "aria-pressed": chosen === key ? "true" : "false",
          onClick: () => choose(key),
        },
        words,
      ),
    ),
  );

/** @param {{ offset: number, total: number, go: (offset: number) => void }} props */
function Foot({ offset, total, go }) {
  const last = Math.min(offset + PAGE, total);
  const part = `${formatted(offset + 1)} to ${formatted(last)} of ${many(total, "job")}`;
  const earlier = { disabled: offset === 0, onClick: () => go(offset - PAGE) };
  const next = { disabled: last >= total, onClick: () => go(offset + PAGE) };
  const turn = [el("button", earlier, "Earlier page"), el("button", next, "Next page")];
  return el(
    "div",
    { class: "row between" },
    el("span", { class: "dim" }, total > PAGE ? part : many(total, "job")),
    total > PAGE ? el("span", { class: "row" }, turn) : null,
  );
}

/** @param {Past} data */
function aboutPast({ why, cut, most }) {
  if (why) {
    return `${why[0].toUpperCase()}${why.slice(1)}: only what Slurm's controller still knows is here.`;
  }
  return cut ? `The newest ${formatted(most)} of this period. Mine asks for your own alone.` : "";
}

/**
 * @typedef {object} QueueState
 * @property {string} show
 * @property {string} q
 * @property {string} by
 * @property {boolean} down
 * @property {number} offset
 * @property {string} days
 * @property {string} typed
 * @property {JobRow[] | null} jobs
 * @property {number} total
 * @property {string} about
 * @property {string} wrong
 */

/** @typedef {Pick<QueueState, "show" | "q" | "by" | "down" | "offset" | "days">} Choice */

/**
 * The address of the list as it is chosen.
 * @param {Choice} choice
 */
export function listAddress({ show, q, by, down, offset, days }) {
  const page = String(Math.floor(offset / PAGE) + 1);
  const chosen = { q, by, order: down ? "down" : "up", page, days };
  const usual = { q: "", by: "id", order: "down", page: "1", days: "7" };
  return addressOf(`jobs/${show}`, chosen, usual);
}

/**
 * What an address chooses; what it does not have, or has wrong, is as usual.
 * @param {string[]} args
 * @param {URLSearchParams} query
 * @returns {Choice}
 */
export function listChoice([tab = "all", filter = ""], query) {
  /**
   * @param {string | null} value
   * @param {(string | null)[]} choices
   * @param {string} usual
   */
  const known = (value, choices, usual) => (value && choices.includes(value) ? value : usual);
  const orders = [...HEADS, ENDED].map(([key]) => key);
  const periods = PERIODS.map(([key]) => key);
  const page = Number(query.get("page"));
  return {
    show: known(tab, [...TABS.map(([key]) => key)], "all"),
    q: query.get("q") ?? filter,
    by: known(query.get("by"), orders, "id"),
    down: query.get("order") !== "up",
    offset: Number.isInteger(page) && page > 0 ? (page - 1) * PAGE : 0,
    days: known(query.get("days"), periods, "7"),
  };
}

/** @extends {Component<{ me: Me, args: string[], query: URLSearchParams }, QueueState>} */
export class JobsPage extends Component {
  newest = new Latest();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  typing = undefined;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  wait = undefined;
  stop = () => {};

  /** @param {{ me: Me, args: string[], query: URLSearchParams }} props */
  constructor(props) {
    super(props);
    const choice = listChoice(props.args, props.query);
    /** @type {QueueState} */
    this.state = {
      ...{ ...choice, typed: choice.q },
      ...{ jobs: null, total: 0, about: "", wrong: "" },
    };
  }

  // Only where something is chosen: news must not undo an address that somebody has just gone to.
  chosen = () => {
    keepAddress(listAddress(this.state));
    this.load();
  };

  componentDidMount() {
    const tick = setInterval(() => {
      if (!document.hidden) this.load();
    }, AGAIN_MS);
    const silence = listen("jobs", this.soon);
    this.stop = () => {
      silence();
      clearInterval(tick);
    };
    this.load();
  }

  componentWillUnmount() {
    this.newest.drop();
    this.stop();
    clearTimeout(this.wait);
    clearTimeout(this.typing);
  }

  soon = () => {
    this.forceUpdate();
    this.wait ??= setTimeout(() => {
      this.wait = undefined;
      this.load();
    }, NEWS_MS);
  };

  load = () => {
    const { show, q, by, down, offset, days } = this.state;
    const ask = { q, by, down: String(down), offset: String(offset), limit: String(PAGE) };
    /** @type {Promise<Jobs & Partial<Past>>} */
    const answer =
      show === "ended"
        ? call(`past?${new URLSearchParams({ ...ask, days })}`)
        : call(`jobs?${new URLSearchParams({ ...ask, show })}`);
    this.newest.take(answer, this.answered, this.failed);
  };

  /** @param {Jobs & Partial<Past>} data */
  answered = (data) => {
    /** @type {JobRow[]} */
    const jobs = records(data.columns, data.rows);
    const about = data.most === undefined ? "" : aboutPast(/** @type {any} */ (data));
    this.setState({ jobs, total: data.total, about, wrong: "" });
  };

  /** @param {Refused} failure */
  failed = (failure) => {
    if (failure.status === 400) this.setState({ wrong: `${failure.message}. ${failure.hint}` });
    else complain(failure);
  };

  /** @param {Partial<QueueState>} change */
  choose(change) {
    this.setState({ offset: 0, ...change }, this.chosen);
  }

  /** @param {string} typed */
  type = (typed) => {
    this.setState({ typed });
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.choose({ q: typed.trim() }), TYPED_MS);
  };

  mine = () => {
    const { typed } = this.state;
    const word = `user=${this.props.me.user}`;
    const text = typed.includes(word) ? typed.replace(word, "") : `${typed} ${word}`;
    this.choose({ typed: text.trim(), q: text.trim() });
  };

  /** @param {string} by */
  order = (by) => {
    const { by: before, down } = this.state;
    this.setState({ by, down: before === by ? !down : true }, this.chosen);
  };

  filters() {
    const { show, typed, q, days } = this.state;
    const mine = q.includes(`user=${this.props.me.user}`);
    return el(
      "div",
      { class: "row" },
      el("input", {
        type: "search",
        value: typed,
        placeholder: "filter: state=pending user=kim partition=main train",
        "aria-label": "Filter jobs",
        onInput: ({ currentTarget }) => this.type(currentTarget.value),
      }),
      el(
        "button",
        { class: "chip", "aria-pressed": mine ? "true" : "false", onClick: this.mine },
        "Mine",
      ),
      h(Chips, {
        label: "Ended within the last",
        choices: PERIODS,
        chosen: days,
        hidden: show !== "ended",
        choose: (key) => this.choose({ days: key }),
      }),
    );
  }

  tabs() {
    /** @type {Partial<Record<string, number>>} */
    const counts = { ...now.head?.counts.shown };
    /** @type {[string, string][]} */
    const choices = TABS.map(([key, word]) => [
      key,
      counts[key] === undefined ? word : `${word} ${formatted(counts[key])}`,
    ]);
    return h(Chips, {
      label: "Which jobs",
      choices,
      chosen: this.state.show,
      choose: (show) => this.choose({ show }),
    });
  }

  /** @returns {ComponentChildren} */
  list() {
    const { jobs, total, offset, show, q, by, down } = this.state;
    if (!jobs) return null;
    if (!jobs.length) {
      const none = q || show !== "all" ? "No job matches." : "No jobs. The queue is empty.";
      return el("p", { class: "dim center" }, none);
    }
    const go = (/** @type {number} */ to) => this.choose({ offset: to });
    return [
      h(JobsTable, { jobs, by, down, ended: show === "ended", order: this.order }),
      h(Foot, { offset, total, go }),
    ];
  }

  render() {
    const { about, wrong } = this.state;
    return el(
      "div",
      { class: "card" },
      el(
        "div",
        { class: "row between" },
        this.tabs(),
        el("a", { class: "button", href: "#submit" }, "Submit a job"),
      ),
      el("br"),
      this.filters(),
      el("p", { class: "reason", role: "alert" }, wrong),
      el("p", { class: "dim", role: "status" }, about),
      this.list(),
    );
  }
}
