// The description of the API, to be read: its operations and types, each with an address.
import { Component, h } from "../../vendor/preact.mjs";
import { call } from "../lib/server.js";
import { addressOf, badge, card, el, keepAddress, Loaded, many, pre, Table } from "../lib/view.js";
/** @import { ComponentChildren } from "preact" */

/**
 * What is read of OpenAPI.
 * @typedef {{ $ref?: string, type?: string, anyOf?: Schema[], enum?: unknown[], items?: Schema, itemSchema?: Schema,
 *   additionalProperties?: Schema | boolean, properties?: Record<string, Schema>, required?: string[],
 *   description?: string, default?: unknown, contentSchema?: Schema }} Schema
 * @typedef {Record<string, { schema?: Schema, itemSchema?: Schema }>} Content
 * @typedef {{ name: string, in: string, required: boolean, description?: string, schema: Schema }} Parameter
 * @typedef {object} Described
 * @property {string} description
 * @property {string[]} tags
 * @property {Record<string, string[]>[]} security
 * @property {Parameter[]} [parameters]
 * @property {{ content: Content }} [requestBody]
 * @property {Record<string, { content?: Content }>} responses
 * @property {{ source: string }[]} [x-codeSamples]
 * @typedef {{ method: string, path: string, about: Described }} Operation
 * @typedef {object} OpenApi
 * @property {Record<string, Record<string, Described>>} paths
 * @property {{ name: string, description: string }[]} tags
 * @property {{ schemas: Record<string, Schema> }} components
 */

/** The operations of a description, in its order. @param {OpenApi} api */
export const operationsOf = ({ paths }) =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, about]) => ({
      method: method.toUpperCase(),
      path,
      about,
    })),
  );

/**
 * Whether each word of a search is in what is known of an operation.
 * @param {Operation} operation
 * @param {string} q
 */
