// The output of a job: its files or one of them, as they grow; earlier parts, search, download.
import { Component, createRef, h } from "../../vendor/preact.mjs";
import { LogBox } from "./logbox.js";
import { bytes, fileWords } from "./logtext.js";
import { logPath, LogSearch } from "./logsearch.js";
import { call, Latest, refused, ticketed } from "../lib/server.js";
import { inFront, stream, whileInFront } from "../lib/streams.js";
import { addressOf, card, complain, el, keepAddress } from "../lib/view.js";
/** @import * as api from "../api.js" */

const EARLIER = 128 << 10;
const AROUND = 96 << 10;
/** Of more files together no earlier part is loaded: one is chosen first. */
const FILES_TOGETHER = 8;

/**
 * query: of the page's address, which chooses a task of an array and a file.
 * @typedef {{ job: number, label: string, ended: boolean, waiting?: boolean, query: URLSearchParams }} LogProps
 */

/**
 * Whether tasks that are listed for a task are of a job's array.
 * @param {string} label of the job
 * @param {{ label: string }[]} tasks
 */
export function sameArray(label, tasks) {
  const front = /^\d+_/.exec(label)?.[0];
  return front !== undefined && tasks.some((task) => task.label.startsWith(front));
}

/**
 * The address of a job's page with what is chosen of its output.
 * @param {number} job
 * @param {{ task: number, file: string }} chosen
 */
const addressed = (job, { task, file }) =>
  addressOf(`job/${job}`, { task: String(task), file }, { task: String(job), file: "all" });
/**
 * @typedef {object} LogState
 * @property {string} how
 * @property {number} task the job whose log is shown; 0 while none of an array's is chosen
 * @property {string} file
 * @property {api.LogFile[]} files
 * @property {api.LogTask[]} tasks
 * @property {number} total
 * @property {number} leftOut ranks that are not listed
 * @property {boolean} wrap
 * @property {number} before bytes before what is shown
 * @property {boolean} following
 * @property {number} after bytes after what is shown, where it is not followed
 */

/** @extends {Component<LogProps, LogState>} */
export class Log extends Component {
  /** @type {{ current: HTMLPreElement | null }} */
  box = createRef();
  /** @type {LogBox | null} */
  shown = null;
  /** @type {EventSource | null} */
  source = null;
  newestFiles = new Latest();
  newestPart = new Latest();
  ended = false;
  lost = false;
  /** It was followed, and this tab is not in front. */
  paused = false;
  /** The address names a task, and whether it is of this job's array is yet to be seen. */
  named = false;
  unwatch = () => {};
  asked = 0;

  /** @param {LogProps} props */
  constructor(props) {
    super(props);
    const chosen = Number(props.query.get("task"));
    const task = Number.isInteger(chosen) && chosen > 0 ? chosen : 0;
    const own = props.waiting ? 0 : props.job;
    this.named = task > 0 && task !== props.job;
    /** @type {LogState} */
    this.state = {
      how: task || own ? "loading" : "",
      task: task || own,
      file: props.query.get("file") ?? "all",
      ...{ files: [], leftOut: 0, tasks: [], total: 0 },
      ...{ wrap: true, before: 0, following: true, after: 0 },
    };
  }

  componentDidMount() {
    if (this.box.current) this.shown = new LogBox(this.box.current);
    this.list();
    this.unwatch = whileInFront((front) => (front ? this.resume() : this.pause()));
    if (this.state.task && !this.named) this.follow();
  }

  componentWillUnmount() {
    this.ended = true;
    this.unwatch();
    this.source?.close();
    this.shown?.drop();
    this.newestFiles.drop();
    this.newestPart.drop();
  }

  // The page draws a running job every few seconds: a broken connection is tried again then. A job
  // that ended and was put back into the queue writes again.
  /** @param {LogProps} next */
  componentWillReceiveProps(next) {
    const again = this.props.ended && !next.ended;
    if (again || next.ended !== this.props.ended) this.list();
    if (this.lost && this.named) this.list();
    else if (this.lost || again) this.follow();
  }

  list = () => {
    /** @type {Promise<api.LogFiles>} */
    const answer = call(logPath(this.state.task || this.props.job, "files"));
    return this.newestFiles.take(
      answer,
      ({ files, left_out: leftOut, tasks, tasks_total: total }) => {
        const { named } = this;
        if (named && !sameArray(this.props.label, tasks)) return this.own();
        this.named = false;
        this.setState({ files, leftOut, tasks, total });
        return named ? this.follow() : undefined;
      },
      (failure) => {
        if (this.named && (failure.status === 403 || failure.status === 404)) {
          this.own();
          return;
        }
        this.lost ||= this.named;
        this.setState({ how: failure.message });
      },
    );
  };

