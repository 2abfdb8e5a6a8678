// The way back to the form: what a job was, as the fields of the form take it.
import { el, many } from "../lib/view.js";
/** @import * as api from "../api.js" */
/** @import { InputProps } from "../lib/view.js" */

/**
 * @param {{ job: number, entire?: boolean, failed?: number, label?: string }} props entire: all tasks of the array with
 *   that number; failed: those that failed, so many
 */
export function AgainLink({ job, entire = false, failed = 0, label = "" }) {
  const task = /_(\d+)$/.exec(label)?.[1];
  const single = task ? `Edit and submit task ${task} again` : "Edit and submit again";
  const words = failed ? `Submit ${many(failed, "failed task")} again` : single;
  const part = entire ? "&entire=true" : failed ? "&failed=true" : "";
  return el("a", { class: "button", href: `#submit?again=${job}${part}` }, words);
}

/**
 * What of an array is submitted again, by the address of the form.
 * @param {URLSearchParams} query
 */
export const partOf = (query) => ["entire", "failed"].find((part) => query.get(part)) ?? "";

/**
 * What the form submits again.
 * @param {string} part
 * @param {Pick<api.JobAgain, "id" | "label">} again
 */
export function againWords(part, { id, label }) {
  if (part === "failed") return `failed tasks of array ${id}`;
  return part ? `array ${id}` : `job ${label}`;
}

/**
 * The way back to the form with what the job was; on each of the viewer's jobs that ended.
 * @param {{ job: api.JobDetail, me: api.Me }} props
 */
export const SubmitAgain = ({ job, me }) =>
  job.ended && job.mine && me.mine ? AgainLink({ job: job.id, label: job.label }) : null;

/**
 * Words as a shell reads them: quotes keep blanks.
 * @param {string} text
 */
export function wordsOf(text) {
  const words = [];
  let word = "";
  let begun = false;
  for (const [piece, blank, double, single, escaped] of text.matchAll(
    /(\s+)|"((?:[^"\\]|\\.)*)"|'([^']*)'|\\(.)|[^\s"'\\]+|["'\\]/gs,
  )) {
    if (blank !== undefined) {
      if (begun) words.push(word);
      word = "";
      begun = false;
    } else {
      word += double?.replace(/\\(["\\])/g, "$1") ?? single ?? escaped ?? piece;
      begun = true;
    }
  }
  return begun ? [...words, word] : words;
}

/** @param {unknown} word */
function quoted(word) {
  const text = String(word);
  if (text && !/[\s"'\\]/.test(text)) return text;
  return `"${text.replace(/(["\\])/g, "\\$1")}"`;
}

/**
 * A value as it is typed.
 * @param {unknown} value
 */
export function typedOf(value) {
  if (Array.isArray(value)) return value.map(quoted).join(" ");
  if (typeof value !== "object" || value === null) return String(value ?? "");
  const pair = (/** @type {[string, unknown]} */ [name, given]) =>
    quoted(`${name}=${Array.isArray(given) ? given.join(",") : given}`);
  return Object.entries(value).map(pair).join(" ");
}

/**
 * An input that begins with a value.
 * @param {unknown} value
 * @returns {InputProps}
 */
export function begunWith(value) {
  if (value === undefined) return {};
  return typeof value === "boolean" ? { defaultChecked: value } : { defaultValue: typedOf(value) };
}
