// The cluster at a glance: figures, nodes as cards, or as a heat map where there are many.
import { Component, createRef, h } from "../../vendor/preact.mjs";
import { SearchField } from "../lib/completion.js";
import { nodeTest, nodeWords } from "../nodes/filter.js";
import { fittingCell, Heat, namedCell, SHARES } from "../nodes/heat.js";
import { listen, live, loadNodes, now, watchFigures } from "../lib/event_stream.js";
import { NodeBulk } from "../nodes/node_bulk.js";
import { SPANS } from "../lib/spans.js";
import { call } from "../lib/server.js";
import * as view from "../lib/view.js";
/** @import { ComponentChildren } from "preact" */
/** @import { Cost, Counts, Head, LastProof, Me, NodeRow, Places, Proof } from "../api.js" */
/** @import { Past } from "../lib/curves.js" */
/** @import { Kind } from "../lib/view.js" */
/** @import { Cell } from "../nodes/heat.js" */

const { atLeast, badge, bar, el, gib, known, leadsTo, many, nodeBadge, since } = view;
const { Table, warmth, formatted } = view;
const CARDS = 60;
const ALL_CARDS = 600; // more elements than these take longer than a frame
const LISTED = 300;
const GROUPS = ["partition", "island", "rack", "state", "feature", "none"];
const REDRAW_MS = 250;
const MOST_POINTS = 3600;
const FIRST_PLOT_S = 20;
// Made once: localeCompare with options makes a collator at each call, 0.6 s for 10,000 nodes.
const { compare } = new Intl.Collator("en", { numeric: true });
/** @type {[string, string][]} */
const VIEWS = [
  ["map", "as a map"],
  ["table", "as a table"],
  ["racks", "in racks"],
];
const GROUP_HEAD_PX = 64; // title and line of a heat map
const CARD_PX = 215;
const CARDS_GAP_PX = 11;
const LEAST_GROUP_PX = 320;
const SQUARE_PX = 16;
const LIST = { order: "node", page: "1", fold: "" };
const USUAL = {
  ...{ filter: "", grouping: "partition", colouring: "state", span: "day", view: "map" },
  ...LIST,
};
/** How the address calls each choice. @type {Record<keyof typeof USUAL, string>} */
const KEYS = {
  ...{ filter: "filter", grouping: "by", colouring: "show", span: "span", view: "view" },
  ...{ order: "order", page: "page", fold: "fold" },
};
// What the address chooses; a link back to the page has the address that it had last.
const chosen = { ...USUAL };
/** @type {Places | null} */
let places = null;

/**
 * One more point: what is in use stays so until it changes. Where nothing has changed the last point
 * moves on, so that a quiet day is two points.
 * @param {Past} past
 * @param {number} at unix seconds
 * @param {number | null} used
 * @param {number | null} running
 */
export function noted(past, at, used, running) {
  const last = past.at.length - 1;
  const same = (/** @type {number} */ i) =>
    i >= 0 && past.used[i] === used && past.running[i] === running;
  if (past.at[last] === at || (same(last) && same(last - 1))) {
    past.at[last] = at;
    past.used[last] = used;
    past.running[last] = running;
    return;
  }
  past.at.push(at);
  past.used.push(used);
  past.running.push(running);
  for (const list of Object.values(past)) if (list.length > MOST_POINTS) list.shift();
}

/** What the first page's plot shows: since the page was opened.
 * @type {Past} */
export const past = { at: [], used: [], running: [] };

function remember() {
  const { head } = now;
  if (!head) return;
  const at = Math.floor(Date.now() / 1000);
  const { counts, trouble } = head;
  if (trouble || now.ok === false) noted(past, at, null, null);
  else noted(past, at, counts.gpus ? counts.gpus_used : counts.cpus_used, counts.shown.running);
}
for (const name of ["age", "head"]) live.addEventListener(name, remember);

