// One node: how it stands, what is in use, and draining it.
import { Component } from "../vendor/preact.mjs";
import { listen, loadNodes, now, watchFigures } from "./live.js";
import { call } from "./server.js";
import {
  ask,
  bar,
  clock,
  complain,
  el,
  fact,
  gib,
  known,
  nodeBadge,
  since,
  toast,
  warmth,
} from "./view.js";
/** @import { Me, NodeFigures, NodeRow } from "./api.js" */

/**
 * @param {number} used
 * @param {number} of
 * @param {string} words
 */
const share = (used, of, words) => el("span", null, bar(used, of, true), words);

/** @param {NodeRow} node */
function memoryWords({ memory, memory_free, memory_used }) {
  const given = memory_used ? gib(memory_used) : "nothing";
  return `${given} of ${gib(memory)} given to jobs, ${gib(memory_free)} free on the machine`;
}

/** @param {NodeRow} node */
const reasonWords = (node) =>
  node.reason && `${node.reason} (${node.reason_user || "?"}, ${clock(node.reason_at)})`;

/** @param {{ node: NodeRow, figures?: NodeFigures }} props */
export function NodeFacts({ node, figures = {} }) {
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
    fact("partitions", node.partitions.join(", ") || "-"),
    fact("features", node.features.join(", ") || "-"),
    fact("address", node.address),
    fact("slurmd", node.version || "-"),
    fact("booted", `${clock(node.boot_at)} (${since(node.boot_at)})`),
  );
}

/** @extends {Component<{ me: Me, args: string[], query: URLSearchParams }>} */
export class NodePage extends Component {
  /** @type {(() => void)[]} */
  stops = [];

  get name() {
    return this.props.args[0];
  }

  componentDidMount() {
    const draw = () => this.forceUpdate();
    this.stops = [listen("nodes", draw), watchFigures(this.props.me, draw)];
    if (!now.loaded) loadNodes().then(draw, complain);
  }

  componentWillUnmount() {
    for (const stop of this.stops) stop();
  }

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
      [{ name: "reason", label: "Reason, for the next who looks" }],
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

  /** @param {NodeRow | undefined} node */
  content(node) {
    if (!node)
      return el("h2", null, now.loaded ? `Slurm knows no node ${this.name}` : "Asking Slurm…");
    const jobs = `#jobs/running/${encodeURIComponent(`nodes=${node.name}`)}`;
    return [
      el(
        "div",
        { key: "head", class: "row between" },
        el("h1", null, `${node.name} `, nodeBadge(node)),
        el("div", { class: "row" }, this.button(node)),
      ),
      el("br"),
      NodeFacts({ node, figures: now.figures[node.name] }),
      el("br"),
      el("a", { key: "jobs", href: jobs }, "Jobs on this node"),
    ];
  }

  render() {
    return [
      el("p", null, el("a", { href: "#cluster" }, "← all nodes")),
      el("div", { class: "card" }, this.content(now.nodes.get(this.name))),
    ];
  }
}
