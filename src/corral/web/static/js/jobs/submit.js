// Submit: a form made from JobSpec's schema, or a script as it is; the batch script is shown first.
import { Component, createRef, h } from "../../vendor/preact.mjs";
import { choice, choicesOf, FreeWords, mailOffers, Offers, offersOf } from "./choices.js";
import { Draft, secretive } from "./drafts.js";
import { againWords, begunWith, partOf, typedOf, wordsOf } from "./resubmission.js";
import { chosenIn, withEnvironment, withImage } from "./script_edits.js";
import { keyOf, TemplateChoice } from "./templates.js";
import { call, Latest, refused } from "../lib/server.js";
import {
  addressOf,
  ask,
  card,
  clock,
  complain,
  el,
  formatted,
  keepAddress,
  Loaded,
  many,
  pre,
  span,
  toast,
} from "../lib/view.js";
/** @import { ComponentChildren } from "preact" */
/** @import * as api from "../api.js" */
/** @import { InputProps } from "../lib/view.js" */

/**
 * The part of JSON Schema that JobSpec has.
 * @typedef {object} Schema
 * @property {string} [type]
 * @property {string} [title]
 * @property {string} [description]
 * @property {unknown} [default]
 * @property {unknown} [const]
 * @property {string[]} [enum]
 * @property {number} [minimum]
 * @property {number} [maximum]
 * @property {string} [pattern]
 * @property {string} [$ref]
 * @property {Schema[]} [anyOf]
 * @property {Schema} [items]
 * @property {Schema | boolean} [additionalProperties]
 * @property {Record<string, Schema>} [patternProperties]
 * @property {Record<string, Schema>} [properties]
 * @property {Record<string, Schema>} [$defs]
 */

const FIRST = [
  "script",
  "command",
  "args",
  "name",
  "nodes",
  "gpus_per_node",
  "time",
  "mem",
  "partition",
  "account",
  "qos",
  "container",
  "python",
  "mail",
  "env",
];
const LONGEST_PATTERN = 400;

/** What a field of the form is called. @type {Record<string, string>} */
const LABELS = {
  ...{ script: "Script", command: "Command", args: "Arguments", name: "Name", nodes: "Nodes" },
  ...{ gpus_per_node: "GPUs on each node", gpu_type: "Type of GPU", time: "Time limit" },
  ...{ ranks_per_node: "Ranks on each node", cpus_per_rank: "CPUs of each rank" },
  ...{ mem: "Memory on each node", partition: "Partition", account: "Account", qos: "QOS" },
  ...{ nodelist: "Nodes it must have", exclude: "Nodes it must not have" },
  ...{ constraint: "Features of its nodes", after: "After these jobs", begin: "Not before" },
  ...{ mail: "Messages to", licenses: "Licences", exclusive: "No other job on its nodes" },
  ...{ env: "Environment variables", launcher: "Launcher", workdir: "Folder it runs in" },
  ...{ requeue: "Start again after a failure", grace: "Time to save and leave" },
  ...{ checkpoints: "Folder of checkpoints", data: "Data that must be there" },
  ...{ array: "Tasks of an array", sweep: "Sweep", at_once: "Tasks at once" },
  ...{ python: "Python environment", container: "Container image" },
  ...{ mounts: "More mounts in the container", sbatch: "More options of sbatch" },
  profile: "Profile",
};

/** @param {string} name */
export const labelOf = (name) => LABELS[name] ?? name.replaceAll("_", " ");

/**
 * @param {Schema} schema
 * @param {Schema} root
 * @returns {Schema}
 */
function resolved(schema, root) {
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1) ?? "";
    return { ...root.$defs?.[name], ...schema, $ref: undefined };
  }
  if (schema.anyOf) {
    return { ...schema, anyOf: schema.anyOf.map((option) => resolved(option, root)) };
  }
  return schema;
}

/**
 * What a field takes, where it may also be left out.
 * @param {Schema} schema
 * @returns {Schema}
 */
function kindOf(schema) {
  if (!schema.anyOf) return schema;
  const { title, description, default: given } = schema;
  const kind = schema.anyOf.find(({ type }) => type !== "null");
  return { ...kind, title, description, default: given };
}

/**
 * What an object's values are: texts (env), or lists of them (sweep); pydantic gives it by pattern.
 * @param {Schema} schema
 */
function valuesOf(schema) {
  const candidates = [
    schema.additionalProperties,
    ...Object.values(schema.patternProperties ?? {}),
  ];
  for (const candidate of candidates)
    if (typeof candidate === "object" && candidate.type) return candidate.type;
  return undefined;
}

/**
 * An input by the type of its schema.
 * @type {Record<string, (schema: Schema) => InputProps | null>}
 */
const INPUTS = {
  boolean: (schema) => ({ type: "checkbox", defaultChecked: Boolean(schema.default) }),
  integer: (schema) => numberOf(schema),
  number: (schema) => numberOf(schema),
  array: ({ items }) =>
    items?.type === "string" || items?.$ref ? { placeholder: 'one "two with blanks"' } : null,
  object: (schema) => {
    const values = valuesOf(schema);
    if (!values) return null;
    return { placeholder: values === "array" ? "name=1,2,3 other=a,b" : "NAME=value OTHER=value" };
  },
  string: ({ pattern, default: given }) => ({
    pattern:
      pattern && pattern.length < LONGEST_PATTERN ? pattern.replace(/^\^|\$$/g, "") : undefined,
    defaultValue: String(given ?? ""),
  }),
};

/**
 * @param {Schema} schema
 * @returns {InputProps}
 */
const numberOf = ({ minimum, maximum, default: given }) => ({
  type: "number",
  min: minimum,
  max: maximum,
  defaultValue: String(given ?? ""),
});

