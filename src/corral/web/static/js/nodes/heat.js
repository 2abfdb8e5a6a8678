// Many nodes as squares of one canvas: where each is, what it shows, and how keys go over it.
import { Drawing, linked, resize } from "../lib/canvas.js";
import { colour, el, known, many, warmth } from "../lib/view.js";
/** @import { NodeFigures, NodeRow } from "../api.js" */
/** @import { Kind } from "../lib/view.js" */
/** @typedef {Record<string, NodeFigures>} Figures */
/** @typedef {{ wide: number, high: number }} Cell in pixels, with the space around it */
/** @typedef {Cell & { across: number, count: number }} Grid */

/** What the squares can show instead of states, as a share of what is a lot; null: unknown.
 * @type {Record<string, (node: NodeRow, figures: NodeFigures) => number | null>} */
export const SHARES = {
  CPUs: (node) => (node.cpus ? node.cpus_used / node.cpus : null),
  load: (node) => (node.load === null || !node.cpus ? null : node.load / node.cpus),
  memory: (node) => (node.memory ? node.memory_used / node.memory : null),
  GPUs: (node) => (node.gpus && node.gpus_used !== null ? node.gpus_used / node.gpus : null),
  temperature: (_, { celsius }) => (celsius === undefined ? null : (celsius - 30) / 60),
  power: (node, figures) => {
    const watts = figures.watts ?? node.watts;
    return watts ? watts / node.watts_most : null;
  },
};

const LETTER_PX = 7;
const NAMED = { wide: 10, high: 20 }; // around a name
const LONGEST = 18; // letters of a name that a square has
const MOST_NAMED = 500;
/** Sizes of squares with names for a wall display, in parts of the usual one. */
const SCALES = [4, 3.5, 3, 2.5, 2, 1.75, 1.5, 1.25, 1];
const SIDES = [24, 20, 16, 12, 9, 7, 5];

/** @param {number} count @returns {Cell} */
function squareOf(count) {
  const side = count > 4000 ? 9 : count > 1000 ? 12 : 16;
  return { wide: side, high: side };
}

/**
 * How many squares of which size fit next to each other.
 * @param {number} count
 * @param {number} width
 * @param {Cell} [cell]
 * @returns {Grid}
 */
export function gridOf(count, width, cell = squareOf(count)) {
  return { ...cell, across: Math.max(1, Math.floor(width / cell.wide)), count };
}

/** @param {Grid} grid */
export const heightOf = ({ high, across, count }) => Math.ceil(count / across) * high;

/**
 * The squares that have room for all names of nodes; undefined: they are too many, or too long.
 * @param {string[]} names
 * @returns {Cell | undefined}
 */
export function namedCell(names) {
  const letters = names.reduce((most, name) => Math.max(most, name.length), 0);
  if (!letters || letters > LONGEST || names.length > MOST_NAMED) return undefined;
  return { wide: letters * LETTER_PX + NAMED.wide, high: NAMED.high };
}

/**
 * The largest squares with which all groups fit into a place; the smallest ones where none do.
 * @param {number[]} counts nodes of each group
 * @param {Cell | undefined} named those with room for names
 * @param {{ width: number, height: number, head: number }} place head: height of a group's title
 * @returns {Cell}
 */
export function fittingCell(counts, named, { width, height, head }) {
  const large = named ? SCALES.map((k) => ({ wide: k * named.wide, high: k * named.high })) : [];
  const cells = [...large, ...SIDES.map((side) => ({ wide: side, high: side }))];
  /** @param {Cell} cell */
  const fits = (cell) =>
    cell.wide <= width &&
    counts.reduce((sum, n) => sum + head + heightOf(gridOf(n, width, cell)), 0) <= height;
  return cells.find(fits) ?? cells[cells.length - 1];
}

/**
 * Where a square begins.
 * @param {Grid} grid
 * @param {number} index
 * @returns {[number, number]}
 */
export const cornerOf = ({ wide, high, across }, index) => [
  (index % across) * wide,
  Math.floor(index / across) * high,
];

