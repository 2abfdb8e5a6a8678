// A job's output as it comes. Lines are appended to the text that is there, so that what somebody
// selected or scrolled to stays.
import { Component, createRef } from "../vendor/preact.mjs";
import { refused, ticketed } from "./server.js";
import { el } from "./view.js";
/** @import { Failure } from "./api.js" */

const MOST_LINES = 5000;
const NEAR_PX = 40;

/** @typedef {{ job: number, ended: boolean }} LogProps */

/** @extends {Component<LogProps, { how: string }>} */
export class Log extends Component {
  /** @type {{ current: HTMLPreElement | null }} */
  box = createRef();
  /** How many lines each text node of the box has, oldest first. @type {number[]} */
  batches = [];
  lines = 0;
  /** @type {EventSource | null} */
  source = null;
  ended = false;
  lost = false;

  /** @param {LogProps} props */
  constructor(props) {
    super(props);
    this.state = { how: props.ended ? "" : "live" };
  }

  componentDidMount() {
    this.follow();
  }

  componentWillUnmount() {
    this.ended = true;
    this.source?.close();
  }

  // The page draws a running job every few seconds: a broken connection is tried again then. A job
  // that ended and was put back into the queue writes again.
  /** @param {LogProps} next */
  componentWillReceiveProps(next) {
    if (this.lost || (this.props.ended && !next.ended)) this.follow(next);
  }

  // Its text is not Preact's: only the word next to the heading is.
  /** @param {LogProps} _props
   * @param {{ how: string }} state */
  shouldComponentUpdate(_props, state) {
    return state.how !== this.state.how;
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

  async follow({ job, ended } = this.props) {
    this.lost = false;
    let address;
    try {
      address = await ticketed(`jobs/${job}/log`);
    } catch (error) {
      this.broke(refused(error).message);
      return;
    }
    if (this.ended) return;
    this.clear(); // the server sends it from its beginning
    this.setState({ how: ended ? "" : "live" });
    this.source = new EventSource(address);
    this.source.onmessage = (event) => this.append(JSON.parse(event.data).lines);
    this.source.addEventListener("end", (event) => {
      /** @type {{ error?: Failure }} */
      const { error } = JSON.parse(event.data);
      this.over(error ? error.message : "the end");
    });
    this.source.onerror = () => this.broke("the connection broke");
  }

  clear() {
    this.box.current?.replaceChildren();
    this.batches = [];
    this.lines = 0;
  }

  /** @param {string[]} lines */
  append(lines) {
    const box = this.box.current;
    if (!box || !lines.length) return;
    const bottom = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX;
    box.append(`${lines.join("\n")}\n`);
    this.batches.push(lines.length);
    this.lines += lines.length;
    while (this.lines > MOST_LINES && this.batches.length > 1) {
      this.lines -= this.batches.shift() ?? 0;
      box.firstChild?.remove();
    }
    if (bottom) box.scrollTop = box.scrollHeight;
  }

  render() {
    return el(
      "div",
      { class: "card" },
      el(
        "div",
        { class: "row between" },
        el("h2", null, "Output"),
        el("span", { class: "dim" }, this.state.how),
      ),
      el("pre", {
        class: "log",
        role: "log",
        tabIndex: 0,
        "aria-label": "Output of the job",
        ref: this.box,
      }),
    );
  }
}