/**
 * Only fields whose value one line can hold; what is richer belongs into a file for corral run.
 * @param {string} name
 * @param {Schema} schema
 * @param {InputProps} more
 */
export function field(name, schema, more) {
  const id = `field-${name}`;
  if (schema.enum) {
    const begun = more.defaultValue;
    const options = schema.enum.map((value) =>
      el("option", { key: value, value, selected: value === (begun ?? schema.default) }, value),
    );
    return el("select", { name, id }, options);
  }
  const props =
    schema.const === undefined && Object.hasOwn(INPUTS, schema.type ?? "")
      ? INPUTS[schema.type ?? ""](schema)
      : null;
  if (!props) return null;
  const all = { name, id, autocomplete: "off", spellcheck: false, ...props, ...more };
  return el("input", /** @type {InputProps} */ (all));
}

/**
 * @param {string} text
 * @param {boolean} lists
 */
function pairsOf(text, lists) {
  const pairs = wordsOf(text).map((pair) => {
    const at = pair.includes("=") ? pair.indexOf("=") : pair.length;
    const value = pair.slice(at + 1);
    return [pair.slice(0, at), lists ? value.split(",") : value];
  });
  return Object.fromEntries(pairs);
}

/**
 * What was filled in, as JobSpec takes it; undefined where it is as it would be anyway.
 * @param {{ checked?: boolean, value: string }} input
 * @param {Schema} schema
 */
export function valueOf(input, schema) {
  if (schema.type === "boolean") {
    return input.checked === Boolean(schema.default) ? undefined : input.checked;
  }
  const text = input.value.trim();
  if (!text || text === String(schema.default ?? "")) return undefined;
  if (schema.type === "integer" || schema.type === "number") return Number(text);
  if (schema.type === "array") return wordsOf(text);
  return schema.type === "object" ? pairsOf(text, valuesOf(schema) === "array") : text;
}

/**
 * The fields of the form, those that most jobs need first.
 * @param {Schema} root
 * @returns {[string, Schema][]}
 */
export function fieldsOf(root) {
  const all = Object.entries(root.properties ?? {});
  return all.map(([name, schema]) => [name, kindOf(resolved(schema, root))]);
}

/**
 * What is missing of a job that is submitted again, and belongs to no field.
 * @param {{ notes: string[] }} props
 */
export function Notes({ notes }) {
  if (!notes.length) return null;
  const rows = notes.map((text) => el("li", { key: text }, text));
  return el("ul", { class: "reason notes" }, rows);
}

/** @param {number} id */
function submitted(id) {
  toast(`job ${id} is submitted`);
  location.hash = `job/${id}`;
}

/** A job that was not there before. @type {Pick<api.JobAgain, "form" | "notes">} */
const NEW = { form: {}, notes: {} };

/** @type {api.JobTemplates} */
const NO_TEMPLATES = { folder: "", trouble: "", templates: [] };

/** What is not kept. @param {{ what: string }} props */
function Unkept({ what }) {
  const words = `Not kept while you look at other pages, as a secret seems to be in it: ${what}.`;
  return what ? el("p", { class: "dim", role: "status" }, words) : null;
}

/** What is typed is kept until somebody wants it gone. @param {{ again: () => void }} props */
const StartOver = ({ again }) =>
  el("button", { class: "quiet", type: "button", onClick: again }, "Start over");

/** @typedef {{ form: api.JobForm, again: api.JobAgain | null }} FormProps */
/** What the form begins with: a job of before, or a template. @typedef {typeof NEW} Given */
/**
 * @typedef {object} FormState
 * @property {api.JobPreview | null} shown
 * @property {Expected} expected
 * @property {boolean} sending
 * @property {Record<string, string>} faults
 * @property {string[]} unkept fields that are not kept, as a secret seems to be in them
 */

/** When the job would start, why that is unknown, or null: it is asked. @typedef {api.ExpectedStart | string | null} Expected */

const SOON_S = 60;

/**
 * When Slurm would start the job.
 * @param {{ expected: Expected, now?: number }} props
 */
export function StartWords({ expected, now = Date.now() / 1000 }) {
  const words = (/** @type {string} */ text) => el("p", { class: "dim", role: "status" }, text);
  if (expected === null) return words("Slurm is asked when it would start…");
  if (typeof expected === "string") return words(`When it would start is unknown: ${expected}`);
  const { start_at: at, nodes, waits } = expected;
  if (Object.keys(expected.beyond).length)
    return words("As the limits are, Slurm would not start it.");
  if (waits) return words(`It waits until ${waits}.`);
  const where = nodes ? ` on ${nodes}` : "";
  if (at === null) return words("Slurm does not report when it would start.");
  if (at <= now + SOON_S) return words(`Slurm would start it now${where}.`);
  return words(
    `Slurm would start it at ${clock(at)}, in ${span(at - now)}${where}, as things are.`,
  );
}

/**
 * How many jobs a form or a script makes, before they go.
 * @param {{ shown: Pick<api.Directives, "jobs" | "at_once"> }} props
 */
export function JobCount({ shown: { jobs, at_once: most } }) {
  if (jobs === null || (jobs === 1 && !most)) return null;
  const limit = most && most < jobs ? `, ${formatted(most)} of them at once at most` : "";
  return el("p", { role: "status" }, el("b", null, many(jobs, "job")), ` as one array${limit}.`);
}

/** @param {{ shown: api.JobPreview, expected: Expected }} props */
const Shown = ({ shown, expected }) =>
  el(
    "div",
    null,
    h(JobCount, { shown }),
    h(StartWords, { expected }),
    el("h3", null, "This batch script goes to Slurm"),
    pre(shown.script),
  );

