// What Corral does for this page in the background: its events as they come, and its end.
import { call, el, fill, many, ticketed } from "./dom.js";

const WORDS = {
  "stage-started": "stage",
  "stage-done": "stage done",
  "stage-failed": "stage failed",
  "node-failed": "failed",
  "change-done": "done",
  "check-done": "checked",
  "phase-started": "begin",
  "phase-done": "end",
  note: "note",
};
const QUIET = new Set(["change-started", "node-started", "node-done", "check-started"]);

// Follows what is under way; gives its result, or throws its error.
export async function follow(target) {
  const source = new EventSource(await ticketed("corral/work/events"));
  return new Promise((resolve, reject) => {
    const list = el("ul", { class: "plain events", "aria-live": "polite" }),
      head = el("p", { class: "dim", role: "status", text: "begins…" });
    let done = 0;
    fill(target, head, list);
    source.onmessage = (event) => {
      for (const one of JSON.parse(event.data).events) {
        if (QUIET.has(one.kind)) continue;
        done += 1;
        const text = [one.subject, one.node && `on ${one.node}`, one.message]
          .filter(Boolean)
          .join(" ");
        list.append(
          el(
            "li",
            { class: one.kind.endsWith("failed") ? "reason" : "" },
            el("span", { class: "dim", text: `${WORDS[one.kind] || one.kind}  ` }),
            text,
            one.seconds
              ? el("span", { class: "dim", text: `  ${one.seconds.toFixed(1)} s` })
              : null,
          ),
        );
        list.scrollTop = list.scrollHeight;
      }
      head.textContent = `under way, ${many(done, "event")}`;
    };
    source.addEventListener("end", (event) => {
      source.close();
      const told = JSON.parse(event.data);
      head.textContent = told.error
        ? "failed"
        : `done in ${(told.ended - told.begun).toFixed(1)} s`;
      if (told.error) reject(Object.assign(new Error(told.error.message), told.error));
      else resolve(told);
    });
    source.onerror = () => {
      source.close();
      reject(new Error("the connection broke; the work goes on"));
    };
  });
}

export async function underWay(what) {
  const told = await call("corral/work");
  return told.what === what && told.running ? told : null;
}

export function problem(error) {
  return el(
    "div",
    { class: "finding" },
    el("b", { text: error.message }),
    error.node && el("p", { class: "dim", text: `on ${error.node}` }),
    error.tail && el("pre", { text: error.tail }),
    error.hint && el("p", { text: error.hint }),
  );
}
