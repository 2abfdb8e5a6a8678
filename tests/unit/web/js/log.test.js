// The text of a log as a terminal shows it in the end.
import assert from "node:assert/strict";
import { test } from "node:test";
import { logPath, plainText } from "../../../../src/corral/web/static/js/logs/logsearch.js";
import * as log from "../../../../src/corral/web/static/js/logs/logtext.js";

const ESC = "\x1b";

/**
 * Texts with their classes and colours.
 * @type {(line: string, before?: any) => any[]}
 */
function styles(line, before) {
  return log.styled(line, before).pieces.map(({ text, style }) => {
    const { classes, color, backgroundColor } = log.lookOf(style);
    return [text, [classes, color, backgroundColor].filter(Boolean).join("; ")];
  });
}

test("a progress bar is shown as it ended", () => {
  assert.equal(log.settled(" 10%|#   |\r 50%|##  |\r100%|####|"), "100%|####|");
  assert.equal(log.settled("done\r"), "done"); // a line of Windows
  assert.equal(log.settled("done\r\r"), "done");
  assert.equal(log.settled(""), "");
  assert.equal(log.settled("\r"), "");
});

test("colours of a terminal are kept, what moves its cursor is not shown", () => {
  assert.deepEqual(styles("plain"), [["plain", ""]]);
  assert.deepEqual(styles(`${ESC}[1;31merror${ESC}[0m: ${ESC}[32mok${ESC}[39m!`), [
    ["error", "ink-red bold"],
    [": ", ""],
    ["ok", "ink-green"],
    ["!", ""],
  ]);
  assert.deepEqual(styles(`${ESC}]0;title\x07${ESC}[2K${ESC}[1Aa\x07${ESC}[mb`), [
    ["a", ""],
    ["b", ""],
  ]);
  assert.deepEqual(styles(`${ESC}[38;5;9mred${ESC}[38;5;208morange${ESC}[38;2;1;2;3mown`), [
    ["red", "ink-red"],
    ["orange", "rgb(255 135 0)"],
    ["own", "rgb(1 2 3)"],
  ]);
  assert.deepEqual(styles(`${ESC}[38;5;240mgrey${ESC}[38;5;999mstill`), [
    ["grey", "rgb(88 88 88)"],
    ["still", "rgb(88 88 88)"],
  ]);
  assert.deepEqual(styles(`${ESC}[41;7mswapped${ESC}[27m${ESC}[4;3mx`), [
    ["swapped", "ink-red paper-front"],
    ["x", "paper-red italic underlined"],
  ]);
  assert.deepEqual(styles(`${ESC}[0m`), []);
});

test("a colour goes on in the next line, and over what a bar wrote over", () => {
  const { after } = log.styled(`${ESC}[31mone`);
  assert.deepEqual(styles("two", after), [["two", "ink-red"]]);
  assert.deepEqual(styles(`${ESC}[32m5%\r6%`), [["6%", "ink-green"]]);
});

test("a long line is cut, and states how much", () => {
  const pieces = styles("x".repeat(log.LONGEST + 1234));
  assert.equal(pieces[0][0].length, log.LONGEST);
  assert.deepEqual(pieces[1], [" … 1,234 more characters", "dim"]);
});

test("the text of a file comes in pieces that end anywhere", () => {
  const stream = new log.Stream();
  /** @param {{ lines: { text: string }[][] }} made */
  const words = ({ lines }) => lines.map((pieces) => pieces.map(({ text }) => text).join(""));
  const open = () => stream.shown.map(({ text }) => text).join("");
  let made = stream.take("one\ntw", 100, 106);
  assert.deepEqual([words(made), open(), made.from, stream.from], [["one"], "tw", 100, 104]);
  made = stream.take("o ä\n5%\r6%\r", 106, 117);
  assert.deepEqual([words(made), open()], [["two ä"], "6%"]);
  assert.deepEqual([made.from, made.next, stream.from, stream.end], [104, 111, 111, 117]);
  made = stream.take("7%", 117, 119);
  assert.deepEqual([words(made), open()], [[], "7%"]);
  made = stream.take("\nthree\n", 119, 126);
  assert.deepEqual([words(made), open()], [["7%", "three"], ""]);
  assert.deepEqual([made.from, made.next, stream.from], [111, 120, 126]);
  stream.take("left out before", 500, 515);
  assert.deepEqual([open(), stream.from], ["left out before", 500]);
});