/**
 * @param {{ value: string, of?: number, words: string, used?: number }} props
 */
const Tile = ({ value, of, words, used }) =>
  el(
    "div",
    { class: "tile" },
    el("b", null, value, of !== undefined && el("small", null, ` / ${formatted(of)}`)),
    el("span", null, words),
    of !== undefined && used !== undefined && bar(used, of),
  );

/**
 * @param {number} used
 * @param {number} of
 * @param {string} words
 */
const share = (used, of, words) => h(Tile, { key: words, value: formatted(used), of, used, words });

/** @param {{ counts: Counts }} props */
function GpuTile({ counts: { gpus, gpus_used, gpus_used_exact } }) {
  const value = gpus_used_exact ? formatted(gpus_used) : atLeast(gpus_used);
  return h(Tile, { value, of: gpus, used: gpus_used, words: "GPUs in use" });
}

/** @param {{ head: Head, cost: Cost | null }} props */
export function Tiles({ head, cost }) {
  const { counts } = head;
  const { running, waiting } = counts.shown;
  const pending = `jobs running, ${formatted(waiting)} pending`;
  return [
    share(counts.usable, counts.nodes, "nodes take jobs"),
    counts.gpus ? h(GpuTile, { key: "gpus", counts }) : null,
    share(counts.cpus_used, counts.cpus, "CPUs in use"),
    head.complete
      ? h(Tile, { key: "jobs", value: formatted(running), words: pending })
      : h(Tile, { key: "jobs", value: "…", words: "jobs: still asking Slurm" }),
    cost?.rented ? h(CostTile, { key: "cost", cost }) : null,
  ];
}

/** @param {{ cost: Cost }} props */
function CostTile({ cost: { rate, spent, unpriced = 0 } }) {
  const unknown = unpriced ? `, ${many(unpriced, "machine")} without a known price` : "";
  return el(
    "div",
    { class: "tile" },
    el("b", null, `${rate} $`, el("small", null, " an hour")),
    el("span", null, `${spent} $ so far${unknown}`),
  );
}

/** @param {{ proof: Proof | null }} props */
export function ProofLine({ proof }) {
  if (!proof) {
    return el(
      "div",
      { class: "card row" },
      badge("not proven", "warn"),
      el("span", null, "This cluster was not proven from here yet."),
      el("a", { href: "#proof" }, "Prove it"),
    );
  }
  const failed = proof.results.filter((result) => result.verdict === "fail").length;
  const passed = (proof.proven ?? true) ? badge("proven", "good") : badge("passed in part", "warn");
  const words = `${many(proof.results.length, "check")} ${since(proof.at)}`;
  return el(
    "div",
    { class: "card row" },
    failed ? badge("proof failed", "bad") : passed,
    el("span", null, failed ? `${words}, ${failed} failed` : words),
    el("a", { href: "#proof" }, "Evidence"),
  );
}

/**
 * The groups that a node is shown in.
 * @param {NodeRow} node
 * @param {string} grouping
 * @returns {string[]}
 */
export function groupsOf(node, grouping) {
  /** @type {Record<string, () => string[]>} */
  const groups = {
    partition: () => (node.partitions.length ? node.partitions : ["no partition"]),
    state: () => [node.state.toLowerCase()],
    island: () => [node.island || "no island"],
    rack: () => [
      places?.racks[node.name] ||
        node.features.find((feature) => /^rack/i.test(feature)) ||
        "no rack",
    ],
    feature: () => (node.features.length ? node.features : ["no feature"]),
  };
  return Object.hasOwn(groups, grouping) ? groups[grouping]() : [""];
}

/**
 * Names of one length are in order where their letters are: that spares the collator most of a list.
 * @param {NodeRow[]} nodes
 */
const inOrder = (nodes) =>
  nodes.every((node, i) => {
    if (!i) return true;
    const before = nodes[i - 1].name;
    return before.length === node.name.length
      ? before <= node.name
      : compare(before, node.name) <= 0;
  });

