// Slurm's limits in words: those of associations and of QOS.
import { formatted, gib, span } from "./view.js";
/** @import { LimitRow } from "./api.js" */

/** What each limit bounds (sacctmgr(1)).
 * @type {Record<string, string>} */
const BOUNDS = {
  GrpTRES: "together",
  GrpTRESMins: "all jobs ever, together",
  GrpTRESRunMins: "running jobs to their time limits, together",
  GrpJobs: "jobs running together",
  GrpSubmitJobs: "jobs running and pending together",
  GrpWall: "run time of all jobs ever, together",
  MaxJobs: "jobs running of each user",
  MaxSubmitJobs: "jobs running and pending of each user",
  MaxTRESPerJob: "a job",
  MaxTRESPerNode: "each node of a job",
  MaxTRESMinsPerJob: "a job to its time limit",
  MaxWall: "time limit of a job",
  MaxTRESPerUser: "each user",
  MaxJobsPerUser: "jobs running of each user",
  MaxSubmitJobsPerUser: "jobs running and pending of each user",
  MaxTRESPerAccount: "each account",
  MaxJobsPerAccount: "jobs running of each account",
  MaxSubmitJobsPerAccount: "jobs running and pending of each account",
  MinTRESPerJob: "a job, at least",
};
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

/** One limit in words. @param {LimitRow} limit */
export function limitWords({ name, resource, value }) {
  const bound = BOUNDS[name] ?? name;
  if (name.endsWith("Wall")) return `${bound}: ${span(value)}`;
  if (!resource) return `${bound}: ${formatted(value)}`;
  if (name.includes("Mins")) {
    const hours = (value / 60).toLocaleString("en", { maximumFractionDigits: 1 });
    return `${bound}: ${hours} ${resourceWords(resource)} hours`;
  }
  return `${bound}: ${amount(resource, value)}`;
}

/** One limit as sacctmgr takes it. @param {LimitRow} limit */
export function limitText({ name, resource, value }) {
  const minutes = name.endsWith("Wall") ? value / 60 : value;
  return resource ? `${name}=${resource}=${minutes}` : `${name}=${minutes}`;
}
