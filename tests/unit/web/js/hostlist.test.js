import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { expand } from "../../../../src/corral/web/static/js/lib/hostlist.js";

/** The Python reader's cases (tests/unit/spec/test_hostlist.py).
 * @type {{ names: Record<string, string[]>, broken: string[] }} */
const CASES = JSON.parse(readFileSync("tests/unit/spec/slurm/hostlists.json", "utf8"));

for (const [text, names] of Object.entries(CASES.names)) {
  test(`the hostlist "${text}" is read as Corral reads it`, () =>
    assert.deepEqual(expand(text), names));
}

for (const text of CASES.broken) {
  test(`"${text}" is not a hostlist`, () => assert.equal(expand(text), null));
}