/**
 * The nodes that pass a filter, in their groups, and how many there are of each kind.
 * @param {Iterable<NodeRow>} nodes
 * @param {(node: NodeRow) => boolean} test
 * @param {string} grouping
 */
export function arranged(nodes, test, grouping) {
  /** @type {Map<string, NodeRow[]>} */
  const groups = new Map();
  /** @type {Partial<Record<Kind, number>>} */
  const kinds = {};
  let count = 0;
  for (const node of nodes) {
    if (!test(node)) continue;
    count += 1;
    kinds[node.kind] = (kinds[node.kind] || 0) + 1;
    for (const name of groupsOf(node, grouping)) {
      const group = groups.get(name);
      if (group) group.push(node);
      else groups.set(name, [node]);
    }
  }
  for (const group of groups.values()) {
    if (!inOrder(group)) group.sort((a, b) => compare(a.name, b.name));
  }
  return { groups: [...groups].sort(([a], [b]) => compare(a, b)), kinds, count };
}

/** @param {NodeRow} node */
const memoryWords = (node) => (node.memory_used ? gib(node.memory_used) : "0");

/** @param {{ node: NodeRow }} props */
export function Card({ node }) {
  const warm = warmth(node, now.figures[node.name]);
  const shown = Math.min(node.gpus, 16);
  const load = node.load === null ? "-" : node.load.toFixed(1);
  const words = [
    `CPU ${node.cpus_used}/${node.cpus}`,
    `load ${load}`,
    `${memoryWords(node)} of ${gib(node.memory)}`,
    ...(warm ? [warm] : []),
  ];
  const gpus = Array.from({ length: shown }, (_, i) =>
    el("i", { key: i, class: i < (node.gpus_used ?? 0) ? "used" : "" }),
  );
  const label = `${known(node.gpus_used)} of ${many(node.gpus, "GPU")} in use`;
  const href = `#node/${node.name}`;
  return el(
    "a",
    { class: `node ${node.kind}`, "data-key": node.name, href },
    el("span", { class: "row between" }, el("b", null, node.name), nodeBadge(node)),
    shown ? el("span", { class: "gpus", role: "img", "aria-label": label }, gpus) : null,
    el(
      "small",
      null,
      words.map((part) => el("span", { key: part }, part)),
    ),
    node.reason ? el("span", { class: "reason" }, node.reason) : null,
  );
}

const NUMBERS = ["GPUs", "CPUs", "memory", "load"].map((label) => ({ label, numeric: true }));

/** @param {{ nodes: NodeRow[] }} props */
function NodeTable({ nodes }) {
  const rows = nodes.map((node) =>
    el(
      "tr",
      { key: node.name, "data-key": `row ${node.name}`, ...leadsTo(`node/${node.name}`) },
      el(
        "td",
        null,
        el("a", { class: "plain", href: `#node/${node.name}`, tabIndex: -1 }, node.name),
      ),
      el("td", null, nodeBadge(node)),
      el("td", { class: "cut", title: node.reason }, node.reason),
      el("td", { class: "num" }, `${known(node.gpus_used)}/${node.gpus}`),
      el("td", { class: "num" }, `${node.cpus_used}/${node.cpus}`),
      el("td", { class: "num" }, `${memoryWords(node)} / ${gib(node.memory)}`),
      el("td", { class: "num" }, node.load === null ? "-" : node.load.toFixed(1)),
    ),
  );
  return h(Table, { heads: ["node", "state", "reason", ...NUMBERS] }, rows);
}

/** How many nodes a group has, and their GPUs. @param {NodeRow[]} nodes */
export function groupWords(nodes) {
  const all = nodes.reduce((sum, node) => sum + node.gpus, 0);
  if (!all) return many(nodes.length, "node");
  const used = nodes.reduce((sum, node) => sum + (node.gpus_used ?? 0), 0);
  const exact = nodes.every((node) => node.gpus_used !== null);
  const counted = exact ? formatted(used) : atLeast(used);
  return `${many(nodes.length, "node")}, ${counted} of ${formatted(all)} GPUs in use`;
}