test("of a bar that writes for hours its last state is kept", () => {
  const stream = new log.Stream();
  let at = 0;
  for (let i = 0; i < 1000; i += 1) {
    const text = `${ESC}[31m${i}%${"#".repeat(100)}\r`;
    stream.take(text, at, at + text.length);
    at += text.length;
  }
  assert.ok(stream.open.length < 300);
  assert.equal(stream.shown[0].style.ink, "red");
  assert.ok(stream.shown[0].text.startsWith("999%"));
});

test("names, sizes and addresses", () => {
  assert.deepEqual([999, 1000, 1234567, 1e9, 999999].map(log.bytes), [
    ...["999 B", "1.0 kB", "1.2 MB", "1.0 GB", "1.0 MB"],
  ]);
  assert.deepEqual(["rank-3", "batch", "output"].map(log.fileWords), [
    ...["rank 3", "batch script", "output"],
  ]);
  assert.deepEqual([log.frontOf("rank-0", 1), log.frontOf("rank-1", 2)], ["", "1: "]);
  assert.equal(logPath(3, "", { file: "all" }), "jobs/3/log?file=all");
  assert.equal(logPath(3, "search", { text: "a&b" }), "jobs/3/log/search?text=a%26b");
  assert.equal(plainText(`5%\r${ESC}[31mdone${ESC}[0m`), "done");
});

test("a text in parts of so many lines", () => {
  /** @param {string} text @param {number} end */
  const parts = (text, end) => log.inParts(text, 10, end, 2).map((p) => [p.text, p.start, p.end]);
  assert.deepEqual(parts("ä\nb\nc\nd\ne", 20), [
    ["ä\nb\n", 10, 15],
    ["c\nd\n", 15, 19],
    ["e", 19, 20],
  ]);
  assert.deepEqual(parts("a\nb\n", 14), [["a\nb\n", 10, 14]]);
  assert.deepEqual(parts("", 10), [["", 10, 10]]);
});

/**
 * What the box shows of a file whose text comes in pieces: complete lines, then the open ones.
 * @type {(pieces: string[]) => string[]}
 */
function printed(pieces) {
  const stream = new log.Stream();
  const lines = [];
  let at = 0;
  const words = (/** @type {{ text: string }[]} */ line) => line.map(({ text }) => text).join("");
  for (const text of pieces) {
    const end = at + log.bytesOf(text);
    const { lines: made, from, next } = stream.take(text, at, end);
    assert.ok(from <= next && next <= end && stream.from <= end);
    lines.push(...made.map(words));
    at = end;
  }
  return [...lines, ...(stream.open ? words(stream.shown).split("\n") : [])];
}

test("bars of several lines and backspaces are shown as a terminal shows them", () => {
  const up = `${ESC}[A`;
  assert.deepEqual(printed([` a 10%\n b 20%${up}${up}\r a 99%\n b 88%`]), [" a 99%", " b 88%"]);
  assert.deepEqual(printed(["abc\b\b\bXYZ"]), ["XYZ"]);
  assert.deepEqual(printed(["abc\n12\b3\nend\n"]), ["abc", "13", "end"]);
  // tqdm with position=0 and 1, in pieces that end anywhere
  const bars = (/** @type {number} */ n) => `\r${ESC}[32mouter${ESC}[0m ${n}%\n\rinner ${n}%${up}`;
  const text = `start\n${[0, 33, 66, 100].map(bars).join("")}\n\nover é\n`;
  const shown = ["start", "outer 100%", "inner 100%", "over é"];
  assert.deepEqual(printed([text]), shown);
  // What was complete before the cursor moved first stays: the program may never go back.
  const first = text.indexOf(up);
  for (let at = first + up.length; at < text.length; at += 1)
    assert.deepEqual(printed([text.slice(0, at), text.slice(at)]), shown, `cut at ${at}`);
  assert.deepEqual(printed([text.slice(0, first), ...text.slice(first)]).slice(-3), shown.slice(1));
  assert.deepEqual(printed([`one\ntwo\n${ESC}[2Aten`]), ["ten", "two"]);
  assert.deepEqual(printed([`long line\r${ESC}[Kx\b\b\by`]), ["y"]);
});

test("what a screen holds is bounded, and its lines are settled in order", () => {
  const lines = Array.from({ length: 200 }, (_, n) => `line ${n}`);
  const stream = new log.Stream();
  const text = `x\b${lines.join("\n")}\n`;
  const { lines: made } = stream.take(text, 0, log.bytesOf(text));
  assert.ok(made.length > 170);
  assert.ok(stream.shown.length < 60);
  assert.equal(printed([text, `${ESC}[900Atop`]).length, 201);
  assert.ok(log.bytesOf(text) >= stream.from);
});
