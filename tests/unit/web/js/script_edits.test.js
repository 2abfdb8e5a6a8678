import assert from "node:assert/strict";
import { test } from "node:test";
import {
  chosenIn,
  withEnvironment,
  withImage,
} from "../../../../src/corral/web/static/js/jobs/script_edits.js";
import {
  placedFaults,
  ScriptEnvironment,
} from "../../../../src/corral/web/static/js/jobs/submit.js";
import { texts } from "./records.js";

const SCRIPT = "#!/bin/bash\n#SBATCH --nodes=1\n\nsrun hostname\n  time srun -n 2 python a.py\n";

test("an image is on each srun line, and is changed and taken away again", () => {
  const first = withImage(SCRIPT, "/shared/images/a b.sqsh");
  assert.equal(first.lines, 2);
  assert.match(first.script, /^srun --container-image='\/shared\/images\/a b.sqsh' hostname$/m);
  assert.match(first.script, /^ {2}time srun --container-image='[^']+' -n 2 python a.py$/m);
  assert.equal(chosenIn(first.script).image, "/shared/images/a b.sqsh");
  const second = withImage(first.script, "nvcr.io#nvidia/pytorch:26.04");
  assert.equal(chosenIn(second.script).image, "nvcr.io#nvidia/pytorch:26.04");
  assert.equal(second.script.match(/--container-image/g)?.length, 2);
  assert.equal(withImage(second.script, "").script, SCRIPT);
});

test("a line that names an image elsewhere, a comment and another program stay as they are", () => {
  const text = "#!/bin/sh\n# srun a\nsrun -n 1 --container-image=x a\nsrunner b\necho srun c\n";
  assert.deepEqual(withImage(text, "/i.sqsh"), { script: text, lines: 0 });
});

test("an environment is first in PATH behind the lines that sbatch reads", () => {
  const first = withEnvironment(SCRIPT, "/shared/envs/torch");
  assert.ok(
    first.startsWith(
      "#!/bin/bash\n#SBATCH --nodes=1\n\nexport PATH=/shared/envs/torch/bin:$PATH\n",
    ),
  );
  const second = withEnvironment(first, "/shared/envs/jax");
  assert.equal(chosenIn(second).python, "/shared/envs/jax");
  assert.equal(second.match(/export PATH/g)?.length, 1);
  assert.equal(withEnvironment(second, ""), SCRIPT);
});

test("a refusal is at its field, and at the line of the script that asks for it", () => {
  const read = {
    fields: { partition: { line: 3, value: "gone" } },
    others: [{ line: 4, text: "--constraint=ib", field: "" }],
    ...{ faults: [], sbatch: [], ignored: [], jobs: 1, at_once: null },
  };
  /** @type {any} */
  const values = { partition: "gone", account: "lab" };
  const faults = { partition: "bad p", account: "bad a", constraint: "bad c", mem: "bad m" };
  assert.deepEqual(placedFaults(faults, values, read), {
    atField: { partition: "bad p", account: "bad a" },
    atLine: [
      { line: 3, text: "bad p" },
      { line: 4, text: "--constraint=ib: bad c" },
    ],
    left: ["mem: bad m"],
  });
  const typed = placedFaults({ partition: "bad p" }, { ...values, partition: "other" }, read);
  assert.deepEqual(typed.atLine, []);
});

test("without srun there is no image to choose, and without containers no field for it", () => {
  const environments = { images: [], pythons: [], cut: false };
  const props = { script: "#!/bin/sh\nhostname\n", containers: true, environments, edit: () => {} };
  assert.match(texts(ScriptEnvironment(props)), /no srun line/);
  assert.doesNotMatch(texts(ScriptEnvironment({ ...props, containers: false })), /image/);
  assert.equal(ScriptEnvironment({ ...props, environments: null }), null);
});
