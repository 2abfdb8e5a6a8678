// Nodes that a filter chooses, drained or resumed together, for administrators.
import { Component, h } from "../../vendor/preact.mjs";
import { Failures, inParts } from "../lib/bulk.js";
import { call } from "../lib/server.js";
import { ask, el, many, toast } from "../lib/view.js";
/** @import { BulkResult, FailedOne, NodeRow } from "../api.js" */

const NAMED = 8;

/**
 * The first names of some nodes, and how many more there are.
 * @param {NodeRow[]} nodes
 */
export function named(nodes) {
  const first = nodes.slice(0, NAMED).map(({ name }) => name);
  const rest = nodes.length - first.length;
  return `${first.join(", ")}${rest ? ` and ${many(rest, "more node")}` : ""}`;
}

/**
 * @typedef {{ nodes: NodeRow[] }} NodeBulkProps those that the filter chooses
 * @extends {Component<NodeBulkProps, { failed: FailedOne[], busy: boolean }>}
 */
export class NodeBulk extends Component {
  /** @type {{ failed: FailedOne[], busy: boolean }} */
  state = { failed: [], busy: false };

  /**
   * @param {"drain" | "resume"} does
   * @param {NodeRow[]} nodes
   */
  async act(does, nodes) {
    const drain = does === "drain";
    const verb = drain ? "Drain" : "Resume";
    const count = many(nodes.length, "node");
    const goes = drain ? " Running jobs go on to their end." : "";
    /** @type {import("../lib/view.js").Field[]} */
    const fields = drain ? [{ name: "reason", label: "Reason, shown to everybody" }] : [];
    const values = await ask(`${verb} ${count}?`, fields, {
      ...{ confirm: `${verb} ${count}`, danger: drain, text: `${named(nodes)}.${goes}` },
    });
    if (!values) return;
    this.setState({ busy: true, failed: [] });
    const reason = values.reason ?? "";
    const names = nodes.map(({ name }) => name);
    /** @type {(part: string[]) => Promise<BulkResult>} */
    const send = (part) => call("bulk/nodes", { do: does, names: part, reason });
    const { done, failed } = await inParts(names, send);
    this.setState({ busy: false, failed });
    if (done.length) {
      toast(`${many(done.length, "node")} ${drain ? "take no new jobs" : "take jobs again"}`);
    }
  }

  render() {
    const { nodes } = this.props;
    const { failed, busy } = this.state;
    const drained = nodes.filter((node) => node.resumable);
    const others = nodes.filter((node) => !node.resumable);
    /**
     * @param {"drain" | "resume"} does
     * @param {string} words
     * @param {NodeRow[]} which
     */
    const button = (does, words, which) => {
      const onClick = () => this.act(does, which);
      const props = { class: does === "drain" ? "danger" : "", disabled: busy, onClick };
      return which.length ? el("button", props, `${words} ${many(which.length, "node")}…`) : null;
    };
    const close = () => this.setState({ failed: [] });
    return [
      el(
        "div",
        { key: "bar", class: "row bulk", role: "group", "aria-label": "What the filter chooses" },
        el("b", { role: "status" }, `${many(nodes.length, "node")} match the filter`),
        button("drain", "Drain", others),
        button("resume", "Resume", drained),
      ),
      failed.length ? h(Failures, { key: "failed", what: "node", failed, close }) : null,
    ];
  }
}
