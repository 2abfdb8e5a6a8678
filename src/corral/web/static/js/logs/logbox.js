// The box that shows a log's lines: a bounded part of them, of one file or of several. Lines are
// appended to the text that is there, so that what somebody selected or scrolled to stays.
import { bytes, bytesOf, fileWords, frontOf, inParts, lookOf, PLAIN, Stream } from "./logtext.js";
/** @import * as api from "../api.js" */
/** @import { Piece } from "./logtext.js" */

export const MOST_LINES = 5000;
export const MOST_CHARS = 2_000_000;
const NEAR_PX = 40;
const MOST_MARKED = 2000;
const MARKED = "log-search";

/**
 * Lines in the box, of one file: the byte of the first, and the one behind the last.
 * @typedef {object} Batch
 * @property {HTMLElement} element
 * @property {string} file
 * @property {number} start
 * @property {number} end
 * @property {number} lines
 * @property {number} chars
 */

/**
 * @param {HTMLElement} into
 * @param {Piece[]} pieces
 * @param {string} front
 */
function fill(into, pieces, front) {
  let plain = "";
  const flush = () => {
    if (plain) into.append(plain);
    plain = "";
  };
  const begin = () => {
    if (!front) return;
    const rank = document.createElement("span");
    rank.className = "rank";
    rank.textContent = front;
    into.append(rank);
  };
  begin();
  for (const [i, { text, style }] of pieces.entries()) {
    const { classes, color, backgroundColor } = lookOf(style);
    if (classes || color || backgroundColor) {
      flush();
      const piece = document.createElement("span");
      piece.className = classes;
      Object.assign(piece.style, { color, backgroundColor });
      piece.textContent = text;
      into.append(piece);
    } else plain += text;
    if (text === "\n" && i < pieces.length - 1) {
      flush();
      begin();
    }
  }
  flush();
}

/**
 * One element for many lines: those without colours are one text in it.
 * @param {Piece[][]} lines
 * @param {string} front
 */
function elementOf(lines, front) {
  const element = document.createElement("span");
  let plain = "";
  for (const pieces of lines) {
    if (!front && pieces.every(({ style }) => style === PLAIN)) {
      plain += `${pieces.map(({ text }) => text).join("")}\n`;
    } else {
      element.append(plain);
      plain = "\n";
      fill(element, pieces, front);
    }
  }
  element.append(plain);
  return element;
}

/** @param {Piece[]} pieces */
const charsOf = (pieces) => pieces.reduce((sum, { text }) => sum + text.length, 1);

/** @param {Node} node */
function selected(node) {
  const selection = getSelection();
  if (!selection || selection.isCollapsed || !selection.rangeCount) return false;
  return selection.getRangeAt(0).intersectsNode(node);
}

export class LogBox {
  /** @type {Batch[]} */
  batches = [];
  /** @type {Map<string, Stream>} */
  streams = new Map();
  /** The element of each open line. @type {Map<string, HTMLElement>} */
  open = new Map();
  /** What lines that are selected are to hold once they are not any more.
   * @type {Map<HTMLElement, { file: string, pieces: Piece[] }>} */
  waiting = new Map();
  lines = 0;
  chars = 0;
  ranks = 0;
  sought = "";

  /** @param {HTMLElement} box */
  constructor(box) {
    this.box = box;
    document.addEventListener("selectionchange", this.unselected);
  }

  drop() {
    document.removeEventListener("selectionchange", this.unselected);
    this.seek("");
  }

  unselected = () => {
    for (const [row, { file, pieces }] of [...this.waiting]) this.fillRow(row, file, pieces);
  };

  clear() {
    this.box.replaceChildren();
    this.batches = [];
    this.streams.clear();
    this.open.clear();
    this.waiting.clear();
    this.lines = 0;
    this.chars = 0;
  }

  get atEnd() {
    const { box } = this;
    return box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX;
  }

  /** What comes next may move what is shown. */
  get atRest() {
    return this.atEnd && !selected(this.box);
  }

  toEnd() {
    this.box.scrollTop = this.box.scrollHeight;
  }

