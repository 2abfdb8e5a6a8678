// Accounts, QOS, reservations, licences and the scheduler, for all users; who has the cluster file changes it.
import { Component, h } from "../../vendor/preact.mjs";
import { mineOf } from "../jobs/links.js";
import { limitLines, limitText } from "../lib/limits.js";
import { call, Latest } from "../lib/server.js";
import * as view from "../lib/view.js";
/** @import { ComponentChildren } from "preact" */
/** @import * as api from "../api.js" */
/** @import { AccountRow, Declared, LimitRow, Me, QosRow, ReservationRow, SchedulerCycle } from "../api.js" */
/** @import { Refused } from "../lib/server.js" */

const { addressOf, badge, barred, clock, el, fact, formatted, keepAddress, leadsTo, many } = view;
const { clockAgo, Loaded, since, span, Table } = view;
const AGAIN_MS = 15000;
const MOST = 200;
/** @type {[string, string][]} */
const TABS = [
  ["accounts", "Accounts"],
  ["qos", "QOS"],
  ["reservations", "Reservations"],
  ["licenses", "Licences"],
  ["scheduler", "Scheduler"],
];
const SHARES = ["share of its level", "share of all usage", "fair share"];
const SLOW_US = 1e6;
const number = (/** @type {string} */ label) => ({ label, numeric: true });
const none = (words = "-") => el("span", { class: "dim" }, words);

/** A list of jobs of a filter. @param {string} q @param {string} [show] */
const jobsOf = (q, show = "all") => addressOf(`jobs/${show}`, { q }, { q: "" });

/**
 * What who has the cluster file sees besides, and changes.
 * @typedef {object} Owner
 * @property {Declared} declared
 * @property {(section: string, name: string) => void} change
 * @property {(section: string, name: string) => void} remove
 */

/** The name that a limit has in what the file declares. @param {LimitRow} limit */
const limitKey = ({ name, resource }) => (resource ? `${name}=${resource}` : name);

/**
 * Limits of which the file has none, or another.
 * @param {LimitRow[]} limits
 * @param {Record<string, number>} declared
 */
export function byHand(limits, declared) {
  const there = new Map(limits.map((limit) => [limitKey(limit), limit.value]));
  const set = limits.filter((limit) => declared[limitKey(limit)] !== limit.value);
  const gone = Object.entries(declared).filter(([key]) => !there.has(key));
  return { set: new Set(set.map(limitText)), gone: gone.map(([key, value]) => `${key}=${value}`) };
}

/** @param {{ limits: LimitRow[], unreported?: string[], declared?: Record<string, number> }} props */
export function Limits({ limits, unreported = [], declared }) {
  const { set, gone } = byHand(limits, declared ?? {});
  if (!limits.length && !unreported.length && !gone.length) return none("unlimited");
  const lines = limitLines(limits).map(({ words, title }) =>
    el(
      "li",
      { key: title, title },
      words,
      declared && title.split(" ").some((limit) => set.has(limit)) ? [" ", handBadge()] : null,
    ),
  );
  for (const words of gone)
    lines.push(el("li", { key: words }, none(`${words} of the file is not set `), handBadge()));
  const rest = unreported.length
    ? el(
        "li",
        { key: "unknown", class: "dim" },
        `unknown in this API version: ${unreported.join(", ")}`,
      )
    : null;
  return el("ul", { class: "plain limits" }, lines, rest);
}

/** What the limits of a table mean; asked for once somebody opens it.
 * @extends {Component<{ limits: LimitRow[] }, { open: boolean }>} */
export class Meanings extends Component {
  state = { open: false };

  toggled = (/** @type {Event} */ event) => {
    const { open } = /** @type {HTMLDetailsElement} */ (event.currentTarget);
    this.setState({ open });
  };

