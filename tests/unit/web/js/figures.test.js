import assert from "node:assert/strict";
import { test } from "node:test";
import { figuresOf } from "../../../../src/corral/web/static/js/lib/event_stream.js";

test("figures of each node are read out of columns, and what is not there is not zero", () => {
  const data = {
    names: "n[08-09],x",
    columns: ["celsius", "gpu"],
    values: [
      [61, null, 40],
      [null, null, 0],
    ],
  };
  assert.deepEqual(figuresOf(data), { n08: { celsius: 61 }, n09: {}, x: { celsius: 40, gpu: 0 } });
});
