// Many nodes as squares of one canvas: where each is, what it shows, and how keys go over it.
import { Drawing, resize } from "../lib/canvas.js";
import { colour, el, known, many, warmth } from "../lib/view.js";
/** @import { NodeFigures, NodeRow } from "../api.js" */
/** @import { Kind } from "../lib/view.js" */
/** @typedef {Record<string, NodeFigures>} Figures */
/** @typedef {{ side: number, across: number, count: number }} Grid */

/** What the squares can show instead of states, as a share of what is a lot; null: unknown.
 * @type {Record<string, (node: NodeRow, figures: NodeFigures) => number | null>} */
export const SHARES = {
  load: (node) => (node.load === null || !node.cpus ? null : node.load / node.cpus),
  memory: (node) => (node.memory ? node.memory_used / node.memory : null),
  GPUs: (node) => (node.gpus && node.gpus_used !== null ? node.gpus_used / node.gpus : null),
  temperature: (_, { celsius }) => (celsius === undefined ? null : (celsius - 30) / 60),
  power: (node, figures) => {
    const watts = figures.watts ?? node.watts;
    return watts ? watts / node.watts_most : null;
  },
};

/**
 * How many squares of which size fit next to each other.
 * @param {number} count
 * @param {number} width
 * @returns {Grid}
 */
export function gridOf(count, width) {
  const side = count > 4000 ? 9 : count > 1000 ? 12 : 16;
  return { side, across: Math.max(1, Math.floor(width / side)), count };
}

/** @param {Grid} grid */
export const heightOf = ({ side, across, count }) => Math.ceil(count / across) * side;

/**
 * Where a square begins.
 * @param {Grid} grid
 * @param {number} index
 * @returns {[number, number]}
 */
export const cornerOf = ({ side, across }, index) => [
  (index % across) * side,
  Math.floor(index / across) * side,
];

/**
 * Which square a point is in; -1: none.
 * @param {Grid} grid
 * @param {number} x
 * @param {number} y
 */
export function indexAt({ side, across, count }, x, y) {
  const column = Math.floor(x / side);
  const index = Math.floor(y / side) * across + column;
  return column >= 0 && column < across && index >= 0 && index < count ? index : -1;
}

/**
 * Where a key leads from a square (-1: from none yet); null: that key leads nowhere.
 * @param {Grid} grid
 * @param {string} key
 * @param {number} at
 */
export function moved({ across, count }, key, at) {
  /** @type {Record<string, number>} */
  const targets = {
    ArrowRight: at + 1,
    ArrowLeft: at - 1,
    ArrowDown: at + across,
    ArrowUp: at - across,
    Home: 0,
    End: count - 1,
  };
  if (!Object.hasOwn(targets, key)) return null;
  if (at < 0) return 0;
  const target = targets[key];
  return target >= 0 && target < count ? target : at;
}

/**
 * How one node is painted. What is drained is hollow and what is down is struck through: not
 * everybody sees the colours.
 * @param {NodeRow} node
 * @param {string} colouring "state", or a name of SHARES
 * @param {NodeFigures} figures
 * @returns {{ ink: Kind, alpha: number, mark: "" | "hollow" | "struck" }}
 */
export function paintOf(node, colouring, figures = {}) {
  const { kind } = node;
  if (colouring !== "state") {
    const share = SHARES[colouring](node, figures);
    const alpha = 0.12 + 0.88 * Math.min(1, Math.max(0, share ?? 0));
    return { ink: share === null ? "off" : "bad", alpha, mark: "" };
  }
  if (kind === "warn") return { ink: kind, alpha: 1, mark: "hollow" };
  if (kind === "bad") return { ink: kind, alpha: 1, mark: "struck" };
  const alpha = node.gpus ? 0.45 + 0.55 * ((node.gpus_used ?? 0) / node.gpus) : 1;
  return { ink: kind, alpha, mark: "" };
}

/**
 * One line about a node.
 * @param {NodeRow | undefined} node
 * @param {NodeFigures} [figures]
 */
export function lineOf(node, figures) {
  if (!node) return "\u00a0";
  const parts = [
    node.name,
    node.state,
    node.gpus && `GPUs ${known(node.gpus_used)}/${node.gpus}`,
    `CPUs ${node.cpus_used}/${node.cpus}`,
    warmth(node, figures),
    node.reason,
  ];
  return parts.filter(Boolean).join("  ");
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Grid} grid
 * @param {NodeRow[]} nodes
 * @param {{ colouring: string, figures: Figures }} what
 */
