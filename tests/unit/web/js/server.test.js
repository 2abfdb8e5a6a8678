import assert from "node:assert/strict";
import { test } from "node:test";
import {
  call,
  pauseAfter,
  Refused,
  setSecret,
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
