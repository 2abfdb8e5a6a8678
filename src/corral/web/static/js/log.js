// A job's output as it comes. Lines are appended to the text that is there, so that what somebody
// selected or scrolled to stays.
import { Component, createRef } from "../vendor/preact.mjs";
import { refused, ticketed } from "./server.js";
import { el } from "./view.js";
/** @import { Failure } from "./api.js" */

const MOST_LINES = 5000;
const NEAR_PX = 40;
const INKS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
// CSI sequences (colours are those that end in m), OSC (titles, links), and two-letter escapes.
// eslint-disable-next-line no-control-regex
const ESCAPE = /\x1b(?:\[([0-9;:?<=>]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g;

/**
 * What a terminal shows of a line in the end: a progress bar writes over itself after each \r.
 * @param {string} line
 */
export const settled = (line) => line.split("\r").filter(Boolean).at(-1) ?? "";

/** @typedef {{ ink: string, bold: boolean, dim: boolean }} Style */

/** @type {Record<number, Partial<Style>>} */
const STYLES = {
  0: { ink: "", bold: false, dim: false },
  1: { bold: true },
  2: { dim: true },
  22: { bold: false, dim: false },
  39: { ink: "" },
};
INKS.forEach((ink, i) => {
  STYLES[30 + i] = { ink };
  STYLES[90 + i] = { ink };
});

/**
 * The style after one more sequence of colours; what is not of the 16 colours changes nothing.
 * @param {string} codes
 * @param {Style} before
 * @returns {Style}
 */
function inked(codes, before) {
  let after = before;
  const numbers = codes.split(/[;:]/).map(Number);
  for (let i = 0; i < numbers.length; i += 1) {
    const [code, kind, colour] = numbers.slice(i);
    if (code === 38 || code === 48) {
      const named = code === 38 && kind === 5 && colour < 16;
      if (named) after = { ...after, ink: INKS[colour % 8] };
      i += kind === 5 ? 2 : 4;
    } else after = { ...after, ...STYLES[code] };
  }
  return after;
}

/**
 * A line in pieces of one style each, without what moves a terminal's cursor or names its window.
 * @param {string} line
 * @returns {{ text: string, look: string }[]}
 */
export function pieces(line) {
  const text = settled(line);
  if (!text.includes("\x1b")) return [{ text, look: "" }];
  /** @type {{ text: string, look: string }[]} */
  const made = [];
  /** @type {Style} */
  let style = { ink: "", bold: false, dim: false };
  let at = 0;
  const until = (/** @type {number} */ end) => {
    const { ink, bold, dim } = style;
    const look = [ink && `ink-${ink}`, bold && "bold", dim && "dim"].filter(Boolean).join(" ");
    if (end > at) made.push({ text: text.slice(at, end), look });
  };
  for (const match of text.matchAll(ESCAPE)) {
    until(match.index);
    at = match.index + match[0].length;
    if (match[2] === "m") style = inked(match[1] || "0", style);
  }
  until(text.length);
  return made.length ? made : [{ text: "", look: "" }];
}

/**
 * One element for many lines: lines without colours are one text in it.
 * @param {string[]} lines
 */
function batchOf(lines) {
  const batch = document.createElement("span");
  let plain = "";
  for (const line of lines) {
    for (const { text, look } of pieces(line)) {
      if (look) {
        const piece = document.createElement("span");
        piece.className = look;
        piece.textContent = text;
        batch.append(plain, piece);
        plain = "";
      } else plain += text;
    }
    plain += "\n";
  }
  batch.append(plain);
  return batch;
}

/** @typedef {{ job: number, ended: boolean }} LogProps */

/** @extends {Component<LogProps, { how: string }>} */
export class Log extends Component {
  /** @type {{ current: HTMLPreElement | null }} */
  box = createRef();
  /** How many lines each element of the box has, oldest first. @type {number[]} */
  batches = [];
  lines = 0;
  /** @type {EventSource | null} */
  source = null;
  ended = false;
  lost = false;

  /** @param {LogProps} props */
  constructor(props) {
    super(props);
    this.state = { how: props.ended ? "loading" : "live" };
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
    this.setState({ how: ended ? "loading" : "live" });
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
    box.append(batchOf(lines));
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