  render() {
    const names = new Set(this.props.limits.map(({ name }) => name));
    if (!names.size) return null;
    const load = () => call("policy/limits");
    return el(
      "details",
      { onToggle: this.toggled },
      el("summary", null, "What the limits mean"),
      this.state.open
        ? h(Loaded, {
            load,
            view: (/** @type {api.LimitMeanings} */ data) => meaningsOf(data.limits, names),
          })
        : null,
    );
  }
}

/**
 * @param {api.LimitMeaning[]} limits
 * @param {ReadonlySet<string>} names those that are shown
 */
export const meaningsOf = (limits, names) =>
  el(
    "dl",
    { class: "facts" },
    limits
      .filter(({ name }) => names.has(name))
      .map(({ name, bounds, means }) => fact(`${bounds} (${name})`, `${means}.`)),
  );

const handBadge = () => badge("by hand", "warn");

/**
 * The last cell of a row: what the file declares of it can be changed.
 * @param {Owner | undefined} owner
 * @param {string} section
 * @param {string} name
 * @param {boolean} hand nothing of it is in the file
 */
function ownerCell(owner, section, name, hand) {
  if (!owner) return null;
  if (!(name in (owner.declared.entries[section] ?? {})))
    return el("td", { class: "num" }, hand ? handBadge() : null);
  const ends = section === "reservations" ? "End" : "Remove";
  return el(
    "td",
    { class: "num nowrap" },
    el(
      "button",
      { "aria-label": `Change ${name}`, onClick: () => owner.change(section, name) },
      "Change",
    ),
    " ",
    el(
      "button",
      {
        class: "quiet",
        "aria-label": `${ends} ${name}`,
        onClick: () => owner.remove(section, name),
      },
      ends,
    ),
  );
}

/** The heads of a table, with one more for who may change it. @template T @param {T[]} heads @param {Owner | undefined} owner */
const withOwner = (heads, owner) => (owner ? [...heads, ""] : heads);

/** @param {number | null} share */
const percent = (share) =>
  share === null ? none("unknown") : `${(100 * share).toFixed(share && share < 0.1 ? 1 : 0)} %`;

/**
 * Limits of a row that the account above does not have: what slurmdbd inherits is stated once.
 * @param {AccountRow} row
 * @param {Map<string, AccountRow>} accounts
 */
export function ownLimits(row, accounts) {
  const above = accounts.get(row.user ? row.account : row.parent);
  const inherited = new Set(above?.limits.map(limitText));
  return row.limits.filter(
    (limit) => !(limit.name.startsWith("Max") && inherited.has(limitText(limit))),
  );
}

/** Whose row it is, below the account that it belongs to. @param {{ row: AccountRow, address: string, me?: Me }} props */
function WhoCell({ row: { account, user, partition, depth, is_default }, address, me }) {
  const name = el("a", { class: "plain", href: address, tabIndex: -1 }, user || account);
  const words = [
    user ? " user" : " account",
    is_default && user ? ", default" : "",
    partition ? `, partition ${partition}` : "",
  ];
  return el(
    "td",
    { class: "depth", style: `--depth: ${Math.min(depth, 6)}` },
    user ? name : el("b", null, name),
    el("small", { class: "dim" }, words),
    me && user && mineOf(user, me)
      ? el("small", null, ", ", el("a", { href: mineOf(user, me) }, "work"))
      : null,
  );
}

/** What sshare reports of a row. @param {{ row: AccountRow, reported: boolean }} props */
function ShareCells({ row: { user, parent, part, usage, factor }, reported }) {
  /** @param {string} label @param {ComponentChildren} content */
  const cell = (label, content) => el("td", { class: "num", "data-label": label }, content);
  const fair = factor === null ? none("unknown") : factor.toFixed(2);
  if (!reported) return SHARES.map((label) => cell(label, none("unknown")));
  const share = part === null ? none("unknown") : barred(part, 1, percent(part));
  return [
    cell(SHARES[0], parent || user ? share : ""), // root has no level
    cell(SHARES[1], percent(usage)),
    cell(SHARES[2], user ? fair : ""),
  ];
}

