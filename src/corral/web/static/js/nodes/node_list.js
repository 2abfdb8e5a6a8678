// All nodes as a table: ordered by each column, page by page, and those that are alike as one row.
import { h } from "../../vendor/preact.mjs";
import * as view from "../lib/view.js";
/** @import { ComponentChildren } from "preact" */
/** @import { NodeRow } from "../api.js" */

const { addressOf, barred, el, formatted, gib, known, leadsTo, many } = view;
const PAGE = 100;
const { compare } = new Intl.Collator("en", { numeric: true });

/** @typedef {{ order: string, page: string, fold: string }} ListChoice order: a column, "-" before it for the reverse; fold: "" or "alike" */
/** @typedef {{ nodes: NodeRow[], names: string }} ListRow names: a hostlist of its nodes */
/** @typedef {number | string | null} Value null: unknown */
/**
 * @typedef {object} ListColumn
 * @property {string} name
 * @property {boolean} [numeric]
 * @property {(node: NodeRow) => Value[]} values by which it is ordered, the first that differs decides
 * @property {(row: ListRow) => ComponentChildren} cell
 */

/** @param {number | null} used @param {number} all @param {(n: number) => string} words */
const share = (used, all, words = String) =>
  used === null
    ? `${known(used)} / ${words(all)}`
    : barred(used, all, `${used ? words(used) : 0} / ${words(all)}`);

/** @param {NodeRow[]} nodes */
function loadOf(nodes) {
  const loads = nodes.flatMap(({ load }) => (load === null ? [] : [load]));
  if (!loads.length) return "-";
  const [low, high] = [Math.min(...loads).toFixed(1), Math.max(...loads).toFixed(1)];
  return low === high ? low : `${low} to ${high}`;
}

/** @type {ListColumn[]} */
const COLUMNS = [
  { name: "node", values: ({ name }) => [name], cell: ({ nodes, names }) => named(nodes, names) },
  {
    name: "state",
    values: ({ state }) => [state],
    cell: ({ nodes: [node] }) => view.nodeBadge(node),
  },
  {
    name: "CPUs",
    numeric: true,
    values: ({ cpus_used, cpus }) => [cpus_used, cpus],
    cell: ({ nodes: [{ cpus_used, cpus }] }) => share(cpus_used, cpus),
  },
  {
    name: "memory",
    numeric: true,
    values: ({ memory_used, memory }) => [memory_used, memory],
    cell: ({ nodes: [{ memory_used, memory }] }) => share(memory_used, memory, gib),
  },
  {
    name: "GPUs",
    numeric: true,
    values: ({ gpus_used, gpus }) => [gpus_used, gpus],
    cell: ({ nodes: [{ gpus_used, gpus }] }) => (gpus ? share(gpus_used, gpus) : "-"),
  },
  {
    name: "load",
    numeric: true,
    values: ({ load }) => [load],
    cell: ({ nodes }) => loadOf(nodes),
  },
  {
    name: "partitions",
    values: ({ partitions }) => [partitions.join(" ")],
    cell: ({ nodes: [{ partitions }] }) => partitions.join(" "),
  },
  { name: "reason", values: ({ reason }) => [reason], cell: ({ nodes: [{ reason }] }) => reason },
];

/**
 * What is unknown is the last one in either order.
 * @param {Value} a
 * @param {Value} b
 */
function compared(a, b) {
  if (a === null || b === null) return Number(a === null) - Number(b === null) || 0;
  return typeof a === "number" && typeof b === "number" ? a - b : compare(String(a), String(b));
}

/**
 * Nodes in an order; those that are alike in it by their names.
 * @param {NodeRow[]} nodes
 * @param {string} order
 */
export function ordered(nodes, order) {
  const down = order.startsWith("-");
  const column = COLUMNS.find(({ name }) => name === order.replace(/^-/, "")) ?? COLUMNS[0];
  const rows = nodes.map((node) => ({ node, values: column.values(node) }));
  rows.sort((a, b) => {
    for (const [i, value] of a.values.entries()) {
      const other = b.values[i];
      const sign = down && value !== null && other !== null ? -1 : 1;
      const differs = compared(value, other);
      if (differs) return sign * differs;
    }
    return compare(a.node.name, b.node.name);
  });
  return rows.map(({ node }) => node);
}

/**
 * Names as a hostlist: runs of numbers behind one prefix, with as many digits.
 * @param {string[]} names in their order
 */
export function folded(names) {
  /** @type {Map<string, number[]>} by prefix, suffix and digits */
  const groups = new Map();
  /** @type {string[]} */
  const terms = [];
  for (const name of names) {
    const parts = /^(.*?)(\d{1,9})(\D*)$/.exec(name);
    if (!parts) {
      terms.push(name);
      continue;
    }
    const [, prefix, digits, suffix] = parts;
    const padded = digits.startsWith("0") || digits.length > String(Number(digits)).length;
    const key = JSON.stringify([prefix, suffix, padded ? digits.length : 0]);
    const numbers = groups.get(key);
    if (numbers) numbers.push(Number(digits));
    else groups.set(key, [Number(digits)]);
  }
  for (const [key, numbers] of groups) {
    const [prefix, suffix, width] = JSON.parse(key);
    const ranges = runsOf(numbers).map(([a, b]) =>
      [...new Set([a, b])].map((n) => String(n).padStart(width, "0")).join("-"),
    );
    const list = ranges.join(",");
    terms.push(`${prefix}${/[-,]/.test(list) ? `[${list}]` : list}${suffix}`);
  }
  return terms.join(",");
}

