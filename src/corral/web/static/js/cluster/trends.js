// What the cluster was over an hour, a day or a week: nodes, GPUs, CPUs, queue and power, from Prometheus.
import { Component, h } from "../../vendor/preact.mjs";
import { Curves } from "../lib/curves.js";
import { Latest } from "../lib/server.js";
import { SpanChips } from "../lib/spans.js";
import { el } from "../lib/view.js";
/** @import { ClusterCurves } from "../api.js" */
/** @import { Kind, Plotted } from "../lib/curves.js" */

/** @type {Kind[]} */
const KINDS = [
  { what: "nodes", title: "Nodes", scale: 1 },
  { what: "node_states", title: "Nodes by state", scale: 1 },
  { what: "gpus", title: "GPUs", scale: 1 },
  { what: "cpus", title: "CPUs", scale: 1 },
  { what: "queue", title: "Jobs", scale: 1 },
  { what: "job_states", title: "Jobs by state", scale: 1 },
  { what: "power", title: "Power, kW", scale: 1 / 1000 },
];
const AGAIN_MS = 60000;

/**
 * An answer as curves; an unknown value stays null, which is drawn as a gap.
 * @param {ClusterCurves} past
 * @returns {Plotted[]}
 */
export const plotted = ({ at, curves }) =>
  curves.map(({ what, name, values }) => ({
    what,
    name,
    points: at.map((time, i) => [time, values[i] ?? null]),
  }));

/**
 * @typedef {{ span: string, choose: (span: string) => void, none: () => void }} TrendsProps
 * span: what is shown; none: called where the cluster has no Prometheus
 */

/** @extends {Component<TrendsProps, { past: ClusterCurves | null, wrong: string }>} */
export class Trends extends Component {
  /** @type {{ past: ClusterCurves | null, wrong: string }} */
  state = { past: null, wrong: "" };
  newest = new Latest();
  /** @type {ReturnType<typeof setInterval> | undefined} */
  again = undefined;

  componentDidMount() {
    this.again = setInterval(() => document.hidden || this.load(), AGAIN_MS);
    this.load();
  }

  /** @param {TrendsProps} before */
  componentDidUpdate(before) {
    if (before.span !== this.props.span) this.load();
  }

  componentWillUnmount() {
    clearInterval(this.again);
    this.newest.drop();
  }

  load() {
    const show = (/** @type {ClusterCurves} */ past) => {
      this.setState({ past, wrong: "" });
      if (!past.from) this.props.none();
    };
    this.newest.ask(`figures/history?span=${this.props.span}`, show, (failure) =>
      this.setState({ wrong: failure.message }),
    );
  }

  content() {
    const { past, wrong } = this.state;
    if (past?.curves.length) return h(Curves, { curves: plotted(past), kinds: KINDS });
    const none = past ? "Prometheus knows nothing of this time." : "Loading…";
    return el("p", { class: "dim" }, wrong || none);
  }

  render() {
    const { span, choose } = this.props;
    const { past, wrong } = this.state;
    if (past ? !past.from : !wrong) return null;
    return el(
      "section",
      { class: "card trends" },
      el(
        "div",
        { class: "row between" },
        el("h2", null, "History"),
        h(SpanChips, { span, choose, label: "Span of the history" }),
      ),
      past?.curves.length && wrong ? el("p", { class: "reason" }, wrong) : null,
      this.content(),
    );
  }
}
