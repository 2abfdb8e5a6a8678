// What all views are made of: elements, words for figures, dialogs and notices.
import { Component, h, render } from "../../vendor/preact.mjs";
import { refused } from "./server.js";
/** @import * as dom from "preact" */
/** @import { ClassAttributes, ComponentChildren, HTMLAttributes, VNode } from "preact" */
/** @import { NodeFigures, NodeRow, StateCount } from "../api.js" */
/** @import { Refused } from "./server.js" */

/** The class of a state, by which the page colours.
 * @typedef {NodeRow["kind"]} Kind */

/**
 * What each element takes. Not JSX.IntrinsicElements: its unions of roles and types cost tsc 12 s.
 * @typedef {HTMLAttributes<HTMLElement>} Plain
 * @typedef {{
 *   [tag in "b" | "br" | "code" | "datalist" | "dd" | "div" | "dl" | "dt" | "figcaption" | "figure" | "h1" | "h2"
 *     | "h3" | "hr" | "i" | "li" | "p" | "small" | "span" | "summary" | "section" | "article"
 *     | "table" | "tbody" | "thead" | "tr"]: Plain
 * }} PlainTags
 * @typedef {object} OtherTags
 * @property {dom.LooseAnchorHTMLAttributes<HTMLAnchorElement>} a
 * @property {dom.ButtonHTMLAttributes<HTMLButtonElement>} button
 * @property {dom.CanvasHTMLAttributes<HTMLCanvasElement>} canvas
 * @property {dom.DetailsHTMLAttributes<HTMLDetailsElement>} details
 * @property {dom.DialogHTMLAttributes<HTMLDialogElement>} dialog
 * @property {dom.FormHTMLAttributes<HTMLFormElement>} form
 * @property {dom.IframeHTMLAttributes<HTMLIFrameElement>} iframe
 * @property {dom.LooseInputHTMLAttributes<HTMLInputElement>} input
 * @property {dom.LabelHTMLAttributes<HTMLLabelElement>} label
 * @property {dom.OptionHTMLAttributes<HTMLOptionElement>} option
 * @property {HTMLAttributes<HTMLPreElement>} pre
 * @property {dom.LooseSelectHTMLAttributes<HTMLSelectElement>} select
 * @property {dom.TdHTMLAttributes<HTMLTableCellElement>} td
 * @property {dom.TextareaHTMLAttributes<HTMLTextAreaElement>} textarea
 * @property {dom.ThHTMLAttributes<HTMLTableCellElement>} th
 * @property {HTMLAttributes<HTMLUListElement>} ul
 */
/** @typedef {PlainTags & OtherTags} Tags */
/** @typedef {{ [data: `data-${string}`]: string | number | undefined }} Data */
/** @typedef {Tags["input"] & Data} InputProps */

/**
 * An element as h of Preact makes it, its attributes checked by its tag. A text goes in as text, so
 * that a job's name is never markup.
 * @type {<K extends keyof Tags>(
 *   tag: K,
 *   props?: (Tags[K] & ClassAttributes<any> & Data) | null,
 *   ...children: ComponentChildren[]
 * ) => VNode}
 */
export const el = /** @type {any} */ (h);

/**
 * A text as a program printed it; what scrolls can be scrolled by keyboard.
 * @param {ComponentChildren} text
 */
export const pre = (text) => el("pre", { tabIndex: 0 }, text);

/**
 * A sentence of Corral's with its `commands` in the type of commands.
 * @param {string} text
 */
export const coded = (text) =>
  text.split("`").map((part, i) => (i % 2 ? el("code", { key: i }, part) : part));

/** @param {number | null | undefined} seconds */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "-";
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  const two = (/** @type {number} */ n, /** @type {string} */ words) => (n ? ` ${n} ${words}` : "");
  if (s < 86400) return `${Math.floor(s / 3600)} h${two(Math.floor((s % 3600) / 60), "min")}`;
  return `${Math.floor(s / 86400)} d${two(Math.floor((s % 86400) / 3600), "h")}`;
}

