// The pages of other clusters: one hidden frame each, whose answers are data of a stranger.
/** @import { MatchingNode, OtherCluster, SearchResult, Summary } from "../api.js" */

const ANSWER_MS = 6000;
const MOST = 20;
const LONGEST = 200;
const KINDS = ["good", "busy", "mix", "warn", "bad", "off"];
const LOOPBACK = ["127.0.0.1", "localhost"];

/** Why another cluster's page gave no answer: "silent" is unreachable, "odd" a wrong answer. */
export class Unanswered extends Error {
  /** @param {string} why @param {string} [message] */
  constructor(why, message = "") {
    super(message.slice(0, LONGEST));
    this.why = why;
  }
}

/**
 * The origin of another page, by the name of this machine's loopback that this page is opened by:
 * browsers take the two names for two sites.
 * @param {string} url
 * @param {string} [here]
 */
export function originOf(url, here = location.hostname) {
  const address = new URL(url);
  if (LOOPBACK.includes(address.hostname) && LOOPBACK.includes(here)) address.hostname = here;
  return address.origin;
}

/** @param {unknown} value */
const fields = (value) => {
  if (typeof value !== "object" || value === null) throw new Unanswered("odd");
  return /** @type {Record<string, unknown>} */ (value);
};
/** @param {unknown} value @returns {string} */
const text = (value) => (typeof value === "string" ? value.slice(0, LONGEST) : "");
/** @param {unknown} value @returns {number} */
const count = (value) => {
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0) {
    throw new Unanswered("odd");
  }
  return value;
};
/** @param {unknown} value */
const maybe = (value) => (value === null ? null : count(value));
/** @param {unknown} value @returns {MatchingNode["kind"]} */
const kind = (value) => {
  const word = text(value);
  return /** @type {MatchingNode["kind"]} */ (KINDS.includes(word) ? word : "off");
};
/**
 * @template T
 * @param {unknown} value
 * @param {(entry: Record<string, unknown>) => T} read
 */
const list = (value, read) => {
  if (!Array.isArray(value)) throw new Unanswered("odd");
  return value.slice(0, MOST).map((entry) => read(fields(entry)));
};

/**
 * A summary, each field of which has its type; more is left out.
 * @param {unknown} answer
 * @returns {Summary}
 */
export function summaryOf(answer) {
  const got = fields(answer);
  return {
    cluster: text(got.cluster),
    user: text(got.user),
    at: count(got.at),
    seen_at: count(got.seen_at),
    trouble: text(got.trouble),
    nodes: maybe(got.nodes),
    usable: maybe(got.usable),
    down: maybe(got.down),
    drained: maybe(got.drained),
    gpus: maybe(got.gpus),
    gpus_free: maybe(got.gpus_free),
    running: maybe(got.running),
    waiting: maybe(got.waiting),
    mine_running: maybe(got.mine_running),
    mine_waiting: maybe(got.mine_waiting),
  };
}

/**
 * What a search found, of the same kind.
 * @param {unknown} answer
 * @returns {SearchResult}
 */
export function resultOf(answer) {
  const got = fields(answer);
  return {
    jobs: list(got.jobs, (job) => ({
      id: count(job.id),
      label: text(job.label),
      name: text(job.name),
      user: text(job.user),
      state: text(job.state),
      kind: kind(job.kind),
      nodes: text(job.nodes),
    })),
    jobs_total: count(got.jobs_total),
    nodes: list(got.nodes, (node) => ({
      name: text(node.name),
      state: text(node.state),
      kind: kind(node.kind),
      reason: text(node.reason),
    })),
    nodes_total: count(got.nodes_total),
    users: list(got.users, (user) => ({
      name: text(user.name),
      running: count(user.running),
      waiting: count(user.waiting),
    })),
    users_total: count(got.users_total),
    users_known: got.users_known === true,
    known: got.known === true,
    trouble: text(got.trouble),
  };
}

/** One other cluster's page. */
export class OtherPage {
  /** @type {Map<number, (answer: Record<string, unknown>) => void>} */
  #open = new Map();
  #number = 0;
  /** @type {HTMLIFrameElement | null} */
  #frame = null;
  /** @type {Promise<void>} */
  #loaded = Promise.resolve();

  /** @param {OtherCluster} cluster */
  constructor({ name, url }) {
    this.name = name;
    this.origin = originOf(url);
  }

  /** Loads the other page's reader. The sandbox keeps it from windows, forms and this tab's address. */
  #load() {
    this.#frame?.remove();
    const frame = document.createElement("iframe");
    frame.sandbox.add("allow-scripts", "allow-same-origin");
    frame.referrerPolicy = "no-referrer";
    frame.hidden = true;
    frame.title = `Reader of ${this.name}`;
    this.#loaded = new Promise((resolve) => {
      frame.addEventListener("load", () => resolve());
    });
    frame.src = `${this.origin}/reader.html`;
    document.body.append(frame);
    this.#frame = frame;
  }

  /** @param {MessageEvent} event */
  #heard = ({ origin, source, data }) => {
    if (origin !== this.origin || !this.#frame || source !== this.#frame.contentWindow) return;
    if (data?.corral !== 1) return;
    const settle = this.#open.get(data.number);
    this.#open.delete(data.number);
    settle?.(data);
  };

  open() {
    addEventListener("message", this.#heard);
    // A frame of this page's own origin could take its sandbox off.
    if (this.origin !== location.origin) this.#load();
  }

  close() {
    removeEventListener("message", this.#heard);
    this.#frame?.remove();
    this.#frame = null;
    this.#open.clear();
  }

  /**
   * @param {"summary" | "search"} ask
   * @param {string} [words]
   * @returns {Promise<unknown>}
   */
  ask(ask, words = "") {
    this.#number += 1;
    const number = this.#number;
    const answered = new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        this.#open.delete(number);
        // It may be a browser's own page about a server that was not there: try it again.
        if (this.#frame) this.#load();
        reject(new Unanswered("silent"));
      }, ANSWER_MS);
      this.#open.set(number, (answer) => {
        clearTimeout(late);
        if ("data" in answer) resolve(answer.data);
        else reject(new Unanswered(text(answer.why) || "odd", text(answer.message)));
      });
    });
    this.#loaded.then(() => {
      const message = { corral: 1, number, ask, text: words };
      if (this.#open.has(number)) this.#frame?.contentWindow?.postMessage(message, this.origin);
    });
    return answered;
  }
}