function paint(pen, grid, nodes, { colouring, figures }) {
  const names = /** @type {const} */ (["good", "mix", "busy", "warn", "bad", "off", "card"]);
  const inks = Object.fromEntries(names.map((name) => [name, colour(name)]));
  let last = "";
  const ink = (/** @type {string} */ name) => {
    if (name !== last) pen.fillStyle = inks[name]; // reading a colour costs more than a square
    last = name;
  };
  const size = grid.side - 2;
  nodes.forEach((node, index) => {
    const [x, y] = cornerOf(grid, index);
    const how = paintOf(node, colouring, figures[node.name]);
    ink(how.ink);
    pen.globalAlpha = how.alpha;
    pen.fillRect(x, y, size, size);
    if (how.mark) ink("card");
    if (how.mark === "hollow") pen.fillRect(x + 2, y + 2, size - 4, size - 4);
    if (how.mark === "struck") pen.fillRect(x, y + size / 2 - 1, size, 2);
  });
  pen.globalAlpha = 1;
}

/** Names of the nodes that have the keyboard's focus, by heat map; kept while other pages are shown.
 * @type {Map<string, string>} */
const chosen = new Map();

// Of the last heat map that was laid out: all are as wide.
let width = 900;

/** @typedef {{ nodes: NodeRow[], label: string, colouring: string, figures: Figures }} HeatProps */

/**
 * Whether two heat maps show the same: a node that changes is another object.
 * @param {HeatProps} before
 * @param {HeatProps} after
 */
export const alike = (before, after) =>
  before.label === after.label &&
  before.colouring === after.colouring &&
  before.figures === after.figures &&
  before.nodes.length === after.nodes.length &&
  before.nodes.every((node, i) => node === after.nodes[i]);

/**
 * A square per node; which one is under the pointer is arithmetic, so that 10,000 cost no elements.
 * @extends {Drawing<HeatProps, { under: string }>}
 */
export class Heat extends Drawing {
  state = { under: "" };
  grid = gridOf(0, 1);

  // Of 10,000 nodes by rack there are hundreds of these, and one node changes.
  /**
   * @param {HeatProps} next
   * @param {{ under: string }} state
   */
  shouldComponentUpdate(next, state) {
    return state.under !== this.state.under || !alike(this.props, next);
  }

  at() {
    const name = chosen.get(this.props.label);
    return name === undefined ? -1 : this.props.nodes.findIndex((node) => node.name === name);
  }

  /** @param {number} measured */
  fits(measured) {
    width = measured || width;
    const canvas = this.canvas.current;
    if (canvas) canvas.style.height = this.height();
  }

  height() {
    return `${heightOf(gridOf(this.props.nodes.length, width))}px`;
  }

  draw() {
    const canvas = this.canvas.current;
    const pen = canvas?.getContext("2d");
    if (!canvas || !pen) return;
    const { nodes } = this.props;
    width = canvas.clientWidth || width;
    this.grid = gridOf(nodes.length, width);
    const height = heightOf(this.grid);
    resize(canvas, pen, width, height);
    paint(pen, this.grid, nodes, this.props);
    const at = this.at();
    if (at < 0 || document.activeElement !== canvas) return;
    const [x, y] = cornerOf(this.grid, at);
    pen.strokeStyle = colour("focus");
    pen.lineWidth = 2;
    pen.strokeRect(x - 1, y - 1, this.grid.side, this.grid.side);
  }

  /** @param {MouseEvent} event */
  under(event) {
    const box = this.canvas.current?.getBoundingClientRect();
    if (!box) return undefined;
    return this.props.nodes[indexAt(this.grid, event.clientX - box.left, event.clientY - box.top)];
  }

  /** @param {KeyboardEvent} event */
  pressed = (event) => {
    const { nodes, label } = this.props;
    const at = this.at();
    if (event.key === "Enter" && nodes[at]) location.hash = `node/${nodes[at].name}`;
    const target = moved(this.grid, event.key, at);
    if (target === null || !nodes.length) return;
    event.preventDefault();
    chosen.set(label, nodes[target].name);
    this.setState({ under: "" });
    this.forceUpdate(); // the frame is around another node
  };

  /** @param {MouseEvent} event */
  pointed = (event) => this.setState({ under: this.under(event)?.name ?? "" });

  /** @param {MouseEvent} event */
  clicked = (event) => {
    const node = this.under(event);
    if (node) location.hash = `node/${node.name}`;
  };

  render() {
    const { nodes, label, figures } = this.props;
    const { under } = this.state;
    const node = nodes.find(({ name }) => name === under) ?? nodes[this.at()];
    const words = `${label}: ${many(nodes.length, "node")}. Arrow keys go from node to node, Enter opens one; the filter finds one by name`;
    return [
      el("div", { class: "tip mono", role: "status" }, lineOf(node, node && figures[node.name])),
      el("canvas", {
        class: "heat",
        style: { height: this.height() },
        role: "application",
        tabIndex: 0,
        ref: this.canvas,
        "data-key": `heat ${label}`,
        "aria-roledescription": "heat map",
        "aria-label": words,
        onKeyDown: this.pressed,
        onFocus: this.soon,
        onBlur: this.soon,
        onMouseMove: this.pointed,
        onClick: this.clicked,
      }),
    ];
  }
}