/**
 * How wide a group is where others are next to it, as CSS; "" for a complete row.
 * @param {number} count its nodes
 * @param {number} each pixels of one, with the space around it
 */
export function basisOf(count, each = SQUARE_PX) {
  const wide = Math.max(LEAST_GROUP_PX, Math.ceil(count * each) + 1);
  return wide > 2 * LEAST_GROUP_PX + CARD_PX ? "" : `min(100%, ${wide}px)`;
}

/** @param {{ nodes: NodeRow[] }} props */
const Cards = ({ nodes }) =>
  el(
    "div",
    { class: "nodes" },
    nodes.map((node) => h(Card, { key: node.name, node })),
  );

/**
 * @typedef {object} GroupProps
 * @property {string} name
 * @property {NodeRow[]} nodes
 * @property {boolean} cards
 * @property {boolean} listed its nodes are below the heat map, too
 * @property {boolean} alone it has complete rows
 * @property {Cell} [cell] of its heat map
 * @param {GroupProps} props
 */
function Group({ name, nodes, cards, listed, alone, cell }) {
  const { colouring } = chosen;
  const each = cards ? CARD_PX + CARDS_GAP_PX : cell?.wide;
  const flexBasis = alone || listed ? "" : basisOf(nodes.length, each);
  const heat = { nodes, label: name || "all", colouring, figures: now.figures, cell };
  return el(
    "section",
    { style: { flexBasis: flexBasis || "100%" } },
    name && el("h3", null, name, el("span", { class: "dim" }, `  ${groupWords(nodes)}`)),
    cards ? h(Cards, { nodes }) : h(Heat, heat),
    listed ? h(NodeTable, { nodes }) : null,
  );
}

/**
 * @param {{ label: string, value: string, options: [string, string][], onChange: (value: string) => void, hidden?: boolean }} props
 */
const Choice = ({ label, value, options, onChange, hidden = false }) =>
  el(
    "select",
    {
      "aria-label": label,
      class: "narrow",
      hidden,
      value,
      onChange: ({ currentTarget }) => onChange(currentTarget.value),
    },
    options.map(([key, words]) => el("option", { key, value: key }, words)),
  );

/** @param {{ words: Me["node_kinds"], kinds: Partial<Record<Kind, number>> }} props */
const Legend = ({ words, kinds }) =>
  el(
    "div",
    { class: "legend" },
    words.map(([kind, word]) =>
      el(
        "span",
        { key: kind },
        el("i", { class: `dot-${kind}` }),
        `${word} `,
        el("b", null, formatted(kinds[kind])),
      ),
    ),
  );

/**
 * Parts of the card that the first view does not need.
 * @typedef {{ NodeList: typeof import("../nodes/node_list.js").NodeList } | null} ListModule
 * @typedef {{ Racks: typeof import("../nodes/racks.js").Racks } | null} RacksModule
 * @typedef {{ list: ListModule, racks: RacksModule, full: { width: number, height: number } | null }} NodesState
 * full: the screen's size, where the card fills it
 */

/** Nodes with their filter; drawn again when nodes change, not at each news of jobs.
 * @extends {Component<{ me: Me }, NodesState>} */
class NodesCard extends Component {
  /** @type {NodesState} */
  state = { list: null, racks: null, full: null };
  /** @type {{ current: HTMLElement | null }} */
  box = createRef();
  /** @type {(() => void)[]} */
  stops = [];
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  wait = undefined;

  later = () => {
    this.wait ??= setTimeout(() => {
      this.wait = undefined;
      this.forceUpdate();
    }, REDRAW_MS);
  };

