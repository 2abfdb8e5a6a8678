import assert from "node:assert/strict";
import { test } from "node:test";
import {
  call,
  Latest,
  pauseAfter,
  Refused,
  setSecret,
  touch,
} from "../../../../src/corral/web/static/js/lib/server.js";

/**
 * The server's answer to the next questions.
 * @param {(signal: AbortSignal | null | undefined) => Response} answer
 */
function answered(answer) {
  globalThis.fetch = async (_, options) => answer(options?.signal);
}

test("an answer that the limit ends in the middle of its body is lost, not empty", async () => {
  answered((signal) => {
    const body = new ReadableStream({
      start(stream) {
        stream.enqueue(new TextEncoder().encode('{"rows": ['));
        signal?.addEventListener("abort", () => stream.error(signal.reason));
      },
    });
    return new Response(body);
  });
  const lost = (/** @type {Refused} */ { status, message }) =>
    status === 0 && message === "the page's server does not answer";
  await assert.rejects(call("me", undefined, undefined, 20), lost);
});

test("an answer without JSON is empty, as of a proxy between", async () => {
  answered(() => new Response("<html>"));
  assert.deepEqual(await call("me"), {});
  answered(() => new Response("<html>", { status: 502 }));
  await assert.rejects(call("me"), (/** @type {Refused} */ { status }) => status === 502);
});

test("what does not answer is asked again, each time later; a refusal is final", () => {
  const pauses = (/** @type {number} */ status) =>
    [0, 1, 2, 10].map((tries) => pauseAfter(new Refused(status, {}), tries));
  for (const status of [0, 429, 503]) assert.deepEqual(pauses(status), [2000, 4000, 8000, 60000]);
  for (const status of [400, 403, 404]) assert.deepEqual(pauses(status), [null, null, null, null]);
});

test("a session that an answer knows nothing of does not end by it", async () => {
  const ended = new EventTarget();
  let times = 0;
  ended.addEventListener("loggedout", () => (times += 1));
  globalThis.document = /** @type {Document} */ (ended);
  const refusal = (/** @type {Refused} */ { status }) => status === 401;
  setSecret("");
  answered(() => {
    setSecret("of a login meanwhile");
    return new Response("{}", { status: 401 });
  });
  await assert.rejects(call("nodes"), refusal);
  assert.equal(times, 0);
  answered(() => new Response("{}", { status: 401 }));
  await assert.rejects(call("nodes"), refusal);
  assert.equal(times, 1);
});

test("what is only read is asked for again where the connection breaks; what changes something is not", async () => {
  /** @type {string[]} */
  const asked = [];
  globalThis.fetch = async (address, options) => {
    asked.push(`${options?.method} ${address}`);
    if (asked.length % 2) throw new TypeError("Failed to fetch");
    return new Response('{"rows": 1}');
  };
  assert.deepEqual(await call("jobs"), { rows: 1 });
  assert.deepEqual(asked.splice(0), ["GET api/jobs", "GET api/jobs"]);
  assert.deepEqual(await call("login/code", {}), { rows: 1 });
  assert.deepEqual(asked.splice(0), ["POST api/login/code", "POST api/login/code"]);
  await assert.rejects(
    call("jobs/1", { do: "cancel" }),
    (/** @type {Refused} */ { status }) => status === 0,
  );
  assert.deepEqual(asked, ["POST api/jobs/1"]);
});

test("answers slower than their questions are shown, one after the other", async () => {
  /** @type {((reply: Response) => void)[]} */
  const open = [];
  globalThis.fetch = () =>
    new Promise((resolve) => {
      open.push(resolve);
    });
  const settled = () =>
    new Promise((resolve) => {
      setTimeout(resolve, 5);
    });
  /** @type {number[]} */
  const shown = [];
  const newest = new Latest();
  const ask = (/** @type {string} */ path) =>
    newest.ask(
      path,
      (/** @type {{ n: number }} */ { n }) => shown.push(n),
      () => assert.ok(false),
    );
  for (let n = 0; n < 5; n += 1) ask("jobs");
  assert.equal(open.length, 1);
  open[0](new Response('{"n": 1}'));
  await settled();
  assert.deepEqual(
    [shown, open.length],
    [[1], 2],
    "asked once more for the four that came meanwhile",
  );
  ask("jobs?q=other");
  open[1](new Response('{"n": 2}'));
  open[2](new Response('{"n": 3}'));
  await settled();
  assert.deepEqual([shown, open.length], [[1, 3], 3], "of the question before nothing is shown");
  ask("jobs");
  newest.drop();
  open[3](new Response('{"n": 4}'));
  await settled();
  assert.deepEqual(shown, [1, 3]);
});

test("a page that fills the screen is in use, though nobody touches it", async () => {
  /** @type {(string | null)[]} */
  const unattended = [];
  globalThis.fetch = async (_, options) => {
    unattended.push(new Headers(options?.headers).get("X-Unattended"));
    return new Response("{}");
  };
  touch(Date.now() - 120_000);
  for (const fullscreenElement of [null, {}]) {
    globalThis.document = /** @type {Document} */ ({ fullscreenElement });
    await call("nodes");
  }
  assert.deepEqual(unattended, ["1", null]);
  touch();
});