/**
 * @typedef {Record<string, string | boolean>} Typed what the inputs hold, by name
 * @extends {Component<{ form: api.JobForm, given: Given, choices: api.JobChoices | null,
 *   environments: api.JobEnvironments | null, draft: Draft<Typed>, again: () => void }, FormState>} */
class JobForm extends Component {
  /** @type {FormState} */
  state = { shown: null, expected: null, sending: false, faults: {}, unkept: [] };
  /** @type {{ current: HTMLFormElement | null }} */
  form = createRef();
  newest = new Latest();
  newestStart = new Latest();
  fields = fieldsOf(/** @type {Schema} */ (this.props.form.schema));
  /** What was typed before, with which the inputs begin. */
  typed = this.props.draft.kept ?? {};

  componentWillUnmount() {
    this.newest.drop();
    this.newestStart.drop();
  }

  /** Keeps what the inputs hold, but secrets. */
  keep() {
    const inputs = [...(this.form.current?.elements ?? [])].flatMap((input) =>
      input instanceof HTMLInputElement || input instanceof HTMLSelectElement ? [input] : [],
    );
    /** @type {[string, string | boolean][]} */
    const held = inputs.map((input) => [
      input.name,
      input.type === "checkbox" ? /** @type {HTMLInputElement} */ (input).checked : input.value,
    ]);
    const secrets = held.filter(([, value]) => secretive(String(value)));
    const kept = held.filter((each) => each[0] && !secrets.includes(each));
    this.props.draft.keep(Object.fromEntries(kept));
    this.setState({ unkept: secrets.map(([name]) => name) });
  }

  read() {
    const inputs = this.form.current?.elements;
    const values = this.fields.map(([name, schema]) => {
      const input = /** @type {HTMLInputElement | null} */ (inputs?.namedItem(name) ?? null);
      return [name, input ? valueOf(input, schema) : undefined];
    });
    return Object.fromEntries(values.filter(([, value]) => value !== undefined));
  }

  // What is submitted is what was shown: an answer about fields that were changed since is not.
  changed = () => {
    this.newest.drop();
    this.newestStart.drop();
    this.keep();
    this.setState({ shown: null, faults: {} });
  };

  /** @param {Event} event */
  preview = (event) => {
    event.preventDefault();
    const fields = this.read();
    /** @type {Promise<api.JobPreview>} */
    const answer = call("jobs/preview", fields);
    const show = (/** @type {api.JobPreview} */ shown) => {
      this.setState({ shown, expected: null }, () =>
        this.form.current?.querySelector("pre")?.scrollIntoView({ block: "nearest" }),
      );
      this.begin(fields);
    };
    this.newest.take(answer, show, (failure) => {
      this.setState({ shown: null });
      this.failed(failure);
    });
  };

  /**
   * Ask when it would start; what the cluster would refuse is shown before it goes.
   * @param {Record<string, unknown>} fields
   */
  begin(fields) {
    /** @type {Promise<api.ExpectedStart>} */
    const answer = call("jobs/expected", fields);
    this.newestStart.take(
      answer,
      (expected) => this.setState({ expected }),
      (failure) => {
        this.setState({ expected: failure.message });
        if (Object.keys(failure.fields).length) this.failed(failure);
      },
    );
  }

  /**
   * What is wrong is shown at its field, where the refusal names one.
   * @param {unknown} thrown
   */
  failed(thrown) {
    const failure = refused(thrown);
    const shown = this.fields.map(([name]) => name).filter((name) => failure.fields[name]);
    const faults = Object.fromEntries(shown.map((name) => [name, failure.fields[name]]));
    const [first] = shown;
    if (!first) complain(failure);
    this.setState({ faults }, () => {
      const input = this.form.current?.elements.namedItem(first);
      if (input instanceof HTMLElement) {
        const details = input.closest("details");
        if (details) details.open = true;
        input.focus();
      }
    });
  }

  send = async () => {
    this.setState({ sending: true });
    try {
      /** @type {{ id: number }} */
      const { id } = await call("jobs/spec", this.read());
      submitted(id);
    } catch (error) {
      this.failed(error);
      this.setState({ sending: false });
    }
  };

  /**
   * What is typed or chosen in.
   * @param {string} name
   * @param {Schema} schema
   */
  input(name, schema) {
    const { form, given, choices } = this.props;
    const value = given.form[name];
    const fault = this.state.faults[name];
    const invalid = fault ? { "aria-invalid": true, "aria-describedby": `fault-${name}` } : {};
    const offered = choicesOf(name, choices);
    if (offered)
      return choice({ name, id: `field-${name}`, ...invalid }, offered, this.chosen(name));
    const script = { placeholder: `${form.storage[0] || ""}/train.py` };
    const offers = this.offers(name);
    return field(name, schema, {
      ...(name === "script" ? script : {}),
      ...(offers.length ? { list: `offers-${name}` } : {}),
      ...begunWith(this.typed[name] ?? value),
      ...invalid,
    });
  }

  /** What is there for a field that may also be typed. @param {string} name */
  offers(name) {
    const { form, environments } = this.props;
    return name === "mail" ? mailOffers(form.recipients) : offersOf(name, environments);
  }

  /** What is chosen of a field now; typed before its choices came. @param {string} name */
  chosen(name) {
    const now = this.form.current?.elements.namedItem(name);
    if (now instanceof Element && "value" in now) return String(now.value);
    return typedOf(this.typed[name] ?? this.props.given.form[name]);
  }

