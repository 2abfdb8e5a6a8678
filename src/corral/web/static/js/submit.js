// Submit: a form made from JobSpec's schema, or a script as it is; the batch script is shown first.
import { Component, createRef, h } from "../vendor/preact.mjs";
import { call, Latest } from "./server.js";
import { complain, el, Loaded, pre, toast } from "./view.js";
/** @import { ComponentChildren } from "preact" */
/** @import * as api from "./api.js" */
/** @import { InputProps } from "./view.js" */

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
  "args",
  "name",
  "nodes",
  "gpus_per_node",
  "time",
  "mem",
  "partition",
  "env",
];
const LONGEST_PATTERN = 400;

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
    items?.type === "string" || items?.$ref ? { placeholder: "separated by blanks" } : null,
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
    const options = schema.enum.map((value) =>
      el("option", { key: value, value, selected: value === schema.default }, value),
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
  const pairs = text.split(/\s+/).map((pair) => {
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
  if (schema.type === "array") return text.split(/\s+/);
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

/** @param {number} id */
function submitted(id) {
  toast(`job ${id} is submitted`);
  location.hash = `job/${id}`;
}

/** @typedef {{ form: api.JobForm }} FormProps */

/** @extends {Component<FormProps, { script: string | null, sending: boolean }>} */
class JobForm extends Component {
  state = { script: null, sending: false };
  /** @type {{ current: HTMLFormElement | null }} */
  form = createRef();
  newest = new Latest();
  fields = fieldsOf(/** @type {Schema} */ (this.props.form.schema));

  componentWillUnmount() {
    this.newest.drop();
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
    this.setState({ script: null });
  };

  /** @param {Event} event */
  preview = (event) => {
    event.preventDefault();
    /** @type {Promise<api.BatchScript>} */
    const answer = call("jobs/preview", this.read());
    const show = (/** @type {api.BatchScript} */ { script }) =>
      this.setState({ script }, () =>
        this.form.current?.querySelector("pre")?.scrollIntoView({ block: "nearest" }),
      );
    this.newest.take(answer, show, (failure) => {
      this.setState({ script: null });
      complain(failure);
    });
  };

  send = async () => {
    this.setState({ sending: true });
    try {
      /** @type {{ id: number }} */
      const { id } = await call("jobs/spec", this.read());
      submitted(id);
    } catch (error) {
      complain(error);
      this.setState({ sending: false });
    }
  };

  /** @param {[string, Schema]} field */
  line = ([name, schema]) => {
    const { storage } = this.props.form;
    const script = { required: true, placeholder: `${storage[0] || ""}/train.py` };
    const input = field(name, schema, name === "script" ? script : {});
    if (!input) return null;
    const about =
      name === "script"
        ? `A program on the cluster's shared storage (${storage.join(", ") || "none"}).`
        : schema.description;
    return el("label", { key: name }, name.replaceAll("_", " "), el("small", null, about), input);
  };

  render() {
    const { script, sending } = this.state;
    const known = new Map(this.fields);
    const first = FIRST.flatMap((name) => {
      const schema = known.get(name);
      return schema ? [this.line([name, schema])] : [];
    });
    const rest = this.fields.filter(([name]) => !FIRST.includes(name)).map(this.line);
    const blocked = script === null || sending;
    const send = { class: "main", type: /** @type {const} */ ("button"), onClick: this.send };
    return el(
      "form",
      { ref: this.form, onSubmit: this.preview, onInput: this.changed },
      el("div", { class: "fields" }, first),
      el("br"),
      el(
        "details",
        null,
        el("summary", null, "More"),
        el("br"),
        el("div", { class: "fields" }, rest),
      ),
      el("br"),
      el(
        "div",
        { class: "row" },
        el("button", null, "Show the batch script"),
        el("button", { ...send, disabled: blocked }, "Submit"),
      ),
      script === null
        ? null
        : el("div", null, el("h3", null, "This batch script goes to Slurm"), pre(script)),
    );
  }
}

/**
 * @param {string} name
 * @param {string} label
 * @param {InputProps} props
 */
const labelled = (name, label, props) =>
  el(
    "label",
    { key: name },
    label,
    el("input", /** @type {InputProps} */ ({ name, autocomplete: "off", ...props })),
  );

/** @param {string} folder where the job runs unless another one is given */
const scriptFields = (folder) => [
  labelled("name", "Name", { maxLength: 64 }),
  labelled("workdir", "Folder it runs in and writes slurm-ID.out to", {
    defaultValue: folder,
    required: true,
    pattern: "/.*",
  }),
  labelled("partition", "Partition (empty: the default one)", { pattern: "[A-Za-z0-9_.\\-]*" }),
  labelled("nodes", "Nodes", { type: "number", min: 1 }),
  labelled("gpus", "GPUs on each node", { type: "number", min: 0, max: 64 }),
  labelled("minutes", "Limit in minutes (empty: the partition's)", { type: "number", min: 1 }),
];

/**
 * What is sent of the fields next to a script.
 * @param {Record<string, string>} values
 */
export function scriptBody({ script, name, workdir, partition, nodes, gpus, minutes }) {
  return {
    script: script.replaceAll("\r\n", "\n"),
    ...{ name, workdir, partition },
    ...(nodes ? { nodes: Number(nodes) } : {}),
    ...(gpus ? { gpus_per_node: Number(gpus) } : {}),
    ...(minutes ? { minutes: Number(minutes) } : {}),
  };
}

/** @extends {Component<FormProps & { me: api.Me }, { sending: boolean, script: string }>} */
class ScriptForm extends Component {
  state = { sending: false, script: "#!/bin/bash\n#SBATCH --nodes=1\n\nsrun hostname\n" };

  /** @param {SubmitEvent & { currentTarget: HTMLFormElement }} event */
  send = async (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.currentTarget));
    this.setState({ sending: true });
    try {
      /** @type {{ id: number }} */
      const { id } = await call("jobs", scriptBody(/** @type {Record<string, string>} */ (values)));
      submitted(id);
    } catch (error) {
      complain(error);
    }
    this.setState({ sending: false });
  };

  render() {
    const { form, me } = this.props;
    const about =
      "It goes to Slurm with your own token, exactly as it is here. Its #SBATCH lines count; a field that is filled in below overrides them.";
    return el(
      "form",
      { onSubmit: this.send },
      el("p", { class: "dim" }, about),
      el("textarea", {
        name: "script",
        class: "code",
        spellcheck: false,
        required: true,
        value: this.state.script,
        onInput: ({ currentTarget }) => this.setState({ script: currentTarget.value }),
        "aria-label": "Batch script",
      }),
      el("br"),
      el("div", { class: "fields" }, scriptFields(form.storage[0] || `/home/${me.user}`)),
      el("br"),
      el("button", { class: "main", disabled: this.state.sending }, "Submit"),
    );
  }
}

/** @extends {Component<FormProps & { me: api.Me }, { mode: string }>} */
class SubmitCard extends Component {
  state = { mode: this.props.form.can_spec ? "form" : "script" };

  tabs() {
    const modes = [["script", "By script"]];
    if (this.props.form.can_spec) modes.unshift(["form", "By form"]);
    const chips = modes.map(([mode, words]) => {
      const pressed = mode === this.state.mode ? "true" : "false";
      const onClick = () => this.setState({ mode });
      return el("button", { key: mode, class: "chip", "aria-pressed": pressed, onClick }, words);
    });
    return el("div", { class: "row", role: "group", "aria-label": "How to submit" }, chips);
  }

  /** @returns {ComponentChildren} */
  render() {
    const { form, me } = this.props;
    return el(
      "div",
      { class: "card" },
      el("div", { class: "row between" }, el("h2", null, "Submit a job"), this.tabs()),
      this.state.mode === "form" ? h(JobForm, { form }) : h(ScriptForm, { form, me }),
    );
  }
}

/** @param {{ me: api.Me }} props */
export const SubmitPage = ({ me }) =>
  h(Loaded, {
    load: () => call("jobs/form"),
    view: (/** @type {api.JobForm} */ form) => h(SubmitCard, { form, me }),
  });
