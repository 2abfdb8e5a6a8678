// An array as one row of the list of jobs: counts by state, and its tasks below it when unfolded.
import { Component, h } from "../../vendor/preact.mjs";
import { arrayCells } from "./columns.js";
import { Box } from "../lib/bulk.js";
import { listen } from "../lib/event_stream.js";
import { Latest, records } from "../lib/server.js";
import { addressOf, complain, el, leadsTo, many } from "../lib/view.js";
/** @import { ComponentChildren } from "preact" */
/** @import { ArrayRow, JobRow, Jobs } from "../api.js" */
/** @import { Column, Shown } from "./columns.js" */

export const TASKS = 100;
const NEWS_MS = 300;

/**
 * The tasks that pass a list's filter, as a list.
 * @param {string} array
 * @param {URLSearchParams} query of the list that has the array
 * @param {boolean} ended
 */
function passedAddress(array, query, ended) {
  const q = `${query.get("q") ?? ""} array=${array}`.trim();
  const tab = ended ? "ended" : (query.get("show") ?? "all");
  const days = query.get("days") ?? "7";
  return addressOf(`jobs/${tab}`, { q, days }, { days: "7" });
}

/**
 * @typedef {object} ArrayProps
 * @property {JobRow} job one of its tasks
 * @property {ArrayRow} array
 * @property {Column[]} columns
 * @property {Shown} how
 * @property {string} address where its tasks are a list
 * @property {boolean} open
 * @property {boolean} ended the list is that of ended jobs
 * @property {(() => void) | null} choose null: it cannot be chosen
 * @property {boolean} chosen
 * @property {() => void} unfold
 */

/** @param {ArrayProps} props */
export function ArrayLine({ job, array, columns, how, address, open, ended, ...can }) {
  const { choose, chosen, unfold } = can;
  const label = `${array.array}_[…]`;
  const sign = open ? "▾" : "▸";
  const button = el(
    "button",
    {
      class: "fold",
      "aria-expanded": open ? "true" : "false",
      "aria-label": `Tasks of array ${array.array}`,
      "data-key": `fold ${array.array}`,
      onClick: unfold,
    },
    sign,
  );
  const box =
    choose && h(Box, { label: `Choose array ${array.array}`, checked: chosen, onChange: choose });
  const lead = [button, el("a", { class: "plain", href: address, tabIndex: -1 }, label)];
  return el(
    "tr",
    {
      class: "array",
      "data-array": array.array,
      "data-key": `array ${array.array}`,
      ...leadsTo(address.slice(1)),
    },
    ended ? null : el("td", { class: "boxes" }, box),
    arrayCells(columns, { job, array, lead }, how),
  );
}

/**
 * @typedef {object} TasksProps
 * @property {string} array
 * @property {string} list "jobs" or "past", with what else is chosen of it
 * @property {URLSearchParams} query of the list
 * @property {(job: JobRow) => ComponentChildren} row
 * @property {number} columns
 */

/**
 * The tasks of an array that pass the list's filter, as rows.
 * @extends {Component<TasksProps, { jobs: JobRow[] | null, total: number }>}
 */
export class ArrayTasks extends Component {
  /** @type {{ jobs: JobRow[] | null, total: number }} */
  state = { jobs: null, total: 0 };
  newest = new Latest();
  stop = () => {};
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  wait = undefined;

  load = () => {
    const query = new URLSearchParams(this.props.query);
    query.set("q", `${query.get("q") ?? ""} array=${this.props.array}`.trim());
    for (const [name, value] of Object.entries({ arrays: "false", offset: "0", limit: `${TASKS}` }))
      query.set(name, value);
    const show = (/** @type {Jobs} */ { columns, rows, total }) =>
      this.setState({ jobs: records(columns, rows), total });
    this.newest.ask(`${this.props.list}?${query}`, show, complain);
  };

  componentDidMount() {
    this.stop = listen("jobs", () => {
      this.wait ??= setTimeout(() => {
        this.wait = undefined;
        this.load();
      }, NEWS_MS);
    });
    this.load();
  }

  /** @param {TasksProps} before */
  componentDidUpdate(before) {
    if (String(before.query) !== String(this.props.query)) this.load();
  }

  componentWillUnmount() {
    this.newest.drop();
    this.stop();
    clearTimeout(this.wait);
  }

  render() {
    const { jobs, total } = this.state;
    const { array, row, columns, query, list } = this.props;
    if (!jobs) return el("tr", null, el("td", { colSpan: columns, class: "dim" }, "Loading…"));
    const more = el(
      "tr",
      { key: "more", class: "task" },
      el(
        "td",
        { colSpan: columns },
        el(
          "a",
          { href: passedAddress(array, query, list === "past") },
          `All ${many(total, "record")} of ${array}`,
        ),
      ),
    );
    return [jobs.map(row), total > jobs.length ? more : null];
  }
}

/** The number of the array that a job is of, by its label; "" for any other job. @param {string} label */
export const arrayOf = (label) => /^(\d+)_/.exec(label)?.[1] ?? "";

const SEVERAL = /^(\d+)_\[([^\]%]*)(?:%\d+)?\]$/;

/**
 * A job in words; the one record of the tasks of an array that have not begun is several.
 * @param {string} label
 */
export function named(label) {
  const [, array, tasks] = SEVERAL.exec(label) ?? [];
  return array ? `pending tasks ${tasks} of array ${array}` : `job ${label}`;
}

/**
 * What is asked before a job is cancelled: what ends by it, and what does not.
 * @param {string} label
 */
export function cancelQuestion(label) {
  const [, array] = SEVERAL.exec(label) ?? [];
  if (!array) {
    const text = "What it has not saved is lost.";
    return { title: `Cancel job ${label}?`, text, confirm: "Cancel the job" };
  }
  const text = `They will not start. Tasks of array ${array} that have begun go on.`;
  return { title: `Cancel ${named(label)}?`, text, confirm: "Cancel pending tasks" };
}
