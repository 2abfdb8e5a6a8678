// The text of a log as a terminal shows it in the end: carriage returns and colours resolved.

const INKS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
/** Longer lines are cut on the page; a download has all of them. */
export const LONGEST = 10000;
// CSI sequences (colours are those that end in m), OSC (titles, links), and two-letter escapes.
const ESCAPE =
  // eslint-disable-next-line no-control-regex
  /\x1b(?:\[([0-9;:?<=>]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0b\x0c\x0e-\x1a\x7f]/g;

/**
 * How a piece of text looks. Of the 16 colours the page has its own; others are as they are.
 * @typedef {object} Style
 * @property {string} ink
 * @property {string} paper
 * @property {boolean} bold
 * @property {boolean} dim
 * @property {boolean} italic
 * @property {boolean} underlined
 * @property {boolean} inverse
 */

/** @type {Readonly<Style>} */
export const PLAIN = Object.freeze({
  ...{ ink: "", paper: "", bold: false, dim: false },
  ...{ italic: false, underlined: false, inverse: false },
});

/** @type {Record<number, Partial<Style>>} */
const STYLES = {
  0: PLAIN,
  1: { bold: true },
  2: { dim: true },
  3: { italic: true },
  4: { underlined: true },
  7: { inverse: true },
  22: { bold: false, dim: false },
  23: { italic: false },
  24: { underlined: false },
  27: { inverse: false },
  39: { ink: "" },
  49: { paper: "" },
};
INKS.forEach((name, i) => {
  STYLES[30 + i] = { ink: name };
  STYLES[90 + i] = { ink: name };
  STYLES[40 + i] = { paper: name };
  STYLES[100 + i] = { paper: name };
});

const STEPS = [0, 95, 135, 175, 215, 255];

/**
 * A colour of the 256: the first 16 by name, then a cube of 6 steps each, then 24 greys.
 * @param {number} n
 */
function indexed(n) {
  if (!(n >= 0 && n < 256)) return "";
  if (n < 16) return INKS[n % 8];
  if (n >= 232)
    return `rgb(${Array(3)
      .fill(8 + 10 * (n - 232))
      .join(" ")})`;
  const at = n - 16;
  const parts = [Math.floor(at / 36), Math.floor(at / 6) % 6, at % 6];
  return `rgb(${parts.map((part) => STEPS[part]).join(" ")})`;
}

/**
 * @param {number} kind
 * @param {number[]} rest
 */
function colourOf(kind, rest) {
  if (kind === 5) return indexed(rest[0]);
  const parts = rest.slice(0, 3);
  const known = kind === 2 && parts.length === 3 && parts.every((n) => n >= 0 && n < 256);
  return known ? `rgb(${parts.join(" ")})` : "";
}

/**
 * The style after one more sequence of colours.
 * @param {string} codes
 * @param {Style} before
 * @returns {Style}
 */
function inked(codes, before) {
  let after = before;
  const numbers = codes.split(/[;:]/).map(Number);
  for (let i = 0; i < numbers.length; i += 1) {
    const code = numbers[i];
    if (code === 38 || code === 48) {
      const kind = numbers[i + 1];
      const colour = colourOf(kind, numbers.slice(i + 2));
      if (colour) after = { ...after, [code === 38 ? "ink" : "paper"]: colour };
      i += kind === 5 ? 2 : 4;
    } else after = { ...after, ...STYLES[code] };
  }
  return after;
}

/**
 * Where the last state of a line begins: a progress bar writes over itself after each \r.
 * @param {string} line
 */
function lastState(line) {
  let end = line.length;
  while (end > 0 && line[end - 1] === "\r") end -= 1;
  return end ? line.lastIndexOf("\r", end - 1) + 1 : 0;
}

/**
 * What a terminal shows of a line in the end.
 * @param {string} line
 */
export const settled = (line) => line.slice(lastState(line)).replace(/\r+$/, "");

/** @typedef {{ text: string, style: Style }} Piece */

/**
 * A line in pieces of one style each, without what moves a cursor or names a window; and the style
 * after it, with which the next line begins.
 * @param {string} line
 * @param {Style} [before]
 * @returns {{ pieces: Piece[], after: Style }}
 */
export function styled(line, before = PLAIN) {
  const from = lastState(line);
  let style = from ? inkedBy(line.slice(0, from), before) : before;
  const text = line.slice(from).replace(/\r+$/, "");
  /** @type {Piece[]} */
  const pieces = [];
  let at = 0;
  let left = LONGEST;
  const until = (/** @type {number} */ end) => {
    const part = text.slice(at, Math.min(end, at + left));
    left -= part.length;
    if (part) pieces.push({ text: part, style });
  };
  for (const match of text.matchAll(ESCAPE)) {
    until(match.index);
    at = match.index + match[0].length;
    if (match[2] === "m") style = inked(match[1] || "0", style);
  }
  until(text.length);
  if (!left && text.length > LONGEST) {
    const words = ` … ${(text.length - LONGEST).toLocaleString("en")} more characters`;
    pieces.push({ text: words, style: { ...PLAIN, dim: true } });
  }
  return { pieces, after: style };
}

/**
 * The style after a text that is not shown.
 * @param {string} text
 * @param {Style} before
 */
function inkedBy(text, before) {
  let style = before;
  if (text.includes("\x1b"))
    for (const [, codes, kind] of text.matchAll(ESCAPE))
      if (kind === "m") style = inked(codes || "0", style);
  return style;
}

/**
 * The classes and colours of an element for a style; empty for the plain one.
 * @param {Style} style
 */
export function lookOf(style) {
  const { ink, paper, inverse } = style;
  const [front, back] = inverse ? [paper || "back", ink || "front"] : [ink, paper];
  const own = (/** @type {string} */ colour) => (colour.startsWith("rgb") ? colour : "");
  const named = (/** @type {string} */ word, /** @type {string} */ colour) =>
    colour && !own(colour) ? [`${word}-${colour}`] : [];
  const shapes = /** @type {const} */ (["bold", "dim", "italic", "underlined"]);
  const classes = [
    ...named("ink", front),
    ...named("paper", back),
    ...shapes.filter((shape) => style[shape]),
  ];
  return { classes: classes.join(" "), color: own(front), backgroundColor: own(back) };
}

const encoder = new TextEncoder();
/** @param {string} text */
export const bytesOf = (text) => encoder.encode(text).length;

/**
 * A text in parts of so many lines, each with its bytes: what is shown goes again part by part.
 * @param {string} text
 * @param {number} start
 * @param {number} end
 * @param {number} [most]
 */
export function inParts(text, start, end, most = 500) {
  const parts = [];
  let [from, at, lines] = [start, 0, 0];
  for (let i = text.indexOf("\n"); i >= 0; i = text.indexOf("\n", i + 1)) {
    lines += 1;
    if (lines === most && i + 1 < text.length) {
      const part = text.slice(at, i + 1);
      parts.push({ text: part, start: from, end: from + bytesOf(part) });
      from += bytesOf(part);
      at = i + 1;
      lines = 0;
    }
  }
  return [...parts, { text: text.slice(at), start: from, end }];
}

/** Of the lines that a program may still go back to: a terminal has as many. */
const HELD = 24;
const MOVES = /[\b]|\x1b\[\d*[ABDF]/; // eslint-disable-line no-control-regex
const UNFINISHED = /\x1b(?:\[[0-9;:?<=>]*)?$/; // eslint-disable-line no-control-regex

/** @typedef {{ text: string, style: Style }[]} Cells one character each */

/** The last lines of a file whose program moves the cursor: bars of several lines, backspaces. */
class Screen {
  /** Each with the byte at which it began. @type {{ cells: Cells, from: number }[]} */
  rows;
  row = 0;
  column = 0;
  /** What comes next replaces the line, as after \r elsewhere. */
  again = false;
  /** Lines that were begun since something moved. */
  still = 0;
  /** An escape sequence whose end is in the next piece. */
  rest = "";

  /**
   * @param {number} from
   * @param {Style} style
   */
  constructor(from, style) {
    this.rows = [{ cells: [], from }];
    this.style = style;
  }

  /**
   * @param {string} piece
   * @param {number} start the byte of its first character
   */
  write(piece, start) {
    const text = this.rest + piece;
    let byte = start - bytesOf(this.rest);
    let counted = 0;
    if (MOVES.test(text)) this.still = 0;
    this.rest = UNFINISHED.exec(text)?.[0] ?? "";
    const complete = text.slice(0, text.length - this.rest.length);
    for (let at = 0; at < complete.length; at += 1) {
      if (complete[at] === "\n") {
        byte += bytesOf(complete.slice(counted, at + 1));
        counted = at + 1;
        this.down(byte);
      } else if (complete[at] >= " " && complete[at] !== "\x7f") this.put(complete[at]);
      else at += this.control(complete, at);
    }
  }

  /**
   * How many characters of an escape sequence follow the one there.
   * @param {string} text
   * @param {number} at
   */
  control(text, at) {
    if (text[at] === "\r") {
      this.column = 0;
      this.again = true;
    } else if (text[at] === "\b") this.column = Math.max(0, this.column - 1);
    else if (text[at] === "\t") this.put("\t");
    else {
      ESCAPE.lastIndex = at;
      const match = ESCAPE.exec(text);
      ESCAPE.lastIndex = 0;
      if (match?.index !== at) return 0;
      if (match[2]) this.sequence(match[2], match[1]);
      return match[0].length - 1;
    }
    return 0;
  }

  /** @param {number} byte of what follows */
  down(byte) {
    this.row += 1;
    this.column = 0;
    this.again = false;
    if (this.row < this.rows.length) return;
    this.rows.push({ cells: [], from: byte });
    this.still += 1;
  }

  /** @param {string} text */
  put(text) {
    const { cells } = this.rows[this.row];
    if (this.again) cells.length = 0;
    this.again = false;
    while (cells.length < this.column) cells.push({ text: " ", style: PLAIN });
    if (this.column < 2 * LONGEST) cells[this.column] = { text, style: this.style };
    this.column += 1;
  }

  /**
   * @param {string} kind
   * @param {string} codes
   */
  sequence(kind, codes) {
    const count = Number(codes) || 1;
    const { row, column, rows } = this;
    const { cells } = rows[row];
    /** @type {Record<string, () => unknown>} */
    const moves = {
      m: () => (this.style = inked(codes || "0", this.style)),
      A: () => (this.row = Math.max(0, row - count)),
      B: () => (this.row = Math.min(rows.length - 1, row + count)),
      C: () => (this.column = Math.min(LONGEST, column + count)),
      D: () => (this.column = Math.max(0, column - count)),
      F: () => [(this.row = Math.max(0, row - count)), (this.column = 0)],
      K: () => (cells.length = codes === "2" ? 0 : Math.min(cells.length, column)),
    };
    moves[kind]?.();
  }

  /** Lines that no program of a terminal's height goes back to. */
  settled() {
    const held = this.still > HELD ? 1 : HELD;
    const over = Math.max(0, Math.min(this.rows.length - held, this.row));
    this.row -= over;
    return this.rows.splice(0, over).map(({ cells }) => joined(cells));
  }

  /** What is shown of the others; the last line break is not among them. */
  get shown() {
    const last = this.rows.findLastIndex(({ cells }) => cells.length);
    return this.rows
      .slice(0, Math.max(last, 0) + 1)
      .flatMap(({ cells }, i) => [...(i ? [{ text: "\n", style: PLAIN }] : []), ...joined(cells)]);
  }
}

/** Neighbours of one style together. @param {Cells} cells @returns {Piece[]} */
function joined(cells) {
  /** @type {Piece[]} */
  const pieces = [];
  for (const { text, style } of cells.slice(0, LONGEST)) {
    const last = pieces.at(-1);
    if (last?.style === style) last.text += text;
    else pieces.push({ text, style });
  }
  return pieces;
}

/**
 * The text of one file as its pieces come: lines that are complete, and the one that is still open.
 */
export class Stream {
  /** Where the first byte of the open line is. */
  from = 0;
  /** Where the next piece begins. */
  end = -1;
  /** @type {Style} */
  style = PLAIN;
  /** The last state of the open line, as far as it has come; with a screen what that shows. */
  open = "";
  /** Once its program moved the cursor. @type {Screen | null} */
  screen = null;

  /**
   * One more piece: the lines that it completes, and the bytes of the first and of the second one.
   * @param {string} text
   * @param {number} start
   * @param {number} end
   */
  take(text, start, end) {
    if (start !== this.end) this.restart(start);
    this.end = end;
    if (this.screen || MOVES.test(this.open + text)) return this.moved(text, start);
    const lines = (this.open + text).split("\n");
    const last = lines.pop() ?? "";
    const { from } = this;
    const next = start + bytesOf(text.slice(0, text.indexOf("\n") + 1));
    const made = lines.map((line) => {
      const { pieces, after } = styled(line, this.style);
      this.style = after;
      return pieces;
    });
    if (lines.length) this.from = Math.max(start, end - bytesOf(last));
    this.keep(last);
    return { lines: made, from, next };
  }

  /**
   * The same of a program that moves its cursor. Lines of before that piece stay as they are.
   * @param {string} text
   * @param {number} start
   */
  moved(text, start) {
    if (!this.screen) {
      this.screen = new Screen(this.open ? this.from : start, this.style);
      this.screen.write(this.open, start - bytesOf(this.open));
    }
    const { screen } = this;
    const from = screen.rows[0].from;
    screen.write(text, start);
    const second = screen.rows[1]?.from ?? this.end;
    const lines = screen.settled();
    this.from = screen.rows[0].from;
    const { shown } = screen;
    this.open = shown.map((piece) => piece.text).join("");
    if (screen.still > HELD && !screen.rest) {
      this.style = screen.style;
      this.screen = null;
    }
    return { lines, from, next: second };
  }

  /**
   * Of an open line only what is shown is kept: a progress bar writes for hours.
   * @param {string} line
   */
  keep(line) {
    const at = lastState(line);
    if (at) this.style = styled(line.slice(0, at), this.style).after;
    const state = line.slice(at);
    this.open = state.length > 2 * LONGEST ? state.slice(0, 2 * LONGEST) : state;
  }

  /** What is shown of the open line. */
  get shown() {
    return this.screen?.shown ?? styled(this.open, this.style).pieces;
  }

  /** @param {number} start */
  restart(start) {
    this.screen = null;
    this.from = start;
    this.end = start;
    this.open = "";
    this.style = PLAIN;
  }
}

/** @param {string} name */
export const fileWords = (name) =>
  name.startsWith("rank-") ? `rank ${name.slice(5)}` : name === "batch" ? "batch script" : name;

/**
 * What is in front of a line where several files are shown.
 * @param {string} name
 * @param {number} ranks
 */
export function frontOf(name, ranks) {
  if (name.startsWith("rank-")) return ranks > 1 ? `${name.slice(5)}: ` : "";
  return name === "errors" ? "errors: " : "";
}

/** @param {number} count */
export function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let n = count;
  let unit = 0;
  while (n >= 999.5 && unit < units.length - 1) {
    n /= 1000;
    unit += 1;
  }
  return `${unit && n < 9.95 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}
