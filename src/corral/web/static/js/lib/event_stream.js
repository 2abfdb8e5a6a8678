// One stream of changes for the entire page; pages listen to it.
import { expand } from "./hostlist.js";
import { call, Latest, records, ticketed, transposed } from "./server.js";
import { inFront, stream, whileInFront } from "./streams.js";
/** @import { FigureColumns, Head, JobRow, LiveAge, LiveState, Me, NodeColumns, NodeFigures, NodeRow } from "../api.js" */

export const live = new EventTarget();
export const now = {
  /** @type {Head | null} */
  head: null,
  /** @type {Map<string, NodeRow>} */
  nodes: new Map(),
  /** @type {string[]} */
  nodeColumns: [],
  /** @type {string[]} */
  jobColumns: [],
  /** @type {Record<string, NodeFigures>} */
  figures: {},
  skew: 0,
  /** @type {boolean | null} null: unknown yet */
  ok: false,
  loaded: false,
};
const AGAIN_MS = 2000;
const FIGURES_MS = 20000;
// All wait for the same answer, and one that never comes would be waited for ever.
const NODES_MS = 60000;
/** @type {EventSource | null} */
let source = null;
let turn = 0;
let unwatch = () => {};

/**
 * @param {"age" | "head" | "jobs" | "nodes"} name
 * @param {JobRow[] | null} [detail]
 */
const notify = (name, detail) => live.dispatchEvent(new CustomEvent(name, { detail }));

/**
 * Calls back at each event of a name; returns what ends that.
 * @param {"age" | "head" | "jobs" | "nodes"} name
 * @param {(jobs: JobRow[] | null) => void} does
 */
export function listen(name, does) {
  const heard = (/** @type {Event} */ event) =>
    does(/** @type {CustomEvent<JobRow[] | null>} */ (event).detail);
  live.addEventListener(name, heard);
  return () => live.removeEventListener(name, heard);
}

/** @type {Promise<void> | null} */
let loading = null;
// The last question for the nodes was not answered: the next event asks again, also where nothing
// of the cluster changes.
let missed = false;
export function loadNodes() {
  loading ||= fetchNodes(3)
    .then(
      () => {
        missed = false;
      },
      (error) => {
        missed = true;
        throw error;
      },
    )
    .finally(() => {
      loading = null;
    });
  return loading;
}

/**
 * An answer may be older than the events that came meanwhile: then it is asked for again.
 * @param {number} tries
 * @returns {Promise<void>}
 */
async function fetchNodes(tries) {
  /** @type {NodeColumns} */
  const data = await call("nodes?layout=columns", undefined, undefined, NODES_MS);
  if (now.head && data.nodes_rev < now.head.nodes_rev && tries) return fetchNodes(tries - 1);
  now.nodeColumns = data.columns;
  /** @type {NodeRow[]} */
  const nodes = transposed(data.columns, data.values);
  now.nodes = new Map(nodes.map((node) => [node.name, node]));
  now.loaded = true;
  notify("nodes");
}

/** @param {LiveState | LiveAge} data */
function took(data) {
  if (data.at) now.skew = data.at - Date.now() / 1000;
  if (!("rev" in data)) {
    if (now.head) Object.assign(now.head, { seen_at: data.seen_at, jobs_at: data.jobs_at });
    notify("age");
    if (missed) loadNodes().catch(() => {});
    return;
  }
  if (data.columns) now.jobColumns = data.columns;
  const before = now.head;
  now.head = data;
  tookNodes(data, before);
  if (!before || before.jobs_rev !== data.jobs_rev) {
    notify("jobs", data.jobs ? records(now.jobColumns, data.jobs) : null);
  }
  notify("head");
}

/**
 * Whether there are other nodes than those of before.
 * @param {LiveState} data
 * @param {Head | null} before
 */
const others = (data, before) => data.again || (before && before.nodes_rev !== data.nodes_rev);

/**
 * @param {LiveState} data
 * @param {Head | null} before
 */
function tookNodes(data, before) {
  const known = now.loaded && !missed;
  if (known && data.nodes) {
    /** @type {NodeRow[]} */
    const changed = records(now.nodeColumns, data.nodes);
    for (const node of changed) now.nodes.set(node.name, node);
    for (const name of data.nodes_gone ?? []) now.nodes.delete(name);
    notify("nodes");
  } else if (!known || others(data, before)) {
    loadNodes().catch(() => {});
  }
}

export function start() {
  stop();
  unwatch = whileInFront(toggle);
  toggle(inFront());
}

/**
 * Behind others this tab shows the state that it had; the stream begins with the complete one again.
 * @param {boolean} front
 */
function toggle(front) {
  drop();
  now.ok = null;
  notify("age");
  if (front) connect(turn);
}

/**
 * A browser would reconnect on its own, but with a ticket that is used up.
 * @param {number} mine
 */
async function connect(mine) {
  const lost = () => {
    if (mine !== turn) return;
    now.ok = false;
    notify("age");
    setTimeout(() => {
      if (mine === turn) connect(mine);
    }, AGAIN_MS);
  };
  let address;
  try {
    address = await ticketed("events");
  } catch {
    lost(); // a session that has ended is left, which ends this turn
    return;
  }
  if (mine !== turn) return;
  source = stream(address, lost);
  source.onopen = () => {
    now.ok = true;
    notify("age");
  };
  source.onmessage = (event) => took(JSON.parse(event.data));
  source.addEventListener("logout", () => document.dispatchEvent(new Event("loggedout")));
}

function drop() {
  turn += 1;
  if (source) source.close();
  source = null;
}

export function stop() {
  unwatch();
  drop();
  now.ok = false;
}

/** Forgets the cluster: the session has ended. */
export function forget() {
  stop();
  now.head = null;
  now.nodes = new Map();
  now.figures = {};
  now.loaded = false;
}

/**
 * Metrics by node; only what there is.
 * @param {FigureColumns} data
 */
export function figuresOf({ names, columns, values }) {
  /** @type {Record<string, NodeFigures>} */
  const made = {};
  for (const [row, name] of (expand(names) ?? []).entries()) {
    /** @type {Record<string, number>} */
    const figures = {};
    for (const [at, column] of columns.entries()) {
      const value = values[at][row];
      if (value !== null) figures[column] = value;
    }
    made[name] = figures;
  }
  return made;
}

/**
 * Keeps the metrics of nodes new, where there are any; returns what ends that.
 * @param {Me} me
 * @param {() => void} changed
 */
export function watchFigures(me, changed) {
  if (!me.figures) return () => {};
  const newest = new Latest();
  const measure = () => {
    const show = (/** @type {FigureColumns} */ data) => {
      now.figures = figuresOf(data);
      changed();
    };
    newest.ask("figures?layout=columns", show, () => {});
  };
  measure();
  const watch = setInterval(measure, FIGURES_MS);
  return () => {
    newest.drop();
    clearInterval(watch);
  };
}
