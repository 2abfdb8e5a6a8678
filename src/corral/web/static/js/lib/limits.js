// Slurm's limits in words: those of associations and of QOS.
import { formatted, gib, span } from "./view.js";
/** @import { LimitRow } from "../api.js" */

/** @type {Record<string, string>} */
const NAMES = { cpu: "CPU", "gres/gpu": "GPU", mem: "memory", node: "node" };

/** @param {string} resource */
export const resourceWords = (resource) => NAMES[resource] ?? resource.replace(/^gres\//, "");

/**
 * How much of a resource.
 * @param {string} resource
 * @param {number} value
 */
function amount(resource, value) {
  if (resource === "mem") return `${gib(value)} of memory`;
  const plural = resource in NAMES && value !== 1 ? "s" : "";
  return `${formatted(value)} ${resourceWords(resource)}${plural}`;
}

/** How much one limit allows. @param {LimitRow} limit */
function allowed({ name, resource, value }) {
  if (name.endsWith("Wall")) return span(value);
  if (!resource) return formatted(value);
  if (!name.includes("Mins")) return amount(resource, value);
  const hours = (value / 60).toLocaleString("en", { maximumFractionDigits: 1 });
  return `${hours} ${resourceWords(resource)} hours`;
}

/**
 * Limits in words, those of one name in one line: `together: 51 CPUs, 52 GPUs`.
 * @param {LimitRow[]} limits
 */
export function limitLines(limits) {
  /** @type {Map<string, LimitRow[]>} */
  const groups = new Map();
  for (const limit of limits) groups.set(limit.name, [...(groups.get(limit.name) ?? []), limit]);
  return [...groups.values()].map((group) => ({
    words: `${group[0].bounds}: ${group.map(allowed).join(", ")}`,
    title: group.map(limitText).join(" "),
  }));
}

/** One limit as sacctmgr takes it. @param {LimitRow} limit */
export function limitText({ name, resource, value }) {
  const minutes = name.endsWith("Wall") ? value / 60 : value;
  return resource ? `${name}=${resource}=${minutes}` : `${name}=${minutes}`;
}
