// Records of Corral's journal by the run of the command that wrote them: one row each that unfolds.
import { el, formatted, many, span } from "./view.js";
/** @import { Kind } from "./view.js" */

/**
 * What is read of a record.
 * @typedef {{ at: number, what: string, text: string, node?: string }} RunRecord
 */

/**
 * The records of one run of a command, in the order of time.
 * @template R
 * @typedef {{ run: string, records: R[] }} Run
 */

/**
 * @param {string} what
 * @returns {Kind}
 */
export function kindOf(what) {
  if (what.endsWith("failed")) return "bad";
  return what === "proof" || what === "plan" ? "busy" : "off";
}

/**
 * Records by run, that of the newest record first; a record that names no run is alone.
 * @template {{ run: string }} R
 * @param {R[]} records the newest first
 * @returns {Run<R>[]}
 */
export function runsOf(records) {
  /** @type {Map<string, Run<R>>} */
  const runs = new Map();
  records.forEach((record, i) => {
    const key = record.run || `alone ${records.length - i}`;
    const known = runs.get(key) ?? { run: key, records: [] };
    known.records.unshift(record);
    runs.set(key, known);
  });
  return [...runs.values()];
}

/**
 * What a run was, and its records in one sentence. Records of one node have no stages.
 * @param {RunRecord[]} records in the order of time
 * @returns {{ what: string, kind: Kind, words: string, nodes: string[] }}
 */
export function summaryOf(records) {
  const failed = records.filter(({ what }) => what.endsWith("failed"));
  const count = (/** @type {string} */ name) => records.filter(({ what }) => what === name).length;
  const [changes, stages] = [count("change-done"), count("stage-done")];
  const nodes = [...new Set(records.map(({ node }) => node ?? "").filter(Boolean))];
  const applied = changes + stages + failed.length > 0;
  const last = records[records.length - 1];
  const what = applied ? "apply" : last.what;
  /** @type {Kind} */
  const kind = failed.length ? "bad" : applied ? "good" : kindOf(what);
  if (!applied) return { what, kind, words: last.text, nodes };
  const where = stages ? ` in ${many(stages, "stage")}` : "";
  const done = `${many(changes, "change")}${where}, ${span(last.at - records[0].at)}`;
  const why = failed.length ? `; ${formatted(failed.length)} failed: ${failed[0].text}` : "";
  return { what, kind, words: done + why, nodes };
}

/**
 * The button of a run's row.
 * @param {number} records how many there are
 * @param {boolean} open
 * @param {() => void} toggle
 */
export const foldOf = (records, open, toggle) =>
  el(
    "button",
    {
      class: "quiet fold",
      "aria-expanded": open ? "true" : "false",
      "aria-label": `${open ? "Fold" : "Unfold"} ${many(records, "record")}`,
      onClick: toggle,
    },
    open ? "▾" : "▸",
  );

/**
 * The runs that are open after the button of one was pressed.
 * @param {Set<string>} open
 * @param {string} run
 */
export function toggledRun(open, run) {
  const after = new Set(open);
  if (!after.delete(run)) after.add(run);
  return after;
}
