// The choice of an hour, a day or a week, for all that shows a past.
import { el } from "./view.js";

/** @type {[string, string][]} */
const CHOICES = [
  ["hour", "Hour"],
  ["day", "Day"],
  ["week", "Week"],
];
export const SPANS = CHOICES.map(([span]) => span);

/**
 * @param {{ span: string, choose: (span: string) => void, label: string }} props
 */
export function SpanChips({ span, choose, label }) {
  const chips = CHOICES.map(([key, words]) =>
    el(
      "button",
      {
        key,
        class: "chip",
        "data-key": key,
        "aria-pressed": key === span ? "true" : "false",
        onClick: () => choose(key),
      },
      words,
    ),
  );
  return el("div", { class: "row", role: "group", "aria-label": label }, chips);
}
