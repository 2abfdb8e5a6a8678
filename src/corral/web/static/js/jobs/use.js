// What a job that ended used of what it was given.
import { Component } from "../../vendor/preact.mjs";
import { call, refused } from "../lib/server.js";
import { bar, card, el, fact, gib, span } from "../lib/view.js";
/** @import * as api from "../api.js" */

const LOW = 0.5;

/**
 * One line: how much of how much, as a bar and in per cent.
 * @param {string} word
 * @param {number | null} used
 * @param {number | null} given
 * @param {(amount: number) => string} shown
 */
function share(word, used, given, shown) {
  if (used === null) return fact(word, el("span", { class: "dim" }, "not measured"));
  if (!given) return fact(word, `${shown(used)}; what it was given is unknown`);
  const part = Math.round((100 * used) / given);
  const low = used < LOW * given;
  const percent = el("span", { class: low ? "reason" : "" }, part < 1 ? "below 1 %" : `${part} %`);
  return fact(
    word,
    el("span", null, bar(used, given, true), `${shown(used)} of ${shown(given)}, `, percent),
  );
}

/**
 * How long its GPUs were busy, of how long it had them; nothing of a job that had none.
 * @param {api.JobUse} use
 */
function gpuShare({ gpus, gpu_s: busy, gpu_given_s: given, why_no_gpus: why }) {
  if (gpus === 0) return null;
  if (busy !== null) return share("GPU time", busy, given, span);
  return fact("GPU time", el("span", { class: "dim" }, why ? `unknown: ${why}` : "unknown"));
}

/** @param {number} mib */
const memory = (mib) => (mib < 1 ? "below 1 MiB" : gib(Math.round(mib)));

/** @param {{ use: api.JobUse }} props */
export function UseFacts({ use }) {
  const measured = use.cpu_s !== null || use.memory !== null;
  return el(
    "div",
    null,
    el(
      "dl",
      { class: "facts" },
      share("CPU time", use.cpu_s, use.cpu_given_s, span),
      share("memory", use.memory, use.memory_given, memory),
      gpuShare(use),
    ),
    el(
      "p",
      { class: "dim" },
      measured
        ? "Out of accounting; GPU time out of the metrics. Both times are compared with the CPUs or GPUs times the run time; memory is the peak " +
            "of its largest step, sampled every 30 s unless JobAcctGatherFrequency is set."
        : "Accounting has no samples of this job: it was short, its steps are not over, or " +
            "JobAcctGatherType is jobacct_gather/none.",
    ),
  );
}

/** @extends {Component<{ job: number }, { use?: api.JobUse, failure?: string }>} */
export class AskedUsed extends Component {
  ended = false;

  componentDidMount() {
    /** @type {Promise<api.JobUse>} */
    const answer = call(`jobs/${this.props.job}/use`);
    answer.then(
      (use) => this.ended || this.setState({ use }),
      (thrown) => this.ended || this.setState({ failure: refused(thrown).message }),
    );
  }

  componentWillUnmount() {
    this.ended = true;
  }

  render() {
    const { use, failure } = this.state;
    if (!use && !failure) return null;
    return card(
      "Asked and used",
      use ? UseFacts({ use }) : el("p", { class: "dim" }, `Not known: ${failure}`),
    );
  }
}
