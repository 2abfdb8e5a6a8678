// The queue: pending, running, ended; filtered and ordered by the server, page by page.
import { Component, h } from "../../vendor/preact.mjs";
import { ArrayLine, ArrayTasks } from "./arrays.js";
import { Bar, Box, cancelJobs, Failures, toggled } from "../lib/bulk.js";
import {
  ColumnChoice,
  columnsOf,
  headCells,
  jobCells,
  keepColumns,
  keptColumns,
  ORDERS,
} from "./columns.js";
import { IdleGpus } from "./idle.js";
import { tasksAddress } from "./links.js";
import { listen, now } from "../lib/event_stream.js";
import { SearchField } from "../lib/completion.js";
import { Latest, records } from "../lib/server.js";
import * as view from "../lib/view.js";
/** @import { ComponentChildren } from "preact" */
/** @import { ArrayRow, FailedOne, JobRow, Jobs, JobWords, Me, Past } from "../api.js" */
/** @import { Column, Shown } from "./columns.js" */
/** @import { Refused } from "../lib/server.js" */

const { addressOf, complain, el, formatted, keepAddress, leadsTo, many } = view;
/** @type {["all" | "running" | "waiting" | "ended", string][]} */
const TABS = [
  ["all", "All"],
  ["running", "Running"],
  ["waiting", "Pending"],
  ["ended", "Ended"],
];
const PAGE = 100;
/** Of accounting, for what has ended. @type {[string, string][]} */
const PERIODS = [
  ["1", "24 hours"],
  ["7", "7 days"],
  ["30", "30 days"],
];
/** After a key; the server needs some 0.1 s for 50,000 jobs, and 0.2 s still seem at once. */
const TYPED_MS = 60;
const NEWS_MS = 300;
const AGAIN_MS = 30000;

/**
 * @typedef {object} RowProps
 * @property {JobRow} job
 * @property {Column[]} columns
 * @property {Shown} how
 * @property {boolean} ended the list is that of ended jobs, which has nothing to choose
 * @property {boolean} [chosen]
 * @property {(() => void) | null} [choose] null: it cannot be chosen
 * @property {boolean} [task] it is below its array
 */

/** @param {Pick<RowProps, "job" | "chosen" | "choose">} props */
const BoxCell = ({ job, chosen = false, choose = null }) =>
  el(
    "td",
    { class: "boxes" },
    choose && h(Box, { label: `Choose job ${job.label}`, checked: chosen, onChange: choose }),
  );

/** @param {RowProps} props */
function Row({ job, columns, how, ended, chosen, choose, task = false }) {
  return el(
    "tr",
    {
      class: task ? "task" : "",
      "data-job": job.id,
      "data-key": job.id,
      ...leadsTo(`job/${job.id}`),
    },
    ended ? null : h(BoxCell, { job, chosen, choose }),
    jobCells(columns, job, how),
  );
}

/** What a row is chosen by: a job's number, or its array's. @param {string} array */
const arrayKey = (array) => `array ${array}`;

/**
 * @typedef {object} Choosing
 * @property {ReadonlySet<string>} chosen
 * @property {(key: string) => void} choose
 * @property {(keys: string[]) => void} chooseAll
 * @property {(job: JobRow) => boolean} may
 * @property {Record<string, ArrayRow>} arrays by the number of the job whose row it has
 * @property {ReadonlySet<string>} open arrays that are unfolded
 * @property {(array: string) => void} unfold
 * @property {IdleGpus} [idle]
 * @property {Me} me
 * @property {Column[]} columns
 * @property {URLSearchParams} query of the list
 *
 * @typedef {{ by: string, down: boolean, ended: boolean, order: (key: string) => void }} Order
 */

