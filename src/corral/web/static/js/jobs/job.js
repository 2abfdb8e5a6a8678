// One job: how it stands, why, its live log and script, and what may be done to it.
import { Component, h } from "../../vendor/preact.mjs";
import { ArrayPage } from "./array_page.js";
import { arrayOf, cancelQuestion, named } from "./arrays.js";
import { WhyFailed } from "./failure.js";
import { Curves } from "../lib/curves.js";
import { gpusFact, IdleGpus } from "./idle.js";
import { AccountLink, NodeLinks, PartitionLinks, QosLinks, UserLink } from "./links.js";
import { exitOf, gpus, timeOf } from "./columns.js";
import { listen, now } from "../lib/event_stream.js";
import { Log } from "../logs/log.js";
import { call, Latest, pauseAfter, refused, ticketed } from "../lib/server.js";
import { SubmitAgain } from "./resubmission.js";
import { AskedUsed } from "./use.js";
import * as view from "../lib/view.js";
/** @import { ComponentChildren } from "preact" */
/** @import * as api from "../api.js" */
/** @import { Refused } from "../lib/server.js" */

const { ask, badge, bar, clock, complain, el, fact, FailureCard, gib, many, pre, span } = view;
const TICK_MS = 5000;
const MEASURE_MS = 4500;
const AGAIN_MS = 2000;
// The server keeps a job new for 300 s after its page was asked for.
const KEEP_MS = 240000;
const PARTS = /** @type {const} */ (["compute", "communication", "overlap", "idle"]);

/** @param {api.JobDetail} job */
function givenWords(job) {
  const given = [many(job.cpus, "CPU"), gib(job.memory)];
  if (gpus(job)) given.unshift(`${gpus(job)} ${gpus(job) === "1" ? "GPU" : "GPUs"}`);
  return given.join(", ");
}

/**
 * @param {api.JobDetail} job
 * @param {number} at
 */
function timeFact(job, at) {
  const end = job.ended && job.end_at ? job.end_at : at;
  const progress = job.limit && job.start_at ? bar(end - job.start_at, job.limit, true) : null;
  const of = job.waiting ? ", limit" : " of";
  const limit = job.limit ? `${of} ${span(job.limit)}` : ", no limit";
  return fact("time", el("span", null, progress, `${timeOf(job, at)}${limit}`));
}

/**
 * Why it is pending, or how it ended.
 * @param {api.JobDetail} job
 */
const outcomeFacts = (job) => [
  fact("why pending", job.why && el("span", { class: "reason" }, job.why)),
  fact("reason", job.ended && job.reason),
  fact("ended", job.ended && `${clock(job.end_at)}, ${exitOf(job)}`),
];

/** There is none. */
const NOT_THERE = 404;
const LACKING = {
  extras: "Environment, tracked run and profile are",
  profile: "What its profile shows is",
  script: "Its batch script is",
};

/** Whether there may be output. @param {api.JobDetail} job */
const prints = (job) => Boolean(job.stdout) && !job.waiting;

/** Whether it is shown why it failed. @param {api.JobDetail} job */
const endedBadly = (job) => job.ended && job.kind !== "good";

/** In place of output that this page cannot reach. @param {{ job: api.JobDetail }} props */
const Unread = ({ job }) =>
  el(
    "section",
    { key: "unread", class: "card dim" },
    "This page has Slurm's REST API alone, which reads no files: the output is in ",
    code(job.stdout),
    " on the cluster.",
  );

/** A task in words, or those of an array that have not begun. @param {string} label */
const taskWords = (label) =>
  /_\d+$/.test(label) ? `task ${label.split("_")[1]}, job ${label}` : named(label);

const Back = () => el("a", { href: view.lastAddress("jobs") }, "← all jobs");

/** @param {number} at unix seconds */
const lastKnown = (at) => `Slurm does not answer: this is what it reported at ${clock(at)}.`;

/** @param {string} path */
const code = (path) => path && el("code", null, path);

/** @type {Record<string, number>} */
const MIB = { K: 1 / 1024, M: 1, G: 1024, T: 1024 * 1024 };

/**
 * One kind of what was asked for, in words; "" for what nobody asks for.
 * @param {string} kind
 * @param {string} amount
 */
