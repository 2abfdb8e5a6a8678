// One node: how it is, its jobs, its GPUs, what happened to it, and draining it.
import { Component, h } from "../../vendor/preact.mjs";
import { Curves } from "../lib/curves.js";
import { listen, loadNodes, now, watchFigures } from "../lib/event_stream.js";
import { EventsCard, GpusCard, HealthCard, JobsCard } from "./node_cards.js";
import { PartitionLinks } from "../jobs/links.js";
import { call, Latest, refused } from "../lib/server.js";
import {
  ask,
  bar,
  card,
  clock,
  clockAgo,
  complain,
  el,
  fact,
  gib,
  known,
  lastAddress,
  many,
  nodeBadge,
  toast,
  warmth,
} from "../lib/view.js";
/** @import * as api from "../api.js" */
/** @import { Machine, Me, NodeDetail, NodeFigures, NodeHealth, NodeRow } from "../api.js" */

const AGAIN_MS = 15000;
const CURVES_MS = 60000;
const NEWS_MS = 500;

/**
 * @param {number} used
 * @param {number} of
 * @param {string} words
 */
const share = (used, of, words) => el("span", null, bar(used, of, true), words);

/** @param {NodeRow} node */
function memoryWords({ memory, memory_free, memory_used }) {
  const given = memory_used ? gib(memory_used) : "nothing";
  const free = memory_free === null ? "unknown" : gib(memory_free);
  return `${given} of ${gib(memory)} given to jobs, free on the machine: ${free}`;
}

/** @param {NodeRow} node */
const reasonWords = (node) =>
  node.reason && `${node.reason} (${node.reason_user || "?"}, ${clock(node.reason_at)})`;

/** @param {Machine} machine */
function layoutWords({ sockets, cores, threads, architecture }) {
  const layout = `${many(sockets, "socket")} x ${many(cores, "core")} x ${many(threads, "thread")}`;
  return [sockets && cores ? layout : "", architecture].filter(Boolean).join(", ");
}

/** What the answer about one node has of its machine. @param {Machine | null | undefined} machine */
const machineFacts = (machine) =>
  machine && [
    fact("last busy", clockAgo(machine.busy_at)),
    fact("processors", layoutWords(machine)),
    fact("kernel", machine.kernel),
  ];

/** @param {{ node: NodeRow, figures?: NodeFigures, machine?: Machine | null }} props */
export function NodeFacts({ node, figures = {}, machine }) {
  const { cpus, cpus_used, gpus, gpus_used, memory, memory_used } = node;
  const load = node.load === null ? "-" : node.load.toFixed(2);
  const why = reasonWords(node);
  return el(
    "dl",
    { class: "facts" },
    fact("why it takes no jobs", why && el("span", { class: "reason" }, why)),
    fact(
      "GPUs",
      gpus && share(gpus_used ?? 0, gpus, `${known(gpus_used)} of ${gpus} in use (${node.gres})`),
    ),
    fact("CPUs", share(cpus_used, cpus, `${cpus_used} of ${cpus} in use, load ${load}`)),
    fact("memory", share(memory_used, memory, memoryWords(node))),
    fact("temperature, power", warmth(node, figures)),
    fact(
      "GPUs work",
      figures.gpu === undefined ? "" : `${Math.round(100 * figures.gpu)} % of the time`,
    ),
    fact(
      "partitions",
      node.partitions.length ? h(PartitionLinks, { partition: node.partitions.join(",") }) : "-",
    ),
    fact("features", node.features.join(", ") || "-"),
    fact("address", node.address),
    fact("slurmd", node.version || "-"),
    fact("booted", clockAgo(node.boot_at)),
    machineFacts(machine),
  );
}

/**
 * @typedef {object} NodeState
 * @property {NodeDetail | null} detail
 * @property {api.Curves | null} use of the last day
 * @property {string} wrong why there are no curves
 * @property {NodeHealth | null} health
 * @property {string} unhealthy why there are no checks
 * @property {boolean} checking
 */

/** @extends {Component<{ me: Me, args: string[], query: URLSearchParams }, NodeState>} */
export class NodePage extends Component {
  /** @type {NodeState} */
  state = {
    ...{ detail: null, use: null, wrong: "" },
    ...{ health: null, unhealthy: "", checking: false },
  };
  /** @type {(() => void)[]} */
  stops = [];
  newest = new Latest();
  curves = new Latest();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  wait = undefined;

  get name() {
    return this.props.args[0];
  }

  get owns() {
    const { me } = this.props;
    return me.owner && me.corral;
  }