export function matches({ method, path, about }, q) {
  const text = `${method} ${path} ${about.description}`.toLowerCase();
  return q
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

/** @param {Described} about */
export function scopeOf({ security }) {
  const token = security.find((login) => "token" in login);
  if (token) return token.token[0];
  return security.length ? "a person's session" : "none";
}

/** An address of this page. @param {string} kind @param {string} name */
const at = (kind, name) => `#api/${kind}/${encodeURIComponent(name)}`;

/**
 * A type as words, with links to those that have a name.
 * @param {Schema} schema
 * @returns {ComponentChildren}
 */
export function typed(schema) {
  if (schema.$ref) {
    const name = schema.$ref.slice(schema.$ref.lastIndexOf("/") + 1);
    return el("a", { href: at("type", name) }, name);
  }
  if (schema.anyOf) {
    return schema.anyOf.flatMap((option, i) => (i ? [" or ", typed(option)] : [typed(option)]));
  }
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(", ");
  if (schema.type === "array" && schema.items) return ["list of ", typed(schema.items)];
  const values = schema.additionalProperties;
  if (typeof values === "object" && Object.keys(values).length)
    return ["object of ", typed(values)];
  return schema.type ?? "any";
}

/** What is sent or returned. @param {Content | undefined} content */
function contentWords(content) {
  for (const [kind, { schema, itemSchema }] of Object.entries(content ?? {})) {
    const event = itemSchema?.properties?.data?.contentSchema;
    if (event) return ["server-sent events, each ", typed(event)];
    return kind === "application/json" && schema ? typed(schema) : kind;
  }
  return null;
}

/** @param {string} text */
const paragraphs = (text) =>
  text
    .replaceAll("``", "`")
    .split("\n\n")
    .filter((part) => !/^(Raises|Args):/.test(part))
    .map((part, i) => el("p", { key: i }, part));

/** @param {{ parameters: Parameter[] }} props */
const Parameters = ({ parameters }) =>
  h(
    Table,
    { heads: ["parameter", "in", "type", "meaning"] },
    parameters.map(({ name, in: where, required, description, schema }) =>
      el(
        "tr",
        { key: name },
        el("td", null, el("code", null, name)),
        el("td", null, where),
        el("td", null, typed(schema), required ? "" : defaultWords(schema)),
        el("td", null, description ?? schema.description ?? ""),
      ),
    ),
  );

/** @param {Schema} schema */
const defaultWords = ({ default: value }) =>
  value === undefined ? ", optional" : `, default ${JSON.stringify(value)}`;

/** Where the page is, without the last slash; a proxy may show it below a path. */
const pageAddress = () => location.origin + location.pathname.replace(/\/[^/]*$/, "");

/** The example with what its variables stand for. @param {Described} about */
const exampleOf = (about) =>
  about["x-codeSamples"]?.[0]?.source
    .replaceAll("$page", pageAddress())
    .replaceAll('"$json"', "'Content-Type: application/json'");

/** @param {{ operation: Operation, open: boolean, toggle: (open: boolean) => void }} props */
function OperationLine({ operation: { method, path, about }, open, toggle }) {
  const [first] = about.description.split("\n\n");
  const sends = contentWords(about.requestBody?.content);
  const sample = exampleOf(about);
  const inside = () => [
    paragraphs(about.description.slice(first.length).trim()),
    el(
      "dl",
      { class: "facts" },
      el("dt", null, "needs"),
      el("dd", null, scopeOf(about)),
      sends ? [el("dt", null, "sends"), el("dd", null, sends)] : null,
      el("dt", null, "returns"),
      el("dd", null, contentWords(about.responses["200"].content)),
    ),
    about.parameters?.length ? h(Parameters, { parameters: about.parameters }) : null,
    sample ? pre(sample) : null,
  ];
  return el(
    "details",
    { class: "operation", open, onToggle: ({ currentTarget }) => toggle(currentTarget.open) },
    el(
      "summary",
      null,
      badge(method, method === "GET" ? "good" : "busy"),
      " ",
      el("code", null, path),
      el("span", { class: "dim" }, " ", first.replaceAll("``", "")),
    ),
    open ? el("div", null, inside()) : null,
  );
}

/** @param {{ name: string, schema: Schema }} props */
function TypeCard({ name, schema }) {
  const needed = new Set(schema.required ?? []);
  const rows = Object.entries(schema.properties ?? {}).map(([field, about]) =>
    el(
      "tr",
      { key: field },
      el("td", null, el("code", null, field)),
      el("td", null, typed(about), needed.has(field) ? "" : defaultWords(about)),
      el("td", null, about.description ?? ""),
    ),
  );
  const all = el("a", { href: "#api" }, "All operations");
  const fields = h(Table, { heads: ["field", "type", "meaning"] }, rows);
  const content = [paragraphs(schema.description ?? ""), rows.length ? fields : typed(schema)];
  return card(name, content, all);
}

/** @extends {Component<{ api: OpenApi, args: string[], query: URLSearchParams }, { q: string, open: string }>} */
export class ReferenceView extends Component {
  state = {
    q: this.props.query.get("q") ?? "",
    open: this.props.args[0] === "operation" ? this.props.args[1] : "",
  };

  /** @param {string} q */
  search = (q) => {
    this.setState({ q, open: "" });
    keepAddress(addressOf("api", { q }, { q: "" }));
  };

  /**
   * @param {string} name
   * @param {boolean} open
   */
  toggle(name, open) {
    if (open === (this.state.open === name)) return;
    this.setState({ open: open ? name : "" });
    const path = open ? at("operation", name).slice(1) : "api";
    keepAddress(addressOf(path, { q: this.state.q }, { q: "" }));
  }

  render() {
    const { api, args } = this.props;
    const { q, open } = this.state;
    const schema = args[0] === "type" ? api.components.schemas[args[1]] : undefined;
    const listed = operationsOf(api).filter((operation) => matches(operation, q));
    const parts = api.tags.map(({ name, description }) => {
      const own = listed.filter(({ about }) => about.tags.includes(name));
      const lines = own.map((operation) => {
        const key = `${operation.method} ${operation.path}`;
        const toggle = (/** @type {boolean} */ now) => this.toggle(key, now);
        return h(OperationLine, { key, operation, open: open === key, toggle });
      });
      return lines.length ? el("div", { key: name }, card(description, lines)) : null;
    });
    return [
      schema ? h(TypeCard, { key: args[1], name: args[1], schema }) : null,
      card(
        "REST API",
        [
          el(
            "p",
            null,
            "A program sends its token as ",
            el("code", null, "Authorization: Bearer TOKEN"),
            "; in the examples that header is in the file ci.header. ",
            el("a", { href: "#tokens" }, "Tokens"),
            ". The same for programs: ",
            el("code", null, `${pageAddress()}/api/openapi.json`),
          ),
          el("input", {
            type: "search",
            value: q,
            placeholder: "search: cancel, GET /api/nodes, efficiency",
            "aria-label": "Search the operations",
            onInput: ({ currentTarget }) => this.search(currentTarget.value),
          }),
          el("p", { class: "dim", role: "status" }, many(listed.length, "operation")),
        ],
        null,
        { key: "head" },
      ),
      parts,
    ];
  }
}

/** Asked for once: each type and operation is an address, and the description is the same.
 * @type {Promise<OpenApi> | null} */
let described = null;

/** @returns {Promise<OpenApi>} */
const load = () =>
  (described ??= call("openapi.json").catch((error) => {
    described = null;
    throw error;
  }));

/** @param {{ args: string[], query: URLSearchParams }} props */
export const ReferencePage = ({ args, query }) =>
  h(Loaded, { load, view: (api) => h(ReferenceView, { api, args, query }) });
