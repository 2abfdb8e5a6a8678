// The frame of the page: who is logged in, which view the part of the address behind # names.
import { Component, createRef, h, render } from "../vendor/preact.mjs";
import { ClusterPage } from "./cluster/cluster.js";
import { forget, live, loadNodes, now, start } from "./lib/event_stream.js";
import { originOf } from "./lib/others.js";
import { attend, call, pauseAfter, refused, setSecret } from "./lib/server.js";
import {
  ageWords,
  coded,
  complain,
  el,
  FailureCard,
  noteAddress,
  place,
  span,
} from "./lib/view.js";
/** @import { ComponentChildren, ComponentType } from "preact" */
/** @import { Head, Logins, Me } from "./api.js" */
/** @import { Refused } from "./lib/server.js" */

/** @typedef {ComponentType<{ me: Me, args: string[], query: URLSearchParams }>} PageView */
/**
 * @typedef {object} Page
 * @property {string} name
 * @property {string} [title] in the tabs; a page without one is reached by links
 * @property {string} [words] of one without a title that is not of one thing
 * @property {boolean} [owner] only for who runs Corral here
 * @property {boolean} [several] only where there are other clusters
 * @property {string} [tab] the one that is marked
 * @property {() => Promise<PageView>} view
 */

/** @type {Page[]} */
const PAGES = [
  { name: "cluster", title: "Cluster", view: async () => ClusterPage },
  {
    name: "clusters",
    title: "Clusters",
    several: true,
    view: async () => (await import("./cluster/clusters.js")).ClustersPage,
  },
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
    view: async () => (await import("./operations/policy_edits.js")).PolicyView,
  },
  { name: "node", tab: "cluster", view: async () => (await import("./nodes/node.js")).NodePage },
  {
    name: "api",
    words: "REST API",
    view: async () => (await import("./operations/reference.js")).ReferencePage,
  },
  {
    name: "tokens",
    words: "Tokens",
    view: async () => (await import("./operations/tokens.js")).TokensPage,
  },
  { name: "job", tab: "jobs", view: async () => (await import("./jobs/job.js")).JobPage },
];
const LATE_S = 45;
const ME_MS = 30000;
const KEYS = new Map([
  ["c", "cluster"],
  ["o", "clusters"],
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
const visible = (page, viewer) =>
  page.title &&
  (!page.owner || (viewer.corral && viewer.owner)) &&
  (!page.several || viewer.clusters.length > 0);

/** @param {{ viewer: Me, chosen: string }} props */
const Tabs = ({ viewer, chosen }) =>
  PAGES.filter((page) => visible(page, viewer)).map(({ name, title }) =>
    el(
      "a",
      { key: name, href: `./#${name}`, "aria-current": name === chosen ? "page" : undefined },
      title,
    ),
  );

/** The page that is shown is in sight among the tabs: a phone has room for five of them. */
function showCurrentTab() {
  const tabs = place("tabs");
  const current = tabs.querySelector("[aria-current]");
  if (current instanceof HTMLElement)
    tabs.scrollLeft = current.offsetLeft - (tabs.clientWidth - current.offsetWidth) / 2;
}

/** What the address names behind #: a page, what it is of, and what is chosen there. */
function addressed() {
  const address = location.hash || "#cluster";
  const [path, query] = address.slice(1).split("?", 2);
  const [name, ...args] = path.split("/").map(decodeURIComponent);
  return { address, name, args, query: new URLSearchParams(query) };
}

/** Shows what the address names; a page whose sources come late, after somebody went on, is not shown. */
async function route() {
  if (!me) return;
  turn += 1;
  const [mine, viewer] = [turn, me];
  const { address, name, args, query } = addressed();
  const page = PAGES.find((entry) => entry.name === name) ?? PAGES[0];
  const key = `${mine} ${name}`;
  noteAddress(address);
  const title = page.title ?? page.words;
  const heading = title ? el("h1", { class: "unseen" }, title) : null;
  /** @param {ComponentChildren} content */
  const show = (content) =>
    render(el("div", { key, class: "page" }, heading, content), place("main"));
  render(h(Tabs, { viewer, chosen: page.tab || page.name }), place("tabs"));
  showCurrentTab();
  document.title = `${title ?? args.join("/")} · ${viewer.cluster} · Corral`;
  show(null); // the page before ends here, however late this one's sources come
  try {
    const view = await sources(page, mine);
    if (mine === turn) show(h(view, { me: viewer, args, query }));
  } catch (error) {
    if (mine === turn) show(h(FailureCard, { failure: refused(error) }));
  }
}

/**
 * The sources of a page, which begin.js has opened again where they were lost.
 * @param {Page} page
 * @param {number} mine
 */
async function sources(page, mine) {
  try {
    const view = await page.view();
    document.dispatchEvent(new Event("sourcescame"));
    return view;
  } catch (error) {
    if (mine === turn) document.dispatchEvent(new Event("sourceslost"));
    throw error;
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
  mark.title = ageWords(head, Date.now() / 1000 + now.skew);
  const banner = place("banner");
  banner.textContent = warning(head);
  banner.hidden = !banner.textContent;
}

/** What of Slurm's state is old or left out; "" for nothing. @param {Head | null} head */
function warning(head) {
  if (head?.trouble) {
    const old = head.seen_at ? `, ${span(Date.now() / 1000 + now.skew - head.seen_at)} old` : "";
    return `Slurm is not reached: ${head.trouble}. This is the last known state${old}.`;
  }
  return head?.unread ? `Not all is shown: ${head.unread}.` : "";
}

/** A choice of clusters, each of which has its own page. @param {Me} session */
function showSwitch({ cluster, clusters }) {
  const box = place("switch");
  box.hidden = !clusters.length;
  place("cluster-name").hidden = !box.hidden;
  /** @param {{ currentTarget: HTMLSelectElement }} event */
  const onChange = ({ currentTarget: select }) => {
    const other = clusters.find(({ name }) => name === select.value);
    select.value = cluster; // for who comes back
    const { name } = addressed();
    const page = PAGES.find((entry) => entry.name === name);
    if (other) location.assign(`${originOf(other.url)}/#${page?.title ? name : "cluster"}`);
  };
  const names = [cluster, ...clusters.map(({ name }) => name)];
  const options = names.map((name) => el("option", { key: name, value: name }, name));
  render(el("select", { "aria-label": "Cluster", value: cluster, onChange }, options), box);
}

/** @param {Me} session */
function enter(session) {
  me = session;
  if (session.csrf) setSecret(session.csrf);
  const { user, role } = session;
  place("top").hidden = false;
  place("cluster-name").textContent = session.cluster;
  showSwitch(session);
  const rights = role === "user" ? null : el("span", { class: "hide-narrow" }, ` (${role})`);
  render([user, rights], place("user"));
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
    el("label", null, words, el("small", null, coded(about)), input),
    el("button", { class: main ? "main" : "", disabled: busy }, button),
  );
}

/**
 * @param {{ busy: boolean, send: (fields: { user: string, password: string }) => void }} props
 */
function PasswordForm({ busy, send }) {
  /** @param {SubmitEvent & { currentTarget: HTMLFormElement }} event */
  const onSubmit = (event) => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget);
    send({ user: String(fields.get("user")), password: String(fields.get("password")) });
  };
  const user = { name: "user", required: true, spellcheck: false };
  return el(
    "form",
    { onSubmit },
    el(
      "label",
      null,
      "User",
      el("small", null, "your name on the cluster"),
      el("input", { ...user, type: "text", autocomplete: "username" }),
    ),
    el(
      "label",
      null,
      "Password",
      el("input", {
        ...{ name: "password", type: "password", required: true },
        autocomplete: "current-password",
      }),
    ),
    el("button", { class: "main", disabled: busy }, "Log in"),
  );
}