  /** @param {[string, Schema]} field */
  line = ([name, schema]) => {
    const input = this.input(name, schema);
    if (!input) return null;
    const { form, given, environments } = this.props;
    const { storage } = form;
    const { notes } = given;
    const fault = this.state.faults[name];
    const about =
      name === "script"
        ? `A program on the cluster's shared storage (${storage.join(", ") || "none"}).`
        : schema.description;
    const repeats = about?.replace(/\.$/, "") === labelOf(name);
    return el(
      "label",
      { key: name },
      labelOf(name),
      repeats ? null : el("small", null, about),
      notes[name] && el("small", { class: "reason" }, notes[name]),
      h(FreeWords, { offered: choicesOf(name, this.props.choices), chosen: this.chosen(name) }),
      h(Offers, {
        ...{ name, offers: this.offers(name) },
        cut: environments?.cut ?? false,
      }),
      input,
      fault && el("small", { class: "fault", id: `fault-${name}` }, fault),
    );
  };

  /** What the job was and no field of this form takes. */
  unshown() {
    const { form: values, notes } = this.props.given;
    const inputs = this.fields.filter(([name, schema]) => field(name, schema, {}));
    const names = inputs.map(([name]) => name);
    const left = Object.keys(values).filter((name) => !names.includes(name));
    const words = left.map(
      (name) => `${name}: not in this form; it was ${JSON.stringify(values[name])}`,
    );
    const others = Object.keys(notes).filter(
      (name) => !names.includes(name) && !left.includes(name),
    );
    return [...words, ...others.map((name) => notes[name])];
  }

  render() {
    const { shown, sending, expected, unkept } = this.state;
    const known = new Map(this.fields);
    const first = FIRST.flatMap((name) => {
      const schema = known.get(name);
      return schema ? [this.line([name, schema])] : [];
    });
    const rest = this.fields.filter(([name]) => !FIRST.includes(name)).map(this.line);
    const blocked = shown === null || sending;
    const send = { class: "main", type: /** @type {const} */ ("button"), onClick: this.send };
    return el(
      "form",
      { ref: this.form, onSubmit: this.preview, onInput: this.changed },
      h(Notes, { notes: this.unshown() }),
      el("div", { class: "fields" }, first),
      el("details", null, el("summary", null, "More"), el("div", { class: "fields" }, rest)),
      h(Unkept, { what: unkept.join(", ") }),
      el(
        "div",
        { class: "row" },
        el("button", null, "Show the batch script"),
        el("button", { ...send, disabled: blocked }, "Submit"),
        h(StartOver, { again: this.props.again }),
        shown ? null : el("span", { class: "dim" }, "What is submitted is shown first."),
      ),
      shown && h(Shown, { shown, expected }),
    );
  }
}

/**
 * @typedef {"name" | "workdir" | "partition" | "account" | "qos" | "nodes" | "gpus" | "memory" |
 *   "minutes" | "array" | "begin" | "exclusive" | "output" | "mail"} ScriptField
 */
/** @typedef {{ [name in ScriptField]: string }} ScriptValues */

/** The fields next to a script, and what their input takes.
 * @type {[keyof ScriptValues, string, InputProps][]} */
const SCRIPT_FIELDS = [
  ["name", "Name", { placeholder: "job", maxLength: 64 }],
  ["workdir", "Folder it runs in", { required: true, pattern: "/.*" }],
  ["partition", "Partition", { placeholder: "the default one", pattern: "[A-Za-z0-9_.,\\-]*" }],
  ["account", "Account", { placeholder: "the usual one", pattern: "[A-Za-z0-9_.\\-]*" }],
  ["qos", "QOS", { placeholder: "the account's", pattern: "[A-Za-z0-9_.,\\-]*" }],
  ["nodes", "Nodes", { type: "number", placeholder: "1", min: 1 }],
  [
    "gpus",
    "GPUs on each node",
    { placeholder: "none; 2 or h100:2", pattern: "([A-Za-z][A-Za-z0-9_.\\-]*:)?[0-9]{1,2}" },
  ],
  [
    "memory",
    "Memory on each node",
    { placeholder: "the partition's; 16G", pattern: "[1-9][0-9]{0,11}[KMGTkmgt]?" },
  ],
  ["minutes", "Time limit in minutes", { placeholder: "the partition's", type: "number", min: 1 }],
  ["array", "Tasks of an array", { placeholder: "none; 0-9%4", pattern: "[0-9][0-9,:%\\-]*" }],
  ["mail", "Message when it ends or fails, to", { placeholder: "nobody", maxLength: 512 }],
  ["begin", "Not before", { placeholder: "now; 18:00, tomorrow", maxLength: 64 }],
  ["exclusive", "Other jobs on its nodes", {}],
  ["output", "File for the output", { placeholder: "slurm-ID.out", maxLength: 1024 }],
];
/** Those that few scripts need, folded. @type {ScriptField[]} */
const FOLDED = ["begin", "exclusive", "output"];
const SHARING = [
  { value: "", words: "as the partition allows" },
  { value: "yes", words: "none" },
];

/**
 * What the fields next to a script hold: what was typed, else what its lines ask for.
 * @param {Partial<ScriptValues>} typed
 * @param {api.Directives["fields"]} given
 * @param {string} folder where the job runs unless another one is given
 * @returns {ScriptValues}
 */
export function scriptValues(typed, given, folder) {
  const values = SCRIPT_FIELDS.map(([name]) => {
    const blank = name === "workdir" ? folder : "";
    return [name, typed[name] ?? given[name]?.value ?? blank];
  });
  return Object.fromEntries(values);
}

/**
 * Whether a field takes the place of what the script's lines ask for: it holds something else.
 * @param {string} name
 * @param {ScriptValues} values
 * @param {api.Directives["fields"]} given
 */
