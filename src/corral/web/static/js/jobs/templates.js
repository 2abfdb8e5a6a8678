// Job files that are kept, for all or by a team: a choice above the form, and what is wrong with those that cannot be read.
import { h } from "../../vendor/preact.mjs";
import { el } from "../lib/view.js";
/** @import { JobTemplate, JobTemplates } from "../api.js" */

/** What it is chosen by: teams may have files of one name. @param {JobTemplate} template */
export const keyOf = ({ account, name }) => (account ? `${account}/${name}` : name);

/** @param {JobTemplate} template */
function wordsOf({ account, name, owner }) {
  const plain = name.replace(/\.ya?ml$/, "");
  return account ? `${account}: ${plain} (of ${owner})` : plain;
}

/**
 * @param {{ kept: JobTemplates, chosen: string, choose: (template: JobTemplate | null) => void }} props
 */
export function TemplateChoice({ kept: { folder, trouble, templates }, chosen, choose }) {
  if (!templates.length && !trouble) return null;
  const good = templates.filter(({ fault }) => !fault);
  const option = (/** @type {string} */ name, /** @type {string} */ words) =>
    el("option", { key: name, value: name, selected: name === chosen }, words);
  const onChange = (/** @type {{ currentTarget: HTMLSelectElement }} */ { currentTarget }) =>
    choose(good.find((template) => keyOf(template) === currentTarget.value) ?? null);
  const select = el(
    "select",
    { id: "template", onChange, disabled: !good.length },
    option("", good.length ? "none" : "none can be read"),
    good.map((template) => option(keyOf(template), wordsOf(template))),
  );
  const of = templates.some(({ account }) => account)
    ? "for all users or by your team"
    : "for all users";
  const about = `A job file of ${folder}, kept ${of}. It replaces what is filled in.`;
  return el(
    "div",
    { class: "templates" },
    el("label", null, "template", el("small", null, about), select),
    h(Faults, { trouble, broken: templates.filter(({ fault }) => fault) }),
  );
}

/** @param {{ trouble: string, broken: JobTemplate[] }} props */
function Faults({ trouble, broken }) {
  if (!trouble && !broken.length) return null;
  const lines = broken.map((template) =>
    el(
      "li",
      { key: keyOf(template) },
      el("code", null, keyOf(template)),
      ` cannot be used: ${template.fault}`,
    ),
  );
  return el(
    "ul",
    { class: "reason notes" },
    trouble ? el("li", { key: "trouble" }, `Templates: ${trouble}`) : null,
    lines,
  );
}