  // A page's news of jobs are not this card's: it draws itself when nodes change.
  /** @param {{ me: Me }} _next @param {NodesState} state */
  shouldComponentUpdate(_next, state) {
    return state !== this.state;
  }

  componentDidMount() {
    this.stops = [listen("nodes", this.later), watchFigures(this.props.me, this.later)];
    document.addEventListener("fullscreenchange", this.filled);
    window.addEventListener("resize", this.filled);
    if (!now.loaded) loadNodes().then(() => this.forceUpdate(), view.complain);
    this.need().then(this.later, view.complain);
  }

  componentWillUnmount() {
    clearTimeout(this.wait);
    document.removeEventListener("fullscreenchange", this.filled);
    window.removeEventListener("resize", this.filled);
    for (const stop of this.stops) stop();
  }

  filled = () => {
    const full = this.box.current !== null && document.fullscreenElement === this.box.current;
    if (!full && !this.state.full) return;
    this.setState({ full: full ? { width: innerWidth, height: innerHeight } : null });
  };

  fill = () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else this.box.current?.requestFullscreen().catch(view.complain);
  };

  /** Loads what is needed to show what is chosen: the place of each node, a module. */
  async need() {
    const { view: as, grouping } = chosen;
    if (as === "table") this.setState({ list: await import("../nodes/node_list.js") });
    if (as === "racks") this.setState({ racks: await import("../nodes/racks.js") });
    const placed = as === "racks" || (as === "map" && grouping === "rack");
    if (!placed || places) return;
    places = await call("places").catch(() => ({ racks: {}, elevations: [] }));
  }

  /** @param {Partial<typeof chosen>} change */
  choose = async (change) => {
    Object.assign(chosen, change);
    keepChoice();
    if ("view" in change || "grouping" in change) await this.need().catch(view.complain);
    this.forceUpdate();
  };

  /** @param {boolean} coloured whether there is a map or racks with colours */
  controls(coloured) {
    const search = h(SearchField, {
      ...{ value: chosen.filter, label: "Filter nodes" },
      type: (filter) => this.choose({ filter, page: "1" }),
      placeholder: "filter: state=drain partition=main gpus>0 node[0-9]",
      words: () => nodeWords(now.nodes.values()),
    });
    /** @type {[string, string][]} */
    const groups = GROUPS.map((name) => [name, name === "none" ? "no groups" : `by ${name}`]);
    /** @type {[string, string][]} */
    const shown = ["state", ...Object.keys(SHARES)].map((name) => [name, `show ${name}`]);
    const { grouping, colouring, view: as } = chosen;
    const views = VIEWS.filter(([name]) => name !== "racks" || this.props.me.racks || as === name);
    return [
      search,
      h(Choice, {
        ...{ label: "Show nodes", value: as, options: views },
        onChange: (name) => this.choose({ view: name }),
      }),
      h(Choice, {
        ...{ label: "Group nodes by", value: grouping, options: groups, hidden: as !== "map" },
        onChange: (name) => this.choose({ grouping: name }),
      }),
      h(Choice, {
        ...{ label: "What the heat map shows", value: colouring, options: shown },
        onChange: (name) => this.choose({ colouring: name }),
        hidden: !coloured,
      }),
    ];
  }

  /**
   * What administrators may do to the nodes that are chosen by the filter.
   * @param {(node: NodeRow) => boolean} test
   * @param {number} count
   */
  bulk(test, count) {
    if (this.props.me.role !== "administrator" || !chosen.filter.trim() || !count) return null;
    return h(NodeBulk, { nodes: [...now.nodes.values()].filter(test) });
  }

  /** @param {[string, NodeRow[]][]} groups @param {number} count */
  map(groups, count) {
    const { full } = this.state;
    const named = namedCell(groups.flatMap(([, nodes]) => nodes.map(({ name }) => name)));
    const head = this.box.current?.querySelector(".row")?.clientHeight ?? 0;
    const place = full && {
      ...{ width: full.width - 48, height: full.height - 2 * head - 72, head: GROUP_HEAD_PX },
    };
    const counts = groups.map(([, nodes]) => nodes.length);
    const cell = place ? fittingCell(counts, named, place) : named;
    return groups.map(([name, nodes]) => {
      const cards = !full && nodes.length <= CARDS && count <= ALL_CARDS;
      const listed = !cards && !full && count <= LISTED && chosen.filter !== "";
      const alone = groups.length === 1 || Boolean(full);
      return h(Group, { key: name, name, nodes, cards, listed, alone, cell });
    });
  }

  /** @param {(node: NodeRow) => boolean} test */
  table(test) {
    const { list } = this.state;
    if (!list) return el("p", { class: "dim" }, "Loading…");
    const { order, page, fold } = chosen;
    const nodes = [...now.nodes.values()].filter(test);
    return h(list.NodeList, { nodes, order, page, fold, choose: this.choose });
  }

  /** @param {(node: NodeRow) => boolean} test */
  inRacks(test) {
    const { racks, full } = this.state;
    if (!racks || !places) return el("p", { class: "dim" }, "Loading…");
    const place = full && { width: full.width - 48, height: full.height - 190 };
    const { colouring } = chosen;
    const { nodes, figures } = now;
    return h(racks.Racks, {
      ...{ elevations: places.elevations, nodes, figures, test, colouring, full: place },
    });
  }

  /** @param {Partial<Record<Kind, number>>} kinds */
  above(kinds) {
    const { full } = this.state;
    const words = full ? "Leave the full screen" : "Full screen";
    const button = el("button", { class: "small", onClick: this.fill }, words);
    return el(
      "div",
      { class: "row" },
      h(Legend, { words: this.props.me.node_kinds, kinds }),
      document.fullscreenEnabled ? button : null,
    );
  }

  render() {
    const { test, wrong } = nodeTest(chosen.filter);
    const { groups, kinds, count } = arranged(now.nodes.values(), test, chosen.grouping);
    const { view: as } = chosen;
    const none = now.loaded ? "No node matches." : "Asking Slurm…";
    const coloured =
      as === "racks" || (as === "map" && (count > CARDS || this.state.full !== null));
    /** @type {Record<string, () => ComponentChildren>} */
    const views = {
      map: () => this.map(groups, count),
      table: () => this.table(test),
      racks: () => this.inRacks(test),
    };
    const content = [
      el(
        "div",
        { class: "row" },
        this.controls(coloured),
        el("span", { class: "reason", role: "status" }, wrong),
      ),
      this.bulk(test, count),
      el(
        "div",
        { class: "groups" },
        count ? null : el("p", { class: "dim" }, none),
        count ? views[as]() : null,
      ),
    ];
    return el(
      "div",
      { class: "nodes-card", ref: this.box },
      view.card("Nodes", content, this.above(kinds)),
    );
  }
}