  /** @param {api.LogPiece[]} pieces */
  take(pieces) {
    const follow = this.atRest;
    for (const piece of pieces) this.piece(piece);
    this.trim();
    if (follow) this.toEnd();
    if (this.sought) this.seek(this.sought);
  }

  /** @param {api.LogPiece} piece */
  piece({ file, start, end, text, again, trouble }) {
    const known = this.streams.get(file);
    const name = fileWords(file);
    if (trouble) {
      this.note(`${name}: ${trouble}`);
      return;
    }
    if (again) {
      this.freeze(file);
      const stream = new Stream();
      stream.end = 0; // what is left out from here on is stated
      this.streams.set(file, stream);
      this.note(`${name} was written again from its beginning`);
      return;
    }
    if (known && start > known.end) {
      this.freeze(file);
      this.note(`${bytes(start - known.end)} of ${name} came too fast and are left out here`);
    }
    this.add(file, text, start, end);
  }

  /**
   * @param {string} file
   * @param {string} text
   * @param {number} start
   * @param {number} end
   */
  add(file, text, start, end) {
    for (const part of inParts(text, start, end)) this.addPart(file, part);
  }

  /**
   * @param {string} file
   * @param {{ text: string, start: number, end: number }} part
   */
  addPart(file, { text, start, end }) {
    const stream = this.streams.get(file) ?? new Stream();
    this.streams.set(file, stream);
    const { lines, from, next } = stream.take(text, start, end);
    const row = this.open.get(file);
    let rest = lines;
    if (row && lines.length) {
      this.fillRow(row, file, [...lines[0], { text: "\n", style: PLAIN }]);
      this.open.delete(file);
      row.classList.remove("open");
      const chars = charsOf(lines[0]);
      this.push({ element: row, file, start: from, end: next, lines: 1, chars });
      rest = lines.slice(1);
    }
    if (rest.length) {
      const element = elementOf(rest, frontOf(file, this.ranks));
      this.box.append(element);
      const chars = rest.reduce((sum, pieces) => sum + charsOf(pieces), 0);
      const begin = row ? next : from;
      this.push({ element, file, start: begin, end: stream.from, lines: rest.length, chars });
    }
    if (stream.open) this.redraw(file, stream);
  }

  /** @param {Batch} batch */
  push(batch) {
    this.batches.push(batch);
    this.lines += batch.lines;
    this.chars += batch.chars;
  }

  /**
   * An open line as it is now.
   * @param {string} file
   * @param {Stream} stream
   */
  redraw(file, stream) {
    let row = this.open.get(file);
    if (!row) {
      row = document.createElement("span");
      row.className = "open";
      this.open.set(file, row);
      this.box.append(row);
    }
    this.fillRow(row, file, [...stream.shown, { text: "\n", style: PLAIN }]);
  }

  /**
   * A line that is selected keeps what somebody is copying, and changes afterwards.
   * @param {HTMLElement} row
   * @param {string} file
   * @param {Piece[]} pieces
   */
  fillRow(row, file, pieces) {
    if (row.textContent && selected(row)) {
      this.waiting.set(row, { file, pieces });
      return;
    }
    this.waiting.delete(row);
    row.replaceChildren();
    fill(row, pieces, frontOf(file, this.ranks));
  }

  /**
   * An open line stays as it is: what follows belongs to another one.
   * @param {string} file
   */
  freeze(file) {
    this.open.get(file)?.classList.remove("open");
    this.open.delete(file);
  }

  /** @param {string} words */
  note(words) {
    const element = document.createElement("span");
    element.className = "note";
    element.textContent = `${words}\n`;
    this.box.append(element);
    this.push({ element, file: "", start: 0, end: 0, lines: 1, chars: words.length });
  }

  /** The oldest lines go where there are too many; none that is selected. */
  trim() {
    while (this.tooMany && this.batches.length > 1) {
      const [oldest] = this.batches;
      if (selected(oldest.element)) return;
      this.remove(oldest);
      this.batches.shift();
    }
  }

  get tooMany() {
    return this.lines > MOST_LINES || this.chars > MOST_CHARS;
  }

  /** @param {Batch} batch */
  remove({ element, lines, chars }) {
    element.remove();
    this.lines -= lines;
    this.chars -= chars;
  }

