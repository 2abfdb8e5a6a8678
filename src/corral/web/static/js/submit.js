// Submit: a form made from JobSpec's schema, or a script as it stands; the batch script is seen first.
import { call, complain, el, fill, latest, toast } from "./dom.js";

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

const kindOf = (schema) => {
  const options = schema.anyOf ? schema.anyOf.find((o) => o.type !== "null") || {} : schema;
  return {
    ...options,
    title: schema.title,
    description: schema.description,
    default: schema.default,
  };
};

function resolve(schema, root) {
  if (schema.$ref)
    return { ...root.$defs?.[schema.$ref.split("/").at(-1)], ...schema, $ref: undefined };
  if (schema.anyOf) return { ...schema, anyOf: schema.anyOf.map((s) => resolve(s, root)) };
  return schema;
}

// What an object's values are: texts (env), or lists of them (sweep); pydantic says it by pattern.
const valuesOf = (schema) =>
  [schema.additionalProperties, ...Object.values(schema.patternProperties || {})].find(
    (s) => s?.type,
  )?.type;

// Only fields whose value one line can hold; what is richer belongs into a file for corral run.
function input(name, schema) {
  const props = { name, id: `field-${name}`, autocomplete: "off", spellcheck: false };
  if (schema.enum)
    return el(
      "select",
      props,
      schema.enum.map((v) => el("option", { value: v, text: v, selected: v === schema.default })),
    );
  if (schema.const !== undefined) return null;
  if (schema.type === "boolean")
    return el("input", { ...props, type: "checkbox", checked: Boolean(schema.default) });
  if (schema.type === "integer" || schema.type === "number")
    return el("input", {
      ...props,
      type: "number",
      min: schema.minimum,
      max: schema.maximum,
      value: schema.default ?? "",
    });
  if (schema.type === "array" && (schema.items?.type === "string" || schema.items?.$ref))
    return el("input", { ...props, placeholder: "separated by blanks" });
  const values = schema.type === "object" && valuesOf(schema);
  if (values)
    return el("input", {
      ...props,
      placeholder: values === "array" ? "name=1,2,3 other=a,b" : "NAME=value OTHER=value",
    });
  if (schema.type === "string")
    return el("input", {
      ...props,
      pattern:
        schema.pattern && schema.pattern.length < 400
          ? schema.pattern.replace(/^\^|\$$/g, "")
          : undefined,
      value: schema.default ?? "",
    });
  return null;
}

function valueOf(field, schema) {
  if (schema.type === "boolean")
    return field.checked === Boolean(schema.default) ? undefined : field.checked;
  const text = field.value.trim();
  if (!text || text === String(schema.default ?? "")) return undefined;
  if (schema.type === "integer" || schema.type === "number") return Number(text);
  if (schema.type === "array") return text.split(/\s+/);
  if (schema.type === "object") {
    const list = valuesOf(schema) === "array";
    return Object.fromEntries(
      text.split(/\s+/).map((pair) => {
        const at = pair.includes("=") ? pair.indexOf("=") : pair.length,
          value = pair.slice(at + 1);
        return [pair.slice(0, at), list ? value.split(",") : value];
      }),
    );
  }
  return text;
}

export async function submitPage(main, me) {
  const data = await call("jobs/form");
  const tabs = el("div", { class: "row", role: "group", "aria-label": "How to submit" });
  const body = el("div");
  const modes = data.can_spec
    ? [
        ["form", "By form"],
        ["script", "By script"],
      ]
    : [["script", "By script"]];
  let mode = modes[0][0];
  const show = () => {
    fill(
      tabs,
      modes.map(([key, word]) =>
        el("button", {
          class: "chip",
          text: word,
          "aria-pressed": String(key === mode),
          onclick: () => {
            mode = key;
            show();
          },
        }),
      ),
    );
    fill(body, mode === "form" ? form(data, me) : scriptForm(data, me));
  };
  main.append(
    el(
      "div",
      { class: "card" },
      el("div", { class: "row between" }, el("h2", { text: "Submit a job" }), tabs),
      body,
    ),
  );
  show();
}

const gone = (id) => {
  toast(`job ${id} is submitted`);
  location.hash = `job/${id}`;
};

