// The journal of this machine: what was done to the cluster, and by whom.
import { h } from "../vendor/preact.mjs";
import { call } from "./server.js";
import { badge, clock, el, Loaded, Table } from "./view.js";
/** @import { Journal, JournalRow } from "./api.js" */
/** @import { Kind } from "./view.js" */

/**
 * @param {string} what
 * @returns {Kind}
 */
function kindOf(what) {
  if (what.endsWith("failed")) return "bad";
  return what === "proof" || what === "plan" ? "busy" : "off";
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

/** @param {{ journal: Journal }} props */
export function HistoryView({ journal: { records } }) {
  const rows = records.map((record, i) => h(Row, { key: records.length - i, record }));
  const heads = ["when", "who", "what", "node", "in words"];
  return el(
    "div",
    { class: "card" },
    el("h2", null, "History"),
    el("p", { class: "dim" }, "The journal of this machine, newest first."),
    rows.length
      ? h(Table, { heads }, rows)
      : el("p", { class: "dim" }, "Nothing was done from here yet."),
  );
}

export const HistoryPage = () =>
  h(Loaded, {
    load: () => call("corral/history"),
    view: (/** @type {Journal} */ journal) => h(HistoryView, { journal }),
  });
