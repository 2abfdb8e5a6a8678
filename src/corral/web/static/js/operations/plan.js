// The cluster file with errors at their lines, the plan it leads to, and apply with live progress.
import { Component, createRef, h } from "../../vendor/preact.mjs";
import { call, Latest, refused } from "../lib/server.js";
import { badge, card, complain, el, Loaded, many, pre } from "../lib/view.js";
import { follow, isRunning, Problem, ProgressView } from "./work.js";
/** @import * as api from "../api.js" */
/** @import { Refused } from "../lib/server.js" */
/** @import { Kind } from "../lib/view.js" */
/** @import { Progress } from "./work.js" */

/** @type {Record<api.ShownPlan["impact"], Kind>} */
const IMPACT = {
  none: "good",
  reload: "busy",
  restart: "warn",
  drain: "warn",
  reboot: "bad",
  recreate: "bad",
};
const TYPED_MS = 400;
const LINE_PX = 20;

/** @param {{ entry: api.ShownNodeChange }} props */
function Change({ entry: { nodes, change } }) {
  const { before, after, impact, refuses, summary } = change;
  const line = el(
    "summary",
    null,
    el("span", { class: "mono dim" }, `${nodes.join(",")}  `),
    summary,
    " ",
    impact === "none" ? null : badge(impact, IMPACT[impact]),
    refuses ? el("span", { class: "reason" }, ` refused: ${refuses}`) : null,
  );
  const texts = el("div", { class: "two" }, pre(before || "(nothing)"), pre(after));
  return el("li", null, el("details", null, line, texts));
}

/** @param {{ stage: api.ShownStage }} props */
const Stage = ({ stage: { name, title, changes } }) =>
  el(
    "section",
    null,
    el("h3", null, `${name}: ${title}`),
    el(
      "ul",
      { class: "plain" },
      changes.map((entry) =>
        h(Change, { key: `${entry.change.resource} ${entry.nodes.join(",")}`, entry }),
      ),
    ),
  );

/**
 * A plan as it is read before it is applied.
 * @param {{ plan: api.ShownPlan }} props
 */
export function PlanView({ plan }) {
  if (plan.empty) {
    const words = "The cluster is as the file declares.";
    return el("p", { class: "row" }, badge("nothing to do", "good"), words);
  }
  const { machines, stages, impact } = plan;
  const changes = stages.reduce((sum, stage) => sum + stage.changes.length, 0);
  const counted = `${many(machines.length, "machine")}, ${many(changes, "change")} in ${many(stages.length, "stage")}`;
  const moves = machines.map(({ node, action, summary }) =>
    el("li", { key: node }, `${node}: ${action}: ${summary}`),
  );
  return [
    el("p", { class: "row" }, badge(`worst impact: ${impact}`, IMPACT[impact]), counted),
    machines.length ? el("ul", null, moves) : null,
    stages.map((stage) => h(Stage, { key: stage.name, stage })),
  ];
}

/**
 * @typedef {object} ApplyState
 * @property {string} code
 * @property {Progress | null} progress
 * @property {boolean} applied
 * @property {Refused | null} failure
 */

/** A plan, and applying it with the code that only the terminal shows; saves: the file that is saved with it.
 * @extends {Component<{ plan: api.ShownPlan, saves?: string, done?: () => Promise<void> }, ApplyState>} */
export class PlanToApply extends Component {
  /** @type {ApplyState} */
  state = { code: "", progress: null, applied: false, failure: null };
  left = new AbortController();

  componentWillUnmount() {
    this.left.abort();
  }

  /** @param {Event} event */
  apply = async (event) => {
    event.preventDefault();
    try {
      await call("corral/apply", { plan: this.props.plan.id, code: this.state.code });
    } catch (error) {
      complain(error);
      return;
    }
    try {
      await follow((progress) => this.setState({ progress }), this.left.signal);
      await this.props.done?.();
      this.setState({ applied: true });
    } catch (error) {
      this.setState({ failure: refused(error) });
    }
  };

