// All clusters of this page: figures of each, and one search over jobs, nodes and users.
import { Component, h } from "../../vendor/preact.mjs";
import { resultOf, OtherPage, summaryOf, Unanswered } from "../lib/others.js";
import { call, refused } from "../lib/server.js";
import {
  addressOf,
  badge,
  card,
  el,
  fact,
  formatted,
  keepAddress,
  known,
  many,
  span,
} from "../lib/view.js";
/** @import { ComponentChildren } from "preact" */
/** @import { MatchingJob, Me, SearchResult, Summary } from "../api.js" */

const AGAIN_MS = 10000;
const TYPED_MS = 250;
const OLD_S = 45;

/**
 * What is known of one cluster.
 * @typedef {object} Seen
 * @property {string} why why the last answer is old, "" while it is new; "asking" at first
 * @property {string} [message]
 * @property {Summary} [summary] the last one
 * @property {number} [at] unix seconds of it, by this machine's clock
 */
/** @typedef {{ why: string, message?: string, found?: SearchResult }} Searched */
/** @typedef {{ name: string, url: string, ask: (what: "summary" | "search", words?: string) => Promise<unknown> }} Source */

/** Why something is unknown. @param {{ why: string, message?: string }} state */
export function reasonOf({ why, message = "" }) {
  if (why === "asking") return "asking…";
  if (why === "logged-out") return "you are not logged in there";
  if (why === "silent") return "its page does not answer";
  if (why === "odd") return "its page gave an answer that this one cannot read";
  return message || "its page refused the question";
}

/**
 * What a cluster's figures are worth: a word, its colour, and the sentence below it.
 * @param {Seen} seen
 * @param {number} now unix seconds
 * @returns {{ word: string, kind: "good" | "warn" | "bad" | "off", about: string }}
 */
export function stateOf(seen, now) {
  const { summary, why, at = 0 } = seen;
  if (!summary) {
    if (why === "asking") return { word: "asking", kind: "off", about: "" };
    const word = why === "logged-out" ? "logged out" : "unknown";
    return { word, kind: "warn", about: `Unknown: ${reasonOf(seen)}.` };
  }
  const age = summary.at - summary.seen_at + (now - at);
  if (why) {
    const about = `Unknown now: ${reasonOf(seen)}. These figures are ${span(age)} old.`;
    return { word: why === "logged-out" ? "logged out" : "unknown", kind: "warn", about };
  }
  if (summary.trouble) {
    const old = summary.seen_at ? ` These figures are ${span(age)} old.` : "";
    return { word: "Slurm is not reached", kind: "bad", about: `${summary.trouble}.${old}` };
  }
  if (age > OLD_S) return { word: `${span(age)} old`, kind: "warn", about: "" };
  return { word: "live", kind: "good", about: "" };
}

/** @param {number | null} n @param {string} word */
const counted = (n, word) => `${n === null ? known(n) : formatted(n)} ${word}`;

/** @param {{ summary: Summary }} props */
export const Figures = ({ summary: of }) =>
  el(
    "dl",
    { class: "facts" },
    fact("GPUs", `${counted(of.gpus_free, "free")} of ${counted(of.gpus, "")}`),
    fact("Nodes", [
      `${counted(of.usable, "")}of ${counted(of.nodes, "")} take jobs`,
      of.down ? `, ${formatted(of.down)} down` : "",
      of.drained ? `, ${formatted(of.drained)} drained` : "",
    ]),
    fact(
      "My jobs",
      `${counted(of.mine_running, "running")}, ${counted(of.mine_waiting, "pending")}`,
    ),
    fact("All jobs", `${counted(of.running, "running")}, ${counted(of.waiting, "pending")}`),
    fact("As", of.user),
  );

/**
 * @param {{ name: string, url: string, seen: Seen, now: number }} props
 */
export function ClusterCard({ name, url, seen, now }) {
  const { word, kind, about } = stateOf(seen, now);
  const stale = seen.why && seen.why !== "asking";
  // Another tab: who has logged in there comes back to this one, which notices.
  const login =
    seen.why === "logged-out"
      ? el("a", { class: "button", href: url, target: "_blank", rel: "noopener" }, "Log in")
      : null;
  return card(
    el("a", { href: `${url}#cluster` }, name),
    [
      about ? el("p", { class: "reason" }, about) : null,
      login ? el("p", null, login) : null,
      seen.summary
        ? el("div", { class: stale ? "dim" : "" }, h(Figures, { summary: seen.summary }))
        : null,
    ],
    badge(word, kind),
    { "aria-label": name },
  );
}

/**
 * @param {string} heading
 * @param {number} total
 * @param {ComponentChildren[]} rows
 */
const listed = (heading, total, rows) =>
  total
    ? [
        el("h3", { key: `${heading} heading` }, many(total, heading)),
        el("ul", { key: heading, class: "plain" }, rows),
        total > rows.length
          ? el("p", { key: `${heading} more`, class: "dim" }, `the first ${rows.length} are shown`)
          : null,
      ]
    : null;

/** @param {string} url @param {string} path */
const link = (url, path) => `${url}#${path}`;

/** @param {string} url @param {MatchingJob} job */
const jobRow = (url, { id, label, name, user, state, kind, nodes }) =>
  el(
    "li",
    { key: id, class: "row" },
    el("a", { href: link(url, `job/${Math.floor(id)}`) }, `${label} ${name}`),
    badge(state, kind),
    el("span", { class: "dim" }, [user, nodes].filter(Boolean).join(" · ")),
  );

/**
 * What one cluster answered to a search; an unknown answer is never "nothing".
 * @param {{ name: string, url: string, searched: Searched }} props
 */