/**
 * @param {number | null | undefined} at unix seconds
 * @param {number} [now]
 */
export const since = (at, now = Date.now() / 1000) =>
  at ? `${span(Math.max(0, now - at))} ago` : "-";

/** @param {number | string | null | undefined} at unix seconds, or a text where Slurm prints one */
export function clock(at) {
  if (!at) return "-";
  if (typeof at === "string") return at;
  const when = new Date(at * 1000);
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const day = `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
  return `${day} ${two(when.getHours())}:${two(when.getMinutes())}:${two(when.getSeconds())}`;
}

/**
 * A time with how long ago it was.
 * @param {number | null | undefined} at unix seconds
 */
export const clockAgo = (at) => (at ? `${clock(at)} (${since(at)})` : "unknown");

/** @param {number | null | undefined} mib */
export function gib(mib) {
  if (!mib) return "-";
  if (mib >= 1048576) return `${(mib / 1048576).toFixed(1)} TiB`;
  return mib >= 1024 ? `${(mib / 1024).toFixed(mib < 10240 ? 1 : 0)} GiB` : `${mib} MiB`;
}

/** @param {number | null | undefined} n */
export const formatted = (n) => Number(n || 0).toLocaleString("en");

/**
 * @param {number} n
 * @param {string} word
 */
export const many = (n, word) => `${formatted(n)} ${word}${n === 1 ? "" : "s"}`;

/** What Slurm's answer does not have is shown as unknown. @param {number | null} number */
export const known = (number) => number ?? "?";

/** Of a sum without what is unknown: at least so many. @param {number} sum */
export const atLeast = (sum) => (sum ? `${formatted(sum)}+` : "?");

/**
 * Temperature and power, where the cluster has metrics or slurmd reports the power.
 * @param {NodeRow} node
 * @param {NodeFigures} figures
 */
export function warmth(node, figures = {}) {
  const watts = figures.watts ?? node.watts;
  const parts = [];
  if (figures.celsius !== undefined) parts.push(`${Math.round(figures.celsius)} °C`);
  if (watts) parts.push(`${formatted(Math.round(watts))} W`);
  return parts.join(" · ");
}

/**
 * @param {number} used
 * @param {number} total
 */
export function bar(used, total, small = false) {
  const share = total ? Math.min(100, (100 * used) / total) : 0;
  return el(
    "span",
    { class: small ? "bar small" : "bar", "aria-hidden": "true" },
    el("i", { style: { width: `${share}%` } }),
  );
}

/**
 * A bar with its number in a column of numbers: the bars are below each other.
 * @param {number} used
 * @param {number} total
 * @param {ComponentChildren} text
 */
export const barred = (used, total, text) => [
  bar(used, total, true),
  el("span", { class: "figure" }, text),
];

/**
 * @param {string} text
 * @param {Kind} kind
 */
export const badge = (text, kind) =>
  el("span", { class: `state ${kind}` }, text.toLowerCase().replaceAll(/[_+]/g, " "));

/**
 * A part of a page with its title; `more` is at the right of that.
 * @param {ComponentChildren} title
 * @param {ComponentChildren} content
 * @param {ComponentChildren} [more]
 * @param {{ key?: string, hidden?: boolean, "aria-label"?: string }} [props]
 */
export const card = (title, content, more, props = {}) =>
  el(
    "section",
    { class: "card", ...props },
    el("div", { class: "row between" }, el("h2", null, title), more),
    content,
  );

/** @param {NodeRow} node */
export const nodeBadge = (node) => badge(node.state, node.kind);

/** Which open notices there are, oldest first.
 * @type {{ key: number, text: string, bad: boolean, hint: string }[]} */
const notices = [];
let noticed = 0;

function showNotices() {
  const shown = notices.map(({ key, text, bad, hint }) =>
    el("div", { key, class: bad ? "toast bad" : "toast" }, text, hint && el("small", null, hint)),
  );
  render(shown, place("toasts"));
}

/**
 * @param {string} text
 * @param {{ bad?: boolean, hint?: string }} [how]
 */
export function toast(text, { bad = false, hint = "" } = {}) {
  noticed += 1;
  const notice = { key: noticed, text, bad, hint };
  notices.push(notice);
  showNotices();
  const gone = () => {
    notices.splice(notices.indexOf(notice), 1);
    showNotices();
  };
  setTimeout(gone, bad ? 9000 : 4000);
}

/** @param {unknown} thrown */
export function complain(thrown) {
  const { message, hint, tail } = refused(thrown);
  toast(message, { bad: true, hint: hint || tail });
}

/**
 * An element of index.html.
 * @param {string} id
 */
export function place(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no #${id}`);
  return element;
}