  /** @param {{ currentTarget: HTMLInputElement }} event */
  typed = ({ currentTarget }) => this.setState({ code: currentTarget.value });

  form() {
    const { saves, plan } = this.props;
    const { id } = plan;
    if (!id) return el("p", null, "A program made this plan: plan here to apply it.");
    const code = el("input", {
      class: "code",
      autocomplete: "off",
      inputMode: "numeric",
      maxLength: 6,
      "aria-label": "Code from the terminal",
      placeholder: "code",
      value: this.state.code,
      onInput: this.typed,
    });
    return el(
      "form",
      { class: "row", onSubmit: this.apply },
      el("span", null, `The terminal in which corral ui runs shows the code of plan ${id}:`),
      code,
      el("button", { class: "main" }, "Apply exactly this plan"),
      saves ? el("span", { class: "dim" }, `It is saved in ${saves} too.`) : null,
    );
  }

  render() {
    const { plan, saves } = this.props;
    const { progress, applied, failure } = this.state;
    if (!progress) return [PlanView({ plan }), plan.empty && !saves ? null : this.form()];
    const words = "Plan again to see that nothing is left to do.";
    return [
      h(ProgressView, { progress }),
      applied ? el("p", { class: "row" }, badge("applied", "good"), words) : null,
      failure ? h(Problem, { failure }) : null,
    ];
  }
}

/** @param {{ findings: api.LintFinding[], jump: (line: number) => void }} props */
export function Findings({ findings, jump }) {
  const items = findings.map((finding) =>
    el(
      "li",
      {
        key: `${finding.line} ${finding.rule} ${finding.where}`,
        class: `finding ${finding.level}`,
      },
      el(
        "button",
        { class: "quiet", onClick: () => jump(finding.line) },
        finding.line ? `line ${finding.line}` : "file",
      ),
      ` ${finding.message}`,
      finding.hint && el("p", { class: "dim" }, finding.hint),
    ),
  );
  return el("ul", { class: "plain" }, items);
}

/**
 * The numbers of the lines, those with a finding marked by its level.
 * @param {string} text
 * @param {api.LintFinding[]} findings
 */
export function lineMarks(text, findings) {
  const marks = new Map([...findings].reverse().map(({ line, level }) => [line, level]));
  /** @type {Record<string, string>} */
  const classes = { error: "err", warning: "wrn" };
  return text
    .split("\n")
    .map((_, i) => ({ line: i + 1, mark: classes[marks.get(i + 1) ?? ""] ?? "" }));
}

/**
 * Where a line begins and ends in a text.
 * @param {string} text
 * @param {number} line from 1
 * @returns {[number, number]}
 */
export function extentOf(text, line) {
  const lines = text.split("\n");
  const begin = lines
    .slice(0, Math.max(0, line - 1))
    .reduce((sum, before) => sum + before.length + 1, 0);
  return [begin, begin + (lines[line - 1] ?? "").length];
}

/** @typedef {{ file: api.ClusterFile }} EditorProps */

/**
 * @typedef {object} EditorState
 * @property {string} text
 * @property {api.LintFinding[]} findings
 * @property {boolean} busy
 * @property {number} planned grows with each plan, so that a new one begins without its last code
 * @property {api.ShownPlan | null} plan
 * @property {Progress | null} progress
 * @property {Refused | null} failure
 */

/** @extends {Component<EditorProps, EditorState>} */
export class Editor extends Component {
  /** @type {{ current: HTMLTextAreaElement | null }} */
  area = createRef();
  /** @type {{ current: HTMLDivElement | null }} */
  gutter = createRef();
  newest = new Latest();
  left = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  wait = undefined;

  /** @param {EditorProps} props */
  constructor(props) {
    super(props);
    /** @type {EditorState} */
    this.state = {
      ...{ text: props.file.text, findings: [], busy: false, planned: 0 },
      ...{ plan: null, progress: null, failure: null },
    };
  }

  componentDidMount() {
    if (this.state.text) this.check();
    this.resume().catch(complain);
  }

  componentWillUnmount() {
    this.left.abort();
    this.newest.drop();
    clearTimeout(this.wait);
  }