  /** The task that the address names is of another job: it is left out of it. */
  own() {
    const { job, waiting } = this.props;
    this.named = false;
    this.lost = false;
    if (!waiting) {
      this.toTask(job);
      return;
    }
    this.setState({ task: 0, file: "all", how: "" }, () => {
      keepAddress(addressed(job, { task: job, file: "all" }));
      this.list();
    });
  }

  /** @param {string} how */
  over(how) {
    this.source?.close();
    this.setState({ how });
  }

  /** @param {string} how */
  broke(how) {
    this.lost = true;
    this.over(how);
  }

  async follow() {
    const { task, file } = this.state;
    this.asked += 1;
    const mine = this.asked;
    this.lost = false;
    this.source?.close();
    this.newestPart.drop();
    this.paused = !inFront();
    if (this.paused) return;
    let address;
    try {
      address = await ticketed(logPath(task, "", { file }));
    } catch (error) {
      this.broke(refused(error).message);
      return;
    }
    if (this.ended || mine !== this.asked) return;
    this.shown?.clear(); // the server sends the end of each file again
    this.setState({ how: "loading", following: true, after: 0, before: 0 });
    this.source = stream(address, () => this.broke("the connection broke"));
    this.source.onmessage = (event) => this.take(JSON.parse(event.data));
    this.source.addEventListener("end", (event) => {
      /** @type {{ error?: api.Failure }} */
      const { error } = JSON.parse(event.data);
      this.over(error ? error.message : "the end");
    });
  }

  pause() {
    const { how, following } = this.state;
    if (!following || (how !== "live" && how !== "loading")) return;
    this.paused = true;
    this.asked += 1;
    this.source?.close();
  }

  /** Who reads or selects something above the end keeps it; the end is one click away. */
  resume() {
    if (!this.paused) return;
    this.paused = false;
    if (!this.shown || this.shown.atRest) this.follow();
    else this.setState({ following: false, how: "stopped while this tab was not in front" });
  }

  /** @param {api.LogBatch} batch */
  take({ pieces, live, ranks }) {
    if (!this.shown) return;
    this.shown.ranks = this.state.file === "all" ? ranks : 1; // one alone needs no number
    this.shown.take(pieces);
    if (live && this.state.how === "loading") this.setState({ how: "live" });
    const known = new Set(this.state.files.map(({ name }) => name));
    if (pieces.some(({ file, trouble }) => !trouble && !known.has(file)) && known.size) this.list();
    this.measure();
  }

  measure() {
    const before = this.shown?.before.reduce((sum, { first }) => sum + first, 0) ?? 0;
    if (before !== this.state.before) this.setState({ before });
  }

  /** @param {number} task */
  toTask(task) {
    this.setState({ task, file: "all", files: [], leftOut: 0 }, () => {
      keepAddress(addressed(this.props.job, this.state));
      this.list();
      this.follow();
    });
  }

  /** @param {string} file */
  toFile(file) {
    this.setState({ file }, () => {
      keepAddress(addressed(this.props.job, this.state));
      this.follow();
    });
  }

  /**
   * @param {string} file
   * @param {number} start
   * @param {number} end
   * @returns {Promise<api.LogPart>}
   */
  part = (file, start, end) =>
    call(logPath(this.state.task, "part", { file, start: Math.max(0, start), end }));

  earlier = async () => {
    const files = this.shown?.before ?? [];
    const share = EARLIER / Math.max(1, files.length);
    const asked = files.map(({ file, first }) => this.part(file, first - share, first));
    await this.newestPart.take(
      Promise.all(asked),
      (parts) => {
        const complete = parts.reverse().map((part) => this.shown?.prepend(part));
        if (complete.includes(false)) this.stop();
        this.measure();
      },
      complain,
    );
  };

  later = async () => {
    const [[file, shown] = []] = this.shown?.streams ?? [];
    if (!file || !shown) return;
    const answer = this.part(file, shown.end, shown.end + EARLIER);
    await this.newestPart.take(
      answer,
      (part) => {
        this.shown?.add(file, part.text, part.start, part.end);
        this.shown?.trim();
        this.setState({ after: Math.max(0, part.size - part.end) });
        this.measure();
      },
      complain,
    );
  };

  /** What comes now is not shown: the part on the page is an earlier one. */
  stop() {
    this.asked += 1;
    this.source?.close();
    this.lost = false;
    this.setState({ following: false, how: "an earlier part", after: 1 });
  }