  componentDidMount() {
    const draw = () => this.forceUpdate();
    const news = () => {
      this.wait ??= setTimeout(() => {
        this.wait = undefined;
        this.load();
      }, NEWS_MS);
    };
    const often = setInterval(() => document.hidden || this.load(), AGAIN_MS);
    const seldom = setInterval(() => document.hidden || this.measure(), CURVES_MS);
    this.stops = [
      listen("nodes", () => {
        draw();
        news();
      }),
      listen("jobs", news),
      watchFigures(this.props.me, draw),
      () => clearInterval(often),
      () => clearInterval(seldom),
      () => clearTimeout(this.wait),
      () => this.newest.drop(),
      () => this.curves.drop(),
    ];
    if (!now.loaded) loadNodes().then(draw, complain);
    this.load();
    this.measure();
    if (this.owns) this.check();
  }

  componentWillUnmount() {
    for (const stop of this.stops) stop();
  }

  load = () => {
    const show = (/** @type {NodeDetail} */ detail) => this.setState({ detail });
    // A node that Slurm does not know is named by the page; the last answer stays otherwise.
    this.newest.ask(`nodes/${this.name}`, show, () => {});
  };

  measure = () => {
    if (!this.props.me.figures) return;
    const show = (/** @type {api.Curves} */ use) => this.setState({ use, wrong: "" });
    this.curves.ask(`nodes/${this.name}/figures`, show, (failure) =>
      this.setState({ wrong: failure.message }),
    );
  };

  check = async () => {
    this.setState({ checking: true, unhealthy: "" });
    try {
      /** @type {NodeHealth} */
      const health = await call(`nodes/${this.name}/health`, {});
      this.setState({ health });
    } catch (error) {
      this.setState({ unhealthy: refused(error).message });
    }
    this.setState({ checking: false });
  };

  /** @param {{ do: "drain" | "resume", reason?: string }} body */
  async act(body) {
    try {
      await call(`nodes/${this.name}`, body);
      toast(`${this.name} ${body.do === "drain" ? "takes no new jobs" : "takes jobs again"}`);
    } catch (error) {
      complain(error);
    }
  }

  drain = async () => {
    const values = await ask(
      `Drain ${this.name}`,
      [{ name: "reason", label: "Reason, shown to everybody" }],
      { confirm: "Drain", text: "Running jobs go on to their end." },
    );
    if (values) await this.act({ do: "drain", reason: values.reason });
  };

  /** @param {NodeRow} node */
  button(node) {
    // slurmctld takes node changes from nobody else (24.11).
    if (this.props.me.role !== "administrator") return null;
    const resume = () => this.act({ do: "resume" });
    return node.resumable
      ? el("button", { key: "resume", class: "main", onClick: resume }, "Resume")
      : el("button", { key: "drain", class: "danger", onClick: this.drain }, "Drain");
  }

  /** Curves of the last day, or why there are none. */
  day() {
    const { use, wrong } = this.state;
    const { figures } = this.props.me;
    const none = figures
      ? "Unknown: only Prometheus keeps a day (services: metrics)."
      : "Unknown: this cluster has no metrics (services: metrics).";
    const waiting = figures && !use && !wrong;
    const content = use?.curves.length
      ? h(Curves, { curves: use.curves })
      : el("p", { class: "dim" }, wrong || (waiting ? "Loading…" : none));
    return el(
      "section",
      { key: "day", class: "card day" },
      el("h2", null, "The last 24 hours"),
      content,
    );
  }

  /** @param {NodeRow | undefined} node */
  content(node) {
    if (!node) return card(now.loaded ? `Slurm knows no node ${this.name}` : "Asking Slurm…", null);
    const { detail, health, unhealthy, checking } = this.state;
    const head = el(
      "div",
      { key: "head", class: "row between" },
      el("h1", null, `${node.name} `, nodeBadge(node)),
      el("div", { class: "row" }, this.button(node)),
    );
    const figures = now.figures[node.name];
    const facts = NodeFacts({ node, figures, machine: detail?.machine ?? null });
    const checks = h(HealthCard, {
      ...{ key: "health", owner: this.owns, health, wrong: unhealthy, checking },
      ...{ check: this.check, last: detail?.health ?? null },
    });
    return [
      el(
        "div",
        { key: "halves", class: "halves" },
        el(
          "div",
          { class: "stack" },
          el("div", { class: "card" }, head, facts),
          h(JobsCard, { name: node.name, detail }),
          checks,
        ),
        el(
          "div",
          { class: "stack" },
          node.gpus ? h(GpusCard, { detail }) : null,
          h(EventsCard, { detail }),
        ),
      ),
      this.day(),
    ];
  }

  render() {
    return [
      el("p", null, el("a", { href: lastAddress("cluster") }, "← all nodes")),
      this.content(now.nodes.get(this.name)),
    ];
  }
}