/** Whether a row is of nobody that the file or its directory declares. @param {AccountRow} row @param {Owner} [owner] */
function accountByHand({ account, user }, owner) {
  if (!owner) return false;
  const { declared } = owner;
  if (account === "root") return user !== "" && user !== "root";
  if (user) {
    return !(`user ${account} ${user}` in declared.limits) && !declared.directory.includes(account);
  }
  return !(`account ${account}` in declared.limits);
}

/** @param {{ row: AccountRow, accounts: Map<string, AccountRow>, reported: boolean, owner?: Owner, me?: Me }} props */
function AccountLine({ row, accounts, reported, owner, me }) {
  const { account, user, partition, shares } = row;
  const declared = owner?.declared.limits[user ? `user ${account} ${user}` : `account ${account}`];
  const address = jobsOf(user ? `user=${user} account=${account}` : `account=${account}`);
  return el(
    "tr",
    { "data-key": `${account} ${user} ${partition}`, ...leadsTo(address.slice(1)) },
    h(WhoCell, { row, address, me }),
    el("td", { class: "num", "data-label": "shares" }, shares || none("unknown")),
    h(ShareCells, { row, reported }),
    el("td", { "data-label": "limits" }, h(Limits, { limits: ownLimits(row, accounts), declared })),
    el("td", { "data-label": "QOS" }, row.qos.join(", ") || none()),
    accountByHand(row, owner)
      ? el("td", { class: "num" }, handBadge())
      : ownerCell(owner, user ? "users" : "accounts", user || account, false),
  );
}

/**
 * Rows with all words of a filter, and the accounts that they are in.
 * @param {AccountRow[]} rows
 * @param {string} q
 */
export function matching(rows, q) {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return rows;
  const has = (/** @type {AccountRow} */ row) => {
    const text = `${row.account} ${row.user} ${row.qos.join(" ")} ${row.limits.map(limitText).join(" ")}`;
    return words.every((word) => text.toLowerCase().includes(word));
  };
  const parents = new Map(rows.filter(({ user }) => !user).map((row) => [row.account, row.parent]));
  const kept = new Set();
  const hits = new Set(rows.filter(has));
  for (const hit of hits) {
    let name = hit.user ? hit.account : hit.parent;
    while (name && !kept.has(name)) {
      kept.add(name);
      name = parents.get(name) ?? "";
    }
  }
  return rows.filter((row) => hits.has(row) || (!row.user && kept.has(row.account)));
}

/** @param {{ data: api.Accounts, q: string, owner?: Owner, me?: Me, most?: number, more?: () => void }} props */
export function AccountsView({ data, q, owner, me, most = MOST, more }) {
  const accounts = new Map(
    data.accounts.filter(({ user }) => !user).map((row) => [row.account, row]),
  );
  const rows = matching(data.accounts, q);
  const heads = ["account or user", number("shares"), ...SHARES.map(number), "limits", "QOS"];
  const lines = rows.slice(0, most).map((row) =>
    h(AccountLine, {
      ...{ key: `${row.account} ${row.user} ${row.partition}`, row, accounts, owner, me },
      reported: !data.why_no_shares,
    }),
  );
  const rest = rows.length - lines.length;
  return [
    data.why_no_shares
      ? el(
          "p",
          { key: "why", class: "reason" },
          `Usage and fair share are unknown: ${data.why_no_shares}.`,
        )
      : null,
    el(
      "div",
      { key: "table", class: "stacked" },
      h(Table, { heads: withOwner(heads, owner) }, lines),
    ),
    rows.length ? null : el("p", { key: "none", class: "dim" }, "No account matches."),
    rest
      ? el(
          "p",
          { key: "rest", class: "row" },
          el("button", { onClick: more }, `Show ${formatted(Math.min(rest, MOST))} more`),
          el("span", { class: "dim" }, `${formatted(lines.length)} of ${formatted(rows.length)}`),
        )
      : null,
    el(
      "p",
      { key: "about", class: "dim" },
      "Usage is of all accounts together, old usage counted less; fair share is 0 to 1, the higher the sooner ",
      "jobs start. Limits of each job that an account above sets hold below it too and are listed there.",
    ),
    h(Meanings, { key: "meanings", limits: rows.flatMap(({ limits }) => limits) }),
  ];
}

