// What the doctor finds wrong with the cluster, and the plan that corrects it.
import { Component, h } from "../vendor/preact.mjs";
import { PlanToApply } from "./plan.js";
import { call, refused } from "./server.js";
import { badge, el } from "./view.js";
import { follow, Problem, ProgressView, underWay } from "./work.js";
/** @import { Diagnosis, Doctor, Me, ShownPlan } from "./api.js" */
/** @import { Refused } from "./server.js" */
/** @import { Progress } from "./work.js" */

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
      el("span", { class: "dim" }, nodes.join(", ")),
      el("span", null, detail),
    ),
    cause && el("p", null, el("b", null, "Cause: "), cause),
    fix && el("p", null, el("b", null, "Fix: "), fix),
    evidence.length ? el("details", null, el("summary", null, "Evidence"), shown) : null,
  );
}

/** @param {{ report: Doctor, fix: () => void }} props */
export function ReportView({ report, fix }) {
  const offer = [
    el("button", { onClick: fix }, "Show the plan that fixes this"),
    el("span", { class: "dim" }, "Nothing is changed before you apply it."),
  ];
  const good = [badge("healthy", "good"), "Nothing known is wrong with this cluster."];
  return el(
    "div",
    null,
    report.fixable ? el("p", { class: "row" }, offer) : null,
    report.healthy
      ? el("p", { class: "row" }, good)
      : report.findings.map((finding) =>
          h(FindingView, { key: `${finding.id} ${finding.nodes.join(",")}`, finding }),
        ),
  );
}

/**
 * @typedef {object} DoctorState
 * @property {boolean} busy
 * @property {Doctor | null} report
 * @property {ShownPlan | null} plan
 * @property {Progress | null} progress
 * @property {Refused | null} failure
 */

/** @extends {Component<{ me: Me, args: string[] }, DoctorState>} */
export class DoctorPage extends Component {
  /** @type {DoctorState} */
  state = { busy: false, report: null, plan: null, progress: null, failure: null };
  left = new AbortController();

  componentDidMount() {
    this.begin();
  }

  componentWillUnmount() {
    this.left.abort();
  }

  async begin() {
    await this.work(async () => {
      if (!(await underWay("doctor"))) await call("corral/doctor", {});
    });
  }

  /** @param {() => Promise<unknown>} ask */
  async work(ask) {
    this.setState({ busy: true, plan: null, failure: null });
    try {
      await ask();
      const { what, result } = await follow(
        (progress) => this.setState({ progress }),
        this.left.signal,
      );
      if (what === "doctor") this.setState({ report: /** @type {Doctor} */ (result) });
      else this.setState({ plan: /** @type {ShownPlan} */ (result) });
    } catch (error) {
      this.setState({ failure: refused(error) });
    }
    this.setState({ busy: false, progress: null });
  }

  again = () => {
    this.setState({ report: null });
    this.work(() => call("corral/doctor", {}));
  };

  fix = () => this.work(() => call("corral/doctor/plan", {}));

  render() {
    const { busy, report, plan, progress, failure } = this.state;
    const about = "Every machine is asked in one round trip; nothing is changed.";
    return el(
      "div",
      { class: "card" },
      el(
        "div",
        { class: "row between" },
        el("h2", null, "Doctor"),
        el("button", { class: "main", disabled: busy, onClick: this.again }, "Check again"),
      ),
      el("p", { class: "dim" }, about),
      h(ProgressView, { progress }),
      failure ? h(Problem, { failure }) : null,
      report ? h(ReportView, { report, fix: this.fix }) : null,
      plan ? el("div", null, el("h3", null, "What fixes it"), h(PlanToApply, { plan })) : null,
    );
  }
}
