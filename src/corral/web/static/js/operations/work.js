// What Corral does for this page in the background: its events as they come, and its end.
import { h } from "../../vendor/preact.mjs";
import { call, Refused, ticketed } from "../lib/server.js";
import { el, many } from "../lib/view.js";
/** @import { Work, WorkEvent } from "../api.js" */

/** What happened so far, and how it stands, in words. @typedef {{ head: string, events: WorkEvent[] }} Progress */

/** @type {Record<string, string>} */
const WORDS = {
  "stage-started": "stage",
  "stage-done": "stage done",
  "stage-failed": "stage failed",
  "node-failed": "failed",
  "change-done": "done",
  "check-done": "checked",
  "phase-started": "begin",
  "phase-done": "end",
  note: "note",
};
const QUIET = new Set(["change-started", "node-started", "node-done", "check-started"]);

/**
 * Follows the work in progress; returns it at its end, or throws its error.
 * @param {(progress: Progress) => void} report
 * @param {AbortSignal} signal ends it when the page is left; then it neither ends nor throws
 * @returns {Promise<Work>}
 */
export async function follow(report, signal) {
  /** @type {WorkEvent[]} */
  let events = [];
  report({ head: "begins…", events });
  const source = new EventSource(await ticketed("corral/work/events"));
  const update = (/** @type {string} */ head) => {
    if (!signal.aborted) report({ head, events });
  };
  return new Promise((resolve, reject) => {
    if (signal.aborted) source.close();
    signal.addEventListener("abort", () => source.close());
    source.onmessage = (message) => {
      /** @type {WorkEvent[]} */
      const more = JSON.parse(message.data).events;
      events = [...events, ...more.filter(({ kind }) => !QUIET.has(kind))];
      update(`under way, ${many(events.length, "event")}`);
    };
    source.addEventListener("end", (message) => {
      source.close();
      /** @type {Work} */
      const work = JSON.parse(message.data);
      update(work.error ? "failed" : `done in ${(work.ended - work.begun).toFixed(1)} s`);
      if (work.error) reject(new Refused(0, work.error));
      else resolve(work);
    });
    source.onerror = () => {
      source.close();
      reject(new Refused(0, { message: "the connection broke; the work goes on" }));
    };
  });
}

/**
 * Whether this kind of work is in progress.
 * @param {string} what
 */
export async function isRunning(what) {
  /** @type {Work} */
  const work = await call("corral/work");
  return work.what === what && work.running;
}

/** @param {{ event: WorkEvent }} props */
function EventLine({ event }) {
  const { kind, subject, node, message, seconds } = event;
  const text = [subject, node && `on ${node}`, message].filter(Boolean).join(" ");
  return el(
    "li",
    { class: kind.endsWith("failed") ? "reason" : "" },
    el("span", { class: "dim" }, `${WORDS[kind] || kind}  `),
    text,
    seconds ? el("span", { class: "dim" }, `  ${seconds.toFixed(1)} s`) : null,
  );
}

/** @param {{ progress: Progress | null }} props */
export function ProgressView({ progress }) {
  if (!progress) return null;
  /** A function of each drawing, so that it runs at each: the newest event is in view.
   * @param {HTMLUListElement | null} list */
  const toItsEnd = (list) => {
    if (list) list.scrollTop = list.scrollHeight;
  };
  const lines = progress.events.map((event, i) => h(EventLine, { key: i, event }));
  return el(
    "div",
    null,
    el("p", { class: "dim", role: "status" }, progress.head),
    el("ul", { class: "plain events", "aria-live": "polite", ref: toItsEnd }, lines),
  );
}

/** @param {{ failure: Refused }} props */
export const Problem = ({ failure: { message, node, tail, hint } }) =>
  el(
    "div",
    { class: "finding" },
    el("b", null, message),
    node && el("p", { class: "dim" }, `on ${node}`),
    tail && el("pre", { tabIndex: 0 }, tail),
    hint && el("p", null, hint),
  );