/** @param {string[]} flags */
const flagWords = (flags) =>
  flags.map((flag) => flag.toLowerCase().replaceAll("_", " ")).join(", ");

/** Whose jobs it may stop, and how. @param {QosRow} qos */
function preemption({ preempts, preempt_mode, grace }) {
  const after = grace ? `, after ${span(grace)}` : "";
  if (!preempts.length) return none("none");
  return `${preempts.join(", ")}${preempt_mode ? ` (${preempt_mode}${after})` : after}`;
}

/** @param {{ qos: QosRow, owner?: Owner }} props */
function QosLine({ qos, owner }) {
  const { name, description, priority, usage_factor } = qos;
  const address = jobsOf(`qos=${name}`);
  const declared = owner?.declared.limits[`qos ${name}`];
  const usual = description.toLowerCase() === name ? "" : description;
  return el(
    "tr",
    { "data-key": name, ...leadsTo(address.slice(1)) },
    el(
      "td",
      null,
      el("a", { class: "plain", href: address, tabIndex: -1 }, el("b", null, name)),
      usual ? el("small", { class: "dim" }, ` ${usual}`) : null,
    ),
    el("td", { class: "num", "data-label": "priority" }, formatted(priority)),
    el("td", { "data-label": "may preempt jobs of" }, preemption(qos)),
    el("td", { class: "num", "data-label": "usage factor" }, usage_factor ?? none("unknown")),
    el("td", { "data-label": "limits" }, h(Limits, { ...qos, declared })),
    el("td", { "data-label": "flags" }, flagWords(qos.flags) || none()),
    ownerCell(owner, "qos", name, !declared && name !== "normal"),
  );
}

/** @param {{ data: api.AllQos, q: string, owner?: Owner }} props */
export function QosView({ data, q, owner }) {
  const rows = data.qos.filter(({ name, description }) =>
    `${name} ${description}`.toLowerCase().includes(q.toLowerCase()),
  );
  const lines = rows.map((qos) => h(QosLine, { key: qos.name, qos, owner }));
  const heads = [
    "QOS",
    number("priority"),
    "may preempt jobs of",
    number("usage factor"),
    "limits",
    "flags",
  ];
  return [
    el(
      "div",
      { key: "table", class: "stacked" },
      h(Table, { heads: withOwner(heads, owner) }, lines),
    ),
    rows.length ? null : el("p", { key: "none", class: "dim" }, "No QOS matches."),
    h(Meanings, { key: "meanings", limits: rows.flatMap(({ limits }) => limits) }),
  ];
}

/**
 * @param {ReservationRow} row
 * @param {number} at unix seconds
 * @returns {[string, import("../lib/view.js").Kind]}
 */
export function phaseOf({ start, end }, at) {
  if (end && end <= at) return ["over", "off"];
  if (start && start > at) return [`in ${span(start - at)}`, "warn"];
  return ["active", "busy"];
}

/** For whom it is. @param {ReservationRow} row */
function forWhom({ users, accounts }) {
  return [
    users.length ? `${users.length === 1 ? "user" : "users"} ${users.join(", ")}` : "",
    accounts.length
      ? `${accounts.length === 1 ? "account" : "accounts"} ${accounts.join(", ")}`
      : "",
  ]
    .filter(Boolean)
    .join("; ");
}

