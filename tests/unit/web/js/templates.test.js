import assert from "node:assert/strict";
import { test } from "node:test";
import { SubmitCard } from "../../../../src/corral/web/static/js/jobs/submit.js";
import { TemplateChoice } from "../../../../src/corral/web/static/js/jobs/templates.js";
import { shown, texts } from "./records.js";
/** @import { JobTemplate, JobTemplates } from "../../../../src/corral/web/static/js/api.js" */

/** @param {string} name @param {Partial<JobTemplate>} [more] @returns {JobTemplate} */
const template = (name, more = {}) => ({
  ...{ name, account: "", owner: "root", form: {}, notes: {}, fault: "", ...more },
});
const GOOD = template("train.yaml", { form: { script: "/shared/t.py", nodes: 4 } });
const BROKEN = template("<b>.yml", { fault: "/shared/x.yml:3:1: nodse: no such field" });
/** @param {JobTemplate[]} templates @param {string} [trouble] @returns {JobTemplates} */
const kept = (templates, trouble = "") => ({
  ...{ folder: "/shared/corral/templates", trouble, templates },
});

test("good templates are choices, broken ones are listed with what is wrong", () => {
  const props = { kept: kept([BROKEN, GOOD]), chosen: "", choose: () => {} };
  const words = texts(TemplateChoice(props));
  assert.match(words, /none train /);
  assert.match(words, /x.yml:3:1: nodse: no such field/);
  assert.equal(shown(TemplateChoice(props)).match(/<option/g)?.length, 2);
  assert.equal(TemplateChoice({ ...props, kept: kept([]) }), null);
});

test("a team's files have its account and their owner, and two may have one name", () => {
  const own = template("train.yaml", { account: "vision", owner: "ada" });
  const closed = template("", { account: "nlp", fault: "it is not a plain folder" });
  /** @type {JobTemplate[]} */
  const chosen = [];
  /** @param {JobTemplate | null} each */
  const choose = (each) => void (each && chosen.push(each));
  const props = { kept: kept([GOOD, own, closed]), chosen: "vision/train.yaml", choose };
  const words = texts(TemplateChoice(props));
  assert.match(words, /none train vision: train \(of ada\)/);
  assert.match(words, /for all users or by your team/);
  assert.match(words, /nlp\/ cannot be used: it is not a plain folder/);
});

test("a folder that is not taken is stated, and that no template can be read", () => {
  const props = { chosen: "", choose: () => {} };
  const refusal = "/shared/corral/templates belongs to kim";
  assert.match(texts(TemplateChoice({ ...props, kept: kept([], refusal) })), /belongs to kim/);
  const made = shown(TemplateChoice({ ...props, kept: kept([BROKEN]) }));
  assert.match(made, /none can be read/);
  assert.match(made, /<select disabled/);
});

test("the choice fills the form again, and none empties it", () => {
  /** @type {any} */
  const props = {
    form: { can_spec: true, schema: {}, storage: [] },
    again: null,
    me: { user: "kim" },
  };
  props.query = new URLSearchParams();
  const card = new SubmitCard(props);
  card.setState = (/** @type {any} */ change) => Object.assign(card.state, change);
  card.setState({ kept: kept([GOOD, BROKEN]) });
  const parts = () => /** @type {any[]} */ (card.filled());
  const [choice, empty] = parts();
  assert.deepEqual(empty.props.given, { form: {}, notes: {} });
  choice.props.choose(GOOD);
  const [, filled] = parts();
  assert.equal(filled.props.given, GOOD);
  assert.ok(filled.key !== empty.key); // inputs take their first value once
  choice.props.choose(null);
  assert.equal(parts()[1].key, empty.key);
  const again = new SubmitCard({ ...props, again: { form: {}, notes: {}, mode: "form" } });
  assert.equal(/** @type {any[]} */ (again.filled())[0], null); // what the job was stays
});
