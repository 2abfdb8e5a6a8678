import assert from "node:assert/strict";
import { test } from "node:test";
import {
  meaningsOf,
  byHand,
  HowToChange,
  Limits,
} from "../../../../src/corral/web/static/js/cluster/policy.js";
import {
  changedFields,
  dialogFields,
  nextUid,
} from "../../../../src/corral/web/static/js/operations/policy_edits.js";
import { texts } from "./records.js";

const LIMITS = [
  { name: "GrpTRES", bounds: "together", resource: "gres/gpu", value: 8 },
  { name: "GrpTRES", bounds: "together", resource: "cpu", value: 64 },
  { name: "GrpJobs", bounds: "jobs running together", resource: "", value: 3 },
];

test("a limit that the file does not have is by hand, and one that Slurm does not have is named", () => {
  const declared = { "GrpTRES=gres/gpu": 4, "GrpTRES=cpu": 64, GrpSubmitJobs: 9 };
  const { set, gone } = byHand(LIMITS, declared);
  assert.deepEqual([...set], ["GrpTRES=gres/gpu=8", "GrpJobs=3"]);
  assert.deepEqual(gone, ["GrpSubmitJobs=9"]);
  const words = texts(Limits({ limits: LIMITS, declared }));
  assert.equal(words.split("by hand").length - 1, 3);
  assert.match(words, /GrpSubmitJobs=9 of the file is not set/);
  assert.doesNotMatch(texts(Limits({ limits: LIMITS })), /by hand/);
});

test("only what was changed is sent, an emptied field as empty", () => {
  const before = { uid: "2001", "limits.gpus": "4", account: "vision" };
  const values = { uid: "2001", "limits.gpus": "", account: " vision ", qos: "high", home: "" };
  assert.deepEqual(changedFields(values, before), { "limits.gpus": "", qos: "high" });
});

test("the dialog has the file's fields, and a new user the next number", () => {
  const field = { about: "", choices: [], required: false };
  const fields = dialogFields(
    [
      { ...field, name: "uid", kind: "number", required: true },
      { ...field, name: "admin", kind: "flag" },
    ],
    { uid: "2001" },
  );
  assert.deepEqual(
    fields.map(({ name, value, optional, choices }) => [name, value, optional, choices]),
    [
      ["uid", "2001", false, undefined],
      ["admin", "", true, ["", "true", "false"]],
    ],
  );
  assert.equal(nextUid({ ada: { uid: "2001" }, bob: { uid: "2007" }, eve: {} }), "2008");
  assert.equal(nextUid({}), "2001");
});

test("who may change the file reads nothing else while the file is read", () => {
  const reading = texts(HowToChange({ why: "", reading: true }));
  assert.match(reading, /is read/);
  assert.doesNotMatch(reading, /changes nothing/);
  assert.match(texts(HowToChange({ why: "", reading: false })), /changes nothing here/);
});

test("a cluster without a file that the page knows of is changed by Slurm's own commands", () => {
  const steps = (/** @type {string} */ tab) =>
    texts(HowToChange({ why: "", reading: false, tab, filed: false }));
  assert.match(steps("qos"), /Slurm's administrators may, on a node: sacctmgr modify qos/);
  assert.doesNotMatch(steps("qos"), /corral/);
  assert.match(steps("licenses"), /nothing to change here/);
});

test("where the file is not here it is stated who does what, for each tab", () => {
  const steps = (/** @type {string} */ tab, role = "user") =>
    texts(HowToChange({ why: "", reading: false, tab, role }));
  assert.match(steps("qos"), /corral edit qos NAME priority=10 and then corral up/);
  assert.match(steps("qos"), /Slurm's administrators may, on a node: sacctmgr modify qos/);
  assert.match(steps("qos", "administrator"), /As Slurm's administrator you may, on a node: /);
  assert.doesNotMatch(steps("qos", "operator"), /you may/);
  assert.match(steps("accounts"), /coordinators of the account for its users, may, on a node: /);
  assert.match(steps("accounts", "operator"), /As Slurm's operator you may, on a node: sacctmgr/);
  assert.match(steps("reservations", "operator"), /operator you may, on a node: scontrol update/);
  assert.match(steps("reservations"), /set back by the next corral up/);
  assert.doesNotMatch(steps("licenses"), /on a node/);
  assert.match(steps("scheduler"), /nothing to change/);
});

test("the limits that a table has are explained, and no others", () => {
  const limits = [
    { name: "GrpTRES", bounds: "together", means: "all jobs hold at most so much" },
    { name: "MaxWall", bounds: "time limit of each job", means: "at most so long" },
  ];
  const words = texts(meaningsOf(limits, new Set(["MaxWall"])));
  assert.equal(words, "time limit of each job (MaxWall) at most so long.");
});
