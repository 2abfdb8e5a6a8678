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
 * task: of the array whose page it is on; query: of the page's address, which chooses a file.
 * @typedef {{ job: number, page: string, task: string, ended: boolean, query: URLSearchParams }} LogProps
 */

/**
 * @typedef {object} LogState
 * @property {string} how
 * @property {string} file
 * @property {api.LogFile[]} files
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
  unwatch = () => {};
  asked = 0;

  /** @param {LogProps} props */
  constructor(props) {
    super(props);
    /** @type {LogState} */
    this.state = {
      how: "loading",
      file: props.query.get("file") ?? "all",
      ...{ files: [], leftOut: 0 },
      ...{ wrap: true, before: 0, following: true, after: 0 },
    };
  }

  componentDidMount() {
    if (this.box.current) this.shown = new LogBox(this.box.current);
    this.list();
    this.unwatch = whileInFront((front) => (front ? this.resume() : this.pause()));
    this.follow();
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
    if (this.lost || again) this.follow();
  }

  list = () => {
    /** @type {Promise<api.LogFiles>} */
    const answer = call(logPath(this.props.job, "files"));
    return this.newestFiles.take(
      answer,
      ({ files, left_out: leftOut }) => this.setState({ files, leftOut }),
      (failure) => this.setState({ how: failure.message }),
    );
  };

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
    const { file } = this.state;
    this.asked += 1;
    const mine = this.asked;
    this.lost = false;
    this.source?.close();
    this.newestPart.drop();
    this.paused = !inFront();
    if (this.paused) return;
    let address;
    try {
      address = await ticketed(logPath(this.props.job, "", { file }));
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

  /** @param {string} file */
  toFile(file) {
    this.setState({ file }, () => {
      const { page, task } = this.props;
      keepAddress(addressOf(page, { task, file }, { task: "", file: "all" }));
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
    call(logPath(this.props.job, "part", { file, start: Math.max(0, start), end }));

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
    const { file } = this.state;
    try {
      const link = document.createElement("a");
      link.href = await ticketed(logPath(this.props.job, "download", { file }));
      link.download = "";
      link.click();
    } catch (error) {
      complain(error);
    }
  };

  choices() {
    const { file, files, leftOut } = this.state;
    const readable = files.filter(({ trouble }) => !trouble);
    if (readable.length < 2) return null;
    const options = readable.map(({ name, size }) =>
      el("option", { key: name, value: name }, `${fileWords(name)} (${bytes(size)})`),
    );
    return el(
      "select",
      {
        ...{ key: "file", class: "narrow", "aria-label": "File", value: file },
        onChange: ({ currentTarget }) => this.toFile(currentTarget.value),
      },
      el("option", { key: "all", value: "all" }, "all files"),
      options,
      leftOut
        ? el("option", { key: "more", disabled: true }, `${leftOut} more ranks: not listed`)
        : null,
    );
  }

  buttons() {
    const { wrap, before, following, after } = this.state;
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
    const { how } = this.state;
    // The job has ended, and what it printed last is on its way.
    return how === "live" && this.props.ended ? "ended" : how;
  }

  /** What is in the box while it has no line. */
  get none() {
    const { words } = this;
    if (words === "live") return "Nothing is printed yet.";
    return words === "the end" ? "Nothing was printed." : "";
  }

  render() {
    const { file, files, wrap } = this.state;
    const { job } = this.props;
    const names = files.filter(({ trouble }) => !trouble).map(({ name }) => name);
    const searched = file === "all" ? names : [file];
    return card(
      "Output",
      [
        el("div", { class: "row logbar" }, this.choices(), this.buttons()),
        h(LogSearch, {
          ...{ key: `${job} ${file}`, job, files: searched, go: this.toHit },
          mark: (/** @type {string} */ text) => this.shown?.seek(text),
        }),
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