/** @param {{ data: api.Reservations, q: string, at?: number, owner?: Owner }} props */
export function ReservationsView({ data, q, at = Date.now() / 1000, owner }) {
  const rows = data.reservations.filter((row) =>
    `${row.name} ${row.nodes} ${forWhom(row)} ${row.flags.join(" ")}`
      .toLowerCase()
      .includes(q.toLowerCase()),
  );
  if (!rows.length)
    return el("p", { class: "dim" }, q ? "No reservation matches." : "Slurm has no reservations.");
  const lines = rows.map((row) => {
    const [words, kind] = phaseOf(row, at);
    const address = row.nodes
      ? addressOf("cluster", { filter: row.nodes }, { filter: "" })
      : "#cluster";
    return el(
      "tr",
      { key: row.name, "data-key": row.name, ...leadsTo(address.slice(1)) },
      el(
        "td",
        null,
        el("a", { class: "plain", href: address, tabIndex: -1 }, el("b", null, row.name)),
      ),
      el("td", { "data-label": "state" }, badge(words, kind)),
      el("td", { class: "nowrap", "data-label": "from" }, clock(row.start)),
      el("td", { class: "nowrap", "data-label": "to" }, row.end ? clock(row.end) : none("no end")),
      el(
        "td",
        { "data-label": "nodes" },
        row.nodes
          ? `${row.nodes} (${many(row.node_count, "node")}, ${many(row.cores, "core")})`
          : none("no nodes"),
      ),
      el("td", { "data-label": "for" }, forWhom(row) || none()),
      el("td", { "data-label": "licences" }, row.licenses || none()),
      el("td", { "data-label": "flags" }, flagWords(row.flags) || none()),
      ownerCell(owner, "reservations", row.name, true),
    );
  });
  const heads = ["reservation", "state", "from", "to", "nodes", "for", "licences", "flags"];
  return el("div", { class: "stacked" }, h(Table, { heads: withOwner(heads, owner) }, lines));
}

/** @param {{ data: api.Licenses, q: string, owner?: Owner }} props */
export function LicensesView({ data, q, owner }) {
  const rows = data.licenses.filter(({ name }) => name.toLowerCase().includes(q.toLowerCase()));
  if (!rows.length)
    return el("p", { class: "dim" }, q ? "No licence matches." : "Slurm counts no licences here.");
  const lines = rows.map(({ name, total, used, free, reserved, remote }) =>
    el(
      "tr",
      { key: name, "data-key": name },
      el(
        "td",
        null,
        el("b", null, name),
        remote ? el("small", { class: "dim" }, " of a server") : null,
      ),
      el("td", { class: "num" }, formatted(total)),
      el("td", { class: "num" }, barred(used, total, formatted(used))),
      el("td", { class: free ? "num" : "num reason" }, formatted(free)),
      el("td", { class: "num" }, formatted(reserved)),
      ownerCell(owner, "licenses", name, true),
    ),
  );
  const heads = ["licence", ...["total", "used", "free", "reserved"].map(number)];
  return el("div", { class: "few" }, h(Table, { heads: withOwner(heads, owner) }, lines));
}

/** A length of microseconds in words. @param {number | null} us */
export function lengthWords(us) {
  if (us === null) return "unknown";
  if (us < 1000) return `${us} µs`;
  return us < SLOW_US
    ? `${(us / 1000).toFixed(us < 10000 ? 1 : 0)} ms`
    : `${(us / 1e6).toFixed(1)} s`;
}

/**
 * One of the two schedulers, as facts.
 * @param {SchedulerCycle} cycle
 */
function cycleFacts({ count, last, mean, longest, depth, queue, last_at, exits, meanings }) {
  const slow = mean !== null && mean >= SLOW_US;
  const lengths = `last ${lengthWords(last)}, mean ${lengthWords(mean)}, longest ${lengthWords(longest)}`;
  const why = Object.entries(exits)
    .sort(([, a], [, b]) => b - a)
    .map(([word, times]) =>
      el("li", { key: word }, `${meanings[word] ?? word}: ${formatted(times)} times`),
    );
  if (count === 0) return [fact("cycles", "none since the counters were reset")];
  return [
    fact("cycles", count === null ? "unknown" : formatted(count)),
    last_at ? fact("last cycle", since(last_at)) : null,
    fact("length", el("span", { class: slow ? "reason" : "" }, lengths, slow ? ": slow" : "")),
    fact("jobs tested in a cycle", depth === null ? "unknown" : `${formatted(depth)} on average`),
    fact("pending at the last cycle", queue === null ? "unknown" : many(queue, "job")),
    why.length ? fact("cycles ended because", el("ul", { class: "plain" }, why)) : null,
  ];
}

