// Partition, account and QOS of a job by form as choices, with what is free there or left of limits.
import { el, formatted, many, span } from "../lib/view.js";
/** @import * as api from "../api.js" */

/** @typedef {{ value: string, words: string, disabled?: boolean }} Choice */

/** @param {api.PartitionChoice} partition */
function partitionWords({ name, state, takes_jobs: open, ...free }) {
  if (!open) return `${name}: takes no jobs (${state.toLowerCase()})`;
  const parts = [`${formatted(free.idle)} of ${many(free.nodes, "node")} idle`];
  if (free.gpus) {
    const known = free.gpus_free === null ? "?" : formatted(free.gpus_free);
    parts.push(`${known} of ${many(free.gpus, "GPU")} free`);
  } else parts.push(`${formatted(free.cpus_free)} of ${many(free.cpus, "CPU")} free`);
  if (free.max_time) parts.push(`${span(free.max_time)} at most`);
  return `${name}: ${parts.join(", ")}`;
}

/** @param {api.QosChoice} choice */
function leftWords({ name, gpus_left: gpus, jobs_left: jobs }) {
  const parts = [];
  if (gpus !== null) parts.push(`${many(gpus, "GPU")} left`);
  if (jobs !== null) parts.push(`${many(jobs, "job")} left`);
  return parts.length ? `${name}: ${parts.join(", ")}` : name;
}

/**
 * What a field offers, the first for what Slurm takes otherwise; null: it is typed.
 * @param {string} name
 * @param {api.JobChoices | null} choices
 * @returns {Choice[] | null}
 */
export function choicesOf(name, choices) {
  if (!choices) return null;
  if (name === "partition" && choices.partitions.length) {
    const usual = choices.partitions.find((partition) => partition.is_default);
    const listed = choices.partitions.map((partition) => ({
      value: partition.name,
      words: partitionWords(partition),
      disabled: !partition.takes_jobs,
    }));
    return [
      { value: "", words: usual ? `the default one, ${partitionWords(usual)}` : "the default one" },
      ...listed,
    ];
  }
  if (name === "account" && choices.accounts.length) {
    const usual = choices.accounts.find((account) => account.is_default);
    const listed = choices.accounts.map((account) => ({
      value: account.name,
      words: leftWords(account),
    }));
    return [
      { value: "", words: usual ? `the usual one, ${leftWords(usual)}` : "the usual one" },
      ...listed,
    ];
  }
  if (name === "qos" && choices.qos.length) {
    const listed = choices.qos.map((qos) => ({ value: qos.name, words: leftWords(qos) }));
    return [{ value: "", words: "the account's" }, ...listed];
  }
  return null;
}

/**
 * A choice; a value that is not offered, of a job of before or a template, is one more.
 * @param {{ name: string, id: string, "aria-invalid"?: boolean, "aria-describedby"?: string }} props
 * @param {Choice[]} choices
 * @param {string} chosen
 */
export function choice(props, choices, chosen) {
  const other = { value: chosen, words: `${chosen}: not offered to you now`, disabled: false };
  const all = choices.some(({ value }) => value === chosen) ? choices : [...choices, other];
  const options = all.map(({ value, words, disabled = false }) =>
    el("option", { key: value, value, disabled, selected: value === chosen }, words),
  );
  return el("select", props, options);
}