export function Matches({ name, url, searched }) {
  const { found } = searched;
  if (!found) return card(name, el("p", { class: "dim" }, `Unknown: ${reasonOf(searched)}`));
  const jobs = found.jobs.map((job) => jobRow(url, job));
  const nodes = found.nodes.map((node) =>
    el(
      "li",
      { key: node.name, class: "row" },
      el("a", { href: link(url, `node/${encodeURIComponent(node.name)}`) }, node.name),
      badge(node.state, node.kind),
      el("span", { class: "dim" }, node.reason),
    ),
  );
  const users = found.users.map((user) =>
    el(
      "li",
      { key: user.name, class: "row" },
      el("a", { href: link(url, `jobs?q=user%3D${encodeURIComponent(user.name)}`) }, user.name),
      el("span", { class: "dim" }, `${user.running} running, ${user.waiting} pending`),
    ),
  );
  const notes = [];
  if (found.trouble) notes.push(`Slurm is not reached there: this is the last known state.`);
  if (!found.known) notes.push("Its jobs are not known yet.");
  if (!found.users_known) notes.push("Users without jobs are unknown: accounting does not answer.");
  const nothing = !found.jobs_total && !found.nodes_total && !found.users_total;
  return card(name, [
    notes.map((note) => el("p", { key: note, class: "reason" }, note)),
    nothing ? el("p", { key: "none", class: "dim" }, "Nothing found.") : null,
    listed("job", found.jobs_total, jobs),
    listed("node", found.nodes_total, nodes),
    listed("user", found.users_total, users),
  ]);
}

/** @typedef {{ q: string, seen: Record<string, Seen>, searched: Record<string, Searched> }} ClustersState */

/** @extends {Component<{ me: Me, args: string[], query: URLSearchParams }, ClustersState>} */
export class ClustersPage extends Component {
  /** @type {ClustersState} */
  state = { q: this.props.query.get("q") ?? "", seen: {}, searched: {} };
  others = this.props.me.clusters.map((cluster) => new OtherPage(cluster));
  /** @type {Source[]} */
  sources = [
    {
      name: this.props.me.cluster,
      url: "",
      ask: async (what, words = "") =>
        what === "summary" ? call("summary") : call(`search?q=${encodeURIComponent(words)}`),
    },
    ...this.others.map((other) => ({
      name: other.name,
      url: `${other.origin}/`,
      ask: other.ask.bind(other),
    })),
  ];
  turn = 0;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  again = undefined;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  typed = undefined;

  componentDidMount() {
    for (const other of this.others) other.open();
    this.again = setInterval(() => document.hidden || this.look(), AGAIN_MS);
    document.addEventListener("visibilitychange", this.look);
    this.look();
    if (this.state.q) this.search();
  }

  componentWillUnmount() {
    clearInterval(this.again);
    clearTimeout(this.typed);
    document.removeEventListener("visibilitychange", this.look);
    this.turn += 1;
    for (const other of this.others) other.close();
  }

  look = () => {
    if (!document.hidden) for (const source of this.sources) this.lookAt(source);
  };

  /** @param {Source} source */
  async lookAt({ name, ask }) {
    /** @param {Seen} seen */
    const show = (seen) => this.setState(({ seen: all }) => ({ seen: { ...all, [name]: seen } }));
    const before = this.state.seen[name];
    try {
      show({ why: "", summary: summaryOf(await ask("summary")), at: Date.now() / 1000 });
    } catch (error) {
      show({ ...before, ...failureOf(error) });
    }
  }

  /** @param {string} q */
  type(q) {
    keepAddress(addressOf("clusters", { q }, { q: "" }));
    this.setState({ q });
    clearTimeout(this.typed);
    this.typed = setTimeout(() => this.search(), TYPED_MS);
  }

  search() {
    this.turn += 1;
    const { turn } = this;
    const words = this.state.q.trim();
    this.setState({ searched: {} });
    if (!words) return;
    for (const { name, ask } of this.sources) {
      /** @param {Searched} answer */
      const show = (answer) => {
        if (turn !== this.turn) return; // of words that are no longer there
        this.setState(({ searched }) => ({ searched: { ...searched, [name]: answer } }));
      };
      ask("search", words).then(
        (answer) => show(readable(answer)),
        (error) => show(failureOf(error)),
      );
    }
  }

  render() {
    const { q, seen, searched } = this.state;
    const now = Date.now() / 1000;
    const asking = { why: "asking" };
    const answers = this.sources.map(({ name, url }) =>
      h(Matches, { key: name, name, url, searched: searched[name] ?? asking }),
    );
    const cards = this.sources.map(({ name, url }) =>
      h(ClusterCard, { key: name, name, url, now, seen: seen[name] ?? asking }),
    );
    return [
      el("input", {
        key: "search",
        type: "search",
        value: q,
        placeholder: "job, node or user in all clusters: kim, gpu-03, state=failed",
        "aria-label": "Search all clusters",
        onInput: ({ currentTarget }) => this.type(currentTarget.value),
      }),
      q.trim()
        ? el("div", { key: "found", class: "clusters", "aria-live": "polite" }, answers)
        : null,
      el("div", { key: "clusters", class: "clusters" }, cards),
    ];
  }
}

/** @param {unknown} answer @returns {Searched} */
function readable(answer) {
  try {
    return { why: "", found: resultOf(answer) };
  } catch (error) {
    return failureOf(error);
  }
}

/** @param {unknown} error @returns {{ why: string, message: string }} */
function failureOf(error) {
  if (error instanceof Unanswered) return { why: error.why, message: error.message };
  const { status, message } = refused(error);
  return { why: { 0: "silent", 401: "logged-out" }[status] ?? "refused", message };
}