function form(data) {
  const root = data.schema;
  const names = Object.keys(root.properties);
  const made = new Map();
  for (const name of names) {
    const schema = kindOf(resolve(root.properties[name], root));
    const field = input(name, schema);
    if (field) made.set(name, { field, schema });
  }
  const line = ([name, { field, schema }]) =>
    el(
      "label",
      {},
      name.replaceAll("_", " "),
      el("small", {
        text:
          (name === "script"
            ? `A program on the cluster's shared storage (${data.storage.join(", ") || "none"}).`
            : schema.description) || "",
      }),
      field,
    );
  const first = FIRST.filter((n) => made.has(n)).map((n) => [n, made.get(n)]),
    rest = [...made].filter(([n]) => !FIRST.includes(n));
  made.get("script").field.required = true;
  made.get("script").field.placeholder = `${data.storage[0] || ""}/train.py`;
  const script = el("pre"),
    preview = el(
      "div",
      { hidden: true },
      el("h3", { text: "This batch script goes to Slurm" }),
      script,
    );
  const read = () =>
    Object.fromEntries(
      [...made]
        .map(([n, { field, schema }]) => [n, valueOf(field, schema)])
        .filter(([, v]) => v !== undefined),
    );
  const send = el("button", {
    class: "main",
    type: "button",
    text: "Submit",
    disabled: true,
    onclick: async () => {
      send.disabled = true;
      try {
        gone((await call("jobs/spec", read())).id);
      } catch (error) {
        complain(error);
        send.disabled = false;
      }
    },
  });
  const newest = latest();
  const box = el(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        // What is submitted is what was shown: an answer about fields that were changed since is not.
        newest(
          call("jobs/preview", read()),
          (told) => {
            script.textContent = told.script;
            preview.hidden = false;
            send.disabled = false;
            preview.scrollIntoView({ block: "nearest" });
          },
          (error) => {
            preview.hidden = true;
            send.disabled = true;
            complain(error);
          },
        );
      },
      oninput: () => {
        newest.drop();
        send.disabled = true;
      },
    },
    el("div", { class: "fields" }, first.map(line)),
    el("br"),
    el(
      "details",
      {},
      el("summary", { text: "More" }),
      el("br"),
      el("div", { class: "fields" }, rest.map(line)),
    ),
    el("br"),
    el("div", { class: "row" }, el("button", { text: "Show the batch script" }), send),
    preview,
  );
  return box;
}

function scriptForm(data, me) {
  const area = el("textarea", {
    name: "script",
    class: "code",
    spellcheck: false,
    required: true,
    value: "#!/bin/bash\n#SBATCH --nodes=1\n\nsrun hostname\n",
    "aria-label": "Batch script",
  });
  const field = (name, label, props) =>
    el("label", {}, label, el("input", { name, autocomplete: "off", ...props }));
  return el(
    "form",
    {
      onsubmit: async (event) => {
        event.preventDefault();
        const f = event.target.elements,
          button = event.submitter;
        button.disabled = true;
        const body = {
          script: f.script.value.replaceAll("\r\n", "\n"),
          name: f.name.value,
          workdir: f.workdir.value,
          partition: f.partition.value,
        };
        if (f.nodes.value) body.nodes = Number(f.nodes.value);
        if (f.gpus.value) body.gpus_per_node = Number(f.gpus.value);
        if (f.minutes.value) body.minutes = Number(f.minutes.value);
        try {
          gone((await call("jobs", body)).id);
        } catch (error) {
          complain(error);
        }
        button.disabled = false;
      },
    },
    el("p", {
      class: "dim",
      text: "It goes to Slurm with your own token, as it stands here. Its #SBATCH lines count; a field that is filled in below wins.",
    }),
    area,
    el("br"),
    el(
      "div",
      { class: "fields" },
      field("name", "Name", { maxLength: 64 }),
      field("workdir", "Folder it runs in and writes slurm-ID.out to", {
        value: data.storage[0] || `/home/${me.user}`,
        required: true,
        pattern: "/.*",
      }),
      field("partition", "Partition (empty: the default one)", { pattern: "[A-Za-z0-9_.\\-]*" }),
      field("nodes", "Nodes", { type: "number", min: 1 }),
      field("gpus", "GPUs on each node", { type: "number", min: 0, max: 64 }),
      field("minutes", "Limit in minutes (empty: the partition's)", { type: "number", min: 1 }),
    ),
    el("br"),
    el("button", { class: "main", text: "Submit" }),
  );
}
