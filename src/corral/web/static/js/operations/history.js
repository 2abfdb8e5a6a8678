// The journal of this machine: what was done to the cluster, and by whom.
import { Component, h } from "../../vendor/preact.mjs";
import { call } from "../lib/server.js";
import { badge, clock, el, formatted, Loaded, many, span, Table } from "../lib/view.js";
/** @import { Journal, JournalRow } from "../api.js" */
/** @import { Kind } from "../lib/view.js" */

const MOST = 500; // what the server sends

/**
 * @param {string} what
 * @returns {Kind}
 */
function kindOf(what) {
  if (what.endsWith("failed")) return "bad";
  return what === "proof" || what === "plan" ? "busy" : "off";
}

/**
 * The records of one run of a command, in the order of time.
 * @typedef {{ run: string, records: JournalRow[] }} Run
 */

/**
 * Records by run, that of the newest record first; a record that names no run is alone.
 * @param {JournalRow[]} records the newest first
 * @returns {Run[]}
 */
export function runsOf(records) {
  /** @type {Map<string, Run>} */
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
 * What a run was, and its records in one sentence.
 * @param {JournalRow[]} records in the order of time
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
  const took = span(last.at - records[0].at);
  const done = `${many(changes, "change")} in ${many(stages, "stage")}, ${took}`;
  const why = failed.length ? `; ${formatted(failed.length)} failed: ${failed[0].text}` : "";
  return { what, kind, words: done + why, nodes };
}

/** @param {{ record: JournalRow }} props */
function Row({ record: { at, by, what, node, text, changes = [] } }) {
  const lines = changes.map((change, i) => el("li", { key: i }, change));
  const more = el("details", null, el("summary", null, text), el("ul", null, lines));
  return el(
    "tr",
    null,
    el("td", { class: "nowrap" }, clock(at)),
    el("td", null, by || "-"),
    el("td", null, badge(what.replace("-", " "), kindOf(what))),
    el("td", null, node || ""),
    el("td", null, lines.length ? more : text),
  );
}

/** One run as a row that unfolds.
 * @param {{ run: Run, open: boolean, toggle: () => void }} props */
function RunRows({ run: { records }, open, toggle }) {
  if (records.length === 1) return h(Row, { record: records[0] });
  const { what, kind, words, nodes } = summaryOf(records);
  const fold = el(
    "button",
    {
      class: "quiet fold",
      "aria-expanded": open ? "true" : "false",
      "aria-label": `${open ? "Fold" : "Unfold"} ${many(records.length, "record")}`,
      onClick: toggle,
    },
    open ? "▾" : "▸",
  );
  const where = nodes.length > 2 ? many(nodes.length, "node") : nodes.join(", ");
  return [
    el(
      "tr",
      { key: "run", class: "run" },
      el("td", { class: "nowrap" }, fold, clock(records[records.length - 1].at)),
      el("td", null, records.find(({ by }) => by)?.by || "-"),
      el("td", null, badge(what.replace("-", " "), kind)),
      el("td", { title: nodes.join(", ") }, where),
      el("td", null, words),
    ),
    open ? records.map((record, i) => h(Row, { key: i, record })) : null,
  ];
}

/** @extends {Component<{ journal: Journal }, { open: Set<string> }>} */
export class HistoryView extends Component {
  state = { open: new Set() };

  /** @param {string} run */
  toggle(run) {
    const open = new Set(this.state.open);
    if (!open.delete(run)) open.add(run);
    this.setState({ open });
  }

  render() {
    const { records } = this.props.journal;
    const rows = runsOf(records).map((run) =>
      h(RunRows, {
        key: run.run,
        run,
        open: this.state.open.has(run.run),
        toggle: () => this.toggle(run.run),
      }),
    );
    const heads = ["when", "who", "what", "node", "in words"];
    const all = records.length < MOST ? "" : ` Its newest ${MOST} records are shown.`;
    return el(
      "div",
      { class: "card" },
      el("h2", null, "History"),
      el(
        "p",
        { class: "dim" },
        `The journal of this machine, newest first. A run of a command is one row: ▸ unfolds its records, in the order of time.${all}`,
      ),
      rows.length
        ? el("div", { class: "stacked" }, h(Table, { heads }, rows))
        : el("p", { class: "dim" }, "Nothing was done from here yet."),
    );
  }
}

export const HistoryPage = () =>
  h(Loaded, {
    load: () => call("corral/history"),
    view: (/** @type {Journal} */ journal) => h(HistoryView, { journal }),
  });