/** @param {{ title: string, calls: api.SchedulerCall[], what: string }} props */
function Calls({ title, calls, what }) {
  const all = calls.reduce((sum, { total }) => sum + total, 0);
  const lines = calls.map(({ name, count, mean, total }) =>
    el(
      "tr",
      { key: name },
      el(
        "td",
        { class: "cut", title: name },
        what === "request"
          ? name
              .replace(/^REQUEST_/, "")
              .toLowerCase()
              .replaceAll("_", " ")
          : name,
      ),
      el("td", { class: "num" }, formatted(count)),
      el("td", { class: "num" }, lengthWords(mean)),
      el("td", { class: "num" }, barred(total, all, lengthWords(total))),
    ),
  );
  const content = lines.length
    ? h(Table, { heads: [what, ...["number", "mean", "together"].map(number)] }, lines)
    : el("p", { class: "dim" }, "None is reported.");
  return view.card(title, content);
}

/** @param {number | null} value @param {string} word */
const counted = (value, word) => (value === null ? "unknown" : many(value, word));

/** What waits in slurmctld, and for how many jobs. @param {api.SchedulerFigures} now */
function DaemonFacts({ since: at, events, threads, agents, database }) {
  const words = events.map(({ name, jobs }) => `${formatted(jobs)} ${name}`);
  const records = counted(database, "record");
  return el(
    "dl",
    { class: "facts" },
    fact("counted since", clockAgo(at)),
    fact("jobs since then", words.join(", ") || "unknown"),
    fact("busy now", counted(threads, "thread")),
    fact("queued for nodes", counted(agents, "message")),
    fact(
      "queued for slurmdbd",
      database
        ? el("span", { class: "reason" }, `${records}: slurmdbd is slow or does not answer`)
        : records,
    ),
  );
}

/**
 * @param {string} title
 * @param {string} about
 * @param {ComponentChildren} facts
 */
const factsCard = (title, about, facts) =>
  view.card(title, [about ? el("p", { class: "dim" }, about) : null, facts]);

/** @param {{ data: api.SchedulerState }} props */
export function SchedulerView({ data }) {
  const now = data.figures;
  if (!now) return null;
  const started = now.backfilled === null ? "unknown" : formatted(now.backfilled);
  const backfill = [fact("jobs that it started", started), cycleFacts(now.backfill)];
  const facts = (/** @type {ComponentChildren} */ lines) => el("dl", { class: "facts" }, lines);
  const column = (/** @type {ComponentChildren} */ cards) => el("div", { class: "stack" }, cards);
  return el(
    "div",
    { class: "halves" },
    column([
      factsCard("slurmctld", "", h(DaemonFacts, now)),
      factsCard(
        "Main scheduler",
        "Starts the jobs of highest priority as far as there is room.",
        facts(cycleFacts(now.main)),
      ),
      factsCard(
        "Backfill",
        "Starts smaller jobs earlier where that delays none of higher priority.",
        facts(backfill),
      ),
    ]),
    column([
      h(Calls, { title: "Requests by user", calls: now.by_user, what: "user" }),
      h(Calls, { title: "Requests by type", calls: now.by_type, what: "request" }),
    ]),
  );
}

/**
 * @typedef {api.Accounts | api.AllQos | api.Reservations | api.Licenses | api.SchedulerState} Data
 * @param {string} tab
 * @param {any} data
 * @param {string} q
 * @param {{ owner?: Owner, me: Me, most: number, more: () => void }} how
 * @returns {ComponentChildren}
 */
