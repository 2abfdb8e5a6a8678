// Where the words of a job lead: its user's work, account, QOS, partition and nodes.
import { expand } from "../lib/hostlist.js";
import { addressOf, el, formatted } from "../lib/view.js";
/** @import { Me } from "../api.js" */

/** Nodes that are a link each; the rest is one. */
export const NODES = 48;

/**
 * The work of a user, for who may see it.
 * @param {string} user
 * @param {Me} me
 */
export function mineOf(user, me) {
  if (user === me.user) return "#mine";
  return me.role === "user" ? "" : `#mine/${encodeURIComponent(user)}`;
}

/**
 * A name that leads somewhere, or the name alone.
 * @param {string} name
 * @param {string} address
 */
const link = (name, address) => (address && name ? el("a", { href: address }, name) : name);

/** @param {{ user: string, me: Me }} props */
export const UserLink = ({ user, me }) => link(user, mineOf(user, me));

/**
 * Where an array's tasks are a list; of `ended` as accounting has them, which slurmctld has forgotten.
 * @param {string} array
 * @param {URLSearchParams} query of the list that has the array
 * @param {"all" | "running" | "ended"} tab
 */
export function tasksAddress(array, query, tab) {
  // Of one user's jobs accounting has older ones than of all.
  const user = query.get("q")?.match(/(?:^| )(user=\S+)/)?.[1];
  const q = [`array=${array}`, ...(user ? [user] : [])].join(" ");
  const days = (tab === "ended" && query.get("days")) || "7";
  return addressOf(`jobs/${tab}`, { q, days }, { days: "7" });
}

/** @param {{ account: string }} props */
export const AccountLink = ({ account }) =>
  link(account, addressOf("policy/accounts", { q: account }, { q: "" }));

/** A pending job may name several. @param {{ qos: string }} props */
export const QosLinks = ({ qos }) =>
  qos.split(",").map((q, i) => [i ? ", " : "", link(q, addressOf("policy/qos", { q }, { q: "" }))]);

/** @param {string} filter of nodes */
const nodesOf = (filter) => addressOf("cluster", { filter }, { filter: "" });

/** A pending job may name several. @param {{ partition: string }} props */
export const PartitionLinks = ({ partition }) =>
  partition
    .split(",")
    .map((name, i) => [i ? ", " : "", link(name, name && nodesOf(`partition=${name}`))]);

/** The nodes of a hostlist; the list itself where it cannot be read. @param {{ nodes: string }} props */
export function NodeLinks({ nodes }) {
  const names = expand(nodes);
  if (!names) return nodes;
  const shown = names.slice(0, NODES);
  const links = shown.map((name, i) => [i ? ", " : "", link(name, `#node/${name}`)]);
  if (names.length === 1) return links;
  const all = `all ${formatted(names.length)}`;
  return [
    el("a", { key: "all", href: nodesOf(nodes), title: nodes }, all),
    ": ",
    links,
    names.length > shown.length ? `, and ${formatted(names.length - shown.length)} more` : "",
  ];
}