const overrides = (name, values, given) =>
  name in values && values[/** @type {ScriptField} */ (name)].trim() !== (given[name]?.value ?? "");

/**
 * A field as the API takes it; null where it is empty: the job gets none, or the default.
 * @type {{ [name in ScriptField]?: (text: string) => object | null }}
 */
const SENT = {
  nodes: (text) => ({ nodes: Number(text) }),
  minutes: (text) => ({ minutes: Number(text) }),
  exclusive: () => ({ exclusive: true }),
  gpus: (text) => {
    const [count, type] = text.split(":").reverse();
    if (!Number(count)) return null;
    return { gpus_per_node: Number(count), ...(type ? { gpu_type: type } : {}) };
  },
};

/**
 * What is sent of the fields next to a script: those that hold something else than its lines ask
 * for; one that was emptied takes its lines away.
 * @param {string} script
 * @param {ScriptValues} values
 * @param {api.Directives["fields"]} given
 */
export function scriptBody(script, values, given) {
  /** @type {string[]} */
  const without = [];
  /** @type {Record<string, unknown>} */
  const fields = {};
  for (const [name] of SCRIPT_FIELDS) {
    const text = values[name].trim();
    if (name === "workdir" || !overrides(name, values, given)) continue;
    const sent = text ? (SENT[name] ?? ((value) => ({ [name]: value })))(text) : null;
    if (sent) Object.assign(fields, sent);
    else without.push(name);
  }
  return {
    script: script.replaceAll("\r\n", "\n"),
    workdir: values.workdir,
    ...fields,
    ...(without.length ? { without } : {}),
  };
}

/**
 * What a field states about the line that asks for the same.
 * @param {string} name
 * @param {ScriptValues} values
 * @param {api.Directives["fields"]} given
 */
export function lineWords(name, values, given) {
  const row = given[name];
  if (!row) return "";
  return `${overrides(name, values, given) ? "overrides" : "from"} line ${row.line} of the script`;
}

/** The option of a line: --export of "--export=NONE". @param {string} text */
const optionIn = (text) => text.match(/^--[\w-]+/)?.[0] ?? text;

/**
 * @param {string} words
 * @param {api.ScriptLine[]} lines
 * @param {boolean} wrong
 */
const lineList = (words, lines, wrong) => {
  if (!lines.length) return null;
  const line = (/** @type {api.ScriptLine} */ { line: number, text }) =>
    el("li", { key: `${number} ${text}` }, `line ${number}: `, el("code", null, text));
  const props = wrong
    ? { class: "reason", role: /** @type {const} */ ("alert") }
    : { class: "dim" };
  return el("div", props, words, el("ul", null, lines.map(line)));
};

/**
 * What the #SBATCH lines of the script ask for: what no field has, and what is wrong.
 * @param {{ read: api.Directives, values: ScriptValues }} props
 */
export function DirectiveLines({ read: { fields, others, faults, sbatch, ignored }, values }) {
  if (![others, faults, sbatch, ignored].some((lines) => lines.length)) return null;
  const gone = (/** @type {api.OtherLine} */ line) => overrides(line.field, values, fields);
  const same = (/** @type {api.ScriptLine} */ line) => (/** @type {api.ScriptLine} */ other) =>
    line.line === other.line && optionIn(line.text) === optionIn(other.text);
  const counts = others.filter((line) => !gone(line) && !sbatch.some(same(line)));
  const bySbatch = sbatch.map(
    (row) => others.find(same(row)) ?? { ...row, text: optionIn(row.text) },
  );
  return el(
    "div",
    null,
    lineList(
      "These lines cannot be carried over. Change or remove them, or submit with sbatch on a login node.",
      faults,
      true,
    ),
    lineList("Slurm ignores these lines: they are behind the first command.", ignored, true),
    lineList("Also asked for by the script:", counts, false),
    lineList("Overridden by a field below:", others.filter(gone), false),
    faults.length
      ? null
      : lineList(
          "It is submitted by sbatch, as you: Slurm's REST API does not take these lines.",
          bySbatch,
          false,
        ),
  );
}

/**
 * Where each refusal is shown: at its field, or at the line of the script that asks for it.
 * @param {Record<string, string>} faults by field, or by the option of sbatch that no field has
 * @param {ScriptValues} values
 * @param {api.Directives} read
 */
export function placedFaults(faults, values, { fields, others }) {
  const names = SCRIPT_FIELDS.map(([name]) => String(name));
  /** @type {Record<string, string>} */
  const atField = {};
  /** @type {api.ScriptLine[]} */
  const atLine = [];
  /** @type {string[]} */
  const left = [];
  for (const [name, text] of Object.entries(faults)) {
    const given = fields[name];
    const other = others.find((line) => line.text.match(/^--([\w-]+)/)?.[1] === name);
    if (given && values[/** @type {ScriptField} */ (name)] === given.value)
      atLine.push({ line: given.line, text });
    else if (other) atLine.push({ line: other.line, text: `${other.text}: ${text}` });
    if (names.includes(name)) atField[name] = text;
    else if (!other) left.push(`${name}: ${text}`);
  }
  return { atField, atLine, left };
}

/**
 * What Slurm refuses of a script: at its lines, and what is about none.
 * @param {{ wrong: string, lines: api.ScriptLine[] }} props
 */
function Refusal({ wrong, lines }) {
  if (!wrong && !lines.length) return null;
  const items = lines.map(({ line, text }) =>
    el("li", { key: `${line} ${text}` }, `line ${line}: ${text}`),
  );
  return el(
    "div",
    { class: "reason", role: "alert" },
    wrong || "Slurm refuses what these lines ask for, or would not start it.",
    items.length ? el("ul", null, items) : null,
  );
}

