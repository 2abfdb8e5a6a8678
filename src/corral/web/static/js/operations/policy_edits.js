// Changes of accounts, users, QOS, reservations and licences: an edit of the cluster file, planned and applied.
import { Component, h } from "../../vendor/preact.mjs";
import { LISTS, PolicyPage } from "../cluster/policy.js";
import { call, refused } from "../lib/server.js";
import { ask, card, complain, el, toast } from "../lib/view.js";
import { Findings, PlanToApply } from "./plan.js";
import { follow, Problem, ProgressView } from "./work.js";
/** @import { Declared, EditedFile, EntryField, Me, ShownPlan } from "../api.js" */
/** @import { Refused } from "../lib/server.js" */
/** @import { Field } from "../lib/view.js" */
/** @import { Progress } from "./work.js" */

const LONGEST = 4000;

/**
 * The fields of an entry as a dialog has them.
 * @param {EntryField[]} fields
 * @param {Record<string, string>} values as the file has them
 * @returns {Field[]}
 */
export const dialogFields = (fields, values) =>
  fields.map(({ name, about, kind, choices, required }) => ({
    ...{ name, about, label: name, value: values[name] ?? "", optional: !required },
    ...(kind === "flag" ? { choices: ["", "true", "false"] } : {}),
    ...(kind === "choice" ? { choices: ["", ...choices] } : {}),
    ...(kind === "number" ? { type: /** @type {const} */ ("number"), min: 0 } : {}),
    ...(kind === "list" ? { longest: LONGEST } : {}),
  }));

/**
 * What somebody has changed of an entry.
 * @param {Record<string, string>} values the dialog's
 * @param {Record<string, string>} before as the file has them
 */
export const changedFields = (values, before) =>
  Object.fromEntries(
    Object.entries(values).filter(([name, value]) => value.trim() !== (before[name] ?? "")),
  );

/** The next number that no user has. @param {Record<string, Record<string, string>>} users */
export const nextUid = (users) =>
  String(1 + Math.max(2000, ...Object.values(users).map(({ uid }) => Number(uid) || 0)));

/** What an entry of a list is called. @param {string} section */
const wordOf = (section) =>
  Object.values(LISTS)
    .flat()
    .find(([list]) => list === section)?.[1] ?? section;

/**
 * Asks for an entry's fields; null where somebody goes back.
 * @param {Declared} declared
 * @param {string} section
 * @param {string} name "": a new one
 */
function asked(declared, section, name) {
  const entries = declared.entries[section] ?? {};
  const shown = !name && section === "users" ? { uid: nextUid(entries) } : (entries[name] ?? {});
  const fields = dialogFields(declared.fields[section] ?? [], shown);
  if (!name) fields.unshift({ name: "name", label: "name", longest: 63 });
  const title = name ? `Change ${wordOf(section)} ${name}` : `A new ${wordOf(section)}`;
  return ask(title, fields, { confirm: "Show what changes" });
}

/**
 * @typedef {object} EditState
 * @property {Declared | null} declared
 * @property {string} why
 * @property {EditedFile | null} edited
 * @property {ShownPlan | null} plan
 * @property {Progress | null} progress
 * @property {Refused | null} failure
 * @property {number} applied
 */

/** @extends {Component<{ me: Me, args: string[], query: URLSearchParams }, EditState>} */
export class PolicyView extends Component {
  /** @type {EditState} */
  state = {
    ...{ declared: null, why: "", edited: null, plan: null },
    ...{ progress: null, failure: null, applied: 0 },
  };
  left = new AbortController();

  componentDidMount() {
    const { me } = this.props;
    if (me.corral && me.owner) this.load();
  }

  componentWillUnmount() {
    this.left.abort();
  }

  async load() {
    try {
      /** @type {Declared} */
      const declared = await call("policy/declared");
      this.setState(declared.why ? { declared: null, why: declared.why } : { declared, why: "" });
    } catch (error) {
      this.setState({ declared: null, why: refused(error).message });
    }
  }

  /** @param {string} section @param {string} name "": a new one */
  change = async (section, name) => {
    const { declared } = this.state;
    if (!declared) return;
    const before = declared.entries[section]?.[name] ?? {};
    const values = await asked(declared, section, name);
    if (!values) return;
    const { name: added = "", ...rest } = values;
    if (!name && added in (declared.entries[section] ?? {})) {
      complain(new Error(`the file has a ${wordOf(section)} ${added} already`));
      return;
    }
    await this.edit(section, name || added, changedFields(rest, before));
  };

  /** @param {string} section @param {string} name */
  remove = (section, name) => this.edit(section, name, null);

  /**
   * @param {string} section
   * @param {string} name
   * @param {Record<string, string> | null} fields
   */
  async edit(section, name, fields) {
    this.setState({ edited: null, plan: null, progress: null, failure: null });
    try {
      const { digest } = /** @type {Declared} */ (this.state.declared);
      /** @type {EditedFile} */
      const edited = await call("policy/edit", { section, name, fields, digest });
      if (!edited.diff) {
        toast("Nothing changes: the file has it so");
        return;
      }
      this.setState({ edited });
      if (edited.findings.some(({ level }) => level === "error")) return;
      await call("corral/plan", { text: edited.text, digest });
      const work = await follow((progress) => this.setState({ progress }), this.left.signal);
      const plan = /** @type {ShownPlan} */ (work.result);
      this.setState({ plan, progress: null });
    } catch (error) {
      this.setState({ failure: refused(error), progress: null });
      await this.load();
    }
  }

  applied = async () => {
    await this.load();
    this.setState(({ applied }) => ({ applied: applied + 1 }));
  };

  close = () => this.setState({ edited: null, plan: null, progress: null, failure: null });

  panel() {
    const { declared, edited, plan, progress, failure } = this.state;
    if (!edited && !failure) return null;
    return card(
      "Change of the cluster file",
      [
        edited ? el("pre", { class: "mono", tabIndex: 0 }, edited.diff) : null,
        edited?.findings.length ? h(Findings, { findings: edited.findings, jump: () => {} }) : null,
        h(ProgressView, { progress }),
        failure ? h(Problem, { failure }) : null,
        plan
          ? h(PlanToApply, {
              key: plan.id || "none",
              plan,
              saves: declared?.path,
              done: this.applied,
            })
          : null,
      ],
      el("button", { class: "quiet", onClick: this.close }, "Close"),
      { key: "edit" },
    );
  }

  render() {
    const { declared, why, applied } = this.state;
    const owner = declared ? { declared, change: this.change, remove: this.remove } : undefined;
    const { me } = this.props;
    const reading = me.corral && me.owner && !declared && !why;
    const shown = { ...this.props, owner, why, reading, applied };
    return [this.panel(), h(PolicyPage, { key: "policy", ...shown })];
  }
}