const PLACE = "place";

/** Remembers in this tab what its address names, for when the provider sends it back. */
function keepPlace() {
  try {
    sessionStorage.setItem(PLACE, location.hash);
  } catch {
    // A private window without storage: the first page is shown.
  }
}

/** What the tab's address named before; only a part behind # is ever taken from there. */
function keptPlace() {
  try {
    const kept = sessionStorage.getItem(PLACE) || "";
    sessionStorage.removeItem(PLACE);
    return kept.startsWith("#") ? kept : "";
  } catch {
    return "";
  }
}

/** Forgets what this tab keeps of who logs out: addresses, and what was typed. */
function forgetTab() {
  try {
    sessionStorage.clear();
  } catch {
    // A private window without storage has nothing to forget.
  }
}

/**
 * The ways to log in that need nothing to be typed here.
 * @param {{ ways: Logins, busy: boolean, byHeader: () => void }} props
 */
const Ways = ({ ways, busy, byHeader }) => {
  const proxy = el(
    "button",
    { class: "main", type: "button", disabled: busy, onClick: byHeader },
    `Log in as ${ways.header}`,
  );
  const provider = el(
    "a",
    { class: "button main", href: "api/login/oidc", onClick: keepPlace },
    `Log in at ${ways.oidc}`,
  );
  return [
    ways.header ? el("p", { key: "header" }, proxy) : null,
    ways.oidc ? el("p", { key: "oidc" }, provider) : null,
    el("hr", { key: "line" }),
  ];
};

/** @typedef {{ trouble: string, busy: boolean, ways: Logins, shown: string }} LoginState */

