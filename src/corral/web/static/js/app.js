// Routes by the part behind #; a page is a function that fills <main> and gives back its cleaning-up.
import { call, complain, el, fill, setSecret, span } from "./dom.js";
import { live, loadNodes, now, start, stop } from "./live.js";
import { clusterPage, nodePage } from "./cluster.js";

const $ = (id) => document.getElementById(id);
export let me = null;
let cleanUp = null;

const lazy =
  (file, name) =>
  async (...args) =>
    (await import(`./${file}.js`))[name](...args);
const PAGES = [
  { name: "cluster", title: "Cluster", page: clusterPage },
  { name: "jobs", title: "Jobs", page: lazy("jobs", "jobsPage") },
  { name: "submit", title: "Submit", page: lazy("submit", "submitPage") },
  { name: "proof", title: "Proof", page: lazy("corral", "proofPage"), owner: true },
  { name: "doctor", title: "Doctor", page: lazy("corral", "doctorPage"), owner: true },
  { name: "plan", title: "Plan & apply", page: lazy("plan", "planPage"), owner: true },
  { name: "history", title: "History", page: lazy("corral", "historyPage"), owner: true },
  { name: "node", page: nodePage },
  { name: "job", page: lazy("job", "jobPage") },
];
const TAB_OF = { node: "cluster", job: "jobs" };

function visible(page) {
  return page.title && (!page.owner || (me.corral && me.owner));
}

async function route() {
  if (!me) return;
  const [name, ...rest] = decodeURIComponent(location.hash.slice(1) || "cluster").split("/");
  const page = PAGES.find((p) => p.name === name) || PAGES[0];
  if (cleanUp) cleanUp();
  cleanUp = null;
  const here = TAB_OF[page.name] || page.name;
  fill(
    $("tabs"),
    PAGES.filter(visible).map((p) =>
      el(
        "a",
        { href: `#${p.name}`, "aria-current": p.name === here ? "page" : undefined },
        p.title,
      ),
    ),
  );
  document.title = `${page.title || rest[0] || ""} · ${me.cluster} · Corral`;
  // Each page has a place of its own: one that comes late, after somebody went on, finds its place gone.
  const main = el(
    "div",
    { class: "page" },
    page.title && el("h1", { class: "unseen", text: page.title }),
  );
  fill($("main"), main);
  try {
    const done = await page.page(main, me, ...rest);
    if (main.isConnected) cleanUp = done;
    else if (done) done();
  } catch (error) {
    fill(
      main,
      el(
        "div",
        { class: "card" },
        el("h2", { text: error.message }),
        el("p", { class: "dim", text: error.hint || "" }),
      ),
    );
  }
}

function showLive() {
  const age = now.head && now.head.seen_at ? Date.now() / 1000 + now.skew - now.head.seen_at : null;
  const opening = now.ok === null,
    dead = now.ok === false || (now.head && now.head.trouble);
  const mark = $("live");
  mark.className = dead ? "dead" : opening || (age !== null && age > 45) ? "late" : "on";
  mark.textContent = dead
    ? now.head && now.head.seen_at
      ? `seen ${span(age)} ago`
      : "offline"
    : opening
      ? "connecting"
      : "live";
  mark.title = age === null ? "" : `Slurm said this ${Math.round(age)} s ago`;
  const trouble = now.head && now.head.trouble;
  $("banner").hidden = !trouble;
  if (trouble)
    $("banner").textContent =
      `Slurm does not answer: ${trouble}. This is the last known state${now.head.seen_at ? `, ${span(age)} old` : ""}.`;
}

function enter(session) {
  me = session;
  if (session.csrf) setSecret(session.csrf);
  $("top").hidden = false;
  $("cluster-name").textContent = session.cluster;
  $("user").textContent =
    session.role === "user" ? session.user : `${session.user} (${session.role})`;
  start();
  route();
}

function leave(said = "") {
  me = null;
  stop();
  if (cleanUp) cleanUp();
  cleanUp = null;
  now.head = null;
  now.nodes = new Map();
  now.loaded = false;
  $("top").hidden = true;
  $("banner").hidden = true;
  loginPage(said);
}

function loginPage(said = "") {
  document.title = "Log in · Corral";
  const trouble = el("p", { class: "reason", role: "alert", text: said });
  const attempt = (path, read) => async (event) => {
    event.preventDefault();
    const button = event.target.querySelector("button");
    button.disabled = true;
    try {
      enter(await call(path, read(event.target)));
    } catch (error) {
      trouble.textContent = `${error.message}${error.hint ? `. ${error.hint}` : ""}`;
    }
    button.disabled = false;
  };
  fill(
    $("main"),
    el(
      "div",
      { class: "login card" },
      el("h1", { text: "Log in" }),
      trouble,
      el(
        "form",
        { onsubmit: attempt("login/code", (f) => ({ code: f.code.value })) },
        el(
          "label",
          {},
          "Code",
          el("small", { text: "the one that corral ui shows; it works once" }),
          el("input", {
            name: "code",
            required: true,
            autocomplete: "off",
            autofocus: true,
            spellcheck: false,
          }),
        ),
        el("button", { class: "main", text: "Log in with the code" }),
      ),
      el("hr"),
      el(
        "form",
        { onsubmit: attempt("login", (f) => ({ token: f.token.value })) },
        el(
          "label",
          {},
          "Slurm token",
          el("small", {
            text: "what this prints on a node of the cluster: scontrol token lifespan=28800",
          }),
          el("input", { name: "token", type: "password", required: true, autocomplete: "off" }),
        ),
        el("button", { text: "Log in with the token" }),
      ),
    ),
  );
  $("main").querySelector("input").focus();
}

function theme(wanted) {
  document.documentElement.dataset.theme = wanted;
  try {
    localStorage.setItem("theme", wanted);
  } catch {
    /* private mode */
  }
  document.dispatchEvent(new Event("theme"));
}

const kept = (() => {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
})();
theme(kept || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
$("theme").addEventListener("click", () =>
  theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
);
$("logout").addEventListener("click", async () => {
  await call("logout", {}).catch(complain);
  setSecret("");
  leave();
});
document.addEventListener("loggedout", () => {
  if (me) leave("Your session has ended.");
});
document.addEventListener("keydown", (event) => {
  if (
    event.target.closest("input, textarea, select, dialog") ||
    event.ctrlKey ||
    event.metaKey ||
    event.altKey
  )
    return;
  if (event.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  }
  const page = { c: "cluster", j: "jobs", s: "submit" }[event.key];
  if (page && me) location.hash = page;
});
for (const name of ["age", "head"]) live.addEventListener(name, showLive);
setInterval(showLive, 5000);

async function begin() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) {
    history.replaceState(null, "", location.pathname); // the code is used up; nobody need find it
    try {
      return enter(await call("login/code", { code }));
    } catch (error) {
      return loginPage(error.message);
    }
  }
  // The nodes are most of what the first page needs: they come while the session is looked up.
  if (!location.hash || location.hash === "#cluster") loadNodes().catch(() => {});
  try {
    enter(await call("me"));
  } catch {
    loginPage();
  }
}
window.addEventListener("hashchange", () => {
  // a code in the address of a tab that is open already
  if (/(^|[#&])code=/.test(location.hash)) begin();
  else {
    route();
    $("main").focus({ preventScroll: true });
  }
});
begin();
