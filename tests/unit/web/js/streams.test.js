import assert from "node:assert/strict";
import { test } from "node:test";
import { stream } from "../../../../src/corral/web/static/js/lib/streams.js";

class Source extends EventTarget {
  static CLOSED = 2;
  readyState = 1;
  close() {
    this.readyState = Source.CLOSED;
  }
}
globalThis.EventSource = /** @type {any} */ (Source);
const pause = (/** @type {number} */ ms) =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
  });

test("a stream that sends nothing for long is lost, once", async () => {
  let lost = 0;
  const source = stream("events", () => (lost += 1), 40);
  for (let n = 0; n < 4; n += 1) {
    await pause(20);
    source.dispatchEvent(new Event("message"));
  }
  assert.equal(lost, 0);
  await pause(80);
  assert.deepEqual([lost, source.readyState], [1, Source.CLOSED]);
  source.dispatchEvent(new Event("error"));
  assert.equal(lost, 1);
});

test("one that was closed here is not lost", async () => {
  let lost = 0;
  const source = stream("events", () => (lost += 1), 20);
  source.dispatchEvent(new Event("open"));
  source.close();
  await pause(60);
  source.dispatchEvent(new Event("error"));
  assert.equal(lost, 0);
});
