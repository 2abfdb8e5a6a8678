// One stream of changes for the whole page; pages listen to it.
import { call, rows, ticketed } from "./dom.js";

export const live = new EventTarget();
export const now = {
  head: null,
  nodes: new Map(),
  nodeColumns: [],
  jobColumns: [],
  skew: 0,
  ok: false,
  loaded: false,
};
const AGAIN_MS = 2000;
let source = null,
  turn = 0;

const tell = (name, detail) => live.dispatchEvent(new CustomEvent(name, { detail }));

let loading = null;
export function loadNodes() {
  return (loading ||= fetchNodes().finally(() => {
    loading = null;
  }));
}

// An answer may be older than the events that came meanwhile: then it is asked for again.
async function fetchNodes(tries = 3) {
  const data = await call("nodes");
  if (now.head && data.nodes_rev < now.head.nodes_rev && tries) return fetchNodes(tries - 1);
  now.nodeColumns = data.columns;
  now.nodes = new Map(rows(data.columns, data.rows).map((node) => [node.name, node]));
  now.loaded = true;
  tell("nodes");
}

function took(data) {
  if (data.at) now.skew = data.at - Date.now() / 1000;
  if (data.columns) now.jobColumns = data.columns;
  if (data.rev === undefined) {
    if (now.head) now.head.seen_at = data.seen_at;
    return tell("age");
  }
  const before = now.head;
  now.head = data;
  if (data.nodes && now.loaded) {
    for (const node of rows(now.nodeColumns, data.nodes)) now.nodes.set(node.name, node);
    for (const name of data.nodes_gone) now.nodes.delete(name);
    tell("nodes");
  } else if (!now.loaded || data.again || (before && before.nodes_rev !== data.nodes_rev)) {
    loadNodes().catch(() => {});
  }
  if (!before || before.jobs_rev !== data.jobs_rev)
    tell("jobs", data.jobs ? rows(now.jobColumns, data.jobs) : null);
  tell("head");
}

export function start() {
  stop();
  now.ok = null; // nobody knows yet
  connect(turn);
}

// A browser would come again by itself, but with a ticket that is used up.
async function connect(mine) {
  const lost = () => {
    if (mine !== turn) return;
    if (source) source.close();
    now.ok = false;
    tell("age");
    setTimeout(() => {
      if (mine === turn) connect(mine);
    }, AGAIN_MS);
  };
  let address;
  try {
    address = await ticketed("events");
  } catch (error) {
    return error.status === 401 ? undefined : lost();
  }
  if (mine !== turn) return;
  source = new EventSource(address);
  source.onopen = () => {
    now.ok = true;
    tell("age");
  };
  source.onmessage = (event) => took(JSON.parse(event.data));
  source.onerror = lost;
  source.addEventListener("logout", () => document.dispatchEvent(new Event("loggedout")));
}

export function stop() {
  turn += 1;
  if (source) source.close();
  source = null;
  now.ok = false;
}