/** @param {{ jobs: JobRow[], ended: boolean } & Choosing} props */
function rowsOf({ jobs, ended, columns, arrays, me, ...how }) {
  /** @param {JobRow} job */
  const task = (job) => row(job, true);
  /** @param {JobRow} job */
  const row = (job, below = false) => {
    const key = String(job.id);
    const choose = how.may(job) ? () => how.choose(key) : null;
    const shown = { me, idle: how.idle?.of(job.id) };
    const of = { job, columns, how: shown, ended, chosen: how.chosen.has(key) };
    return h(Row, { key: job.id, ...of, choose, task: below });
  };
  return jobs.map((job) => {
    const array = arrays[job.id];
    if (!array) return row(job);
    const open = how.open.has(array.array);
    const key = arrayKey(array.array);
    const address = tasksAddress(array.array, how.query, ended ? "ended" : "all");
    const shown = { me, idle: how.idle?.ofArray(array.array) };
    const line = h(ArrayLine, {
      ...{ key, job, array, columns, how: shown, address, open, ended },
      chosen: how.chosen.has(key),
      choose: how.may({ ...job, ended: array.ended }) ? () => how.choose(key) : null,
      unfold: () => how.unfold(array.array),
    });
    const list = ended ? "past" : "jobs";
    const tasks = { array: array.array, list, query: how.query, row: task };
    const wide = { columns: columns.length + 1 };
    return [line, open ? h(ArrayTasks, { key: `tasks ${array.array}`, ...tasks, ...wide }) : null];
  });
}

/** @param {{ jobs: JobRow[] } & Choosing} props */
function AllBox({ jobs, arrays, chosen, may, chooseAll }) {
  const keys = jobs
    .filter((job) => may({ ...job, ended: arrays[job.id]?.ended ?? job.ended }))
    .map((job) => (arrays[job.id] ? arrayKey(arrays[job.id].array) : String(job.id)));
  const checked = keys.length > 0 && keys.every((key) => chosen.has(key));
  const onChange = () => chooseAll(checked ? [] : keys);
  return h(Box, { label: "Choose all of this page", checked, onChange });
}

