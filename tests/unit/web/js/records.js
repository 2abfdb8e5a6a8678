// Records as the server sends them, and a reader of what views are made of.
/** @import { Counts, Head, JobDetail, Me, NodeRow } from "../../../../src/corral/web/static/js/api.js" */

/** @type {NodeRow} */
const NODE = {
  name: "node1",
  state: "IDLE",
  usable: true,
  resumable: false,
  reason: "",
  reason_user: "",
  reason_at: null,
  cpus: 8,
  cpus_used: 2,
  load: 1.5,
  memory: 4096,
  memory_used: 1024,
  memory_free: 2048,
  gpus: 4,
  gpus_used: 1,
  gres: "gpu:h200:4",
  partitions: ["main"],
  features: ["island-a", "ib"],
  island: "a",
  address: "10.0.0.1",
  version: "24.11.5",
  boot_at: 1790000000,
  watts: null,
  watts_most: 2800,
  kind: "good",
};

/** @param {Partial<NodeRow>} change */
export const node = (change = {}) => ({ ...NODE, ...change });

/** @type {JobDetail} */
const JOB = {
  ...{ id: 7, label: "7", name: "train", user: "kim", account: "lab", partition: "main", qos: "" },
  ...{ state: "RUNNING", kind: "busy", reason: "", why: "", held: false, priority: 5, limit: 3600 },
  ...{ nodes: "node1", node_count: 1, cpus: 8, gpus: 2, gpus_exact: true, memory: 2048 },
  ...{
    submit_at: 1000,
    eligible_at: 1000,
    start_at: 2000,
    end_at: null,
    exit_status: null,
    exit_signal: 0,
    exit: "",
  },
  ...{
    stdout: "/shared/7.log",
    stderr: "",
    workdir: "/shared",
    command: "",
    comment: "",
    ...{ admin_comment: "", system_comment: "" },
    submit_line: "",
    ...{ tres_asked: "", group: "kim", wckey: "" },
  },
  ...{ dependency: "", restarts: 0, ended: false, mine: true, may: true, forgotten: false },
  ...{ known_at: 0, waiting: false, running: true, failed: false, cancelled: false },
};

/** @type {Me} */
export const ME = {
  ...{ user: "kim", role: "user", owner: false, ends: 0, cluster: "lab", clusters: [] },
  ...{
    corral: false,
    mine: false,
    figures: false,
    storage: [],
    racks: false,
    node_kinds: [],
    job_kinds: [],
  },
};

/** @param {Partial<JobDetail>} change */
export const job = (change = {}) => ({ ...JOB, ...change });

/**
 * The head of an event with these counts.
 * @param {Counts} counts
 * @returns {Head}
 */
export const headOf = (counts) => ({
  ...{ rev: 1, nodes_rev: 1, jobs_rev: 1, seen_at: 1, jobs_at: 1, trouble: "", unread: "" },
  release: "24.11.5",
  ...{ complete: true, counts },
});

/**
 * What a view is made of, its functions called: `<tag attribute="...">` and texts.
 * @param {any} made
 * @returns {string}
 */
export function shown(made) {
  if (made === null || made === undefined || typeof made === "boolean") return "";
  if (Array.isArray(made)) return made.map(shown).join("");
  if (typeof made !== "object") return String(made);
  const { type, props } = made;
  if (typeof type !== "string") {
    if (type.prototype?.render) return `<${type.name}>`;
    return shown(type(props));
  }
  const kept = ["class", "href", "aria-label", "disabled"].filter((name) => props[name]);
  const attributes = kept.map((name) => ` ${name}="${props[name]}"`).join("");
  return `<${type}${attributes}>${shown(props.children)}</${type}>`;
}

/** The texts of a view alone. @param {any} made */
export const texts = (made) =>
  shown(made)
    .replace(/<[^>]*>/g, " ")
    .replace(/\s+/g, " ")
    .trim();