/**
 * Container image and Python environment as choices, which are written into the script.
 * @param {{ script: string, containers: boolean, environments: api.JobEnvironments | null,
 *   edit: (script: string) => void }} props
 */
export function ScriptEnvironment({ script, containers, environments, edit }) {
  if (!environments) return null;
  const { image, python } = chosenIn(script);
  const sruns = withImage(script, "").lines;
  /** @type {[string, string, string, string, (value: string) => string][]} */
  const all = [
    ["container", "Container image", image, "none", (value) => withImage(script, value).script],
    ["python", "Python environment", python, "none", (value) => withEnvironment(script, value)],
  ];
  const about = {
    container: sruns
      ? "It is written into each srun line of the script."
      : "The script has no srun line that could run in one.",
    python: "Its bin folder is written into the script, first in PATH.",
  };
  return all
    .filter(([name]) => name !== "container" || containers)
    .map(([name, label, value, placeholder, write]) => {
      const offers = offersOf(name, environments);
      const list = offers.length ? { list: `offers-${name}` } : {};
      const props = { id: `script-${name}`, autocomplete: "off", spellcheck: false };
      return el(
        "label",
        { key: name },
        label,
        el("small", null, about[/** @type {"container" | "python"} */ (name)]),
        h(Offers, { name, offers, cut: environments.cut }),
        el("input", {
          ...{ ...props, ...list, value, placeholder },
          disabled: name === "container" && !sruns,
          onChange: ({ currentTarget }) => edit(write(currentTarget.value.trim())),
        }),
      );
    });
}

/** @type {api.Directives} */
const NOTHING = {
  ...{ fields: {}, others: [], faults: [], sbatch: [], ignored: [] },
  ...{ jobs: null, at_once: null },
};
const TYPED_MS = 250;

/**
 * @typedef {object} ScriptState
 * @property {boolean} sending
 * @property {string} script
 * @property {api.Directives} read
 * @property {Partial<ScriptValues>} typed
 * @property {Expected | undefined} expected undefined: it is not asked
 * @property {Record<string, string>} faults
 * @property {string} wrong
 * @typedef {Pick<ScriptState, "script" | "typed">} TypedScript
 * @extends {Component<FormProps & { me: api.Me, choices: api.JobChoices | null,
 *   environments: api.JobEnvironments | null, draft: Draft<TypedScript>, restart: () => void }, ScriptState>} */
class ScriptForm extends Component {
  /** @type {ScriptState} */
  state = {
    sending: false,
    script: this.again?.script || "#!/bin/bash\n#SBATCH --nodes=1\n\nsrun hostname\n",
    read: NOTHING,
    typed: {
      ...(this.again?.name ? { name: this.again.name } : {}),
      ...(this.again?.workdir ? { workdir: this.again.workdir } : {}),
    },
    ...{ expected: undefined, faults: {}, wrong: "" },
    ...this.props.draft.kept,
  };
  newest = new Latest();
  newestStart = new Latest();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  wait = undefined;

  componentDidMount() {
    this.look();
  }

  /** Whether what is typed is not kept, as a secret seems to be in it: a part of a script would be another script. */
  get unkept() {
    const { script, typed } = this.state;
    return [script, ...Object.values(typed)].some(secretive);
  }

  keep = () => {
    const { script, typed } = this.state;
    if (this.unkept) this.props.draft.clear();
    else this.props.draft.keep({ script, typed });
  };

  componentWillUnmount() {
    clearTimeout(this.wait);
    this.newest.drop();
    this.newestStart.drop();
  }

  get again() {
    return this.props.again?.mode === "script" ? this.props.again : null;
  }

  get folder() {
    return this.props.form.storage[0] || `/home/${this.props.me.user}`;
  }

  look = () => {
    const { script, typed } = this.state;
    /** @type {Promise<api.Directives>} */
    const answer = call("jobs/directives", { script, fields: typed });
    return this.newest.take(answer, (read) => this.setState({ read }), complain);
  };

  /** @param {string} script */
  edited(script) {
    this.newest.drop();
    clearTimeout(this.wait);
    this.changed({ script });
    this.wait = setTimeout(this.look, TYPED_MS);
  }

  /** What was found out of a script or its fields is not of those that were changed since.
   * @param {Partial<ScriptState>} change */
  changed(change) {
    this.newestStart.drop();
    this.setState({ ...change, expected: undefined, faults: {}, wrong: "" }, this.keep);
  }

  /** What is sent, of the script as it is now; null: its lines have faults. */
  async body() {
    clearTimeout(this.wait);
    await this.look();
    const { script, read, typed } = this.state;
    if (read.faults.length) return null;
    return scriptBody(script, scriptValues(typed, read.fields, this.folder), read.fields);
  }

  /** @param {SubmitEvent} event */
  send = async (event) => {
    event.preventDefault();
    this.setState({ sending: true });
    try {
      const { jobs } = this.state.read;
      const body = await this.body();
      if (body && (await this.counted(jobs))) {
        /** @type {{ id: number }} */
        const { id } = await call("jobs", body);
        submitted(id);
      }
    } catch (error) {
      this.failed(refused(error));
    }
    this.setState({ sending: false });
  };

  /**
   * Who submits before the number of jobs was shown is asked.
   * @param {number | null} shown
   */
  async counted(shown) {
    const { jobs } = this.state.read;
    if (jobs === null || jobs === 1 || jobs === shown) return true;
    const words = `Submit ${many(jobs, "job")} as one array?`;
    return (await ask(words, [], { confirm: "Submit" })) !== null;
  }