/**
 * @typedef {object} Field
 * @property {string} name
 * @property {string} label
 * @property {"text" | "number"} [type]
 * @property {string} [value]
 * @property {number} [min]
 * @property {boolean} [optional] it may be empty
 * @property {string} [about] what it is, below its label
 * @property {number} [longest] characters
 * @property {string[]} [choices] the only values
 */

/** @param {Field} field */
function dialogField({ name, label, type = "text", value = "", min, ...more }) {
  const { optional = false, about = "", longest = 200, choices } = more;
  const limits = { required: !optional, maxLength: longest, min, autocomplete: "off" };
  const props = { name, type, defaultValue: value, ...limits };
  const options = choices?.map((word) =>
    el("option", { key: word, value: word, selected: word === value }, word || "-"),
  );
  const input = options
    ? el("select", { name, required: !optional }, options)
    : el("input", /** @type {InputProps} */ (props));
  return el("label", { key: name }, label, about ? el("small", null, about) : null, input);
}

/**
 * Asks in a dialog; returns the form's values, or null.
 * @param {string} title
 * @param {Field[]} fields
 * @param {{ confirm?: string, danger?: boolean, text?: string }} [how]
 * @returns {Promise<Record<string, string> | null>}
 */
export function ask(title, fields, { confirm = "OK", danger = false, text = "" } = {}) {
  const host = document.createElement("div");
  document.body.append(host);
  /** @type {(values: Record<string, string> | null) => void} */
  let resolve = () => {};
  const back = () => host.querySelector("dialog")?.close("no");
  /** @param {{ currentTarget: HTMLDialogElement }} closed */
  const onClose = ({ currentTarget: box }) => {
    const form = /** @type {HTMLFormElement} */ (box.querySelector("form"));
    const values = /** @type {Record<string, string>} */ (Object.fromEntries(new FormData(form)));
    const sent = box.returnValue === "yes";
    render(null, host);
    host.remove();
    resolve(sent ? values : null);
  };
  const buttons = el(
    "div",
    { class: "row" },
    el("button", { type: "button", onClick: back }, "Back"),
    el("button", { type: "submit", value: "yes", class: danger ? "danger" : "main" }, confirm),
  );
  const content = [el("h2", null, title), text && el("p", null, text), fields.map(dialogField)];
  const form = el("form", { method: "dialog" }, content, buttons);
  render(el("dialog", { "aria-label": title, onClose }, form), host);
  host.querySelector("dialog")?.showModal();
  /** @type {HTMLElement | null} */ (host.querySelector("input, button[type=submit]"))?.focus();
  return new Promise((settle) => {
    resolve = settle;
  });
}

/** @param {{ failure: Refused }} props */
export const FailureCard = ({ failure }) =>
  el(
    "div",
    { class: "card" },
    el("h2", null, failure.message),
    el("p", { class: "dim" }, failure.hint),
  );

/**
 * What is shown once an answer has come; why it did not come, where it failed.
 * @template T
 * @typedef {{ load: () => Promise<T>, view: (data: T) => ComponentChildren }} LoadedProps
 */

/** @extends {Component<LoadedProps<any>, { data?: any, failure?: Refused }>} */
export class Loaded extends Component {
  componentDidMount() {
    this.props.load().then(
      (data) => this.setState({ data }),
      (error) => this.setState({ failure: refused(error) }),
    );
  }