function viewOf(tab, data, q, { owner, me, most, more }) {
  if (tab === "accounts") return h(AccountsView, { data, q, owner, me, most, more });
  if (tab === "qos") return h(QosView, { data, q, owner });
  if (tab === "reservations") return h(ReservationsView, { data, q, owner });
  if (tab === "licenses") return h(LicensesView, { data, q, owner });
  return h(SchedulerView, { data });
}

/** The lists of the cluster file that each tab shows. @type {Record<string, [string, string][]>} */
export const LISTS = {
  accounts: [
    ["users", "user"],
    ["accounts", "account"],
  ],
  qos: [["qos", "QOS"]],
  reservations: [["reservations", "reservation"]],
  licenses: [["licenses", "licence"]],
};

/**
 * What a tab's list is changed by: in the cluster file, and what the file does not declare in Slurm.
 * ``roles`` are those whom Slurm lets do that, which ``who`` has in words (seen with 24.11).
 * @type {Record<string, { file: string, slurm: string, roles: string[], who: string } | undefined>}
 */
const CHANGED_BY = {
  accounts: {
    file: "corral edit users NAME limits.gpus=4",
    slurm: "sacctmgr modify user NAME set GrpTRES=gres/gpu=4",
    roles: ["operator", "administrator"],
    who: "Slurm's operators and administrators, and coordinators of the account for its users, may",
  },
  qos: {
    file: "corral edit qos NAME priority=10",
    slurm: "sacctmgr modify qos NAME set Priority=10",
    roles: ["administrator"],
    who: "Slurm's administrators may",
  },
  reservations: {
    file: "corral edit reservations NAME duration=4:00",
    slurm: "scontrol update reservationname=NAME duration=4:00:00",
    roles: ["operator", "administrator"],
    who: "Slurm's operators and administrators may",
  },
  licenses: { file: "corral edit licenses NAME count=10", slurm: "", roles: [], who: "" },
};

/**
 * What to do where this page cannot: it has no cluster file, and changes nothing around it.
 * @param {{ tab: string, why: string, role: string, filed: boolean }} props
 */
function ElsewhereSteps({ tab, why, role, filed }) {
  const commands = CHANGED_BY[tab];
  if (!commands || (!filed && !commands.slurm))
    return el("p", { class: "dim" }, "There is nothing to change here.");
  const code = (/** @type {string} */ text) => el("code", null, text);
  const { file, slurm, roles, who } = commands;
  const by = `${roles.includes(role) ? `As Slurm's ${role} you may` : who}, on a node: `;
  if (!filed) return el("p", { class: "dim" }, "This page changes nothing here. ", by, code(slurm));
  return el(
    "div",
    { class: "dim" },
    el("p", null, `This page changes nothing here${why ? `: ${why}` : ""}.`),
    el(
      "ul",
      null,
      el(
        "li",
        null,
        "What the cluster file declares: who keeps that file runs, on its machine, ",
        ...[code(file), " and then ", code("corral up"), ", or opens this page there by "],
        ...[code("corral ui FILE"), "."],
      ),
      slurm
        ? el(
            "li",
            null,
            ...["What the file does not declare: ", by, code(slurm), ". "],
            "What the file declares is set back by the next ",
            ...[code("corral up"), "."],
          )
        : null,
    ),
  );
}

/**
 * How changes are made.
 * @param {{ owner?: Owner, why: string, reading: boolean, tab?: string, role?: string, filed?: boolean }} props
 */
export function HowToChange(props) {
  const { owner, why, reading, tab = "accounts", role = "user", filed = true } = props;
  if (reading) return el("p", { class: "dim" }, "The cluster file is read…");
  const code = (/** @type {string} */ text) => el("code", null, text);
  if (owner) {
    const held = owner.declared.held
      ? " Applying the file sets back what it can declare of its own accounts, users and QOS."
      : "";
    return el(
      "p",
      { class: "dim" },
      `Changes are made in ${owner.declared.path}, and applied as a plan. What is marked `,
      '"by hand" was set in Slurm with ',
      ...[code("sacctmgr"), " or ", code("scontrol"), `, and the file has nothing of it.${held}`],
    );
  }
  return h(ElsewhereSteps, { tab, why, role, filed });
}

