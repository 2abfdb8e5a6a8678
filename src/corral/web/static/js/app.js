// The frame of the page: who is logged in, which view the part of the address behind # names.
import { Component, createRef, h, render } from "../vendor/preact.mjs";
import { ClusterPage } from "./cluster/cluster.js";
import { forget, live, loadNodes, now, start } from "./lib/event_stream.js";
import { attend, call, refused, setSecret } from "./lib/server.js";
import { complain, el, FailureCard, place, span } from "./lib/view.js";
/** @import { ComponentChildren, ComponentType } from "preact" */
/** @import { Head, Logins, Me } from "./api.js" */

/** @typedef {ComponentType<{ me: Me, args: string[], query: URLSearchParams }>} PageView */
/**
 * @typedef {object} Page
 * @property {string} name
 * @property {string} [title] in the tabs; a page without one is reached by links
 * @property {boolean} [owner] only for who runs Corral here
 * @property {string} [tab] the one that is marked
 * @property {() => Promise<PageView>} view
 */

/** @type {Page[]} */
const PAGES = [
  { name: "cluster", title: "Cluster", view: async () => ClusterPage },
  { name: "jobs", title: "Jobs", view: async () => (await import("./jobs/jobs.js")).JobsPage },
  {
    name: "mine",
    title: "My work",
    view: async () => (await import("./jobs/my_work.js")).MinePage,
  },
  {
    name: "timeline",
    title: "Timeline",
    view: async () => (await import("./cluster/timeline.js")).TimelinePage,
  },
  {
    name: "submit",
    title: "Submit",
    view: async () => (await import("./jobs/submit.js")).SubmitPage,
  },
  {
    name: "proof",
    title: "Proof",
    owner: true,
    view: async () => (await import("./operations/proof.js")).ProofPage,
  },
  {
    name: "doctor",
    title: "Doctor",
    owner: true,
    view: async () => (await import("./operations/doctor.js")).DoctorPage,
  },
  {
    name: "plan",
    title: "Plan & apply",
    owner: true,
    view: async () => (await import("./operations/plan.js")).PlanPage,
  },
  {
    name: "history",
    title: "History",
    owner: true,
    view: async () => (await import("./operations/history.js")).HistoryPage,
  },
  {
    name: "policy",
    title: "Accounts & QOS",
    view: async () => (await import("./cluster/policy.js")).PolicyPage,
  },
  { name: "node", tab: "cluster", view: async () => (await import("./nodes/node.js")).NodePage },
  { name: "tokens", view: async () => (await import("./operations/tokens.js")).TokensPage },
  { name: "job", tab: "jobs", view: async () => (await import("./jobs/job.js")).JobPage },
];
const LATE_S = 45;
const KEYS = new Map([
  ["c", "cluster"],
  ["j", "jobs"],
  ["s", "submit"],
  ["m", "mine"],
  ["t", "timeline"],
  ["a", "policy"],
]);

/** @type {Me | null} */
let me = null;
let turn = 0;

/**
 * @param {Page} page
 * @param {Me} viewer
 */
const visible = (page, viewer) => page.title && (!page.owner || (viewer.corral && viewer.owner));

/** @param {{ viewer: Me, chosen: string }} props */
const Tabs = ({ viewer, chosen }) =>
  PAGES.filter((page) => visible(page, viewer)).map(({ name, title }) =>
    el(
      "a",
      { key: name, href: `#${name}`, "aria-current": name === chosen ? "page" : undefined },
      title,
    ),
  );

/** What the address names behind #: a page, what it is of, and what is chosen there. */
function addressed() {
  const [path, query] = (location.hash.slice(1) || "cluster").split("?", 2);
  const [name, ...args] = path.split("/").map(decodeURIComponent);
  return { name, args, query: new URLSearchParams(query) };
}

