// The cluster file with errors at their lines, the plan it leads to, and apply with live progress.
import { badge, call, complain, el, fill, latest, many } from "./dom.js";
import { follow, problem, underWay } from "./work.js";

const IMPACT = {
  none: "good",
  reload: "busy",
  restart: "warn",
  drain: "warn",
  reboot: "bad",
  recreate: "bad",
};

// A plan as it is read before it goes; apply takes the terminal's code.
export function showPlan(result, progress, found) {
  if (found.empty)
    return fill(
      result,
      el(
        "p",
        { class: "row" },
        badge("nothing to do", "good"),
        "The cluster is as the file declares.",
      ),
    );
  const changes = found.stages.reduce((n, s) => n + s.changes.length, 0);
  const code = el("input", {
    autocomplete: "off",
    inputMode: "numeric",
    maxLength: 6,
    "aria-label": "Code from the terminal",
    placeholder: "code",
  });
  code.style.width = "8rem";
  async function apply() {
    try {
      await call("corral/apply", { code: code.value });
    } catch (error) {
      return complain(error);
    }
    fill(result);
    try {
      await follow(progress);
      result.append(
        el(
          "p",
          { class: "row" },
          badge("applied", "good"),
          "Plan again to see that nothing is left to do.",
        ),
      );
    } catch (error) {
      result.append(problem(error));
    }
  }
  fill(
    result,
    el(
      "p",
      { class: "row" },
      badge(`worst impact: ${found.impact}`, IMPACT[found.impact]),
      `${many(found.machines.length, "machine")}, ${many(changes, "change")} in ${many(found.stages.length, "stage")}`,
    ),
    found.machines.length
      ? el(
          "ul",
          {},
          found.machines.map((m) => el("li", { text: `${m.node}: ${m.action}: ${m.summary}` })),
        )
      : null,
    found.stages.map((s) =>
      el(
        "section",
        {},
        el("h3", { text: `${s.name}: ${s.title}` }),
        el(
          "ul",
          { class: "plain" },
          s.changes.map(({ nodes, change }) =>
            el(
              "li",
              {},
              el(
                "details",
                {},
                el(
                  "summary",
                  {},
                  el("span", { class: "mono dim", text: `${nodes.join(",")}  ` }),
                  change.summary,
                  " ",
                  change.impact !== "none" && badge(change.impact, IMPACT[change.impact]),
                  change.refuses &&
                    el("span", { class: "reason", text: ` refused: ${change.refuses}` }),
                ),
                el(
                  "div",
                  { class: "two" },
                  el("pre", { text: change.before || "(nothing)" }),
                  el("pre", { text: change.after }),
                ),
              ),
            ),
          ),
        ),
      ),
    ),
    el(
      "form",
      {
        class: "row",
        onsubmit: (event) => {
          event.preventDefault();
          apply();
        },
      },
      el("span", { text: "The terminal in which corral ui runs shows a code:" }),
      code,
      el("button", { class: "main", text: "Apply exactly this plan" }),
    ),
  );
}

export async function planPage(main, me) {
  const file = await call("corral/file");
  const area = el("textarea", {
    class: "code",
    spellcheck: false,
    value: file.text,
    "aria-label": "Cluster file",
    wrap: "off",
  });
  const gutter = el("div", { class: "gutter code mono", "aria-hidden": "true" });
  const list = el("ul", { class: "plain" }),
    progress = el("div"),
    result = el("div");
  const button = el("button", { class: "main", text: "Plan", onclick: plan });
  main.append(
    el(
      "div",
      { class: "card" },
      el(
        "div",
        { class: "row between" },
        el("h2", { text: "Cluster file" }),
        el("code", {
          class: "dim",
          text: file.path || "not saved here: what you plan is applied from this page alone",
        }),
      ),
      el("div", { class: "editor" }, gutter, area),
      list,
      el("br"),
      el(
        "div",
        { class: "row" },
        el(
          "label",
          { class: "button" },
          "Upload",
          el("input", {
            type: "file",
            accept: ".yaml,.yml",
            hidden: true,
            onchange: async (e) => {
              area.value = await e.target.files[0].text();
              checked();
            },
          }),
        ),
        button,
      ),
    ),
    el("div", { class: "card" }, el("h2", { text: "Plan" }), progress, result),
  );
  const newest = latest();
  let wait = 0,
    marks = new Map();
  const lines = () => {
    const count = area.value.split("\n").length;
    fill(
      gutter,
      Array.from({ length: count }, (_, i) =>
        el("span", {
          class: { error: "err", warning: "wrn" }[marks.get(i + 1)] || "",
          text: `${i + 1}\n`,
        }),
      ),
    );
    gutter.scrollTop = area.scrollTop;
  };
  function checked() {
    return newest(call("corral/lint", { text: area.value }), ({ findings }) => {
      marks = new Map([...findings].reverse().map((f) => [f.line, f.level]));
      fill(
        list,
        findings.map((f) =>
          el(
            "li",
            { class: `finding ${f.level}` },
            el("button", {
              class: "quiet",
              text: f.line ? `line ${f.line}` : "file",
              onclick: () => jump(f.line),
            }),
            ` ${f.message}`,
            f.hint && el("p", { class: "dim", text: f.hint }),
          ),
        ),
      );
      button.disabled = findings.some((f) => f.level === "error");
      lines();
    });
  }
  function jump(line) {
    const before =
      area.value
        .split("\n")
        .slice(0, Math.max(0, line - 1))
        .join("\n").length + (line > 1 ? 1 : 0);
    area.focus();
    area.setSelectionRange(before, before + (area.value.split("\n")[line - 1] || "").length);
    area.scrollTop = Math.max(0, (line - 5) * 20);
  }
  async function plan() {
    button.disabled = true;
    fill(result);
    try {
      await call("corral/plan", { text: area.value });
      const told = await follow(progress);
      fill(progress);
      show(told.result);
    } catch (error) {
      fill(progress, problem(error));
    }
    button.disabled = false;
  }
  const show = (found) => showPlan(result, progress, found);
  area.addEventListener("input", () => {
    newest.drop();
    lines();
    clearTimeout(wait);
    wait = setTimeout(checked, 400);
  });
  area.addEventListener("scroll", () => {
    gutter.scrollTop = area.scrollTop;
  });
  lines();
  if (area.value) checked();
  if ((await underWay("plan")) || (await underWay("apply")))
    follow(progress).then(
      (told) => told.what === "plan" && show(told.result),
      (error) => fill(progress, problem(error)),
    );
  return () => {
    newest.drop();
    clearTimeout(wait);
  };
}
