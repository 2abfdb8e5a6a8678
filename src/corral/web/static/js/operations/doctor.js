// What the doctor finds wrong with the cluster, and the plan that corrects it.
import { Component, h } from "../../vendor/preact.mjs";
import { PlanToApply } from "./plan.js";
import { FindingView } from "../lib/diagnosis.js";
import { call, refused } from "../lib/server.js";
import { badge, card, el, many } from "../lib/view.js";
import { follow, isRunning, Problem, ProgressView } from "./work.js";
/** @import { Doctor, Me, ShownPlan } from "../api.js" */
/** @import { Refused } from "../lib/server.js" */
/** @import { Progress } from "./work.js" */

/**
 * What no finding states: nodes that take no jobs, and checks that failed in the last proof.
 * @param {{ report: Doctor }} props
 */
function Unexplained({ report: { out_of_service: out, failed_checks: failed } }) {
  const nodes = out.map(({ node, state, reason, by }) =>
    el(
      "p",
      { key: node, class: "row" },
      badge(state, "warn"),
      el("a", { href: `#node/${node}` }, node),
      el("span", { class: "reason" }, reason || "no reason given"),
      el("span", { class: "dim" }, by && `set by ${by}`),
    ),
  );
  const words = `The last proof failed in ${many(failed.length, "check")}: ${failed.join("; ")}.`;
  const proof = [badge("proof failed", "bad"), words, el("a", { href: "#proof" }, "Evidence")];
  return el("div", null, nodes, failed.length ? el("p", { class: "row" }, proof) : null);
}

/** @param {{ report: Doctor, fix: () => void }} props */
export function ReportView({ report, fix }) {
  const offer = [
    el("button", { onClick: fix }, "Show the plan that fixes this"),
    el("span", { class: "dim" }, "Nothing is changed before you apply it."),
  ];
  const { healthy, out_of_service: out, failed_checks: failed } = report;
  const good =
    out.length || failed.length
      ? [badge("no known failure", "warn"), "The doctor knows no cause for what is below."]
      : [badge("healthy", "good"), "Nothing known is wrong with this cluster."];
  return el(
    "div",
    null,
    report.fixable ? el("p", { class: "row" }, offer) : null,
    healthy
      ? el("p", { class: "row" }, good)
      : report.findings.map((finding) =>
          h(FindingView, { key: `${finding.id} ${finding.nodes.join(",")}`, finding }),
        ),
    h(Unexplained, { report }),
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

/** @extends {Component<{ me: Me, args: string[], query: URLSearchParams }, DoctorState>} */
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
      if (!(await isRunning("doctor"))) await call("corral/doctor", {});
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
    return card(
      "Doctor",
      [
        el("p", { class: "dim" }, about),
        h(ProgressView, { progress }),
        failure ? h(Problem, { failure }) : null,
        report ? h(ReportView, { report, fix: this.fix }) : null,
        plan
          ? el("div", null, el("h3", null, "What fixes it"), h(PlanToApply, { key: plan.id, plan }))
          : null,
      ],
      el("button", { class: "main", disabled: busy, onClick: this.again }, "Check again"),
    );
  }
}