function askedPart(kind, amount) {
  const count = Number(amount.replace(/[KMGT]$/, ""));
  if (kind === "billing" || Number.isNaN(count)) return "";
  if (kind === "mem") return gib(count * MIB[/[KMGT]$/.exec(amount)?.[0] ?? "M"]);
  /** @type {Record<string, string>} */
  const words = { cpu: "CPU", node: "node", "gres/gpu": "GPU" };
  return words[kind] ? many(count, words[kind]) : `${amount} ${kind.replace(/^gres\//, "")}`;
}

/**
 * What a job asks for: "cpu=2,mem=4G,node=1,billing=2,gres/gpu=1".
 * @param {string} tres
 */
export function askedWords(tres) {
  const parts = tres.split(",").map((part) => part.split("="));
  const order = ["node", "gres/gpu", "cpu", "mem"];
  const at = (/** @type {string} */ kind) =>
    (order.indexOf(kind) + order.length + 1) % (order.length + 1);
  return parts
    .filter(([kind, amount]) => kind && amount)
    .sort(([a], [b]) => at(a) - at(b))
    .map(([kind, amount]) => askedPart(kind, amount))
    .filter(Boolean)
    .join(", ");
}

/** Whose it is, and where its account, partition and QOS are described. @param {{ job: api.JobDetail, me: api.Me }} props */
const ofWhom = ({ job, me }) => [
  fact("user", [
    h(UserLink, { user: job.user, me }),
    job.group && job.group !== job.user ? `, group ${job.group}` : "",
  ]),
  fact("account", job.account && h(AccountLink, { account: job.account })),
  fact("wckey", job.wckey),
  fact("partition", [
    h(PartitionLinks, { partition: job.partition }),
    job.qos ? [", QOS ", h(QosLinks, { qos: job.qos })] : "",
  ]),
];

/** Where it is, what it asks for, and what it has. @param {api.JobDetail} job */
const resourceFacts = (job) => [
  fact("nodes", job.nodes ? h(NodeLinks, { nodes: job.nodes }) : many(job.node_count, "node")),
  fact("asked for", askedWords(job.tres_asked)),
  fact("given", job.waiting && job.tres_asked ? "" : givenWords(job)),
];

/** @param {{ job: api.JobDetail, me: api.Me, at?: number, use?: api.GpusOfJobs | null }} props */
export function JobFacts({ job, me, at = Date.now() / 1000, use = null }) {
  const started = job.waiting ? "may start" : "started";
  return el(
    "dl",
    { class: "facts" },
    fact("job", job.label),
    fact(
      "array",
      arrayOf(job.label) &&
        el("a", { href: `#job/${arrayOf(job.label)}` }, `${arrayOf(job.label)}`),
    ),
    outcomeFacts(job),
    ofWhom({ job, me }),
    resourceFacts(job),
    fact("use of GPUs", job.running && gpusFact(use, job.id)),
    timeFact(job, at),
    fact("submitted", clock(job.submit_at)),
    fact("eligible", job.eligible_at && clock(job.eligible_at)),
    fact(started, job.start_at && clock(job.start_at)),
    fact("priority", job.priority),
    fact("depends on", job.dependency),
    fact("restarts", job.restarts || null),
    fact("folder", code(job.workdir)),
    fact("output", code(job.stdout)),
    fact("submitted by", code(job.submit_line)),
    fact("comment", job.comment),
    fact("administrator's comment", job.admin_comment),
    fact("Slurm's comment", job.system_comment),
  );
}

/**
 * What the ranks did in the recorded steps, as corral profile prints it; Perfetto shows the rest.
 * @param {{ ranks: api.RankTimes[] }} props
 */
export function RankTable({ ranks }) {
  const heads = ["rank", "steps", "ms/step", ...PARTS];
  const rows = ranks.map((rank) => {
    const step = (rank.wall_ms / Math.max(1, rank.steps)).toFixed(1);
    const shares = PARTS.map((part) => {
      const share = (100 * rank[`${part}_ms`]) / (rank.wall_ms || 1);
      return el("td", { key: part }, `${share.toFixed(1)} %`);
    });
    const cells = [el("td", null, rank.rank), el("td", null, rank.steps), el("td", null, step)];
    return el("tr", { key: rank.rank }, cells, shares);
  });
  return el(
    "table",
    { class: "profile" },
    el(
      "thead",
      null,
      el(
        "tr",
        null,
        heads.map((text) => el("th", { key: text, scope: "col" }, text)),
      ),
    ),
    el("tbody", null, rows),
  );
}

