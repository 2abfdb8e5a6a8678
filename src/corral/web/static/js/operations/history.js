// The journal of this machine: what was done to the cluster, and by whom.
import { Component, h } from "../../vendor/preact.mjs";
import { call } from "../lib/server.js";
import { foldOf, kindOf, runsOf, summaryOf, toggledRun } from "../lib/runs.js";
import { badge, card, clock, el, Loaded, many, Table } from "../lib/view.js";
/** @import { Journal, JournalRow } from "../api.js" */
/** @import { Run } from "../lib/runs.js" */

const MOST = 500; // what the server sends

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
 * @param {{ run: Run<JournalRow>, open: boolean, toggle: () => void }} props */
function RunRows({ run: { records }, open, toggle }) {
  if (records.length === 1) return h(Row, { record: records[0] });
  const { what, kind, words, nodes } = summaryOf(records);
  const where = nodes.length > 2 ? many(nodes.length, "node") : nodes.join(", ");
  return [
    el(
      "tr",
      { key: "run", class: "run" },
      el(
        "td",
        { class: "nowrap" },
        foldOf(records.length, open, toggle),
        clock(records[records.length - 1].at),
      ),
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
    this.setState({ open: toggledRun(this.state.open, run) });
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
    return card("History", [
      el(
        "p",
        { class: "dim" },
        `The journal of this machine, newest first. A run of a command is one row: ▸ unfolds its records, in the order of time.${all}`,
      ),
      rows.length
        ? el("div", { class: "stacked brief" }, h(Table, { heads }, rows))
        : el("p", { class: "dim" }, "Nothing was done from here yet."),
    ]);
  }
}

export const HistoryPage = () =>
  h(Loaded, {
    load: () => call("corral/history"),
    view: (/** @type {Journal} */ journal) => h(HistoryView, { journal }),
  });
