// The page of an array: its tasks counted by state, those that failed, and one of its tasks.
import { Component, h } from "../../vendor/preact.mjs";
import { AgainLink } from "./resubmission.js";
import { cancelJobs, Failures } from "../lib/bulk.js";
import { listen } from "../lib/event_stream.js";
import { call, Latest } from "../lib/server.js";
import { addressOf, complain, Counts, el, formatted, keepAddress, many } from "../lib/view.js";
/** @import { ComponentChildren } from "preact" */
/** @import { ArrayTask, ArrayTasks, FailedOne, Me, SweepPoints } from "../api.js" */

const NEWS_MS = 500;
const CHIPS = 20;

/**
 * The tasks of an array by state: "2 failed, 1 completed".
 * @param {Pick<ArrayTasks, "array">} read
 */
export const countWords = ({ array: { counts, exact } }) =>
  `${exact ? "" : "at least "}${counts.map(({ state, count }) => `${formatted(count)} ${state.toLowerCase()}`).join(", ")}`;

/**
 * The task that is shown where nobody chose: one that runs stays, else the first that failed, else the first that
 * runs; the array's own record, of the tasks that have not begun or of the last one, where none did.
 * @param {ArrayTasks} read
 * @param {number} own the number of the array
 * @param {number} before the one that is shown; 0: none
 */
export function taskShown({ tasks, failed }, own, before = 0) {
  const runs = (/** @type {ArrayTask} */ { kind }) => kind === "busy" || kind === "mix";
  const stays = tasks.some((task) => task.id === before && (runs(task) || task.kind === "bad"));
  if (stays) return before;
  return (failed[0] ?? tasks.find(runs))?.id ?? own;
}

/**
 * A task's point of its sweep: "lr=1e-3, seed=2"; "" where it is of none.
 * @param {SweepPoints | undefined} sweep
 * @param {number} task
 */
export const pointWords = (sweep, task) =>
  (sweep?.points[task] ?? []).map((value, at) => `${sweep?.names[at]}=${value}`).join(", ");

/**
 * How many tasks have ended badly, and how many are pending or go on.
 * @param {Pick<ArrayTasks, "array">} read
 */
export function tallyOf({ array: { counts } }) {
  const sum = (/** @type {(kind: string) => boolean} */ has) =>
    counts.reduce((total, { kind, count }) => total + (has(kind) ? count : 0), 0);
  const bad = sum((kind) => kind === "bad");
  const waiting = sum((kind) => kind === "warn");
  return { bad, waiting, going: sum((kind) => kind === "busy" || kind === "mix") };
}

/**
 * The choice of a task; those that failed also one by one.
 * @param {{ read: ArrayTasks, shown: number, own: number, choose: (task: number) => void, sweep?: SweepPoints }} props
 */
export function TaskChoice({ read: { tasks, total, failed, array }, shown, own, choose, sweep }) {
  const listed = tasks.some(({ id }) => id === shown)
    ? tasks
    : [...tasks, ...failed.filter(({ id }) => id === shown)];
  const about = (/** @type {number} */ task) =>
    sweep?.points[task] ? `${pointWords(sweep, task)} ` : "";
  const options = listed.map(({ id, task, state }) =>
    el("option", { key: id, value: id }, `task ${task} ${about(task)}(${state.toLowerCase()})`),
  );
  const rest = listed.some(({ id }) => id === own)
    ? null
    : el("option", { key: own, value: own }, "tasks that have not begun");
  const label = total > tasks.length ? `Task (the first ${tasks.length} of ${total})` : "Task";
  const chips = failed.slice(0, CHIPS).map(({ id, task }) => {
    const pressed = id === shown ? "true" : "false";
    const onClick = () => choose(id);
    const title = pointWords(sweep, task) || undefined;
    return el(
      "button",
      { key: id, class: "chip", "aria-pressed": pressed, title, onClick },
      `${task}`,
    );
  });
  const { bad } = tallyOf({ array });
  const chosen = listed.find(({ id }) => id === shown);
  const point = chosen && pointWords(sweep, chosen.task);
  return el(
    "div",
    { class: "row" },
    el(
      "select",
      {
        ...{ class: "narrow", "aria-label": label, title: label, value: shown },
        onChange: (/** @type {{ currentTarget: HTMLSelectElement }} */ { currentTarget }) =>
          choose(Number(currentTarget.value)),
      },
      rest,
      options,
    ),
    chips.length
      ? el(
          "div",
          { class: "row", role: "group", "aria-label": "Failed tasks" },
          bad > chips.length ? `Of ${many(bad, "failed task")} the first:` : "Failed tasks:",
          chips,
        )
      : null,
    point && el("span", { class: "dim" }, point),
  );
}

/**
 * What can be cancelled of an array: all of it, and its pending tasks alone where others have begun.
 * @param {{ read: ArrayTasks, cancel: (pending: boolean) => void }} props
 */