/** @param {{ job: number, extras: api.Extras, ranks: api.RankTimes[] }} props */
function RunAndProfile({ job, extras, ranks }) {
  const download = async () => {
    try {
      const link = document.createElement("a");
      link.href = await ticketed(`jobs/${job}/profile.json.gz`);
      link.download = `job-${job}.json.gz`;
      link.click();
    } catch (error) {
      complain(error);
    }
  };
  const { run, tracking, recordings } = extras;
  if (!run && !recordings.length) return null;
  const address = `${tracking}/#/runs/${run}`;
  const link = el("a", { href: address, target: "_blank", rel: "noopener" }, "Its run in MLflow");
  const save = el(
    "button",
    { class: "quiet", type: "button", onClick: download },
    "Download the timeline of all ranks",
  );
  return view.card("Run and profile", [
    run && el("p", null, link, el("span", { class: "dim" }, `  ${tracking}, run ${run}`)),
    recordings.length
      ? el(
          "p",
          null,
          many(recordings.length, "recording"),
          " of its ranks; ",
          el("code", null, `corral profile ${job}`),
          " keeps them.",
        )
      : null,
    ranks.length
      ? el(
          "div",
          null,
          h(RankTable, { ranks }),
          el("p", null, save, " and open it in ", el("code", null, "ui.perfetto.dev"), "."),
        )
      : null,
  ]);
}

/** @param {{ environment: [string, string][] }} props */
function Environment({ environment }) {
  if (!environment.length) return null;
  const rows = environment.map(([name, value]) =>
    el(
      "tr",
      { key: name },
      el("td", { class: "mono" }, name),
      el("td", { class: "mono wrap" }, value),
    ),
  );
  return el(
    "details",
    { class: "card" },
    el("summary", null, "Environment of its first process"),
    el("div", { class: "scroll", tabIndex: 0 }, el("table", null, el("tbody", null, rows))),
  );
}

/** @param {{ use: api.Curves | null, wrong: string }} props */
function Usage({ use, wrong }) {
  if (!use) return null;
  const from = use.from === "here" ? "sampled while this page is open" : "";
  const curves = h(Curves, { curves: use.curves });
  return view.card("Use over time", curves, el("span", { class: "dim" }, wrong || from));
}

/**
 * @typedef {object} JobState
 * @property {api.JobDetail} [job]
 * @property {Refused} [failure]
 * @property {string} [script]
 * @property {api.Extras} [extras]
 * @property {api.RankTimes[]} ranks
 * @property {api.Curves | null} use
 * @property {string} wrong
 * @property {boolean} following
 * @property {Partial<Record<keyof typeof LACKING, string>>} lacking why a part is unknown
 */

/**
 * within: it is a task on the page of its array.
 * @extends {Component<{ me: api.Me, args: string[], query: URLSearchParams, within?: string }, JobState>}
 */
export class JobPage extends Component {
  /** @type {JobState} */
  state = { ranks: [], use: null, wrong: "", following: false, lacking: {} };
  /** @type {Record<string, number>} */
  turns = {};
  newestJob = new Latest();
  newestUse = new Latest();
  idle = new IdleGpus();
  measured = 0;
  loaded = 0;
  ended = false;
  stop = () => {};

  get id() {
    return this.props.args[0];
  }

  /** The number of an array is its last task's, too. @param {api.JobDetail} job */
  entire(job) {
    return !this.props.within && arrayOf(job.label) === String(job.id);
  }

  componentDidMount() {
    const silence = listen("jobs", (jobs) => {
      const { job } = this.state;
      if (!job || job.forgotten) return;
      if (!jobs || jobs.some(({ id }) => id === job.id)) this.load();
    });
    const tick = setInterval(() => {
      this.answered();
      if (!this.state.job || this.state.job.ended) return;
      if (!document.hidden && Date.now() - this.loaded > KEEP_MS) this.load();
      this.forceUpdate();
      if (Date.now() - this.measured > MEASURE_MS) this.measure();
    }, TICK_MS);
    const deaf = listen("head", this.answered);
    this.stop = () => {
      silence();
      deaf();
      clearInterval(tick);
    };
    this.load();
  }

  componentWillUnmount() {
    this.ended = true;
    this.newestJob.drop();
    this.newestUse.drop();
    this.idle.drop();
    this.stop();
  }

