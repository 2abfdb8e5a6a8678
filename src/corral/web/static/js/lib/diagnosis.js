// A failure that the doctor knows: its cause, its fix, and the lines that show it.
import { coded, el } from "./view.js";
/** @import { Diagnosis } from "../api.js" */

/** @param {{ finding: Diagnosis }} props */
export function FindingView({ finding: { title, name, nodes, detail, cause, fix, evidence } }) {
  const shown = el("pre", { tabIndex: 0 }, evidence.join("\n"));
  return el(
    "article",
    { class: "finding" },
    el("h3", null, title || name),
    el(
      "p",
      { class: "row" },
      nodes.length ? el("span", { class: "dim" }, nodes.join(", ")) : null,
      detail && el("span", null, detail),
    ),
    cause && el("p", null, el("b", null, "Cause: "), coded(cause)),
    fix && el("p", null, el("b", null, "Fix: "), coded(fix)),
    evidence.length ? el("details", null, el("summary", null, "Evidence"), shown) : null,
  );
}
