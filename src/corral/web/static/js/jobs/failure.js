// Why a job failed, by the doctor's rules on its last lines and on Slurm's record of its end.
import { Component, h } from "../../vendor/preact.mjs";
import { exitOf } from "./columns.js";
import { SubmitAgain } from "./resubmission.js";
import { FindingView } from "../lib/diagnosis.js";
import { call, refused } from "../lib/server.js";
import { card, el, fact, gib, pre, span } from "../lib/view.js";
/** @import * as api from "../api.js" */

/**
 * What Slurm reports of the end, in the figures that it is about.
 * @param {api.JobDetail} job
 * @param {api.JobEnd} end
 */
function figures(job, end) {
  const ran = job.start_at && job.end_at ? job.end_at - job.start_at : null;
  const used = end.memory === null ? "its use was not measured" : `${memory(end.memory)} used`;
  const asked = job.memory ? `${gib(job.memory)} asked for` : "no memory asked for";
  return el(
    "dl",
    { class: "facts" },
    fact("memory", end.about === "memory" && `${asked}, ${used}`),
    fact("time limit", end.about === "time" && `${span(job.limit)} asked for, ran ${span(ran)}`),
    fact("nodes", end.about === "nodes" && job.nodes),
    fact("ended", exitOf(job)),
  );
}

/** @param {number} mib */
const memory = (mib) => (mib < 1 ? "below 1 MiB" : gib(Math.round(mib)));

/** @param {{ lines: api.FatalLine[] }} props */
const Unexplained = ({ lines }) =>
  lines.length
    ? el(
        "div",
        null,
        el("p", null, "The doctor knows no cause. These lines of its output report an error:"),
        pre(lines.map(({ text }) => text).join("\n")),
      )
    : el("p", null, "The doctor knows no cause, and no line of its output reports an error.");

/** @param {{ job: api.JobDetail, end: api.JobEnd }} props */
export function EndView({ job, end }) {
  const { findings, lines, no_output: silent } = end;
  const shown = findings.map((finding) =>
    h(FindingView, { key: `${finding.id} ${finding.detail}`, finding }),
  );
  const unknown = end.known
    ? h(Unexplained, { lines })
    : el("p", { class: "reason" }, `The doctor could not be asked: ${end.why}`);
  return el(
    "div",
    null,
    findings.length ? shown : unknown,
    silent && el("p", { class: "dim" }, `Without its output: ${silent}`),
    figures(job, end),
  );
}

/**
 * The card on the page of a job that ended otherwise than it should.
 * @extends {Component<{ job: api.JobDetail, me: api.Me }, { end?: api.JobEnd, failure?: string }>}
 */
export class WhyFailed extends Component {
  left = false;

  componentDidMount() {
    /** @type {Promise<api.JobEnd>} */
    const answer = call(`jobs/${this.props.job.id}/end`);
    answer.then(
      (end) => this.left || this.setState({ end }),
      (thrown) => this.left || this.setState({ failure: refused(thrown).message }),
    );
  }

  componentWillUnmount() {
    this.left = true;
  }

  render() {
    const { job, me } = this.props;
    const { end, failure } = this.state;
    const waits = failure ? `Not known: ${failure}` : "Its last lines are read…";
    return card(
      job.cancelled ? "Why it ended" : "Why it failed",
      end ? EndView({ job, end }) : el("p", { class: "dim", role: "status" }, waits),
      h(SubmitAgain, { job, me }),
    );
  }
}