  // Who opens the page sees why a job cannot be shown; later the page stays as it is.
  load() {
    this.loaded = Date.now();
    /** @type {Promise<api.JobDetail>} */
    const answer = call(`jobs/${this.id}`);
    const take = (/** @type {api.JobDetail} */ job) =>
      this.entire(job) ? this.setState({ job, failure: undefined }) : this.shown(job);
    return this.newestJob.take(answer, take, (failure) => {
      if (!this.state.job) this.setState({ failure });
    });
  }

  // A page that has no news of Slurm's, or has not its job yet, asks again once Slurm answers.
  answered = () => {
    const { job, failure } = this.state;
    if (now.head?.trouble || Date.now() - this.loaded < AGAIN_MS) return;
    if (job?.known_at || (!job && failure)) this.load();
  };

  /** @param {api.JobDetail} job */
  shown = (job) => {
    const before = this.state.job;
    if (!this.props.within) document.title = `${job.name} · job ${job.label} · Corral`;
    const own = job.mine && this.props.me.mine;
    this.setState({
      job,
      failure: undefined,
      following: this.state.following || (own && prints(job)),
    });
    if (before?.state === job.state) return;
    this.measure(job);
    if (!own) return;
    this.more();
    if (!before && !job.forgotten) this.script();
  };

  /** @param {api.JobDetail | undefined} job */
  measure(job = this.state.job) {
    if (!job || this.entire(job) || !this.props.me.figures || !job.may || job.waiting) return;
    this.measured = Date.now();
    this.idle.ask(this.props.me, [job], () => this.ended || this.forceUpdate());
    const show = (/** @type {api.Curves} */ use) =>
      use.curves.length && this.setState({ use, wrong: "" });
    this.newestUse.ask(`jobs/${this.id}/figures`, show, (failure) =>
      this.setState({ wrong: failure.message }),
    );
  }

  /**
   * Asks for a part of the page until there is an answer; meanwhile it is unknown.
   * @template T
   * @param {keyof typeof LACKING} part
   * @param {(answer: T) => void} take
   * @param {number} tries before this one
   */
  async part(part, take, tries = 0) {
    const turn = (this.turns[part] ?? 0) + 1;
    this.turns[part] = turn;
    const late = () => this.ended || this.turns[part] !== turn;
    const lacks = (/** @type {string} */ why) =>
      this.setState(({ lacking }) => ({ lacking: { ...lacking, [part]: why } }));
    try {
      /** @type {T} */
      const answer = await call(`jobs/${this.id}/${part}`);
      if (late()) return;
      lacks("");
      take(answer);
    } catch (thrown) {
      const failure = refused(thrown);
      if (late() || failure.status === NOT_THERE) return;
      lacks(failure.message);
      const pause = pauseAfter(failure, tries);
      if (pause !== null) setTimeout(() => late() || this.part(part, take, tries + 1), pause);
    }
  }

  more() {
    return this.part("extras", (/** @type {api.Extras} */ extras) => {
      this.setState({ extras });
      if (!extras.recordings.length || !this.props.me.corral) return;
      this.part("profile", (/** @type {api.Profile} */ { ranks }) => this.setState({ ranks }));
    });
  }

  script() {
    return this.part("script", (/** @type {api.BatchScript} */ { script }) =>
      this.setState({ script }),
    );
  }

  lacks() {
    return Object.entries(LACKING).map(([part, what]) => {
      const why = this.state.lacking[/** @type {keyof typeof LACKING} */ (part)];
      return why && el("p", { class: "dim", role: "status" }, `${what} unknown: ${why}.`);
    });
  }

  /**
   * @param {{ do: string, minutes?: number }} body
   * @param {string} words
   */
  async act(body, words) {
    try {
      await call(`jobs/${this.id}`, body);
      view.toast(words);
      await this.load();
    } catch (error) {
      complain(refused(error));
    }
  }

  /** @param {api.JobDetail} job */
  async cancel(job) {
    const { title, text, confirm } = cancelQuestion(job.label);
    const sure = await ask(title, [], { confirm, danger: true, text });
    if (sure) this.act({ do: "cancel" }, `${named(job.label)}: cancelled`);
  }

  /** @param {api.JobDetail} job */
  async limit(job) {
    const value = job.limit ? String(Math.round(job.limit / 60)) : "60";
    const values = await ask(
      `Time limit of ${named(job.label)}`,
      [{ name: "minutes", label: "Minutes", type: "number", min: 1, value }],
      {
        confirm: "Change",
        text: "Slurm lets users shorten a limit; only operators make a running job's longer.",
      },
    );
    if (!values) return;
    const minutes = Number(values.minutes);
    this.act({ do: "limit", minutes }, `the limit is ${minutes} minutes now`);
  }

