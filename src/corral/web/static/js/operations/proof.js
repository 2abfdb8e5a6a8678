// The last proof with its evidence, and the reports that were kept.
import { Component, h } from "../../vendor/preact.mjs";
import { call, Latest, refused, ticketed } from "../lib/server.js";
import {
  badge,
  card,
  clock,
  clockAgo,
  coded,
  complain,
  el,
  Loaded,
  many,
  pre,
} from "../lib/view.js";
import { follow, isRunning, Problem, ProgressView } from "./work.js";
/** @import * as api from "../api.js" */
/** @import { Refused } from "../lib/server.js" */
/** @import { Kind } from "../lib/view.js" */
/** @import { Progress } from "./work.js" */

/** @type {Record<api.ProofResult["verdict"], Kind>} */
const KIND = { pass: "good", warn: "warn", fail: "bad", skip: "off" };

/** @param {{ evidence: api.ProofEvidence }} props */
function Evidence({ evidence: { node, command, output, figures } }) {
  const values = Object.entries(figures).map(([name, value]) => [
    el("dt", { key: `${name} name` }, name),
    el("dd", { key: name }, String(value)),
  ]);
  return el(
    "div",
    null,
    el("p", { class: "dim" }, node ? `on ${node}` : ""),
    command && pre(`$ ${command}`),
    output && pre(output),
    values.length ? el("dl", { class: "facts" }, values) : null,
  );
}

/** @param {{ result: api.ProofResult }} props */
export const Result = ({ result: { verdict, title, check, summary, hint, evidence } }) =>
  el(
    "details",
    { open: verdict === "fail" },
    el(
      "summary",
      null,
      badge(verdict, KIND[verdict] || "off"),
      ` ${title || check}: `,
      el("span", { class: "dim" }, summary),
    ),
    hint && el("p", null, el("b", null, "Hint: "), coded(hint)),
    evidence.map((piece, i) => h(Evidence, { key: i, evidence: piece })),
  );

/**
 * @param {api.Proof} proof
 * @returns {[string, Kind]}
 */
export function verdictOf({ good, proven }) {
  if (proven ?? good) return ["proven", "good"];
  return good ? ["passed in part", "warn"] : ["not good", "bad"];
}

/** @param {{ proof: api.Proof | null }} props */
export function ProofView({ proof }) {
  if (!proof) return el("p", { class: "dim" }, "This cluster was not proven from here yet.");
  const { good, proven, uncovered, results, at } = proof;
  const part =
    good && !proven && uncovered ? `not a complete proof: ${uncovered.join("; ")}; ` : "";
  const counted = `${part}${many(results.length, "check")}, ${clockAgo(at)}`;
  const groups = Map.groupBy(results, ({ group }) => group);
  const sections = [...groups].map(([group, list]) =>
    el(
      "section",
      { key: group },
      el("h3", null, group),
      list.map((result) => h(Result, { key: result.check, result })),
    ),
  );
  return el("div", null, el("p", { class: "row" }, badge(...verdictOf(proof)), counted), sections);
}

/**
 * @typedef {object} ProofState
 * @property {boolean} busy
 * @property {api.Proof | null} proof
 * @property {Progress | null} progress
 * @property {Refused | null} failure
 */

/** @extends {Component<{ last: api.Proof | null }, ProofState>} */
class ProofCard extends Component {
  /** @type {ProofState} */
  state = { busy: false, proof: this.props.last, progress: null, failure: null };
  left = new AbortController();

  componentDidMount() {
    const resume = (/** @type {boolean} */ running) => {
      if (running) this.run(false);
    };
    isRunning("prove").then(resume, complain);
  }

  componentWillUnmount() {
    this.left.abort();
  }

  /** @param {boolean} begin */
  async run(begin) {
    this.setState({ busy: true, failure: null });
    try {
      if (begin) await call("corral/prove", {});
      const work = await follow((progress) => this.setState({ progress }), this.left.signal);
      this.setState({ proof: /** @type {api.Proof} */ (work.result) });
    } catch (error) {
      this.setState({ failure: refused(error), progress: null });
    }
    this.setState({ busy: false });
  }

  render() {
    const { busy, proof, progress, failure } = this.state;
    const prove = { class: "main", disabled: busy, onClick: () => this.run(true) };
    return card(
      "Proof",
      [
        el("p", { class: "dim" }, "Each check keeps the command it ran and what that printed."),
        h(ProgressView, { progress }),
        failure ? h(Problem, { failure }) : null,
        h(ProofView, { proof }),
      ],
      el("button", prove, "Prove it now"),
    );
  }
}

/** @param {api.ReportRow} report */
function reportWords({ at, what, good, plots }) {
  const words = `${clock(at)}  ${what}, ${good ? "good" : "not good"}`;
  return plots ? `${words}, ${many(plots, "plot")}` : words;
}

/**
 * Kept proofs and measurements, each as the page that corral prove --html writes, with its plots.
 * @extends {Component<{ reports: api.ReportRow[] }, { id: string, address: string }>}
 */
class ReportsCard extends Component {
  newest = new Latest();
  state = { id: "", address: "" };

  componentDidMount() {
    const { reports } = this.props;
    const first = reports.find((report) => report.plots) || reports[0];
    if (first) this.show(first.id);
  }

  componentWillUnmount() {
    this.newest.drop();
  }

  /** @param {string} id */
  show = (id) => {
    this.setState({ id });
    const answer = ticketed(`corral/reports/${id}`);
    this.newest.take(answer, (address) => this.setState({ address }), complain);
  };

  open = async () => {
    try {
      const address = await ticketed(`corral/reports/${this.state.id}`);
      window.open(address, "_blank", "noopener");
    } catch (error) {
      complain(error);
    }
  };

  choice() {
    const { reports } = this.props;
    if (!reports.length) {
      return el("p", { class: "dim" }, "None was kept here yet: corral prove, corral bench.");
    }
    const options = reports.map((report) =>
      el("option", { key: report.id, value: report.id }, reportWords(report)),
    );
    const select = {
      "aria-label": "Which report",
      class: "narrow",
      value: this.state.id,
      onChange: (/** @type {{ currentTarget: HTMLSelectElement }} */ { currentTarget }) =>
        this.show(currentTarget.value),
    };
    return el(
      "div",
      { class: "row" },
      el("select", select, options),
      el("button", { type: "button", onClick: this.open }, "Open in a new tab"),
    );
  }

  render() {
    const { address } = this.state;
    const about =
      "Proofs and measurements with their plots: bandwidth against limit and reference, pairs of nodes, scaling.";
    return card("Reports", [
      el("p", { class: "dim" }, about),
      this.choice(),
      address ? el("iframe", { class: "report", title: "Report", src: address }) : null,
    ]);
  }
}

/** @returns {Promise<[api.LastProof, api.Reports]>} */
const load = () => Promise.all([call("corral/proof"), call("corral/reports")]);

export const ProofPage = () =>
  h(Loaded, {
    load,
    view: (/** @type {[api.LastProof, api.Reports]} */ [{ proof }, { reports }]) => [
      h(ProofCard, { key: "proof", last: proof }),
      h(ReportsCard, { key: "reports", reports }),
    ],
  });