export function CancelArray({ read, cancel }) {
  const { waiting, going } = tallyOf(read);
  if (!waiting && !going) return null;
  const least = read.array.exact ? "" : "at least ";
  const pending = el(
    "button",
    { class: "quiet", onClick: () => cancel(true) },
    `Cancel ${least}${many(waiting, "pending task")}…`,
  );
  const all = el("button", { class: "danger", onClick: () => cancel(false) }, "Cancel the array…");
  return [waiting && going ? pending : null, all];
}

/** @param {{ unknown: string }} props */
const NotListed = ({ unknown }) =>
  el(
    "p",
    { class: "reason", role: "status" },
    `The address names ${unknown}, which is none of the listed tasks of this array.`,
  );

/**
 * @typedef {object} ArrayProps
 * @property {number} array its number
 * @property {string} name of its jobs
 * @property {boolean} mine it is the viewer's
 * @property {boolean} may the viewer may cancel it
 * @property {Me} me
 * @property {URLSearchParams} query of the page's address: the task, and a file of its output
 * @property {ComponentChildren} back
 * @property {(task: number, query: URLSearchParams) => ComponentChildren} task its page within this one
 * @typedef {{ read?: ArrayTasks, shown: number, sweep?: SweepPoints, failed?: FailedOne[], unknown?: string }} ArrayState
 * @extends {Component<ArrayProps, ArrayState>}
 */
export class ArrayPage extends Component {
  named = this.props.query.get("task") ?? "";
  chosen = Number(this.named) || 0;
  /** @type {ArrayState} */
  state = { shown: this.chosen };
  query = this.props.query;
  newest = new Latest();
  stop = () => {};
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  wait = undefined;

  load = () => this.newest.ask(`jobs/${this.props.array}/tasks`, this.take, complain);

  componentDidMount() {
    const front = `${this.props.array}_`;
    this.stop = listen("jobs", (jobs) => {
      if (jobs && !jobs.some(({ label }) => label.startsWith(front))) return;
      this.wait ??= setTimeout(() => {
        this.wait = undefined;
        this.load();
      }, NEWS_MS);
    });
    this.load();
    if (this.props.mine && this.props.me.mine) void this.points();
  }

  /** The points of a sweep; without them the tasks have their numbers. */
  points = async () => {
    try {
      this.setState({ sweep: await call(`jobs/${this.props.array}/points`) });
    } catch {
      // What the job was is not known here, or not any more: the page is complete without it.
    }
  };

  /** Asks and cancels, as the list does. @param {boolean} pending only the tasks that have not begun */
  cancel = async (pending) => {
    const { array } = this.props;
    const chosen = pending ? { show: "waiting", q: `array=${array}` } : { arrays: [`${array}`] };
    const failed = await cancelJobs(chosen);
    if (failed === null) return;
    this.setState({ failed });
    this.load();
  };

  componentWillUnmount() {
    this.newest.drop();
    this.stop();
    clearTimeout(this.wait);
  }

  /** @param {ArrayTasks} read */
  take = (read) => {
    const { array, name } = this.props;
    document.title = `${name} · array ${array}: ${countWords(read)} · Corral`;
    const listed = [...read.tasks, ...read.failed];
    if (this.named.includes("_")) {
      this.chosen = listed.find(({ label }) => label === this.named)?.id ?? 0;
    }
    const known = this.chosen === array || listed.some(({ id }) => id === this.chosen);
    if (!known) this.chosen = 0;
    const unknown = known ? "" : this.named;
    const shown = this.chosen || taskShown(read, array, this.state.shown);
    if (shown !== this.state.shown && this.state.read) this.query = new URLSearchParams();
    this.setState({ read, shown, unknown });
  };

  choose = (/** @type {number} */ task) => {
    this.chosen = task;
    this.named = String(task);
    this.query = new URLSearchParams();
    keepAddress(addressOf(`job/${this.props.array}`, { task: String(task) }, {}));
    this.setState({ shown: task, unknown: "" });
  };

  /** @param {ArrayTasks} read */
  head(read) {
    const { array, name, mine, may, me, back } = this.props;
    const own = mine && me.mine;
    const { bad } = tallyOf(read);
    const words = countWords(read);
    const label = { "aria-label": `${name}, array ${array}: ${words}` };
    return el(
      "div",
      { key: "head", class: "row between" },
      el(
        "div",
        { class: "row" },
        back,
        el("h1", label, `${name} `, Counts({ counts: read.array.counts })),
        el("span", { class: "dim" }, `array ${array}`),
      ),
      el(
        "div",
        { class: "row" },
        may ? CancelArray({ read, cancel: this.cancel }) : null,
        own && bad ? AgainLink({ job: array, failed: bad }) : null,
        own && read.array.ended ? AgainLink({ job: array, entire: true }) : null,
      ),
    );
  }

  render() {
    const { array, task, back } = this.props;
    const { read, shown, sweep, failed, unknown } = this.state;
    if (!read) return back;
    const choice = TaskChoice({ read, shown, own: array, choose: this.choose, sweep });
    const close = () => this.setState({ failed: undefined });
    return [
      this.head(read),
      failed?.length ? h(Failures, { key: "failures", what: "job", failed, close }) : null,
      el("div", { key: "choice", class: "card" }, choice, unknown && NotListed({ unknown })),
      task(shown, this.query),
    ];
  }
}