  /**
   * Where the shown part of a file begins; its end where nothing of it is shown.
   * @param {string} file
   */
  firstOf(file) {
    const first = this.batches.find((batch) => batch.file === file);
    return first ? first.start : (this.streams.get(file)?.from ?? 0);
  }

  /** How many bytes there are before what is shown, of each file with any. */
  get before() {
    const files = [...this.streams.keys()].map((file) => ({ file, first: this.firstOf(file) }));
    return files.filter(({ first }) => first > 0);
  }

  /**
   * An earlier part comes in front; what is at the end goes where there is too much, which ends
   * that the log is followed.
   * @param {api.LogPart} part
   * @returns {boolean} whether the end is still there
   */
  prepend({ file, text, start, end }) {
    const height = this.box.scrollHeight;
    for (const part of inParts(text, start, end).reverse()) this.prependPart(file, part);
    this.box.scrollTop += this.box.scrollHeight - height;
    let complete = true;
    while (this.tooMany && this.batches.length > 1) {
      if (complete) for (const row of this.open.values()) row.remove();
      complete = false;
      const newest = /** @type {Batch} */ (this.batches.pop());
      this.remove(newest);
    }
    if (!complete) this.endAt();
    if (this.sought) this.seek(this.sought);
    return complete;
  }

  /**
   * @param {string} file
   * @param {{ text: string, start: number, end: number }} part
   */
  prependPart(file, { text, start, end }) {
    const stream = new Stream();
    const { lines } = stream.take(text, start, end);
    if (stream.open) lines.push(stream.shown);
    const element = elementOf(lines, frontOf(file, this.ranks));
    this.box.prepend(element);
    const chars = lines.reduce((sum, pieces) => sum + charsOf(pieces), 0);
    this.batches.unshift({ element, file, start, end, lines: lines.length, chars });
    this.lines += lines.length;
    this.chars += chars;
  }

  /** Each file ends with the last of its lines that is shown: the part after it can be loaded. */
  endAt() {
    this.open.clear();
    this.waiting.clear();
    for (const [file, stream] of this.streams) {
      const last = this.batches.findLast((batch) => batch.file === file);
      stream.restart(last ? last.end : 0);
    }
  }

  /**
   * A part around a line, which is shown in the middle.
   * @param {api.LogPart} part
   * @param {number} at its first byte
   */
  showAround({ file, text, start, end }, at) {
    this.clear();
    const data = new TextEncoder().encode(text);
    const before = new TextDecoder().decode(data.subarray(0, Math.max(0, at - start)));
    const from = start + bytesOf(before);
    const rest = text.slice(before.length);
    const stop = rest.indexOf("\n") + 1 || rest.length;
    const line = rest.slice(0, stop);
    if (before) this.add(file, before, start, from);
    this.add(file, line, from, from + bytesOf(line));
    const element = this.open.get(file) ?? this.batches.at(-1)?.element;
    if (stop < rest.length) this.add(file, rest.slice(stop), from + bytesOf(line), end);
    element?.classList.add("at");
    const { box } = this;
    if (element) box.scrollTop = element.offsetTop - box.offsetTop - box.clientHeight / 2;
    if (this.sought) this.seek(this.sought);
  }

  /**
   * Marks a text where it is shown, without a change of the elements.
   * @param {string} text
   */
  seek(text) {
    this.sought = text;
    if (!("highlights" in CSS)) return;
    CSS.highlights.delete(MARKED);
    if (!text) return;
    const sought = text.toLowerCase();
    const marks = [];
    const nodes = document.createTreeWalker(this.box, NodeFilter.SHOW_TEXT);
    while (nodes.nextNode() && marks.length < MOST_MARKED) {
      const { currentNode } = nodes;
      const content = (currentNode.nodeValue ?? "").toLowerCase();
      let at = content.indexOf(sought);
      while (at >= 0 && marks.length < MOST_MARKED) {
        const range = new Range();
        range.setStart(currentNode, at);
        range.setEnd(currentNode, at + sought.length);
        marks.push(range);
        at = content.indexOf(sought, at + sought.length);
      }
    }
    if (marks.length) CSS.highlights.set(MARKED, new Highlight(...marks));
  }
}
