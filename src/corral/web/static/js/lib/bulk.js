// Several rows at once: what is chosen, the question before it is done, and what failed.
import { call } from "./server.js";
import { ask, complain, el, formatted, many, toast } from "./view.js";
/** @import { ComponentChildren } from "preact" */
/** @import { BulkResult, ChosenJobs, FailedOne, UserCount } from "../api.js" */

/** Of one request; the server takes no more. */
const AT_ONCE = 500;
const NAMED = 5;
const LISTED = 120;

/**
 * A set with one more, or without it.
 * @param {ReadonlySet<string>} set
 * @param {string} key
 */
export function toggled(set, key) {
  const next = new Set(set);
  if (!next.delete(key)) next.add(key);
  return next;
}

/**
 * The box of a row, or of all rows of a page.
 * @param {{ label: string, checked: boolean, onChange: () => void }} props
 */
export const Box = ({ label, checked, onChange }) =>
  el("input", { type: "checkbox", class: "box", "aria-label": label, checked, onChange });

/**
 * @param {{ words: string, children?: ComponentChildren, clear: () => void }} props
 */
export const Bar = ({ words, children, clear }) =>
  el(
    "div",
    { class: "row bulk", role: "group", "aria-label": "What is chosen" },
    el("b", { role: "status" }, words),
    children,
    el("button", { class: "quiet", onClick: clear }, "Clear"),
  );

/**
 * "300 of kim, 40 of ada".
 * @param {UserCount[]} users
 */
export function whose(users) {
  const named = users.slice(0, NAMED).map(({ user, count }) => `${formatted(count)} of ${user}`);
  const rest = users.slice(NAMED).reduce((sum, { count }) => sum + count, 0);
  return [...named, ...(rest ? [`${formatted(rest)} of others`] : [])].join(", ");
}

/**
 * What is asked before jobs are cancelled.
 * @param {ChosenJobs} chosen
 */
export function question({ tasks, exact, users, others, nodes, node_count: count }) {
  const jobs = `${exact ? "" : "at least "}${many(tasks, "job")}`;
  const list = nodes.length > LISTED ? `${nodes.slice(0, LISTED)}…` : nodes;
  const where = count ? ` On ${many(count, "node")}: ${list}.` : " None of them has begun.";
  const left = others
    ? ` ${many(others, "job")} of other users ${others === 1 ? "is" : "are"} left out: only administrators and operators cancel those.`
    : "";
  return { title: `Cancel ${jobs}?`, text: `${whose(users)}.${where}${left}` };
}

/**
 * Sends names in parts; what failed of all of them.
 * @param {string[]} names
 * @param {(part: string[]) => Promise<BulkResult>} send
 * @param {(done: number) => void} [progress]
 * @returns {Promise<BulkResult>}
 */
export async function inParts(names, send, progress = () => {}) {
  /** @type {BulkResult} */
  const all = { done: [], failed: [] };
  for (let at = 0; at < names.length; at += AT_ONCE) {
    if (at) progress(at);
    const part = names.slice(at, at + AT_ONCE);
    try {
      const { done, failed } = await send(part);
      all.done.push(...done);
      all.failed.push(...failed);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      all.failed.push(...part.map((name) => ({ name, message, hint: "" })));
    }
  }
  return all;
}

/**
 * Asks how many and whose, cancels them, and returns what failed; null where nothing was done.
 * @param {{ ids?: number[], arrays?: string[], show?: string, q?: string }} chosen
 * @returns {Promise<FailedOne[] | null>}
 */
export async function cancelJobs(chosen) {
  try {
    /** @type {ChosenJobs} */
    const what = await call("bulk/jobs", chosen);
    if (!what.targets.length) {
      const hint = what.others ? `${many(what.others, "job")} of other users cannot be` : "";
      toast("None of these jobs can be cancelled", { bad: true, hint });
      return null;
    }
    const { title, text } = question(what);
    const confirm = `Cancel ${many(what.tasks, "job")}`;
    if (!(await ask(title, [], { confirm, danger: true, text }))) return null;
    const { done, failed } = await inParts(
      what.targets,
      (targets) => call("bulk/jobs/cancel", { targets }),
      (sent) => toast(`${formatted(sent)} of ${formatted(what.targets.length)} sent`),
    );
    if (done.length) toast(failed.length ? "Some jobs are cancelled" : `${confirm}: sent to Slurm`);
    return failed;
  } catch (error) {
    complain(error);
    return null;
  }
}

/**
 * What was refused, each with Slurm's words.
 * @param {{ what: string, failed: FailedOne[], close: () => void }} props
 */
export const Failures = ({ what, failed, close }) =>
  el(
    "div",
    { class: "card failures", role: "alert" },
    el(
      "div",
      { class: "row between" },
      el("b", null, `${many(failed.length, what)} not changed`),
      el("button", { class: "quiet", onClick: close }, "Close"),
    ),
    el(
      "ul",
      { class: "lines" },
      failed.map(({ name, message, hint }) =>
        el(
          "li",
          { key: name },
          el("b", null, name),
          ` ${message}`,
          hint && el("small", null, hint),
        ),
      ),
    ),
  );
