// Jobs of an hour, a day or a week on each node, from accounting and slurmctld.
import { Component, h } from "../../vendor/preact.mjs";
import { SearchField } from "../lib/completion.js";
import { nodeTest, nodeWords } from "../nodes/filter.js";
import { Gantt } from "./gantt.js";
import { listen, now } from "../lib/event_stream.js";
import { Latest } from "../lib/server.js";
import { SpanChips, SPANS } from "../lib/spans.js";
import { addressOf, clock, el, formatted, keepAddress, many } from "../lib/view.js";
/** @import { Me, NodeRow, Timeline } from "../api.js" */
/** @import { Row } from "./gantt.js" */

/** @typedef {{ span: string, q: string, nodes: string, jobs: string }} Chosen */
/** @type {Chosen} */
const USUAL = { span: "day", q: "", nodes: "all", jobs: "all" };
const AGAIN_MS = 30000;

/**
 * The nodes that are shown. Of one that Slurm knows no longer only the name is left to filter by.
 * @param {Timeline} data
 * @param {Map<string, NodeRow>} nodes
 * @param {{ q: string, nodes: string }} chosen
 * @returns {{ rows: Row[], wrong: string }}
 */
export function rowsOf(data, nodes, { q, nodes: which }) {
  const { test, wrong } = nodeTest(q);
  const used = new Set();
  if (which === "used") {
    for (const { runs } of data.jobs) {
      for (const [first, last] of runs) {
        for (let place = first; place <= last; place += 1) used.add(place);
      }
    }
  }
  const rows = data.nodes
    .map((name, place) => ({ name, place }))
    .filter(({ name, place }) => {
      const node = nodes.get(name);
      if (which === "used" && !used.has(place)) return false;
      return node ? test(node) : wrong !== "" || name.includes(q.trim());
    });
  return { rows, wrong };
}

/**
 * How many jobs ran on the nodes that are shown.
 * @param {Timeline} data
 * @param {Row[]} rows
 */
export function jobsOn({ jobs, nodes }, rows) {
  const before = new Array(nodes.length + 1).fill(0); // shown nodes before each position
  for (const { place } of rows) before[place + 1] = 1;
  for (let i = 0; i < nodes.length; i += 1) before[i + 1] += before[i];
  return jobs.filter(({ runs }) => runs.some(([a, b]) => before[b + 1] > before[a])).length;
}

/** @param {number} at */
const minute = (at) => clock(at).slice(0, 16);

/**
 * How many jobs and nodes are shown, of how many.
 * @param {Timeline} data
 * @param {Row[]} rows
 * @param {number} count jobs on these rows
 */
export function countWords({ jobs, nodes, from, to }, rows, count) {
  const [of, all] = [rows.length < nodes.length, many(jobs.length, "job")];
  const words = of
    ? `${formatted(count)} of ${all} on ${formatted(rows.length)} of ${many(nodes.length, "node")}`
    : all;
  return `${words}, ${minute(from)} to ${minute(to)}`;
}

/**
 * What is missing of an answer, in sentences.
 * @param {Timeline} data
 */
export function notesOf({ known, why, why_no_past, cut, complete_from, most }) {
  const notes = [];
  if (!known) notes.push(`The jobs are unknown: ${why}.`);
  else if (why) notes.push(`This is of earlier: ${why}.`);
  if (why_no_past) {
    notes.push(`Jobs that slurmctld has forgotten (MinJobAge) are not shown: ${why_no_past}.`);
  }
  if (cut) {
    const since = minute(complete_from);
    notes.push(
      `Of so many jobs the newest are shown, at most 2,000 that ended and ${formatted(most)} in all: before ${since} some are left out.`,
    );
  }
  return notes;
}

/**
 * @typedef {{ data: Timeline | null, wrong: string, chosen: Chosen }} TimelineState
 * @extends {Component<{ me: Me, args: string[], query: URLSearchParams }, TimelineState>}
 */
export class TimelinePage extends Component {
  /** @type {TimelineState} */
  state = { data: null, wrong: "", chosen: USUAL };
  newest = new Latest();
  /** @type {ReturnType<typeof setInterval> | undefined} */
  again = undefined;
  stop = () => {};