/**
 * Which square a point is in; -1: none.
 * @param {Grid} grid
 * @param {number} x
 * @param {number} y
 */
export function indexAt({ wide, high, across, count }, x, y) {
  const column = Math.floor(x / wide);
  const index = Math.floor(y / high) * across + column;
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

/** Red, green and blue of #rgb or #rrggbb. @param {string} hex */
const partsOf = (hex) => {
  const full = hex.length === 4 ? hex.replace(/[^#]/g, "$&$&") : hex;
  return [1, 3, 5].map((at) => parseInt(full.slice(at, at + 2), 16));
};

/** How light a colour is, from 0 to 1 (WCAG 2.2). @param {number[]} parts */
function lightOf(parts) {
  const [r, g, b] = parts.map((part) => {
    const p = part / 255;
    return p <= 0.04045 ? p / 12.92 : ((p + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/**
 * Which of two colours can be read better on an ink that the second one shines through.
 * @param {string} ink
 * @param {number} alpha
 * @param {{ text: string, card: string }} colours
 */
export function readable(ink, alpha, { text, card }) {
  const [front, back] = [partsOf(ink), partsOf(card)];
  const ground = lightOf(front.map((part, i) => alpha * part + (1 - alpha) * back[i]));
  const contrast = (/** @type {string} */ hex) => {
    const light = lightOf(partsOf(hex));
    return (Math.max(light, ground) + 0.05) / (Math.min(light, ground) + 0.05);
  };
  return contrast(text) >= contrast(card) ? text : card;
}

const INKS = /** @type {const} */ (["good", "mix", "busy", "warn", "bad", "off", "card", "text"]);
const LETTER = 0.61; // width of a letter in parts of its size
const LEAST_PX = 8;
const MOST_PX = 24;

/** Paints nodes into boxes, with their names where those fit. */
export class Painter {
  inks = Object.fromEntries(INKS.map((name) => [name, colour(name)]));
  last = "";
  /** @type {Map<string, string>} */
  readables = new Map();

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {{ colouring: string, figures: Figures }} what
   */
  constructor(pen, { colouring, figures }) {
    this.pen = pen;
    this.colouring = colouring;
    this.figures = figures;
    pen.textBaseline = "middle";
    pen.textAlign = "center";
  }

  /** Setting a colour costs more than a square. @param {string} value */
  ink(value) {
    if (value !== this.last) this.pen.fillStyle = value;
    this.last = value;
  }

  /**
   * @param {NodeRow} node
   * @param {number[]} box x, y, width, height
   * @param {{ named?: boolean, pale?: boolean }} [how]
   */
  paint(node, box, { named = false, pale = false } = {}) {
    const { pen } = this;
    const [x, y, wide, high] = box;
    const { ink, alpha, mark } = paintOf(node, this.colouring, this.figures[node.name]);
    const shown = pale ? alpha * 0.2 : alpha;
    this.ink(this.inks[ink]);
    pen.globalAlpha = shown;
    pen.fillRect(x, y, wide, high);
    if (mark) this.mark(mark, box, named);
    pen.globalAlpha = 1;
    if (named) this.name(node.name, box, this.words(mark === "hollow" ? "card" : ink, shown));
  }

  /**
   * @param {"hollow" | "struck"} mark
   * @param {number[]} box
   * @param {boolean} named
   */
  mark(mark, [x, y, wide, high], named) {
    this.ink(this.inks.card);
    if (mark === "hollow") this.pen.fillRect(x + 2, y + 2, wide - 4, high - 4);
    else this.pen.fillRect(x, y + (named ? high - 5 : high / 2 - 1), wide, 2);
  }

  /**
   * What can be read on an ink.
   * @param {string} ink
   * @param {number} alpha
   */
  words(ink, alpha) {
    const key = `${ink} ${alpha.toFixed(1)}`;
    const { text, card, [ink]: value } = this.inks;
    const words = this.readables.get(key) ?? readable(value, alpha, { text, card });
    this.readables.set(key, words);
    return words;
  }

  /**
   * A name in a box, as large as it fits; none where it could not be read.
   * @param {string} name
   * @param {number[]} box
   * @param {string} value
   */
  name(name, [x, y, wide, high], value) {
    const size = Math.min(wide / (name.length * LETTER + LETTER), high * 0.66, MOST_PX);
    if (size < LEAST_PX) return;
    this.pen.font = `${size}px ui-monospace, "DejaVu Sans Mono", Menlo, monospace`;
    this.ink(value);
    this.pen.fillText(name, x + wide / 2, y + high / 2);
  }
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Grid} grid
 * @param {NodeRow[]} nodes
 * @param {{ colouring: string, figures: Figures }} what
 */
function paint(pen, grid, nodes, what) {
  const painter = new Painter(pen, what);
  const named = grid.wide > grid.high;
  nodes.forEach((node, index) => {
    const [x, y] = cornerOf(grid, index);
    painter.paint(node, [x, y, grid.wide - 2, grid.high - 2], { named });
  });
}

/** Names of the nodes that have the keyboard's focus, by heat map; kept while other pages are shown.
 * @type {Map<string, string>} */
const chosen = new Map();

// Of the widest heat map that was laid out: others begin with it.
let room = 900;

/**
 * cell: of its squares, where it does not choose their size itself.
 * @typedef {{ nodes: NodeRow[], label: string, colouring: string, figures: Figures, cell?: Cell }} HeatProps
 */

/** @param {Cell | undefined} a @param {Cell | undefined} b */
const sameCell = (a, b) => a?.wide === b?.wide && a?.high === b?.high;

/**
 * Whether two heat maps show the same: a node that changes is another object.
 * @param {HeatProps} before
 * @param {HeatProps} after
 */
export const alike = (before, after) =>
  before.label === after.label &&
  before.colouring === after.colouring &&
  before.figures === after.figures &&
  sameCell(before.cell, after.cell) &&
  before.nodes.length === after.nodes.length &&
  before.nodes.every((node, i) => node === after.nodes[i]);

/**
 * A square per node; which one is under the pointer is arithmetic, so that 10,000 cost no elements.
 * The canvas is in a link whose address is that of the node under the pointer, so that a new tab
 * opens it as any link.
 * @extends {Drawing<HeatProps, { under: string }>}
 */
export class Heat extends Drawing {
  state = { under: "" };
  grid = gridOf(0, 1);
  width = 0;

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
    this.width = measured || this.width;
    room = Math.max(room, this.width);
    const canvas = this.canvas.current;
    if (canvas) canvas.style.height = this.height();
  }

  height() {
    const { nodes, cell } = this.props;
    return `${heightOf(gridOf(nodes.length, this.width || room, cell))}px`;
  }

  draw() {
    const canvas = this.canvas.current;
    const pen = canvas?.getContext("2d");
    if (!canvas || !pen) return;
    const { nodes, cell } = this.props;
    this.width = canvas.clientWidth || this.width || room;
    this.grid = gridOf(nodes.length, this.width, cell);
    resize(canvas, pen, this.width, heightOf(this.grid));
    paint(pen, this.grid, nodes, this.props);
    const at = this.at();
    if (at < 0 || document.activeElement !== canvas) return;
    const [x, y] = cornerOf(this.grid, at);
    pen.strokeStyle = colour("focus");
    pen.lineWidth = 2;
    pen.strokeRect(x - 1, y - 1, this.grid.wide, this.grid.high);
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

  // Also as a button goes down: the page may have been scrolled below a pointer that stayed.
  /** @param {MouseEvent} event */
  pointed = (event) => this.setState({ under: this.under(event)?.name ?? "" });

  render() {
    const { nodes, label, figures } = this.props;
    const { under } = this.state;
    const node = nodes.find(({ name }) => name === under) ?? nodes[this.at()];
    const words = `${label}: ${many(nodes.length, "node")}. Arrow keys go from node to node, Enter opens one; the filter finds one by name`;
    const canvas = el("canvas", {
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
      onMouseDown: this.pointed,
    });
    return [
      el("div", { class: "tip mono", role: "status" }, lineOf(node, node && figures[node.name])),
      linked(canvas, under && `node/${under}`),
    ];
  }
}