/** Runs of numbers that follow each other, as first and last. @param {number[]} numbers */
function runsOf(numbers) {
  /** @type {[number, number][]} */
  const runs = [];
  for (const n of [...numbers].sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last && n <= last[1] + 1) last[1] = n;
    else runs.push([n, n]);
  }
  return runs;
}

/** What two nodes of one row have in common: all that is shown but name and load. @param {NodeRow} node */
const likeness = (node) =>
  JSON.stringify(
    COLUMNS.filter(({ name }) => name !== "node" && name !== "load").map(({ values }) =>
      values(node),
    ),
  );

/**
 * The rows of a list of nodes, in the order of the nodes.
 * @param {NodeRow[]} nodes
 * @param {boolean} fold nodes that are alike are one row
 * @returns {ListRow[]}
 */
export function rowsOf(nodes, fold) {
  if (!fold) return nodes.map((node) => ({ nodes: [node], names: node.name }));
  /** @type {Map<string, NodeRow[]>} */
  const groups = new Map();
  for (const node of nodes) {
    const key = likeness(node);
    const group = groups.get(key);
    if (group) group.push(node);
    else groups.set(key, [node]);
  }
  return [...groups.values()].map((group) => ({
    nodes: group,
    names: folded(group.map(({ name }) => name)),
  }));
}

/** Where a row leads: a node's page, or the list of those nodes alone. @param {ListRow} row */
const addressOfRow = ({ nodes, names }) =>
  nodes.length === 1
    ? `#node/${nodes[0].name}`
    : addressOf("cluster", { filter: names, view: "table" }, {});

/** @param {NodeRow[]} nodes @param {string} names */
const named = (nodes, names) => [
  el("a", { class: "plain", href: addressOfRow({ nodes, names }), tabIndex: -1 }, names),
  nodes.length > 1 ? el("small", { class: "dim" }, ` ${many(nodes.length, "node")}`) : null,
];

/** @param {{ row: ListRow }} props */
function Line({ row }) {
  const [{ name }] = row.nodes;
  return el(
    "tr",
    { "data-key": `row ${name}`, ...leadsTo(addressOfRow(row).slice(1)) },
    COLUMNS.map((column) => {
      const cut = column.name === "reason" || column.name === "partitions";
      const kind = column.numeric ? "num" : cut ? "cut" : "wide-names";
      const label = column.name === "node" || column.name === "state" ? undefined : column.name;
      const title = column.name === "reason" ? row.nodes[0].reason : undefined;
      return el(
        "td",
        { key: column.name, class: kind, title, "data-label": label },
        column.cell(row),
      );
    }),
  );
}

/** @param {ListChoice & { choose: (change: Partial<ListChoice>) => void }} props */
function Heads({ order, choose }) {
  const [by, down] = [order.replace(/^-/, ""), order.startsWith("-")];
  return COLUMNS.map(({ name, numeric }) => {
    const sorted = name === by;
    // What is most comes first in columns of numbers.
    const first = numeric ? `-${name}` : name;
    const next = sorted ? (down ? name : `-${name}`) : first;
    const sign = sorted ? (down ? " ↓" : " ↑") : "";
    return el(
      "th",
      {
        key: name,
        class: numeric ? "num" : "",
        "aria-sort": sorted ? (down ? "descending" : "ascending") : undefined,
      },
      el(
        "button",
        { "data-key": `by ${name}`, onClick: () => choose({ order: next, page: "1" }) },
        name + sign,
      ),
    );
  });
}

/**
 * The nodes of a filter as a table.
 * @param {{ nodes: NodeRow[], choose: (change: Partial<ListChoice>) => void } & ListChoice} props
 */
export function NodeList({ nodes, order, page, fold, choose }) {
  const rows = rowsOf(ordered(nodes, order), fold !== "");
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  const at = Math.min(pages, Math.max(1, Math.floor(Number(page)) || 1));
  const shown = rows.slice((at - 1) * PAGE, at * PAGE);
  const [first, last] = [(at - 1) * PAGE + 1, Math.min(rows.length, at * PAGE)];
  const all = fold
    ? `${many(rows.length, "row")}, ${many(nodes.length, "node")}`
    : many(nodes.length, "node");
  const words = pages > 1 ? `${formatted(first)} to ${formatted(last)} of ${all}` : all;
  const turn = (/** @type {string} */ label, /** @type {number} */ to) =>
    el(
      "button",
      { disabled: to < 1 || to > pages, onClick: () => choose({ page: String(to) }) },
      label,
    );
  const alike = el(
    "button",
    {
      class: "chip",
      "data-key": "fold",
      "aria-pressed": fold ? "true" : "false",
      onClick: () => choose({ fold: fold ? "" : "alike", page: "1" }),
    },
    "Fold nodes that are alike",
  );
  const head = el("thead", null, el("tr", null, h(Heads, { order, page, fold, choose })));
  const lines = shown.map((row) => h(Line, { key: row.nodes[0].name, row }));
  return [
    el(
      "div",
      { key: "above", class: "row between" },
      el("span", { class: "dim", role: "status" }, words),
      alike,
    ),
    el(
      "div",
      { key: "table", class: "scroll stacked brief", tabIndex: 0 },
      el("table", null, head, el("tbody", null, lines)),
    ),
    pages > 1
      ? el(
          "div",
          { key: "pages", class: "row" },
          turn("Earlier page", at - 1),
          turn("Next page", at + 1),
        )
      : null,
  ];
}
