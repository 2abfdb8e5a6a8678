// GPUs of running jobs that do nothing: on the job's page and in the list, as on My work.
import { idleNames, idleWords, measuredWords } from "./my_work.js";
import { call, Latest } from "../lib/server.js";
import { el } from "../lib/view.js";
/** @import { ArrayRow, GpusOfJobs, JobRow, Me, RunningJob } from "../api.js" */

const AGAIN_MS = 20000;
const MOST = 200;

/** Asks for jobs that run and have GPUs, at most every 20 s: which ones changes with each event. */
export class IdleGpus {
  #newest = new Latest();
  #at = -Infinity;
  /** @type {GpusOfJobs | null} */
  answer = null;

  /**
   * @param {Me} me whose own jobs; operators see those of all
   * @param {JobRow[]} jobs
   * @param {() => void} changed
   * @param {Record<string, ArrayRow>} [arrays] by the number of the job whose row it has
   */
  ask(me, jobs, changed, arrays = {}) {
    if (!me.figures) return;
    const shown = jobs.filter(
      (job) =>
        (arrays[job.id] ?? job).running &&
        (job.gpus || !job.gpus_exact) &&
        (job.user === me.user || me.role !== "user"),
    );
    const rows = shown.slice(0, MOST);
    const ids = rows.filter(({ id }) => !arrays[id]).map(({ id }) => id);
    const named = rows.filter(({ id }) => arrays[id]).map(({ id }) => arrays[id].array);
    const query = String(new URLSearchParams({ ids: ids.join(","), arrays: named.join(",") }));
    if (!rows.length || Date.now() - this.#at < AGAIN_MS) return;
    this.#at = Date.now();
    /** @type {Promise<GpusOfJobs>} */
    const answer = call(`mine/gpus?${query}`);
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
    return this.answer?.running.find((job) => job.id === id && !job.array);
  }

  /** @param {string} array @returns {RunningJob | undefined} the tasks of an array together */
  ofArray(array) {
    return this.answer?.running.find((job) => job.array?.array === array);
  }

  drop() {
    this.#newest.drop();
  }
}

/**
 * In a row of the list: how many do nothing; nothing where none is known to.
 * @param {{ job: RunningJob | undefined }} props
 */
export function IdleBadge({ job }) {
  if (!job?.idle_count) return null;
  const title = `${idleNames(job)}: idle`;
  return el("span", { class: "state warn", title }, ` ${job.idle_count} idle`);
}

/**
 * On the job's page: how busy all of them are, which do nothing, and how that was measured.
 * @param {GpusOfJobs | null} answer
 * @param {number} id
 */
export function gpusFact(answer, id) {
  const job = answer?.running.find((each) => each.id === id && !each.array);
  if (!answer || !job) return null;
  const idle = job.idle_count > 0;
  return el(
    "span",
    { title: measuredWords(answer.measured) },
    idle ? el("span", { class: "state warn" }, idleWords(job)) : idleWords(job),
    idle ? el("small", { class: "dim" }, ` ${idleNames(job)}`) : null,
  );
}