  // What somebody began before the page was loaded again.
  async resume() {
    if ((await isRunning("plan")) || (await isRunning("apply"))) await this.watch();
  }

  async watch() {
    try {
      const work = await follow((progress) => this.setState({ progress }), this.left.signal);
      if (work.what !== "plan") return;
      const plan = /** @type {api.ShownPlan} */ (work.result);
      this.setState({ plan, planned: this.state.planned + 1, progress: null });
    } catch (error) {
      this.setState({ failure: refused(error), progress: null });
    }
  }

  check = () => {
    /** @type {Promise<api.Lint>} */
    const answer = call("corral/lint", { text: this.state.text });
    this.newest.take(answer, ({ findings }) => this.setState({ findings }), complain);
  };

  plan = async () => {
    this.setState({ busy: true, plan: null, failure: null });
    try {
      await call("corral/plan", { text: this.state.text });
      await this.watch();
    } catch (error) {
      this.setState({ failure: refused(error) });
    }
    this.setState({ busy: false });
  };

  /** @param {{ currentTarget: HTMLTextAreaElement }} event */
  typed = ({ currentTarget }) => {
    this.newest.drop();
    this.setState({ text: currentTarget.value });
    clearTimeout(this.wait);
    this.wait = setTimeout(this.check, TYPED_MS);
  };

  /** @param {{ currentTarget: HTMLInputElement }} event */
  upload = async ({ currentTarget }) => {
    const text = await currentTarget.files?.[0]?.text();
    if (text !== undefined) this.setState({ text }, this.check);
  };

  scrolled = () => {
    const { current: gutter } = this.gutter;
    if (gutter && this.area.current) gutter.scrollTop = this.area.current.scrollTop;
  };

  /** @param {number} line */
  jump = (line) => {
    const area = this.area.current;
    if (!area) return;
    area.focus();
    area.setSelectionRange(...extentOf(this.state.text, line));
    area.scrollTop = Math.max(0, (line - 5) * LINE_PX);
  };

  editor() {
    const { text, findings } = this.state;
    const numbers = lineMarks(text, findings).map(({ line, mark }) =>
      el("span", { key: line, class: mark }, `${line}\n`),
    );
    return el(
      "div",
      { class: "editor" },
      el("div", { class: "gutter code mono", "aria-hidden": "true", ref: this.gutter }, numbers),
      el("textarea", {
        class: "code",
        spellcheck: false,
        wrap: "off",
        value: text,
        "aria-label": "Cluster file",
        ref: this.area,
        onInput: this.typed,
        onScroll: this.scrolled,
      }),
    );
  }

  file() {
    const { findings, busy } = this.state;
    const { path } = this.props.file;
    const unplannable = busy || findings.some(({ level }) => level === "error");
    const choose = { type: /** @type {const} */ ("file"), accept: ".yaml,.yml", hidden: true };
    return card(
      "Cluster file",
      [
        this.editor(),
        h(Findings, { findings, jump: this.jump }),
        el(
          "div",
          { class: "row" },
          el(
            "label",
            { class: "button" },
            "Upload",
            el("input", { ...choose, onChange: this.upload }),
          ),
          el("button", { class: "main", disabled: unplannable, onClick: this.plan }, "Plan"),
        ),
      ],
      el(
        "code",
        { class: "dim" },
        path || "not saved here: what you plan is applied from this page alone",
      ),
    );
  }

  render() {
    const { plan, planned, progress, failure } = this.state;
    const about = "Plan shows what the file would change on the machines. It changes nothing.";
    return el(
      "div",
      { class: "columns" },
      this.file(),
      card("Plan", [
        h(ProgressView, { progress }),
        failure ? h(Problem, { failure }) : null,
        plan ? h(PlanToApply, { key: planned, plan }) : null,
        progress || failure || plan ? null : el("p", { class: "dim" }, about),
      ]),
    );
  }
}

export const PlanPage = () =>
  h(Loaded, {
    load: () => call("corral/file"),
    view: (/** @type {api.ClusterFile} */ file) => h(Editor, { file }),
  });