/** Shows what the address names; a page whose sources come late, after somebody went on, is not shown. */
async function route() {
  if (!me) return;
  turn += 1;
  const [mine, viewer] = [turn, me];
  const { name, args, query } = addressed();
  const page = PAGES.find((entry) => entry.name === name) ?? PAGES[0];
  const key = `${mine} ${name}`;
  const heading = page.title ? el("h1", { class: "unseen" }, page.title) : null;
  /** @param {ComponentChildren} content */
  const show = (content) =>
    render(el("div", { key, class: "page" }, heading, content), place("main"));
  render(h(Tabs, { viewer, chosen: page.tab || page.name }), place("tabs"));
  document.title = `${page.title ?? args.join("/")} · ${viewer.cluster} · Corral`;
  show(null); // the page before ends here, however late this one's sources come
  try {
    const view = await page.view();
    if (mine === turn) show(h(view, { me: viewer, args, query }));
  } catch (error) {
    if (mine === turn) show(h(FailureCard, { failure: refused(error) }));
  }
}

/**
 * How fresh the page is.
 * @param {{ ok: boolean | null, head: Head | null }} state
 * @param {number | null} age seconds since Slurm answered
 * @returns {["dead" | "late" | "on", string]}
 */
export function freshness({ ok, head }, age) {
  if (ok === false || head?.trouble) {
    return ["dead", head?.seen_at ? `seen ${span(age)} ago` : "offline"];
  }
  if (ok === null) return ["late", "connecting"];
  return [age !== null && age > LATE_S ? "late" : "on", "live"];
}

function showLive() {
  const { head } = now;
  const age = head?.seen_at ? Date.now() / 1000 + now.skew - head.seen_at : null;
  const [how, words] = freshness(now, age);
  const mark = place("live");
  mark.className = how;
  mark.textContent = words;
  mark.title = age === null ? "" : `Slurm reported this ${Math.round(age)} s ago`;
  const banner = place("banner");
  banner.hidden = !head?.trouble;
  if (!head?.trouble) return;
  const old = head.seen_at ? `, ${span(age)} old` : "";
  banner.textContent = `Slurm is not reached: ${head.trouble}. This is the last known state${old}.`;
}

/** @param {Me} session */
function enter(session) {
  me = session;
  if (session.csrf) setSecret(session.csrf);
  const { user, role } = session;
  place("top").hidden = false;
  place("cluster-name").textContent = session.cluster;
  place("user").textContent = role === "user" ? user : `${user} (${role})`;
  start();
  route();
}

function leave(why = "") {
  me = null;
  turn += 1;
  forget();
  place("top").hidden = true;
  place("banner").hidden = true;
  showLogin(why);
}

/**
 * @param {{ words: string, about: string, button: string, main?: boolean, busy: boolean, password?: boolean,
 *   name: string, send: (text: string) => void }} props
 */
function LoginForm({ words, about, button, main = false, busy, password = false, name, send }) {
  /** @param {SubmitEvent & { currentTarget: HTMLFormElement }} event */
  const onSubmit = (event) => {
    event.preventDefault();
    send(String(new FormData(event.currentTarget).get(name)));
  };
  const plain = { name, required: true, autocomplete: /** @type {const} */ ("off") };
  const input = password
    ? el("input", { ...plain, type: "password" })
    : el("input", { ...plain, type: "text", spellcheck: false });
  return el(
    "form",
    { onSubmit },
    el("label", null, words, el("small", null, about), input),
    el("button", { class: main ? "main" : "", disabled: busy }, button),
  );
}

/** @typedef {{ trouble: string, busy: boolean, codes: boolean, shown: string }} LoginState */

/** @extends {Component<{ why: string }, LoginState>} */
class Login extends Component {
  state = { trouble: this.props.why, busy: false, codes: false, shown: "" };
  box = createRef();

  componentDidMount() {
    this.box.current.querySelector("input").focus();
    /** @type {Promise<Logins>} */
    const logins = call("login");
    logins.then(
      ({ codes }) => this.setState({ codes }),
      () => {},
    );
  }

