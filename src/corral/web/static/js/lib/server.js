// Questions to the page's server.
/** @import { Failure } from "../api.js" */

// The session's second secret, next to its cookie. The storage is this origin's, so that it goes to
// no other port of the host, as cookies do; all tabs share it. Pages below other paths have their own.
const FOLDER = typeof location === "undefined" ? "/" : location.pathname.replace(/[^/]*$/, "");
const SECRET = FOLDER === "/" ? "session" : `session ${FOLDER}`;
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
  const { ticket } = await call("ticket", {}, undefined, TICKET_MS);
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

// A screen that it fills is on a wall.
const idle = () => Date.now() - touched > ATTENDED_MS && !globalThis.document?.fullscreenElement;

const TICKET_MS = 30000;
// What is only read is not waited for longer: each question holds one of the browser's connections.
const READ_MS = 120000;

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
 * @param {number | undefined} most
 */
function request(body, method, most) {
  const verb = method || (body === undefined ? "GET" : "POST");
  const limit = most ?? (verb === "GET" ? READ_MS : 0);
  /** @type {Record<string, string>} */
  const headers = {};
  if (secret()) headers["X-CSRF-Token"] = secret();
  if (idle()) headers["X-Unattended"] = "1";
  /** @type {RequestInit} */
  const options = { method: verb, headers, credentials: "same-origin" };
  if (limit) options.signal = AbortSignal.timeout(limit);
  if (verb === "GET") return options;
  headers["Content-Type"] = "application/json";
  return { ...options, body: JSON.stringify(body ?? {}) };
}

// A browser breaks what it just opens whenever a network appears or goes on its machine, which a
// container's start or a VPN does (ERR_NETWORK_CHANGED): the same again is answered.
const BROKEN_MS = [300, 1500];

/**
 * @param {string} path
 * @param {RequestInit} options
 * @param {number} [tries] before this one
 * @returns {Promise<[Response, any]>}
 */
async function fetched(path, options, tries = 0) {
  try {
    const reply = await fetch(`api/${path}`, options);
    const data = await reply.json().catch((error) => {
      if (error instanceof SyntaxError) return {}; // no JSON, as of a proxy between
      throw error; // the limit, or a lost connection, ended the answer
    });
    return [reply, data];
  } catch (error) {
    // What changes something may have arrived.
    const repeated = options.method === "GET" || path === "ticket" || path.startsWith("login");
    if (!repeated || options.signal?.aborted || tries >= BROKEN_MS.length) throw error;
  }
  await new Promise((resolve) => {
    setTimeout(resolve, BROKEN_MS[tries]);
  });
  return fetched(path, options, tries + 1);
}

/**
 * The answer to one request; its type is the caller's (`api.d.ts`).
 * @template T
 * @param {string} path
 * @param {unknown} [body]
 * @param {string} [method]
 * @param {number} [limit] milliseconds until an answer counts as lost; else two minutes for what is only
 *   read, as long as it takes for the rest
 * @returns {Promise<T>}
 */
export async function call(path, body, method, limit) {
  const asked = secret();
  let reply;
  let data;
  try {
    [reply, data] = await fetched(path, request(body, method, limit));
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
  #pending = "";
  #again = false;

  /**
   * Asks again what this place shows. While the same question waits for its answer it is not asked once
   * more, but behind that: with answers slower than its questions nothing would be shown.
   * @template T
   * @param {string} path
   * @param {(answer: T) => void} show
   * @param {(failure: Refused) => void} fail
   * @returns {Promise<void>}
   */
  async ask(path, show, fail) {
    this.#again = this.#pending === path;
    if (this.#again) return;
    this.#pending = path;
    const mine = this.#asked + 1;
    /** @type {Promise<T>} */
    const answered = call(path);
    await this.take(answered, show, fail);
    if (mine !== this.#asked) return;
    this.#pending = "";
    if (this.#again) await this.ask(path, show, fail);
  }

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
    this.#pending = "";
    this.#again = false;
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