/** What is in use since the page was opened; uPlot comes after a while, or with a third point.
 * @extends {Component<object, { shown: boolean }>} */
class Timeline extends Component {
  state = { shown: false };
  /** @type {{ current: HTMLDivElement | null }} */
  place = createRef();
  /** @type {{ more: () => void, close: () => void } | null} */
  plot = null;
  ended = false;
  stop = () => {};

  more = async () => {
    if (this.plot) this.plot.more();
    const seconds = past.at.length ? past.at[past.at.length - 1] - past.at[0] : 0;
    if (this.state.shown || (past.at.length < 3 && seconds < FIRST_PLOT_S)) return;
    this.setState({ shown: true });
    const sources = await import("../lib/curves.js").catch(() => null);
    if (!sources) {
      this.setState({ shown: false }); // the next state of the cluster asks again
      return;
    }
    const plot = await sources.timeline(this.place.current, past, Boolean(now.head?.counts.gpus));
    if (this.ended) plot.close();
    else this.plot = plot;
  };

  componentDidMount() {
    const stops = [listen("head", this.more), listen("age", this.more)];
    this.stop = () => stops.forEach((stop) => stop());
    this.more();
  }

  componentWillUnmount() {
    this.ended = true;
    this.stop();
    this.plot?.close();
  }