  render() {
    if (this.state.failure) return h(FailureCard, { failure: this.state.failure });
    if (this.state.data === undefined) return el("p", { class: "dim center" }, "Loading…");
    return this.props.view(this.state.data);
  }
}

/**
 * The address of a page with what is chosen there; what is as it would be anyway is left out.
 * @param {string} path
 * @param {Record<string, string>} chosen
 * @param {Record<string, string>} usual
 */
export function addressOf(path, chosen, usual) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(chosen))
    if (value !== usual[name]) query.set(name, value);
  const text = query.toString();
  return text ? `#${path}?${text}` : `#${path}`;
}

/**
 * Notes the address of a page in this tab, for the links back to it.
 * @param {string} address
 */
export function noteAddress(address) {
  try {
    sessionStorage.setItem(`address ${/^#(\w*)/.exec(address)?.[1]}`, address);
  } catch {
    // A private window without storage: a link back leads to the page as it begins.
  }
}

/**
 * The address that a page had last in this tab.
 * @param {string} page
 */
export function lastAddress(page) {
  try {
    return sessionStorage.getItem(`address ${page}`) ?? `#${page}`;
  } catch {
    return `#${page}`;
  }
}

/**
 * Keeps what is chosen in the address, so that it can be sent to somebody, and Back restores it.
 * @param {string} address
 */
export function keepAddress(address) {
  history.replaceState(null, "", address);
  noteAddress(address);
}

/**
 * A row of a table that leads somewhere, by pointer and by keyboard.
 * @param {string} address
 */
export const leadsTo = (address) => {
  /** @param {{ target?: EventTarget | null }} [event] */
  const go = (event) => {
    // A link goes itself, and what is in a row to be pressed leads nowhere.
    if (event?.target instanceof Element && event.target.closest("a, button, input, label")) return;
    location.hash = address;
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (event.key === "Enter") go(event);
  };
  return { tabIndex: 0, onClick: go, onKeyDown };
};

/**
 * @typedef {{ label: string, numeric?: boolean }} Head
 * @param {{ heads: (string | Head)[], children?: ComponentChildren }} props
 */
export function Table({ heads, children }) {
  const cells = heads.map((head) => {
    const { label, numeric } = typeof head === "string" ? { label: head, numeric: false } : head;
    return el("th", { key: label, class: numeric ? "num" : "" }, label);
  });
  const table = el(
    "table",
    null,
    el("thead", null, el("tr", null, cells)),
    el("tbody", null, children),
  );
  return el("div", { class: "scroll", tabIndex: 0 }, table);
}

/**
 * One line of a list of facts; nothing where the value is empty.
 * @param {string} word
 * @param {ComponentChildren} value
 */
export const fact = (word, value) =>
  value === null || value === undefined || value === "" || value === false
    ? null
    : [el("dt", { key: `${word} word` }, word), el("dd", { key: word }, value)];

/** @param {string} name */
export const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** From here on the rest of the jobs is not as new as their states. */
const OLDER_S = 5;

/**
 * How old the state is, and where that differs what of each job is not its state.
 * @param {{ seen_at: number, jobs_at: number } | null} head
 * @param {number} at unix seconds of the server
 */
export function ageWords(head, at) {
  if (!head?.seen_at) return "";
  const words = `Slurm reported this ${Math.round(at - head.seen_at)} s ago`;
  if (!head.jobs_at || head.seen_at - head.jobs_at < OLDER_S) return words;
  const jobs = Math.round(at - head.jobs_at);
  return `${words}. Of a job whose state has not changed, priority, limit and why it is pending are at most ${jobs} s old`;
}

/** @param {{ counts: StateCount[] }} props */
export const Counts = ({ counts }) =>
  el(
    "span",
    { class: "counts" },
    counts.map(({ state, kind, count }) =>
      el("span", { key: state }, badge(`${formatted(count)} ${state}`, kind)),
    ),
  );