  /** @param {api.JobDetail} job */
  buttons(job) {
    const { me } = this.props;
    return el(
      "div",
      { class: "row" },
      this.actions(job),
      endedBadly(job) ? null : h(SubmitAgain, { job, me }), // it is next to why it failed
    );
  }

  /** @param {api.JobDetail} job */
  actions(job) {
    if (!job.may || job.forgotten) return null;
    const pending = job.waiting && !job.nodes; // with nodes it is being started
    /** @type {[boolean, string, () => void][]} */
    const offers = [
      [pending && job.held, "Release", () => this.act({ do: "release" }, "it may start again")],
      [pending && !job.held, "Hold", () => this.act({ do: "hold" }, "it is held")],
      [!job.ended, "Change limit", () => this.limit(job)],
      [
        job.mine && this.props.me.mine && !pending,
        "Requeue",
        () => this.act({ do: "requeue" }, "it is back in the queue"),
      ],
      [!job.ended, "Cancel", () => this.cancel(job)],
    ];
    const shown = offers.filter(([offered]) => offered);
    return shown.map(([, word, onClick]) =>
      el("button", { key: word, class: word === "Cancel" ? "danger" : "", onClick }, word),
    );
  }

  /** @param {api.JobDetail} job */
  head(job) {
    const within = this.props.within;
    const state = badge(job.state, job.kind);
    const name = within
      ? el("h2", null, `${taskWords(job.label)} `, state)
      : el("h1", null, `${job.name} `, state);
    return el(
      "div",
      { key: "head", class: "row between" },
      el("div", { class: "row" }, within ? null : h(Back, null), name),
      this.buttons(job),
    );
  }

  /** @param {api.JobDetail} job */
  facts(job) {
    const forgotten =
      "Slurm's controller has forgotten this job: this is what accounting keeps of it.";
    return el(
      "div",
      { key: "facts", class: "card wide-facts" },
      job.forgotten ? el("p", { class: "dim" }, forgotten) : null,
      job.known_at ? el("p", { class: "reason" }, lastKnown(job.known_at)) : null,
      JobFacts({ job, me: this.props.me, use: this.idle.answer }),
    );
  }

  /**
   * Facts and curves, and next to them the log, where there is one.
   * @param {api.JobDetail} job
   */
  columns(job) {
    const { following, use, wrong } = this.state;
    const left = [
      this.facts(job),
      job.stdout && job.mine && !this.props.me.mine ? Unread({ job }) : null,
      job.ended && job.start_at ? h(AskedUsed, { key: `used ${job.state}`, job: job.id }) : null,
      h(Usage, { key: "use", use, wrong }),
    ];
    const { query, within } = this.props;
    const page = within
      ? { page: `job/${within}`, task: `${job.id}` }
      : { page: `job/${job.id}`, task: "" };
    return el(
      "div",
      { key: "columns", class: following ? "columns" : "stack" },
      following ? el("div", { class: "stack" }, left) : left,
      following
        ? h(Log, {
            key: "log",
            ...{ job: job.id, ended: job.ended, query, ...page },
          })
        : null,
    );
  }

  /** @returns {ComponentChildren} */
  render() {
    const { job, failure, script, extras, ranks } = this.state;
    if (!job)
      return [
        el("p", { key: "back" }, h(Back, null)),
        failure
          ? h(FailureCard, { failure })
          : el("p", { key: "asked", class: "dim" }, `Asking Slurm for job ${this.id} …`),
      ];
    const { me, query } = this.props;
    if (this.entire(job)) {
      const { name, mine, may } = job;
      const within = String(job.id);
      const task = (/** @type {number} */ id, /** @type {URLSearchParams} */ of) =>
        h(JobPage, { key: `task ${id}`, me, args: [String(id)], query: of, within });
      return h(ArrayPage, { array: job.id, name, mine, may, me, query, back: h(Back, null), task });
    }
    return [
      this.head(job),
      endedBadly(job) ? h(WhyFailed, { key: `why ${job.state} ${job.end_at}`, job, me }) : null,
      this.columns(job),
      this.lacks(),
      extras ? h(RunAndProfile, { key: "run", job: job.id, extras, ranks }) : null,
      script === undefined ? null : view.card("Batch script", pre(script), null, { key: "script" }),
      extras ? h(Environment, { key: "vars", environment: extras.environment }) : null,
    ];
  }
}
