// What is typed on Submit is kept, but no secret.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Draft, secretive } from "../../../../src/corral/web/static/js/jobs/drafts.js";

const PLAIN = [
  "#!/bin/bash\n#SBATCH --nodes=1\nsrun python train.py --lr 1e-3 --tokenizer gpt2",
  "export TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=8",
  "python prepare.py --max-tokens 4096 --tokens=10,000",
  "export HF_TOKEN=$(cat ~/.token) WANDB_API_KEY=$KEY",
  "key=value keys: a b",
  "srun -u python a.py",
];
const SECRETS = [
  "export HF_TOKEN=hf_abcdef",
  "A=1 DB_PASSWORD='x y' B=2",
  '{"api_key": "abc"}',
  "curl -H 'Authorization: Bearer abc.def'",
  "login --password hunter2",
  "git clone https://kim:abc@example.org/repo",
  "-----BEGIN OPENSSH PRIVATE KEY-----",
  "export SSH_KEY=abc",
  "curl -u kim:hunter2 https://example.org",
];

test("a text with a secret is known by the names that the server hides", () => {
  for (const text of PLAIN) assert.equal(secretive(text), false, text);
  for (const text of SECRETS) assert.equal(secretive(text), true, text);
});

test("a long word takes no longer than as many short ones", () => {
  const long = ["a", "-", "=", "a=", "--a ", "BEGIN ", " "].map((s) => s.repeat(300000 / s.length));
  const begin = performance.now();
  for (const text of long) assert.equal(secretive(text), false);
  assert.ok(performance.now() - begin < 5000);
  assert.equal(secretive(`${"x".repeat(300)}_TOKEN=abc`), true);
});

test("a draft is its user's, and of one form", () => {
  /** @type {Map<string, string>} */
  const kept = new Map();
  /** @type {any} */ (globalThis).sessionStorage = {
    getItem: (/** @type {string} */ key) => kept.get(key) ?? null,
    setItem: (/** @type {string} */ key, /** @type {string} */ text) => kept.set(key, text),
    removeItem: (/** @type {string} */ key) => kept.delete(key),
  };
  const draft = new Draft("kim", "script");
  assert.equal(draft.kept, null);
  draft.keep({ script: "x" });
  assert.deepEqual(new Draft("kim", "script").kept, { script: "x" });
  assert.equal(new Draft("ada", "script").kept, null);
  assert.equal(new Draft("kim", "script 7").kept, null);
  draft.clear();
  assert.equal(draft.kept, null);
  kept.set(draft.key, "not JSON");
  assert.equal(draft.kept, null);
  delete (/** @type {any} */ (globalThis).sessionStorage);
  draft.keep({ script: "y" });
  assert.equal(draft.kept, null);
});