  /** Ask when it would start; nothing is submitted. */
  ask = async () => {
    const body = await this.body();
    if (!body) return;
    this.changed({ expected: null });
    /** @type {Promise<api.ExpectedStart>} */
    const answer = call("jobs/expected", body);
    this.newestStart.take(
      answer,
      (expected) => this.setState({ expected, faults: expected.beyond }),
      (failure) => {
        if (failure.code === "slurm-refused" || Object.keys(failure.fields).length) {
          this.failed(failure);
          this.setState({ expected: undefined });
        } else this.setState({ expected: failure.message });
      },
    );
  };

  /** What is refused is shown at its field or line, and otherwise below the script.
   * @param {import("../lib/server.js").Refused} failure */
  failed({ fields, message, hint, tail }) {
    const known = Object.keys(fields).length > 0;
    const wrong = [message, tail, hint].filter((text) => text).join(". ");
    this.setState({ faults: fields, wrong: known ? "" : wrong });
  }

  /** Who may get a message at its end, for that field. @param {string} name */
  offers(name) {
    return name === "mail" ? mailOffers(this.props.form.recipients) : [];
  }

  /**
   * The input of a field, or its choices.
   * @param {typeof SCRIPT_FIELDS[number]} row
   * @param {ScriptValues} values
   * @param {string | undefined} fault
   */
  input([name, , props], values, fault) {
    const onInput = (
      /** @type {{ currentTarget: HTMLInputElement | HTMLSelectElement }} */ { currentTarget },
    ) => {
      this.changed({ typed: { ...this.state.typed, [name]: currentTarget.value } });
      clearTimeout(this.wait);
      this.wait = setTimeout(this.look, TYPED_MS);
    };
    const marked = { "aria-invalid": true, "aria-describedby": `script-fault-${name}` };
    const invalid = fault ? marked : {};
    const offered = choicesOf(name, this.props.choices);
    if (offered) return choice({ name, onInput, ...invalid }, offered, values[name]);
    if (name === "exclusive") return choice({ name, onInput, ...invalid }, SHARING, values[name]);
    const list = this.offers(name).length ? { list: `offers-${name}` } : {};
    // A line may have what sbatch takes and no field does; it is checked where it is typed.
    // Not undefined: Preact leaves an attribute of "", which no value matches.
    const free = !props.pattern || overrides(name, values, this.state.read.fields);
    const typed = free ? {} : { pattern: ".*" };
    const all = { name, autocomplete: "off", value: values[name], onInput, ...props, ...typed };
    return el("input", /** @type {InputProps} */ ({ ...all, ...list, ...invalid }));
  }

  /** @param {boolean} folded those of "More" */
  fields(folded) {
    const { read, typed } = this.state;
    const values = scriptValues(typed, read.fields, this.folder);
    const { atField } = placedFaults(this.state.faults, values, read);
    return SCRIPT_FIELDS.filter(([name]) => FOLDED.includes(name) === folded).map((row) => {
      const [name, label] = row;
      const about = lineWords(name, values, read.fields);
      const fault = atField[name];
      return el(
        "label",
        { key: name },
        label,
        about && el("small", null, about),
        h(FreeWords, { offered: choicesOf(name, this.props.choices), chosen: values[name] }),
        h(Offers, { name, offers: this.offers(name), cut: false }),
        this.input(row, values, fault),
        fault && el("small", { class: "fault", id: `script-fault-${name}` }, fault),
      );
    });
  }

  /** The fields that few need; open where one of them holds something. @param {ScriptValues} values */
  more(values) {
    const used = FOLDED.some((name) => values[name] || this.state.faults[name]);
    return el(
      "details",
      { open: used || undefined },
      el("summary", null, "More"),
      el("div", { class: "fields" }, this.fields(true)),
    );
  }

  render() {
    const { read, sending, script, expected, faults, wrong, typed } = this.state;
    const { form, environments } = this.props;
    const values = scriptValues(typed, read.fields, this.folder);
    const { atLine, left } = placedFaults(faults, values, read);
    const blocked = sending || read.faults.length > 0;
    const edit = (/** @type {string} */ text) => this.edited(text);
    const about =
      "It goes to Slurm as you. The fields below hold what its #SBATCH lines ask for; one that you " +
      "change overrides its line, one that you empty takes it away.";
    return el(
      "form",
      { onSubmit: this.send },
      el("p", { class: "dim" }, about),
      el("textarea", {
        name: "script",
        class: "code",
        spellcheck: false,
        required: true,
        value: script,
        onInput: ({ currentTarget }) => this.edited(currentTarget.value),
        "aria-label": "Batch script",
      }),
      h(Notes, { notes: Object.values(this.again?.notes ?? {}) }),
      h(DirectiveLines, { read, values }),
      h(Refusal, { wrong: wrong || left.join("; "), lines: atLine }),
      el(
        "div",
        { class: "fields" },
        this.fields(false),
        h(ScriptEnvironment, { script, containers: form.containers, environments, edit }),
      ),
      this.more(values),
      h(JobCount, { shown: read }),
      h(Unkept, { what: this.unkept ? "the script" : "" }),
      el(
        "div",
        { class: "row" },
        el("button", { type: "button", onClick: this.ask, disabled: blocked }, "Expected start"),
        el("button", { class: "main", disabled: blocked }, "Submit"),
        h(StartOver, { again: this.props.restart }),
      ),
      expected === undefined ? null : h(StartWords, { expected }),
    );
  }
}

/**
 * @typedef {object} CardState
 * @property {string} mode
 * @property {api.JobTemplates} kept
 * @property {api.JobTemplate | null} template
 * @property {api.JobChoices | null} choices
 * @property {api.JobEnvironments | null} environments
 * @property {number} turn grows with each new start
 * @property {boolean} listed the templates are known
 * @extends {Component<FormProps & { me: api.Me, query: URLSearchParams }, CardState>} */
