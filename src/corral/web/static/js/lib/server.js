// Questions to the page's server.
/** @import { Failure } from "../api.js" */

// The session's second secret, next to its cookie. The storage is this origin's, so that it goes to
// no other port of the host, as cookies do; all tabs share it.
const SECRET = "session";
let kept = "";

/** @param {string} text */
export function setSecret(text) {
  kept = text;
  try {
    if (text) localStorage.setItem(SECRET, text);
    else localStorage.removeItem(SECRET);
  } catch {
    // A private window without storage: this tab alone keeps it.
  }
}

function secret() {
  try {
    return localStorage.getItem(SECRET) || kept;
  } catch {
    return kept;
  }
}

/**
 * The address of what a browser asks for without headers: events, a download, a frame.
 * @param {string} path
 */
export async function ticketed(path) {
  /** @type {{ ticket: string }} */
  const { ticket } = await call("ticket", {});
  return `api/${path}${path.includes("?") ? "&" : "?"}ticket=${ticket}`;
}

// What a page asks on a timer keeps no session alive that nobody uses.
const ATTENDED_MS = 60000;
let touched = Date.now();

/** Notes that somebody uses this tab. */
export const touch = (at = Date.now()) => {
  touched = at;
};

/** Notes when somebody last used this tab. */
export function attend() {
  const note = () => touch();
  for (const name of ["pointerdown", "pointermove", "keydown", "wheel"]) {
    addEventListener(name, note, { capture: true, passive: true });
  }
}

/** A request that failed, and why. */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {Partial<Failure>} failure
   */
  constructor(status, failure) {
    super(failure.message || `the server answered ${status}`);
    this.status = status;
    this.code = failure.code || "";
    this.hint = failure.hint || "";
    this.tail = failure.tail || "";
    this.node = failure.node || "";
    this.fields = failure.fields || {};
  }
}

/**
 * What went wrong, whatever was thrown.
 * @param {unknown} thrown
 * @returns {Refused}
 */
export function refused(thrown) {
  if (thrown instanceof Refused) return thrown;
  return new Refused(0, { message: thrown instanceof Error ? thrown.message : String(thrown) });
}

const AGAIN_MS = 2000;
const LONGEST_MS = 60000;
const TOO_MANY = 429;
const SERVER = 500;

/**
 * Milliseconds until a failed question is asked again; null: its answer would be the same.
 * @param {Refused} failure
 * @param {number} tries before this one
 */
export function pauseAfter({ status }, tries) {
  if (status && status !== TOO_MANY && status < SERVER) return null;
  return Math.min(AGAIN_MS * 2 ** tries, LONGEST_MS);
}

/**
 * @param {unknown} body
 * @param {string | undefined} method
 * @param {number} limit
 */
function request(body, method, limit) {
  const verb = method || (body === undefined ? "GET" : "POST");
  /** @type {Record<string, string>} */
  const headers = {};
  if (secret()) headers["X-CSRF-Token"] = secret();
  if (Date.now() - touched > ATTENDED_MS) headers["X-Unattended"] = "1";
  /** @type {RequestInit} */
  const options = { method: verb, headers, credentials: "same-origin" };
  if (limit) options.signal = AbortSignal.timeout(limit);
  if (verb === "GET") return options;
  headers["Content-Type"] = "application/json";
  return { ...options, body: JSON.stringify(body ?? {}) };
}

/**
 * The answer to one request; its type is the caller's (`api.d.ts`).
 * @template T
 * @param {string} path
 * @param {unknown} [body]
 * @param {string} [method]
 * @param {number} [limit] milliseconds until an answer counts as lost; 0: as long as it takes
 * @returns {Promise<T>}
 */
export async function call(path, body, method, limit = 0) {
  const asked = secret();
  let reply;
  let data;
  try {
    reply = await fetch(`api/${path}`, request(body, method, limit));
    data = await reply.json().catch((error) => {
      if (error instanceof SyntaxError) return {}; // no JSON, as of a proxy between
      throw error; // the limit, or a lost connection, ended the answer
    });
  } catch {
    throw new Refused(0, {
      message: "the page's server does not answer",
      hint: "is corral ui still running?",
    });
  }
  if (reply.ok) return data;
  // Of a question from before a login, an answer may come behind it.
  if (reply.status === 401 && !path.startsWith("login") && secret() === asked) {
    document.dispatchEvent(new Event("loggedout"));
  }
  throw new Refused(reply.status, data.error || {});
}

/** The answers of one place, in the order of its questions: one that comes after a later question
 * was asked, or after drop(), is not shown. */
export class Latest {
  #asked = 0;

  /**
   * @template T
   * @param {Promise<T>} answer
   * @param {(answer: T) => void} show
   * @param {(failure: Refused) => void} fail
   */
  async take(answer, show, fail) {
    this.#asked += 1;
    const mine = this.#asked;
    try {
      const data = await answer;
      if (mine === this.#asked) show(data);
    } catch (error) {
      if (mine === this.#asked) fail(refused(error));
    }
  }

  drop() {
    this.#asked += 1;
  }
}

/**
 * Rows of named columns become objects; a plain loop, as 10,000 nodes have 210,000 values.
 * @template T
 * @param {string[]} columns
 * @param {unknown[][]} list
 * @returns {T[]}
 */
export function records(columns, list) {
  return list.map((row) => {
    /** @type {Record<string, unknown>} */
    const made = {};
    for (let i = 0; i < columns.length; i += 1) made[columns[i]] = row[i];
    return /** @type {T} */ (made);
  });
}

/**
 * The same, of the values of each column.
 * @template T
 * @param {string[]} columns
 * @param {unknown[][]} values
 * @returns {T[]}
 */
export function transposed(columns, values) {
  return (values[0] ?? []).map((_, row) => {
    /** @type {Record<string, unknown>} */
    const made = {};
    for (let i = 0; i < columns.length; i += 1) made[columns[i]] = values[i][row];
    return /** @type {T} */ (made);
  });
}
