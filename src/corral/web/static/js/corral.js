// Proof, doctor and history: what Corral itself knows of the cluster.
import { badge, call, clock, complain, el, fill, latest, many, since, ticketed } from "./dom.js";
import { showPlan } from "./plan.js";
import { follow, problem, underWay } from "./work.js";

const KIND = { pass: "good", warn: "warn", fail: "bad", skip: "off" };

export async function proofPage(main) {
  const body = el("div"),
    progress = el("div");
  const button = el("button", { class: "main", text: "Prove it now", onclick: () => run(true) });
  main.append(
    el(
      "div",
      { class: "card" },
      el("div", { class: "row between" }, el("h2", { text: "Proof" }), button),
      el("p", { class: "dim", text: "Each check keeps the command it ran and what that printed." }),
      progress,
      body,
    ),
  );
  async function run(begin) {
    button.disabled = true;
    try {
      if (begin) await call("corral/prove", {});
      const told = await follow(progress);
      draw(told.result);
    } catch (error) {
      fill(progress, problem(error));
    }
    button.disabled = false;
  }
  function draw(proof) {
    if (!proof)
      return fill(
        body,
        el("p", { class: "dim", text: "This cluster was not proven from here yet." }),
      );
    const groups = Map.groupBy
      ? Map.groupBy(proof.results, (r) => r.group)
      : proof.results.reduce((m, r) => m.set(r.group, [...(m.get(r.group) || []), r]), new Map());
    fill(
      body,
      el(
        "p",
        { class: "row" },
        badge(
          (proof.proven ?? proof.good) ? "proven" : proof.good ? "passed in part" : "not good",
          (proof.proven ?? proof.good) ? "good" : proof.good ? "warn" : "bad",
        ),
        `${proof.good && !proof.proven && proof.uncovered ? `not a complete proof: ${proof.uncovered.join("; ")}; ` : ""}${many(proof.results.length, "check")}, ${clock(proof.at)} (${since(proof.at)})`,
      ),
      [...groups].map(([group, results]) =>
        el("section", {}, el("h3", { text: group }), results.map(result)),
      ),
    );
  }
  const result = (r) =>
    el(
      "details",
      {},
      el(
        "summary",
        {},
        badge(r.verdict, KIND[r.verdict] || "off"),
        ` ${r.title || r.check}: `,
        el("span", { class: "dim", text: r.summary }),
      ),
      (r.evidence || []).map((e) =>
        el(
          "div",
          {},
          el("p", { class: "dim", text: e.node ? `on ${e.node}` : "" }),
          e.command && el("pre", { text: `$ ${e.command}` }),
          e.output && el("pre", { text: e.output }),
          e.figures && Object.keys(e.figures).length
            ? el(
                "dl",
                { class: "facts" },
                Object.entries(e.figures).map(([k, v]) => [
                  el("dt", { text: k }),
                  el("dd", { text: String(v) }),
                ]),
              )
            : null,
        ),
      ),
    );
  draw((await call("corral/proof")).proof);
  main.append(await reportsCard());
  if (await underWay("prove")) run(false);
}

// Kept proofs and measurements, each as the page that corral prove --html writes, with its plots.
async function reportsCard() {
  const { reports } = await call("corral/reports");
  const frame = el("iframe", { class: "report", title: "Report", hidden: true });
  const choice = el(
    "select",
    { "aria-label": "Which report", onchange: () => show(choice.value) },
    reports.map((r) =>
      el("option", {
        value: r.id,
        text: `${clock(r.at)}  ${r.what}, ${r.good ? "good" : "not good"}${r.plots ? `, ${many(r.plots, "plot")}` : ""}`,
      }),
    ),
  );
  const address = (id) => ticketed(`corral/reports/${id}`);
  const newest = latest();
  const show = (id) =>
    newest(address(id), (src) => {
      frame.hidden = false;
      frame.src = src;
    });
  const open = el("button", {
    type: "button",
    text: "Open by itself",
    onclick: async () => {
      try {
        window.open(await address(choice.value), "_blank", "noopener");
      } catch (error) {
        complain(error);
      }
    },
  });
  choice.style.width = "auto";
  const first = reports.find((r) => r.plots) || reports[0];
  if (first) {
    choice.value = first.id;
    show(first.id);
  }
  return el(
    "div",
    { class: "card" },
    el("h2", { text: "Reports" }),
    el("p", {
      class: "dim",
      text: "Proofs and measurements with their plots: bandwidth against limit and reference, pairs of nodes, scaling.",
    }),
    reports.length
      ? el("div", { class: "row" }, choice, open)
      : el("p", { class: "dim", text: "None was kept here yet: corral prove, corral bench." }),
    frame,
  );
}