/** @extends {Component<{ why: string, auto: boolean }, LoginState>} */
class Login extends Component {
  /** @type {LoginState} */
  state = {
    trouble: this.props.why,
    busy: false,
    ways: { codes: false, header: "", oidc: "", password: false },
    shown: "",
  };
  box = createRef();

  componentDidMount() {
    this.box.current.querySelector("input").focus();
    this.begin().catch(() => {});
  }

  /** What is possible here; whom a proxy names is logged in, but after a logout. */
  async begin() {
    /** @type {Logins} */
    const ways = await call("login");
    this.setState({ ways });
    if (ways.header && this.props.auto) await this.send("login/header", {});
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
    const { trouble, busy, ways, shown } = this.state;
    const another = el(
      "button",
      { class: "quiet", type: "button", onClick: this.renew },
      "Show a new code in the terminal",
    );
    return el(
      "div",
      { class: "login card", ref: this.box },
      el("h1", null, "Log in to Corral"),
      el("p", { class: "reason", role: "alert" }, trouble),
      ways.header || ways.oidc
        ? h(Ways, { ways, busy, byHeader: () => this.send("login/header", {}) })
        : null,
      ways.password
        ? h(PasswordForm, { busy, send: (fields) => this.send("login/password", fields) })
        : null,
      ways.password ? el("hr") : null,
      h(LoginForm, {
        ...{ name: "code", words: "Code", button: "Log in with the code", main: true, busy },
        about: "the one that `corral ui` shows; it works once",
        send: (code) => this.send("login/code", { code }),
      }),
      ways.codes ? el("p", null, another) : null,
      el("p", { class: "dim", role: "status" }, shown),
      el("hr"),
      h(LoginForm, {
        ...{ name: "token", words: "Slurm token", button: "Log in with the token", busy },
        about: "what this prints on a node of the cluster: `scontrol token lifespan=28800`",
        password: true,
        send: (token) => this.send("login", { token }),
      }),
    );
  }
}

function showLogin(why = "", auto = false) {
  document.title = "Log in · Corral";
  turn += 1;
  render(h(Login, { key: turn, why, auto }), place("main"));
}

/** @param {string} name */
function keepTheme(name) {
  try {
    localStorage.setItem("theme", name);
  } catch {
    // A private window without storage.
  }
  showTheme(name);
}

/** @param {string} [chosen] */
function showTheme(chosen = keptTheme() ?? "") {
  document.documentElement.dataset.theme = chosen || (prefersDark().matches ? "dark" : "light");
  document.dispatchEvent(new Event("theme"));
}

const prefersDark = () => matchMedia("(prefers-color-scheme: dark)");

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

/** The session of who comes back from the provider. */
async function arrive() {
  history.replaceState(null, "", location.pathname + keptPlace());
  try {
    enter(await call("login/oidc/session", {}));
  } catch (error) {
    const { message, hint } = refused(error);
    showLogin(hint ? `${message}. ${hint}` : message);
  }
}

async function begin() {
  if (location.hash === "#signed-in") {
    await arrive();
    return;
  }
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
  await resume();
}

/**
 * The session of this browser; who has none logs in. A server that does not answer is asked again,
 * each time later.
 * @param {number} tries before this one
 */
async function resume(tries = 0) {
  turn += 1;
  const mine = turn;
  /** @type {Me} */
  let session;
  try {
    session = await call("me", undefined, undefined, ME_MS);
  } catch (error) {
    if (mine === turn) notResumed(refused(error), tries);
    return;
  }
  if (mine !== turn) return;
  try {
    enter(session);
  } catch (error) {
    render(h(FailureCard, { failure: refused(error) }), place("main"));
  }
}

/**
 * @param {Refused} failure
 * @param {number} tries
 */
function notResumed(failure, tries) {
  if (failure.status === 401) {
    showLogin("", true);
    return;
  }
  render(h(FailureCard, { failure }), place("main"));
  const pause = pauseAfter(failure, tries);
  if (pause === null) return;
  const mine = turn;
  setTimeout(() => {
    if (mine === turn) resume(tries + 1);
  }, pause);
}

function run() {
  place("main").replaceChildren(); // what index.html shows until here
  showTheme();
  prefersDark().addEventListener("change", () => showTheme());
  attend();
  place("theme").addEventListener("click", () =>
    keepTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
  );
  place("logout").addEventListener("click", async () => {
    /** @type {{ leave?: string }} */
    const left = (await call("logout", {}).catch(complain)) ?? {};
    setSecret("");
    forgetTab();
    if (left.leave) location.assign(left.leave);
    else leave();
  });
  document.addEventListener("loggedout", () => {
    if (!me) return;
    forgetTab();
    leave("Your session has ended.");
  });
  document.addEventListener("keydown", pressed);
  for (const name of ["age", "head"]) live.addEventListener(name, showLive);
  setInterval(showLive, 5000);
  window.addEventListener("resize", showCurrentTab);
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