  /** @param {api.LogHit} hit */
  toHit = async ({ name, start }) => {
    await this.newestPart.take(
      this.part(name, start - AROUND, start + AROUND),
      (part) => {
        this.stop();
        this.shown?.showAround(part, start);
        const words = `${bytes(part.start)} to ${bytes(part.end)} of ${bytes(part.size)}`;
        this.setState({ how: `${fileWords(name)}: ${words}`, after: part.size - part.end });
        this.measure();
      },
      complain,
    );
  };

  toEnd = () => {
    if (this.state.following) this.shown?.toEnd();
    else this.follow();
  };

  download = async () => {
    const { task, file } = this.state;
    try {
      const link = document.createElement("a");
      link.href = await ticketed(logPath(task, "download", { file }));
      link.download = "";
      link.click();
    } catch (error) {
      complain(error);
    }
  };

  choices() {
    const { task, file, files, leftOut, tasks, total } = this.state;
    const readable = files.filter(({ trouble }) => !trouble);
    const taskOptions = tasks.map(({ id, task: number, state }) =>
      el("option", { key: id, value: id }, `task ${number} (${state.toLowerCase()})`),
    );
    const more =
      total > tasks.length ? `Task (the first ${tasks.length} of ${total} that began)` : "Task";
    const known = tasks.some(({ id }) => id === task);
    const none = known ? null : el("option", { key: 0, value: 0, disabled: true }, "choose a task");
    const fileOptions = readable.map(({ name, size }) =>
      el("option", { key: name, value: name }, `${fileWords(name)} (${bytes(size)})`),
    );
    return [
      taskOptions.length
        ? el(
            "select",
            {
              ...{ key: "task", class: "narrow", "aria-label": more, title: more },
              value: known ? task : 0,
              onChange: ({ currentTarget }) => this.toTask(Number(currentTarget.value)),
            },
            none,
            taskOptions,
          )
        : null,
      readable.length > 1
        ? el(
            "select",
            {
              ...{ key: "file", class: "narrow", "aria-label": "File", value: file },
              onChange: ({ currentTarget }) => this.toFile(currentTarget.value),
            },
            el("option", { key: "all", value: "all" }, "all files"),
            fileOptions,
            leftOut
              ? el("option", { key: "more", disabled: true }, `${leftOut} more ranks: not listed`)
              : null,
          )
        : null,
    ];
  }

  buttons() {
    const { wrap, before, following, after, task } = this.state;
    if (!task) return null;
    const together = (this.shown?.before.length ?? 0) > FILES_TOGETHER;
    const quiet = { class: "small", type: /** @type {const} */ ("button") };
    const why = together ? "choose one of the files first" : `${bytes(before)} before this`;
    return [
      el(
        "button",
        {
          key: "wrap",
          ...quiet,
          "aria-pressed": wrap,
          onClick: () => this.setState({ wrap: !wrap }),
        },
        "Wrap",
      ),
      before
        ? el(
            "button",
            { key: "earlier", ...quiet, disabled: together, title: why, onClick: this.earlier },
            `Earlier part (${bytes(before)})`,
          )
        : null,
      !following && after && this.shown?.streams.size === 1
        ? el("button", { key: "later", ...quiet, onClick: this.later }, "Later part")
        : null,
      el("button", { key: "end", ...quiet, onClick: this.toEnd }, "Jump to end"),
      el("button", { key: "save", ...quiet, onClick: this.download }, "Download"),
    ];
  }

  get words() {
    const { how, tasks, task } = this.state;
    if (!task && !how) return tasks.length ? "choose a task" : "no task has begun";
    // The job has ended, and what it printed last is on its way.
    return how === "live" && this.props.ended && task === this.props.job ? "ended" : how;
  }

  /** What is in the box while it has no line. */
  get none() {
    const { words } = this;
    if (!this.state.task) return `Nothing is chosen: ${words}.`;
    if (words === "live") return "Nothing is printed yet.";
    return words === "the end" ? "Nothing was printed." : "";
  }

  render() {
    const { file, files, task, wrap } = this.state;
    const names = files.filter(({ trouble }) => !trouble).map(({ name }) => name);
    const searched = file === "all" ? names : [file];
    return card(
      "Output",
      [
        el("div", { class: "row logbar" }, this.choices(), this.buttons()),
        task
          ? h(LogSearch, {
              key: `${task} ${file}`,
              job: task,
              files: searched,
              go: this.toHit,
              mark: (/** @type {string} */ text) => this.shown?.seek(text),
            })
          : null,
        el("pre", {
          class: wrap ? "log" : "log nowrap",
          role: "log",
          tabIndex: 0,
          "aria-label": "Output of the job",
          "data-none": this.none,
          ref: this.box,
        }),
      ],
      el("span", { class: "dim", role: "status" }, this.words),
    );
  }
}