export async function doctorPage(main) {
  const body = el("div"),
    progress = el("div"),
    mending = el("div");
  const button = el("button", { class: "main", text: "Look again", onclick: () => run(true) });
  main.append(
    el(
      "div",
      { class: "card" },
      el("div", { class: "row between" }, el("h2", { text: "Doctor" }), button),
      el("p", {
        class: "dim",
        text: "Every machine is asked in one round trip; nothing is changed.",
      }),
      progress,
      body,
      mending,
    ),
  );
  async function mend() {
    fill(mending);
    try {
      await call("corral/doctor/plan", {});
      const told = await follow(progress);
      fill(progress);
      fill(mending, el("h3", { text: "What mends it" }));
      const plan = el("div");
      mending.append(plan);
      showPlan(plan, progress, told.result);
    } catch (error) {
      fill(progress, problem(error));
    }
  }
  async function run(begin) {
    button.disabled = true;
    fill(mending);
    fill(body);
    try {
      if (begin) await call("corral/doctor", {});
      const told = await follow(progress);
      fill(progress);
      draw(told.result);
    } catch (error) {
      fill(progress, problem(error));
    }
    button.disabled = false;
  }
  const draw = (report) =>
    fill(
      body,
      report.mends &&
        el(
          "p",
          { class: "row" },
          el("button", { text: "Show the plan that mends this", onclick: mend }),
          el("span", { class: "dim", text: "Nothing is changed before you apply it." }),
        ),
      report.healthy
        ? el(
            "p",
            { class: "row" },
            badge("healthy", "good"),
            "Nothing known is wrong with this cluster.",
          )
        : null,
      report.healthy
        ? null
        : report.findings.map((f) =>
            el(
              "article",
              { class: "finding" },
              el("h3", { text: f.title || f.name }),
              el(
                "p",
                { class: "row" },
                el("span", { class: "dim", text: f.nodes.join(", ") }),
                el("span", { text: f.detail }),
              ),
              f.cause && el("p", {}, el("b", { text: "Cause: " }), f.cause),
              f.fix && el("p", {}, el("b", { text: "Fix: " }), f.fix),
              f.evidence.length
                ? el(
                    "details",
                    {},
                    el("summary", { text: "Evidence" }),
                    el("pre", { text: f.evidence.join("\n") }),
                  )
                : null,
            ),
          ),
    );
  run(!(await underWay("doctor")));
}

export async function historyPage(main) {
  const { records } = await call("corral/history");
  const rows = records.map((r) =>
    el(
      "tr",
      {},
      el("td", { class: "nowrap", text: clock(r.at) }),
      el("td", { text: r.by || "-" }),
      el(
        "td",
        {},
        badge(
          r.what.replace("-", " "),
          r.what.endsWith("failed")
            ? "bad"
            : r.what === "proof" || r.what === "plan"
              ? "busy"
              : "off",
        ),
      ),
      el("td", { text: r.node || "" }),
      el(
        "td",
        {},
        r.changes?.length
          ? el(
              "details",
              {},
              el("summary", { text: r.text }),
              el(
                "ul",
                {},
                r.changes.map((text) => el("li", { text })),
              ),
            )
          : r.text,
      ),
    ),
  );
  main.append(
    el(
      "div",
      { class: "card" },
      el("h2", { text: "History" }),
      el("p", { class: "dim", text: "The journal of this machine, newest first." }),
      rows.length
        ? el(
            "div",
            { class: "scroll", tabIndex: 0 },
            el(
              "table",
              {},
              el(
                "thead",
                {},
                el(
                  "tr",
                  {},
                  ["when", "who", "what", "node", "in words"].map((h) => el("th", { text: h })),
                ),
              ),
              el("tbody", {}, rows),
            ),
          )
        : el("p", { class: "dim", text: "Nothing was done from here yet." }),
    ),
  );
}