  componentWillMount() {
    const { query } = this.props;
    const span = query.get("span") ?? "";
    const chosen = {
      span: SPANS.includes(span) ? span : USUAL.span,
      q: query.get("q") ?? "",
      nodes: query.get("nodes") === "used" ? "used" : "all",
      jobs: query.get("jobs") === "mine" ? "mine" : "all",
    };
    this.setState({ chosen });
  }

  componentDidMount() {
    this.stop = listen("nodes", () => this.forceUpdate());
    this.again = setInterval(() => document.hidden || this.load(), AGAIN_MS);
    this.load();
  }

  componentWillUnmount() {
    this.stop();
    clearInterval(this.again);
    this.newest.drop();
  }

  load() {
    const show = (/** @type {Timeline} */ data) => this.setState({ data, wrong: "" });
    this.newest.ask(`timeline?span=${this.state.chosen.span}`, show, (failure) =>
      this.setState({ wrong: failure.message }),
    );
  }

  /** @param {Partial<Chosen>} change */
  choose(change) {
    const chosen = { ...this.state.chosen, ...change };
    keepAddress(addressOf("timeline", chosen, USUAL));
    this.setState({ chosen }, () => change.span && this.load());
  }

  controls() {
    const { q, nodes, jobs } = this.state.chosen;
    /**
     * @param {string} words
     * @param {boolean} on
     * @param {Partial<Chosen>} change
     */
    const chip = (words, on, change) =>
      el(
        "button",
        {
          class: "chip",
          "aria-pressed": on ? "true" : "false",
          onClick: () => this.choose(change),
        },
        words,
      );
    return [
      h(SearchField, {
        ...{ value: q, label: "Filter nodes", words: () => nodeWords(now.nodes.values()) },
        placeholder: "filter: node[0-9] partition=main state=drain",
        type: (text) => this.choose({ q: text }),
      }),
      chip("Only with jobs", nodes === "used", { nodes: nodes === "used" ? "all" : "used" }),
      chip("My jobs stand out", jobs === "mine", { jobs: jobs === "mine" ? "all" : "mine" }),
    ];
  }

  /** @param {Timeline} data @param {Row[]} rows @param {number} count */
  plot(data, rows, count) {
    const { me } = this.props;
    const { chosen } = this.state;
    if (!rows.length && data.known) {
      const none =
        chosen.nodes === "used" && !chosen.q ? "No job ran in this time." : "No node matches.";
      return el("p", { key: "none", class: "dim" }, none);
    }
    const mine = chosen.jobs === "mine" ? me.user : "";
    return h(Gantt, { key: "gantt", rows, data, mine, count });
  }

  /** @param {Timeline} data @param {Row[]} rows */
  content(data, rows) {
    const count = jobsOn(data, rows);
    return [
      this.plot(data, rows, count),
      el("p", { key: "count", class: "dim" }, countWords(data, rows, count)),
    ];
  }

  render() {
    const { data, wrong, chosen } = this.state;
    const shown = data && rowsOf(data, now.nodes, chosen);
    const notes = [...(wrong ? [wrong] : []), ...(data ? notesOf(data) : [])];
    const legend = this.props.me.job_kinds.map(([kind, words]) =>
      el("span", { key: kind }, el("i", { class: `dot-${kind}` }), words),
    );
    return el(
      "div",
      { class: "card timeline" },
      el(
        "div",
        { class: "row between" },
        el("h2", null, "Jobs by node"),
        h(SpanChips, {
          span: chosen.span,
          choose: (span) => this.choose({ span }),
          label: "Span of the timeline",
        }),
      ),
      el(
        "div",
        { class: "row" },
        this.controls(),
        el("span", { class: "reason", role: "status" }, shown?.wrong),
      ),
      notes.map((note) => el("p", { key: note, class: "reason" }, note)),
      el("div", { class: "legend" }, legend),
      data && shown
        ? this.content(data, shown.rows)
        : wrong || el("p", { class: "dim" }, "Loading…"),
    );
  }
}
