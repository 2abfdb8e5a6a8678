// GPUs of running jobs that do nothing: on the job's page and in the list, as on My work.
import { idleWords, measuredWords } from "./my_work.js";
import { call, Latest } from "../lib/server.js";
import { el } from "../lib/view.js";
/** @import { GpusOfJobs, JobRow, Me, RunningJob } from "../api.js" */

const AGAIN_MS = 20000;
const MOST = 200;

/** Asks for jobs that run and have GPUs, at most every 20 s for the same ones. */
export class IdleGpus {
  #newest = new Latest();
  #asked = "";
  #at = 0;
  /** @type {GpusOfJobs | null} */
  answer = null;

  /**
   * @param {Me} me whose own jobs; operators see those of all
   * @param {JobRow[]} jobs
   * @param {() => void} changed
   */
  ask(me, jobs, changed) {
    if (!me.figures) return;
    const shown = jobs.filter(
      (job) =>
        job.running &&
        (job.gpus || !job.gpus_exact) &&
        (job.user === me.user || me.role !== "user"),
    );
    const ids = shown
      .slice(0, MOST)
      .map(({ id }) => id)
      .join(",");
    if (!ids || (ids === this.#asked && Date.now() - this.#at < AGAIN_MS)) return;
    this.#asked = ids;
    this.#at = Date.now();
    /** @type {Promise<GpusOfJobs>} */
    const answer = call(`mine/gpus?ids=${ids}`);
    this.#newest.take(
      answer,
      (data) => {
        this.answer = data;
        changed();
      },
      () => {}, // the list is without it
    );
  }

  /** @param {number} id @returns {RunningJob | undefined} */
  of(id) {
    return this.answer?.running.find((job) => job.id === id);
  }

  drop() {
    this.#newest.drop();
  }
}

/** @param {RunningJob} job */
const which = ({ idle }) => idle.map(({ node, index }) => `${node} GPU ${index}`).join(", ");

/**
 * In a row of the list: how many do nothing; nothing where none is known to.
 * @param {{ job: RunningJob | undefined }} props
 */
export function IdleBadge({ job }) {
  if (!job?.idle.length) return null;
  const title = `${which(job)}: idle`;
  return el("span", { class: "state warn", title }, ` ${job.idle.length} idle`);
}

/**
 * On the job's page: how busy all of them are, which do nothing, and how that was measured.
 * @param {GpusOfJobs | null} answer
 * @param {number} id
 */
export function gpusFact(answer, id) {
  const job = answer?.running.find((each) => each.id === id);
  if (!answer || !job) return null;
  const { idle } = job;
  return el(
    "span",
    { title: measuredWords(answer.measured) },
    idle.length ? el("span", { class: "state warn" }, idleWords(job)) : idleWords(job),
    idle.length ? el("small", { class: "dim" }, ` ${which(job)}`) : null,
  );
}
