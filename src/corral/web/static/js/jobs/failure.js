// Why a job failed, by the doctor's rules on its last lines and on Slurm's record of its end.
import { Component, h } from "../../vendor/preact.mjs";
import { exitOf } from "./columns.js";
import { SubmitAgain } from "./resubmission.js";
import { FindingView } from "../lib/diagnosis.js";
import { call, refused } from "../lib/server.js";
import { card, el, fact, gib, pre, span } from "../lib/view.js";
/** @import * as api from "../api.js" */

/** @param {api.JobDetail} job @param {api.JobEnd} end */
const memoryWords = (job, end) => {
  const used = end.memory === null ? "its use was not measured" : `${memory(end.memory)} used`;
  return `${job.memory ? `${gib(job.memory)} asked for` : "no memory asked for"}, ${used}`;
};

/** @param {api.JobDetail} job */
const limitWords = (job) => {
  const ran = job.start_at && job.end_at ? job.end_at - job.start_at : null;
  return `${job.limit ? `${span(job.limit)} asked for` : "none"}, ran ${span(ran)}`;
};

/**
 * What Slurm reports of the end, in the figures that it is about; without the output, all of them.
 * @param {api.JobDetail} job
 * @param {api.JobEnd} end
 */
function figures(job, end) {
  const record = end.seen === "record";
  const about = (/** @type {string} */ what) => end.about === what || record;
  return el(
    "dl",
    { class: "facts" },
    fact("state", end.seen !== "output" && job.state.toLowerCase().replaceAll("_", " ")),
    fact("reason", record && job.reason !== "None" && job.reason),
    fact("memory", about("memory") && memoryWords(job, end)),
    fact("time limit", about("time") && limitWords(job)),
    fact("nodes", about("nodes") && job.nodes),
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

/** Where no failure is known. @param {{ end: api.JobEnd }} props */
function Unknown({ end }) {
  if (!end.known) return el("p", { class: "reason" }, `The doctor could not be asked: ${end.why}`);
  if (end.seen === "output") return h(Unexplained, { lines: end.lines });
  if (end.seen === "state") return null;
  return el("p", null, "Slurm's record of its end shows no cause that the doctor knows.");
}

/** @param {{ job: api.JobDetail, end: api.JobEnd }} props */
export function EndView({ job, end }) {
  const { findings, no_output: silent } = end;
  const shown = findings.map((finding) =>
    h(FindingView, { key: `${finding.id} ${finding.detail}`, finding }),
  );
  return el(
    "div",
    null,
    findings.length ? shown : h(Unknown, { end }),
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
    const reads = job.mine ? "Its last lines are read…" : "Slurm is asked…";
    const waits = failure ? `Not known: ${failure}` : reads;
    return card(
      job.cancelled ? "Why it ended" : "Why it failed",
      end ? EndView({ job, end }) : el("p", { class: "dim", role: "status" }, waits),
      h(SubmitAgain, { job, me }),
    );
  }
}