export class SubmitCard extends Component {
  /** @type {CardState} */
  state = {
    mode: this.begun,
    ...{ kept: NO_TEMPLATES, template: null, turn: 0, listed: false },
    choices: null,
    environments: null,
  };
  newest = new Latest();
  newestChoices = new Latest();
  newestEnvironments = new Latest();

  /** How it is submitted where nobody chose. */
  get usual() {
    return this.props.again?.mode ?? (this.props.form.can_spec ? "form" : "script");
  }

  /** How it is submitted, by the address. */
  get begun() {
    const by = this.props.query.get("by");
    if (by === "script" || (by === "form" && this.props.form.can_spec)) return by;
    return this.usual;
  }

  /** @param {Partial<CardState>} change */
  choose(change) {
    this.setState(change, () => {
      const { mode: by, template } = this.state;
      const again = String(this.props.again?.id ?? "");
      const entire = this.props.query.get("entire") ?? "";
      const failed = this.props.query.get("failed") ?? "";
      const chosen = { again, entire, failed, by, template: template ? keyOf(template) : "" };
      const usual = { again: "", entire: "", failed: "", by: this.usual, template: "" };
      keepAddress(addressOf("submit", chosen, usual));
    });
  }

  /**
   * What is typed into one of its forms.
   * @param {string} form
   * @returns {Draft<any>}
   */
  draft(form) {
    const { me, again, query } = this.props;
    const part = partOf(query);
    return new Draft(me.user, `${form} ${again?.id ?? ""}${part && ` ${part}`}`.trim());
  }

  /** @param {Draft<any>} draft */
  startOver = (draft) => () => {
    draft.clear();
    this.setState(({ turn }) => ({ turn: turn + 1 }));
  };

  componentDidMount() {
    const { form, again } = this.props;
    this.newestChoices.take(
      call("jobs/choices"),
      (/** @type {api.JobChoices} */ choices) => this.setState({ choices }),
      () => {}, // the fields can be typed
    );
    if (!form.can_spec) return;
    this.newestEnvironments.take(
      call("jobs/environments"),
      (/** @type {api.JobEnvironments} */ environments) => this.setState({ environments }),
      () => {}, // the fields can be typed
    );
    if (again) return;
    this.newest.take(
      call("jobs/templates"),
      (/** @type {api.JobTemplates} */ kept) => {
        const key = this.props.query.get("template");
        const good = kept.templates.filter(({ fault }) => !fault);
        const template = good.find((each) => keyOf(each) === key) ?? null;
        this.setState({ kept, listed: true, template: this.state.template ?? template });
      },
      (failure) => {
        const kept = { ...NO_TEMPLATES, trouble: refused(failure).message };
        this.setState({ kept, listed: true });
      },
    );
  }

  componentWillUnmount() {
    this.newest.drop();
    this.newestChoices.drop();
    this.newestEnvironments.drop();
  }

  /** The form, as a template or the job of before fills it in. */
  filled() {
    const { form, again, query } = this.props;
    const { kept, template, choices, environments, turn, listed } = this.state;
    const chosen = template ? keyOf(template) : "";
    const choose = (/** @type {api.JobTemplate | null} */ next) => this.choose({ template: next });
    // The form begins with the template that the address names.
    if (query.get("template") && !again && !listed) return el("p", { class: "dim" }, "Loading…");
    const draft = this.draft(`form ${chosen}`);
    return [
      again ? null : h(TemplateChoice, { key: "choice", kept, chosen, choose }),
      h(JobForm, {
        ...{ key: `form ${chosen} ${turn}`, form, given: again ?? template ?? NEW },
        ...{ choices, environments, draft, again: this.startOver(draft) },
      }),
    ];
  }

  tabs() {
    const modes = [["script", "By script"]];
    if (this.props.form.can_spec) modes.unshift(["form", "By form"]);
    const chips = modes.map(([mode, words]) => {
      const pressed = mode === this.state.mode ? "true" : "false";
      const onClick = () => this.choose({ mode });
      return el("button", { key: mode, class: "chip", "aria-pressed": pressed, onClick }, words);
    });
    return el("div", { class: "row", role: "group", "aria-label": "How to submit" }, chips);
  }

  /** @returns {ComponentChildren} */
  render() {
    const { form, me, again } = this.props;
    const draft = this.draft("script");
    const what = again && againWords(partOf(this.props.query), again);
    const title = what ? `Submit ${what} again` : "Submit a job";
    return card(
      title,
      [
        form.can_spec
          ? null
          : el("p", { class: "dim" }, `No job by form here: ${form.why_no_spec}.`),
        this.state.mode === "form"
          ? this.filled()
          : h(ScriptForm, {
              ...{ key: `script ${this.state.turn}`, form, me, again, draft },
              ...{ choices: this.state.choices, restart: this.startOver(draft) },
              environments: this.state.environments,
            }),
      ],
      this.tabs(),
    );
  }
}

/** @param {{ me: api.Me, query: URLSearchParams }} props */
export function SubmitPage({ me, query }) {
  const job = encodeURIComponent(query.get("again") ?? "");
  /** @returns {Promise<[api.JobForm, api.JobAgain | null]>} */
  const part = partOf(query);
  const entire = part && `?${part}=true`;
  const load = () =>
    Promise.all([call("jobs/form"), job ? call(`jobs/${job}/again${entire}`) : null]);
  const view = (/** @type {[api.JobForm, api.JobAgain | null]} */ [form, again]) =>
    h(SubmitCard, { form, again, me, query });
  return h(Loaded, { key: `${job}${entire}`, load, view });
}