/** @typedef {{ tab: string, q: string, data: Data | null, wrong: Refused | null, most: number }} PolicyState */

/**
 * @typedef {object} PolicyProps
 * @property {Me} me
 * @property {string[]} args
 * @property {URLSearchParams} query
 * @property {Owner} [owner]
 * @property {string} [why] the file cannot be changed here
 * @property {boolean} [reading] whether it can is not known yet
 * @property {number} [applied] grows with each change that was applied
 */

/** @extends {Component<PolicyProps, PolicyState>} */
export class PolicyPage extends Component {
  newest = new Latest();
  /** @type {ReturnType<typeof setInterval> | undefined} */
  timer = undefined;
  /** @type {PolicyState} */
  state = {
    tab: TABS.find(([key]) => key === this.props.args[0])?.[0] ?? "accounts",
    q: this.props.query.get("q") ?? "",
    data: null,
    wrong: null,
    most: MOST,
  };

  componentDidMount() {
    this.load();
    this.timer = setInterval(this.load, AGAIN_MS);
  }

  componentWillUnmount() {
    clearInterval(this.timer);
    this.newest.drop();
  }

  /** @param {PolicyProps} before */
  componentDidUpdate(before) {
    if (before.applied !== this.props.applied) this.load();
  }

  load = () => {
    const show = (/** @type {Data} */ data) => this.setState({ data, wrong: null });
    this.newest.ask(`policy/${this.state.tab}`, show, (wrong) => this.setState({ wrong }));
  };

  /** @param {string} q */
  filter(q) {
    this.setState({ q, most: MOST });
    keepAddress(addressOf(`policy/${this.state.tab}`, { q }, { q: "" }));
  }

  more = () => this.setState(({ most }) => ({ most: most + MOST }));

  content() {
    const { tab, q, data, wrong, most } = this.state;
    if (wrong && !data) return el("p", { class: "reason" }, `${wrong.message}. ${wrong.hint}`);
    if (!data) return el("p", { class: "dim" }, "Loading…");
    if (!data.known) return el("p", { class: "reason" }, `Unknown: ${data.why}.`);
    const why = data.why || wrong?.message;
    return [
      why
        ? el("p", { key: "old", class: "reason" }, `This was known ${since(data.at)}: ${why}.`)
        : null,
      viewOf(tab, data, q, { ...this.props, most, more: this.more }),
    ];
  }

  render() {
    const { tab, q } = this.state;
    const tabs = TABS.map(([key, words]) =>
      el(
        "a",
        {
          key,
          class: "chip",
          href: `#policy/${key}`,
          "aria-current": key === tab ? "page" : undefined,
        },
        words,
      ),
    );
    const onInput = (/** @type {{ currentTarget: HTMLInputElement }} */ { currentTarget }) =>
      this.filter(currentTarget.value);
    const search = el("input", {
      ...{ type: "search", class: "grow", value: q, onInput },
      ...{ placeholder: "Filter: a name, or part of one", "aria-label": "Filter", maxLength: 100 },
    });
    const plain = tab === "scheduler";
    const { owner, why = "", reading = false } = this.props;
    const adds = (owner ? (LISTS[tab] ?? []) : []).map(([section, word]) =>
      el(
        "button",
        { key: section, onClick: () => owner?.change(section, "") },
        `Add ${word === "account" ? "an" : "a"} ${word}`,
      ),
    );
    return [
      el(
        "div",
        { key: "tabs", class: "row" },
        el("div", { class: "row chips", role: "navigation", "aria-label": "What to show" }, tabs),
        plain ? null : search,
        adds,
      ),
      el("div", { key: `${tab} content`, class: plain ? "" : "card" }, this.content()),
      h(HowToChange, {
        ...{ key: "how", owner, why, reading, tab },
        role: this.props.me.role,
        filed: this.props.me.mine,
      }),
    ];
  }
}