  renew = async () => {
    this.setState({ trouble: "", shown: "" });
    try {
      await call("login/code/new", {});
      this.setState({ shown: "The terminal in which corral ui runs shows a new code." });
    } catch (error) {
      const { message, hint } = refused(error);
      this.setState({ trouble: hint ? `${message}. ${hint}` : message });
    }
  };

  /**
   * @param {string} path
   * @param {Record<string, string>} body
   */
  async send(path, body) {
    this.setState({ busy: true });
    try {
      enter(await call(path, body));
    } catch (error) {
      const { message, hint } = refused(error);
      this.setState({ trouble: hint ? `${message}. ${hint}` : message, busy: false });
    }
  }

  render() {
    const { trouble, busy, codes, shown } = this.state;
    const another = el(
      "button",
      { class: "quiet", type: "button", onClick: this.renew },
      "Show a new code in the terminal",
    );
    return el(
      "div",
      { class: "login card", ref: this.box },
      el("h1", null, "Log in"),
      el("p", { class: "reason", role: "alert" }, trouble),
      h(LoginForm, {
        ...{ name: "code", words: "Code", button: "Log in with the code", main: true, busy },
        about: "the one that corral ui shows; it works once",
        send: (code) => this.send("login/code", { code }),
      }),
      codes ? el("p", null, another) : null,
      el("p", { class: "dim", role: "status" }, shown),
      el("hr"),
      h(LoginForm, {
        ...{ name: "token", words: "Slurm token", button: "Log in with the token", busy },
        about: "what this prints on a node of the cluster: scontrol token lifespan=28800",
        password: true,
        send: (token) => this.send("login", { token }),
      }),
    );
  }
}

function showLogin(why = "") {
  document.title = "Log in · Corral";
  turn += 1;
  render(h(Login, { key: turn, why }), place("main"));
}

/** @param {string} name */
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem("theme", name);
  } catch {
    // A private window without storage.
  }
  document.dispatchEvent(new Event("theme"));
}

function keptTheme() {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  const { key, target, ctrlKey, metaKey, altKey } = event;
  const typing = target instanceof Element && target.closest("input, textarea, select, dialog");
  if (typing || ctrlKey || metaKey || altKey) return;
  const search = document.querySelector("input[type=search]");
  if (key === "/" && search instanceof HTMLElement) {
    event.preventDefault();
    search.focus();
  }
  const page = KEYS.get(key);
  if (page && me) location.hash = page;
}

async function begin() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) {
    history.replaceState(null, "", location.pathname); // the code is used up; nobody need find it
    try {
      enter(await call("login/code", { code }));
    } catch (error) {
      showLogin(refused(error).message);
    }
    return;
  }
  // The nodes are most of what the first page needs: they come while the session is looked up.
  if (/^(#cluster(\?|$)|$)/.test(location.hash)) loadNodes().catch(() => {});
  try {
    enter(await call("me"));
  } catch {
    showLogin();
  }
}

function run() {
  place("main").replaceChildren(); // what index.html shows until here
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(keptTheme() || (dark ? "dark" : "light"));
  attend();
  place("theme").addEventListener("click", () =>
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
  );
  place("logout").addEventListener("click", async () => {
    await call("logout", {}).catch(complain);
    setSecret("");
    leave();
  });
  document.addEventListener("loggedout", () => {
    if (me) leave("Your session has ended.");
  });
  document.addEventListener("keydown", pressed);
  for (const name of ["age", "head"]) live.addEventListener(name, showLive);
  setInterval(showLive, 5000);
  window.addEventListener("hashchange", () => {
    // A code may come in the address of a tab that is open already.
    if (/(^|[#&])code=/.test(location.hash)) {
      begin();
      return;
    }
    route();
    place("main").focus({ preventScroll: true });
  });
  begin();
}

run();
