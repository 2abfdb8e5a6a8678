// Elements are made by hand: text always goes in as text, so that a job's name is never markup.

export function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "class") made.className = value;
    else if (key === "text") made.textContent = value;
    else if (key in made && key !== "list" && key !== "form") made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  if (tag === "pre") made.tabIndex = 0; // what scrolls can be scrolled by keyboard
  made.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return made;
}

// What has the focus, by its key or its words: the one that takes its place gets the focus too.
const named = (e) => e.dataset?.key || (e.matches?.("button, a") ? e.textContent : "");

export function fill(target, ...children) {
  const focus = target.contains(document.activeElement) ? named(document.activeElement) : "";
  target.replaceChildren(
    ...children.flat().filter((c) => c !== null && c !== undefined && c !== false),
  );
  if (focus)
    [...target.querySelectorAll("button, a, [data-key]")]
      .find((e) => named(e) === focus)
      ?.focus({ preventScroll: true });
  return target;
}

// The session's second secret, next to its cookie. The storage is this origin's, so that it goes to
// no other port of the host, as cookies do; all tabs share it.
const SECRET = "session";
let kept = "";
export const setSecret = (text) => {
  kept = text;
  try {
    if (text) localStorage.setItem(SECRET, text);
    else localStorage.removeItem(SECRET);
  } catch {
    /* private mode */
  }
};
const secret = () => {
  try {
    return localStorage.getItem(SECRET) || kept;
  } catch {
    return kept;
  }
};

// The address of what a browser asks for without headers: events, a download, a frame.
export const ticketed = async (path) => `api/${path}?ticket=${(await call("ticket", {})).ticket}`;

// What a page asks by itself keeps no session alive that nobody uses.
const ATTENDED_MS = 60000;
let touched = Date.now();
for (const name of ["pointerdown", "pointermove", "keydown", "wheel"])
  addEventListener(
    name,
    () => {
      touched = Date.now();
    },
    { capture: true, passive: true },
  );

export class Refused extends Error {
  constructor(status, error) {
    super(error.message || `the server answered ${status}`);
    this.status = status;
    this.code = error.code || "";
    this.hint = error.hint || "";
    this.tail = error.tail || "";
    this.node = error.node || "";
  }
}

export async function call(path, body, method) {
  const options = {
    method: method || (body === undefined ? "GET" : "POST"),
    headers: {},
    credentials: "same-origin",
  };
  if (secret()) options.headers["X-CSRF-Token"] = secret();
  if (Date.now() - touched > ATTENDED_MS) options.headers["X-Unattended"] = "1";
  if (options.method !== "GET") {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body ?? {});
  }
  let reply;
  try {
    reply = await fetch(`api/${path}`, options);
  } catch {
    throw new Refused(0, {
      message: "the page's server does not answer",
      hint: "is corral ui still running?",
    });
  }
  const data = await reply.json().catch(() => ({}));
  if (reply.ok) return data;
  const refused = new Refused(reply.status, data.error || {});
  if (reply.status === 401 && !path.startsWith("login"))
    document.dispatchEvent(new Event("loggedout"));
  throw refused;
}

// The answers of one place, in the order of its questions: one that comes after a later question was
// asked, or after drop(), is not shown.
export function latest() {
  let asked = 0;
  const newest = async (answer, show, fail = complain) => {
    const mine = (asked += 1);
    try {
      const told = await answer;
      if (mine === asked) show(told);
    } catch (error) {
      if (mine === asked) fail(error);
    }
  };
  newest.drop = () => {
    asked += 1;
  };
  return newest;
}

export function toast(text, { bad = false, hint = "" } = {}) {
  const shown = el(
    "div",
    { class: `toast${bad ? " bad" : ""}` },
    text,
    hint && el("small", { text: hint }),
  );
  document.getElementById("toasts").append(shown);
  setTimeout(() => shown.remove(), bad ? 9000 : 4000);
}

export const complain = (error) =>
  toast(error.message, { bad: true, hint: error.hint || error.tail });

// Asks in a dialog; gives the form's values, or null.
export function ask(title, fields, { confirm = "OK", danger = false, text = "" } = {}) {
  return new Promise((resolve) => {
    const inputs = fields.map((f) =>
      el(f.area ? "textarea" : "input", {
        name: f.name,
        type: f.type || "text",
        value: f.value || "",
        required: f.required !== false,
        maxLength: f.max || 200,
        min: f.min,
        placeholder: f.placeholder || "",
        autocomplete: "off",
      }),
    );
    const box = el(
      "dialog",
      {
        "aria-label": title,
        onclose: () => {
          box.remove();
          resolve(
            box.returnValue === "yes"
              ? Object.fromEntries(inputs.map((i) => [i.name, i.value]))
              : null,
          );
        },
      },
      el(
        "form",
        { method: "dialog" },
        el("h2", { text: title }),
        text && el("p", { text }),
        fields.map((f, i) => el("label", {}, f.label, inputs[i])),
        el(
          "div",
          { class: "row" },
          el("button", { type: "button", text: "Back", onclick: () => box.close("no") }),
          el("button", {
            type: "submit",
            value: "yes",
            class: danger ? "danger" : "main",
            text: confirm,
          }),
        ),
      ),
    );
    document.body.append(box);
    box.showModal();
    (inputs[0] || box.querySelector("button[type=submit]")).focus();
  });
}

export function since(at, now = Date.now() / 1000) {
  return at ? `${span(Math.max(0, now - at))} ago` : "-";
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "-";
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function clock(at) {
  if (!at) return "-";
  const when = new Date(at * 1000);
  const pad = (n) => String(n).padStart(2, "0");
  return `${when.getFullYear()}-${pad(when.getMonth() + 1)}-${pad(when.getDate())} ${pad(when.getHours())}:${pad(when.getMinutes())}:${pad(when.getSeconds())}`;
}

export function gib(mib) {
  if (!mib) return "-";
  return mib >= 1048576
    ? `${(mib / 1048576).toFixed(1)} TiB`
    : mib >= 1024
      ? `${(mib / 1024).toFixed(mib < 10240 ? 1 : 0)} GiB`
      : `${mib} MiB`;
}

export const whole = (n) => Number(n || 0).toLocaleString("en");
export const many = (n, word) => `${whole(n)} ${word}${n === 1 ? "" : "s"}`;

export function bar(used, total, small = false) {
  const share = total ? Math.min(100, (100 * used) / total) : 0;
  const fill_ = el("i");
  fill_.style.width = `${share}%`;
  return el("span", { class: `bar${small ? " small" : ""}`, "aria-hidden": "true" }, fill_);
}

export const badge = (text, kind) =>
  el("span", { class: `state ${kind}`, text: text.toLowerCase().replaceAll("_", " ") });

// Rows of named columns become objects; a plain loop, as 10,000 nodes have 210,000 values.
export const rows = (columns, list) =>
  list.map((row) => {
    const made = {};
    for (let i = 0; i < columns.length; i += 1) made[columns[i]] = row[i];
    return made;
  });
