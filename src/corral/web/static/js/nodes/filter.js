// A filter over nodes in Slurm's words: state=drain partition=main gpus>0 load>=8 node[0-9] fan
import { expand } from "../lib/hostlist.js";
/** @import { NodeRow } from "../api.js" */
/** @typedef {(node: NodeRow) => boolean} Test */

/** Null where Slurm's answer does not have it. @type {Record<string, (node: NodeRow) => number | null>} */
const NUMBERS = {
  cpus: (node) => node.cpus,
  cpus_used: (node) => node.cpus_used,
  gpus: (node) => node.gpus,
  gpus_free: (node) => (node.gpus_used === null ? null : node.gpus - node.gpus_used),
  gpus_used: (node) => node.gpus_used,
  load: (node) => node.load,
  memory: (node) => node.memory,
  memory_free: (node) => node.memory_free,
  memory_used: (node) => node.memory_used,
  watts: (node) => node.watts,
};
/** @type {Record<string, (node: NodeRow) => string[]>} */
const LISTS = {
  feature: (node) => node.features,
  features: (node) => node.features,
  partition: (node) => node.partitions,
  partitions: (node) => node.partitions,
};
/** @type {Record<string, (node: NodeRow) => string>} */
const TEXTS = {
  address: (node) => node.address,
  gres: (node) => node.gres,
  name: (node) => node.name,
  reason: (node) => node.reason,
  reason_user: (node) => node.reason_user,
  state: (node) => node.state,
  version: (node) => node.version,
};
/** @type {Record<string, (a: number, b: number) => boolean>} */
const COMPARE = {
  "=": (a, b) => a === b,
  "!=": (a, b) => a !== b,
  ">": (a, b) => a > b,
  "<": (a, b) => a < b,
  ">=": (a, b) => a >= b,
  "<=": (a, b) => a <= b,
};

/**
 * A word without a comparison: a hostlist, or a part of the name, the reason or the state.
 * @param {string} word
 * @returns {Test}
 */
function bare(word) {
  const listed = /[[,]/.test(word) ? expand(word) : null;
  if (listed) {
    const names = new Set(listed);
    return (node) => names.has(node.name);
  }
  const text = word.toLowerCase();
  return (node) => [node.name, node.reason, node.state].some((v) => v.toLowerCase().includes(text));
}

/**
 * A comparison with a number.
 * @param {string} key
 * @param {string} sign
 * @param {string} raw
 * @returns {Test}
 */
function numeric(key, sign, raw) {
  const limit = Number(raw);
  if (raw === "" || Number.isNaN(limit)) throw new Error(`${key} needs a number`);
  return (node) => {
    const number = NUMBERS[key](node);
    return number !== null && COMPARE[sign](number, limit); // an unknown number is no 0
  };
}

/**
 * What a key other than a number's is compared with: any of the values in a list, or a part of a text.
 * @param {string} key
 * @param {string[]} values
 * @returns {Test}
 */
function containing(key, values) {
  if (Object.hasOwn(LISTS, key)) {
    return (node) => LISTS[key](node).some((entry) => values.includes(entry.toLowerCase()));
  }
  if (!Object.hasOwn(TEXTS, key)) throw new Error(`there is no ${key} to filter by`);
  return (node) => values.some((value) => TEXTS[key](node).toLowerCase().includes(value));
}

/**
 * @param {string} word
 * @returns {Test}
 */
function wordTest(word) {
  const parts = /^([a-z_]+)(!=|>=|<=|=|>|<)(.*)$/i.exec(word);
  if (!parts) return bare(word);
  const [, rawKey, sign, raw] = parts;
  const key = rawKey.toLowerCase();
  if (Object.hasOwn(NUMBERS, key)) return numeric(key, sign, raw);
  const values = raw.toLowerCase().split(",").filter(Boolean);
  const matches = containing(key, values);
  if (sign !== "=" && sign !== "!=") throw new Error(`${key} takes = or !=`);
  if (!values.length) return () => true; // its value is yet to be typed
  return (node) => matches(node) === (sign === "=");
}

/**
 * The keys of a filter, and the values that nodes have of them where those are few.
 * @param {Iterable<NodeRow>} nodes
 * @returns {Record<string, string[]>}
 */
export function nodeWords(nodes) {
  /** @type {Record<string, Set<string>>} */
  const known = { state: new Set(), partition: new Set(), feature: new Set(), version: new Set() };
  for (const node of nodes) {
    for (const state of node.state.split("+")) known.state.add(state.toLowerCase());
    for (const name of node.partitions) known.partition.add(name);
    for (const name of node.features) known.feature.add(name);
    if (node.version) known.version.add(node.version);
  }
  const keys = [...Object.keys(known), ...Object.keys({ ...NUMBERS, ...TEXTS, ...LISTS })];
  return Object.fromEntries([...new Set(keys)].map((key) => [key, [...(known[key] ?? [])].sort()]));
}

/**
 * What a filter's text asks for; where the text is wrong, all nodes and why it is.
 * @param {string} text
 * @returns {{ test: Test, wrong: string }}
 */
export function nodeTest(text) {
  try {
    const tests = text.trim().split(/\s+/).filter(Boolean).map(wordTest);
    return { test: (node) => tests.every((test) => test(node)), wrong: "" };
  } catch (error) {
    return { test: () => true, wrong: error instanceof Error ? error.message : String(error) };
  }
}