  render() {
    return view.card(
      "Since this page was opened",
      el("div", { class: "plot", ref: this.place }),
      null,
      {
        hidden: !this.state.shown,
      },
    );
  }
}

/**
 * @typedef {object} ClusterState
 * @property {Cost | null} cost
 * @property {Proof | null | undefined} proof
 * @property {boolean} kept the cluster has a Prometheus, which keeps what was
 * @property {typeof import("./trends.js").Trends | null} trends loaded after the first view
 */

/**
 * Chooses what an address names; what it does not name is as usual.
 * @param {URLSearchParams} query
 */
function takeChoice(query) {
  /** What an address may have of each. @type {Record<keyof typeof chosen, (text: string) => boolean>} */
  const takes = {
    filter: () => true,
    grouping: (by) => GROUPS.includes(by),
    colouring: (show) => show === "state" || Object.hasOwn(SHARES, show),
    span: (span) => SPANS.includes(span),
    view: (as) => VIEWS.some(([name]) => name === as),
    order: () => true,
    page: (page) => /^[1-9]\d{0,4}$/.test(page),
    fold: (fold) => fold === "alike",
  };
  Object.assign(chosen, USUAL);
  for (const [name, key] of Object.entries(KEYS)) {
    const text = query.get(key);
    const of = /** @type {keyof typeof chosen} */ (name);
    if (text !== null && takes[of](text)) chosen[of] = text;
  }
}

/** @param {typeof chosen} choice */
const inAddress = (choice) =>
  Object.fromEntries(
    Object.entries(KEYS).map(([name, key]) => [
      key,
      choice[/** @type {keyof typeof chosen} */ (name)],
    ]),
  );

function keepChoice() {
  view.keepAddress(view.addressOf("cluster", inAddress(chosen), inAddress(USUAL)));
}

/** @extends {Component<{ me: Me, args: string[], query: URLSearchParams }, ClusterState>} */
export class ClusterPage extends Component {
  /** @type {ClusterState} */
  state = { cost: null, proof: undefined, kept: true, trends: null };
  stop = () => {};

  componentWillMount() {
    takeChoice(this.props.query);
  }

  componentDidMount() {
    this.stop = listen("head", () => this.forceUpdate());
    const { me } = this.props;
    if (me.figures)
      import("./trends.js").then(
        ({ Trends }) => this.setState({ trends: Trends }),
        () => this.forget(),
      );
    else this.forget();
    if (!me.owner || !me.corral) return;
    /** @type {Promise<LastProof>} */
    const proof = call("corral/proof");
    proof.then(
      (last) => this.setState({ proof: last.proof }),
      () => {},
    );
    /** @type {Promise<Cost>} */
    const cost = call("corral/cost");
    cost.then(
      (data) => this.setState({ cost: data }),
      () => {},
    );
  }

  componentWillUnmount() {
    this.stop();
  }

  /** @param {string} span */
  remember = (span) => {
    chosen.span = span;
    keepChoice();
    this.forceUpdate();
  };

  forget = () => this.setState({ kept: false });

  /** @returns {ComponentChildren} */
  render() {
    const { cost, proof, kept, trends } = this.state;
    const { me } = this.props;
    const { span } = chosen;
    const trend = { key: "trends", span, choose: this.remember, none: this.forget };
    return [
      el("div", { key: "tiles", class: "tiles" }, now.head && h(Tiles, { head: now.head, cost })),
      proof === undefined ? null : h(ProofLine, { key: "proof", proof }),
      h(NodesCard, { key: "nodes", me }),
      kept ? trends && h(trends, trend) : h(Timeline, { key: "timeline" }),
    ];
  }
}