/** @param {{ jobs: JobRow[] } & Order & Choosing} props */
export function JobsTable({ jobs, by, down, ended, order, ...how }) {
  const box = ended
    ? null
    : el("th", { key: "boxes", class: "boxes" }, h(AllBox, { jobs, ...how }));
  const heads = headCells({ columns: how.columns, by, down, order });
  return el(
    "div",
    { class: "scroll", tabIndex: 0 },
    el(
      "table",
      { class: how.columns.some(({ more }) => more) ? "jobs full" : "jobs" },
      el("thead", null, el("tr", null, box, heads)),
      el("tbody", null, rowsOf({ jobs, ended, ...how })),
    ),
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

/** @param {{ offset: number, total: number, jobs: number, go: (offset: number) => void }} props */
function Foot({ offset, total, jobs, go }) {
  const last = Math.min(offset + PAGE, total);
  const rows =
    total === jobs ? many(total, "job") : `${many(total, "row")}, ${many(jobs, "record")}`;
  const part = `${formatted(offset + 1)} to ${formatted(last)} of ${rows}`;
  const earlier = { disabled: offset === 0, onClick: () => go(offset - PAGE) };
  const next = { disabled: last >= total, onClick: () => go(offset + PAGE) };
  const turn = [el("button", earlier, "Earlier page"), el("button", next, "Next page")];
  return el(
    "div",
    { class: "row between" },
    el("span", { class: "dim" }, total > PAGE ? part : rows),
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
 * @property {number} all jobs in those rows
 * @property {Record<string, ArrayRow>} arrays
 * @property {ReadonlySet<string>} chosen
 * @property {boolean} every all that match are chosen, on every page
 * @property {ReadonlySet<string>} open
 * @property {string[]} columns that are chosen
 * @property {FailedOne[]} failed
 * @property {string} about
 * @property {string} wrong
 */

/** @typedef {Pick<QueueState, "show" | "q" | "by" | "down" | "offset" | "days" | "open">} Choice */

/**
 * The address of the list as it is chosen.
 * @param {Choice} choice
 */
export function listAddress({ show, q, by, down, offset, days, open }) {
  const page = String(Math.floor(offset / PAGE) + 1);
  const chosen = { q, by, order: down ? "down" : "up", page, days, open: [...open].join(",") };
  const usual = { q: "", by: "id", order: "down", page: "1", days: "7", open: "" };
  return addressOf(`jobs/${show}`, chosen, usual);
}

/**
 * What an address selects; missing and invalid parts get their defaults.
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
  const periods = PERIODS.map(([key]) => key);
  const page = Number(query.get("page"));
  return {
    show: known(tab, [...TABS.map(([key]) => key)], "all"),
    q: query.get("q") ?? filter,
    by: known(query.get("by"), ORDERS, "id"),
    down: query.get("order") !== "up",
    offset: Number.isInteger(page) && page > 0 ? (page - 1) * PAGE : 0,
    days: known(query.get("days"), periods, "7"),
    open: new Set(
      query
        .get("open")
        ?.split(",")
        .filter((array) => /^\d+$/.test(array)),
    ),
  };
}

/** Whether a bracket is yet to be closed. @param {string} word */
const unclosed = (word) => word.lastIndexOf("[") > word.lastIndexOf("]");

/**
 * The filter without a key whose value is yet to be typed: no job would match, or it is an error.
 * @param {string} typed
 */
export const complete = (typed) =>
  typed
    .split(/\s+/)
    .filter((word) => word && !/^[a-z_]+!?=$/i.test(word))
    .filter((word) => !/^nodes!?=/i.test(word) || !unclosed(word))
    .join(" ");

/** @extends {Component<{ me: Me, args: string[], query: URLSearchParams }, QueueState>} */
export class JobsPage extends Component {
  newest = new Latest();
  newestWords = new Latest();
  /** @type {Record<string, string[]>} keys of the filter with their values */
  words = {};
  idle = new IdleGpus();
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
      ...{ jobs: null, total: 0, all: 0, arrays: {}, about: "", wrong: "" },
      ...{ chosen: new Set(), every: false, failed: [], columns: keptColumns() },
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
    this.newestWords.drop();
    this.idle.drop();
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

  query() {
    const { show, q, by, down, offset, days } = this.state;
    const ask = { q, by, down: String(down), offset: String(offset), limit: String(PAGE) };
    const arrays = String(!/(^| )array=/.test(q)); // who asks for an array wants its tasks
    const query = new URLSearchParams({ ...ask, arrays });
    if (show === "ended") query.set("days", days);
    else query.set("show", show);
    return query;
  }

  load = () => {
    const list = this.state.show === "ended" ? "past" : "jobs";
    this.newest.ask(`${list}?${this.query()}`, this.answered, this.failed);
  };

  /** Who is about to type gets the keys, and the values that jobs have of them. */
  askWords = () => {
    const show = (/** @type {JobWords} */ { words }) => {
      this.words = words;
    };
    this.newestWords.ask("jobs/words", show, () => {}); // it can be typed without
  };

  /** @param {Jobs & Partial<Past>} data */
  answered = (data) => {
    /** @type {JobRow[]} */
    const jobs = records(data.columns, data.rows);
    const about = data.most === undefined ? "" : aboutPast(/** @type {any} */ (data));
    const { total, jobs: all = total, arrays = {} } = data;
    this.setState({ jobs, total, all, arrays, about, wrong: "" });
    this.idle.ask(this.props.me, jobs, () => this.forceUpdate(), arrays);
  };

  /** @param {Refused} failure */
  failed = (failure) => {
    if (failure.status === 400) this.setState({ wrong: `${failure.message}. ${failure.hint}` });
    else complain(failure);
  };

  /** @param {Partial<QueueState>} change */
  choose(change) {
    const none = { chosen: new Set(), every: false };
    this.setState({ offset: 0, ...none, ...change }, this.chosen);
  }

  /** @param {string} typed */
  type = (typed) => {
    this.setState({ typed });
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.choose({ q: complete(typed) }), TYPED_MS);
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

  /** @param {JobRow} job */
  may = (job) => !job.ended && (this.props.me.role !== "user" || job.user === this.props.me.user);

  /** @param {string} key */
  pick = (key) => this.setState(({ chosen }) => ({ chosen: toggled(chosen, key), every: false }));

  /** @param {string[]} keys */
  pickAll = (keys) => this.setState({ chosen: new Set(keys), every: false });

  /** @param {string} array */
  unfold = (array) =>
    this.setState(
      ({ open }) => ({ open: toggled(open, array) }),
      () => keepAddress(listAddress(this.state)),
    );

  /** @param {string[]} columns */
  pickColumns = (columns) => {
    keepColumns(columns);
    this.setState({ columns });
  };

  clear = () => this.setState({ chosen: new Set(), every: false });

  cancel = async () => {
    const { chosen, every, show, q } = this.state;
    const keys = [...chosen];
    const arrays = keys.filter((key) => key.startsWith("array ")).map((key) => key.slice(6));
    const ids = keys.filter((key) => !key.startsWith("array ")).map(Number);
    const failed = await cancelJobs(every ? { show, q } : { ids, arrays });
    if (failed === null) return;
    this.clear();
    this.setState({ failed });
  };

  /** What can be done with what is chosen. */
  bulk() {
    const { chosen, every, total, all, jobs, show } = this.state;
    if (show === "ended" || (!chosen.size && !every)) return null;
    const words = every
      ? `All ${many(all, "record")} that match`
      : `${many(chosen.size, "row")} chosen`;
    const more = el(
      "button",
      { class: "quiet", onClick: () => this.setState({ every: true }) },
      `Choose all ${many(total, "row")}`,
    );
    const cancel = el("button", { class: "danger", onClick: this.cancel }, "Cancel…");
    return h(
      Bar,
      { words, clear: this.clear },
      cancel,
      !every && jobs && total > jobs.length ? more : null,
    );
  }

  filters() {
    const { show, typed, q, days } = this.state;
    const mine = q.includes(`user=${this.props.me.user}`);
    return el(
      "div",
      { class: "row" },
      h(SearchField, {
        ...{ value: typed, type: this.type, label: "Filter jobs" },
        placeholder: "filter: state=pending user=kim partition=main train",
        ...{ words: () => this.words, begun: this.askWords },
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
      h(ColumnChoice, { keys: this.state.columns, choose: this.pickColumns }),
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
    const { jobs, total, all, offset, show, q, by, down, arrays, chosen, open } = this.state;
    if (!jobs) return null;
    if (!jobs.length) {
      const none = q || show !== "all" ? "No job matches." : "No jobs. The queue is empty.";
      return el("p", { class: "dim center" }, none);
    }
    const go = (/** @type {number} */ to) => this.choose({ offset: to });
    const columns = columnsOf(this.state.columns, show === "ended");
    return [
      h(JobsTable, {
        ...{ jobs, by, down, ended: show === "ended", order: this.order, arrays, chosen, open },
        ...{ may: this.may, choose: this.pick, chooseAll: this.pickAll, unfold: this.unfold },
        ...{ query: this.query(), idle: this.idle, me: this.props.me, columns },
      }),
      h(Foot, { offset, total, jobs: all, go }),
    ];
  }

  render() {
    const { about, wrong, failed } = this.state;
    const close = () => this.setState({ failed: [] });
    return el(
      "div",
      { class: "card" },
      failed.length ? h(Failures, { what: "job", failed, close }) : null,
      el(
        "div",
        { class: "row between" },
        this.tabs(),
        el("a", { class: "button hide-narrow", href: "#submit" }, "Submit a job"),
      ),
      this.filters(),
      el("p", { class: "reason", role: "alert" }, wrong),
      el("p", { class: "dim", role: "status" }, about),
      this.bulk(),
      this.list(),
    );
  }
}
