// Partition, account and QOS of a job by form as choices, with what is free there or left of limits;
// container images and Python environments that are there, next to what may be typed.
import { bytes } from "../logs/logtext.js";
import { el, formatted, many, span } from "../lib/view.js";
/** @import { SelectHTMLAttributes } from "preact" */
/** @import * as api from "../api.js" */

/** `free` is the words without its name, "" for nothing.
 * @typedef {{ value: string, words: string, free?: string, disabled?: boolean }} Choice */

/** @param {api.PartitionChoice} partition */
function partitionFree({ state, takes_jobs: open, ...free }) {
  if (!open) return `takes no jobs (${state.toLowerCase()})`;
  const parts = [`${formatted(free.idle)} of ${many(free.nodes, "node")} idle`];
  if (free.gpus) {
    const known = free.gpus_free === null ? "?" : formatted(free.gpus_free);
    parts.push(`${known} of ${many(free.gpus, "GPU")} free`);
  } else parts.push(`${formatted(free.cpus_free)} of ${many(free.cpus, "CPU")} free`);
  if (free.max_time) parts.push(`${span(free.max_time)} at most`);
  return parts.join(", ");
}

/** @param {api.QosChoice} choice */
function left({ gpus_left: gpus, jobs_left: jobs }) {
  const parts = [];
  if (gpus !== null) parts.push(`${many(gpus, "GPU")} left`);
  if (jobs !== null) parts.push(`${many(jobs, "job")} left`);
  return parts.join(", ");
}

/**
 * @param {string} name
 * @param {string} free
 */
const named = (name, free) => (free ? `${name}: ${free}` : name);

/**
 * Choices by name, behind the one that Slurm takes otherwise.
 * @template {{ name: string, is_default?: boolean }} Named
 * @param {Named[]} list
 * @param {string} otherwise
 * @param {(entry: Named) => string} freeOf
 * @returns {Choice[]}
 */
function listed(list, otherwise, freeOf) {
  const usual = list.find((entry) => entry.is_default);
  const free = usual && freeOf(usual);
  const first = usual ? `${otherwise}, ${named(usual.name, freeOf(usual))}` : otherwise;
  return [
    { value: "", words: first, free: usual && named(usual.name, free ?? "") },
    ...list.map((entry) => {
      const of = freeOf(entry);
      return { value: entry.name, words: named(entry.name, of), free: of };
    }),
  ];
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
    const closed = choices.partitions.filter(({ takes_jobs: open }) => !open);
    return listed(choices.partitions, "the default one", partitionFree).map((entry) => ({
      ...entry,
      disabled: closed.some((partition) => partition.name === entry.value),
    }));
  }
  if (name === "account" && choices.accounts.length)
    return listed(choices.accounts, "the usual one", left);
  if (name === "qos" && choices.qos.length) return listed(choices.qos, "the account's", left);
  return null;
}

/**
 * A choice; a value that is not offered, of a job of before or a template, is one more.
 * @param {SelectHTMLAttributes<HTMLSelectElement> & { name: string }} props
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

/**
 * What is free where the chosen one is: a choice is as narrow as its field, and its words are cut.
 * @param {{ offered: Choice[] | null, chosen: string }} props
 */
export function FreeWords({ offered, chosen }) {
  const free = offered?.find(({ value }) => value === chosen)?.free;
  return free ? el("small", { class: "free", role: "status" }, free) : null;
}

/** @typedef {{ value: string, words?: string }} Offer */

/**
 * Who may get a message at a job's end.
 * @param {api.Recipient[]} recipients
 * @returns {Offer[]}
 */
export const mailOffers = (recipients) =>
  recipients.map(({ name, about }) => ({ value: name, words: about }));

/**
 * What is there for a field that may also be typed.
 * @param {string} name
 * @param {api.JobEnvironments | null} environments
 * @returns {Offer[]}
 */
export function offersOf(name, environments) {
  if (name === "container")
    return (environments?.images ?? []).map(({ path, size }) => ({
      value: path,
      words: bytes(size),
    }));
  if (name === "python") return (environments?.pythons ?? []).map((value) => ({ value }));
  return [];
}

/**
 * The list of an input, and how many it has: nobody looks for one that is not announced.
 * @param {{ name: string, offers: Offer[], cut: boolean }} props
 */
export function Offers({ name, offers, cut }) {
  if (!offers.length) return null;
  const what = name === "container" ? "image" : "environment";
  const more = cut ? ", not all that are there" : "";
  const names = offers.map(({ value, words: about }) => `${value} (${about})`).join(", ");
  const about =
    name === "mail"
      ? `${names}: choose, or type an address.`
      : `${many(offers.length, what)} on shared storage${more}: choose, or type another.`;
  const options = offers.map(({ value, words }) =>
    el("option", { key: value, value, label: words && `${value} (${words})` }),
  );
  return [
    el("datalist", { key: "list", id: `offers-${name}` }, options),
    el("small", { key: "words", class: "free offers" }, about),
  ];
}
