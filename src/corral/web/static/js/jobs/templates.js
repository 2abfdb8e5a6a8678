// Job files that are kept for all: a choice above the form, and what is wrong with those that cannot be read.
import { h } from "../../vendor/preact.mjs";
import { el } from "../lib/view.js";
/** @import { JobTemplate, JobTemplates } from "../api.js" */

/**
 * @param {{ kept: JobTemplates, chosen: string, choose: (template: JobTemplate | null) => void }} props
 */
export function TemplateChoice({ kept: { folder, trouble, templates }, chosen, choose }) {
  if (!templates.length && !trouble) return null;
  const good = templates.filter(({ fault }) => !fault);
  const option = (/** @type {string} */ name, /** @type {string} */ words) =>
    el("option", { key: name, value: name, selected: name === chosen }, words);
  const onChange = (/** @type {{ currentTarget: HTMLSelectElement }} */ { currentTarget }) =>
    choose(good.find(({ name }) => name === currentTarget.value) ?? null);
  const select = el(
    "select",
    { id: "template", onChange, disabled: !good.length },
    option("", good.length ? "none" : "none can be read"),
    good.map(({ name }) => option(name, name.replace(/\.ya?ml$/, ""))),
  );
  const about = `A job file of ${folder}, for all users. It replaces what is filled in.`;
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
  const lines = broken.map(({ name, fault }) =>
    el("li", { key: name }, el("code", null, name), ` cannot be used: ${fault}`),
  );
  return el(
    "ul",
    { class: "reason notes" },
    trouble ? el("li", { key: "trouble" }, `Templates: ${trouble}`) : null,
    lines,
  );
}
