// Racks side by side as the cluster file declares them: each on its own canvas, drawn where it is in view.
import { Component, createRef, h } from "../../vendor/preact.mjs";
import { Drawing, linked, resize } from "../lib/canvas.js";
import { colour, el, many } from "../lib/view.js";
import { Heat, lineOf, Painter } from "./heat.js";
/** @import { NodeFigures, NodeRow, RackElevation } from "../api.js" */

/**
 * A node's place in a rack; node: undefined where Slurm does not know it.
 * @typedef {{ name: string, unit: number, units: number, column: number, across: number }} Slot
 * @typedef {{ name: string, row: string, units: number, slots: Slot[] }} Rack slots: from the top to the bottom, in a unit from the left
 * @typedef {{ unit: number, wide: number }} Size of one unit of a rack, in pixels
 * @typedef {{ width: number, height: number }} Room
 */

const EDGE = 2; // of a rack's frame
const NUMBERED_PX = 11; // a unit from which on units have numbers
const NUMBERS_PX = 20;
const GAP = 14;
const HEAD = 24;
const ROW_GAP = 28;
/** From large to small; the first with which all racks are about as high as a screen. @type {Size[]} */
const SIZES = [
  { unit: 28, wide: 240 },
  { unit: 22, wide: 190 },
  { unit: 18, wide: 170 },
  { unit: 15, wide: 150 },
  { unit: 12, wide: 120 },
  { unit: 9, wide: 96 },
  { unit: 7, wide: 72 },
  { unit: 5, wide: 52 },
  { unit: 4, wide: 36 },
];
const USUAL = SIZES.slice(3);

/** The highest unit of a node. @param {Slot} slot */
const topOf = ({ unit, units }) => unit + units - 1;

/**
 * Racks as the server has them.
 * @param {RackElevation[]} elevations
 * @returns {Rack[]}
 */
export const racksOf = (elevations) =>
  elevations.map(({ name, row, units, nodes }) => ({
    ...{ name, row, units },
    slots: nodes
      .map(([node, unit, height, column, across]) => ({
        ...{ name: node, unit, units: height, column, across },
      }))
      .sort((a, b) => topOf(b) - topOf(a) || a.column / a.across - b.column / b.across),
  }));

/** Racks in their rows, which are in the order of the file. @param {Rack[]} racks */
export function inRows(racks) {
  /** @type {Map<string, Rack[]>} */
  const rows = new Map();
  for (const rack of racks) rows.set(rack.row, [...(rows.get(rack.row) ?? []), rack]);
  return [...rows];
}

/** @param {Size} size @param {Rack} rack */
const heightOf = ({ unit }, { units }) => units * unit + 2 * EDGE;

/**
 * How high all racks are together: rows of few racks are next to each other.
 * @param {Rack[]} racks
 * @param {Size} size
 * @param {number} width
 */
function allOf(racks, size, width) {
  const each = size.wide + GAP;
  const across = Math.max(1, Math.floor((width + GAP) / each));
  let [height, line, used] = [0, 0, 0];
  for (const [row, some] of inRows(racks)) {
    const tallest = Math.max(...some.map((rack) => heightOf(size, rack))) + HEAD + GAP;
    const high = Math.ceil(some.length / across) * tallest + (row ? HEAD : 0);
    const wide = Math.min(some.length, across) * each + ROW_GAP;
    if (used && used + wide > width + ROW_GAP) [height, line, used] = [height + line, 0, 0];
    line = Math.max(line, high);
    used += wide;
  }
  return height + line;
}

/**
 * The largest size with which the racks fit into a place; the smallest one where none does.
 * @param {Rack[]} racks
 * @param {Room} room
 * @param {Size[]} sizes
 */
export const sizeFor = (racks, { width, height }, sizes = USUAL) =>
  sizes.find((size) => allOf(racks, size, width) <= height) ?? sizes[sizes.length - 1];

/**
 * Where a node is drawn: x, y, width and height in pixels.
 * @param {Rack} rack
 * @param {Slot} slot
 * @param {Size} size
 * @returns {[number, number, number, number]}
 */
export function boxOf(rack, slot, { unit, wide }) {
  const left = EDGE + (unit >= NUMBERED_PX ? NUMBERS_PX : 0);
  const each = (wide - left - EDGE) / slot.across;
  const x = left + slot.column * each;
  return [
    x,
    EDGE + (rack.units - topOf(slot)) * unit,
    each - (slot.column + 1 < slot.across ? 1 : 0),
    slot.units * unit - 1,
  ];
}

/**
 * The node at a point of a rack.
 * @param {Rack} rack
 * @param {Size} size
 * @param {number} x
 * @param {number} y
 */
export const slotAt = (rack, size, x, y) =>
  rack.slots.find((slot) => {
    const [left, top, width, height] = boxOf(rack, slot, size);
    return x >= left && x < left + width + 1 && y >= top && y < top + height + 1;
  });

/** The middle of a node, in units from the bottom and in parts of the rack's width. @param {Slot} slot */
const middleOf = ({ unit, units, column, across }) => ({
  level: unit + units / 2,
  side: (column + 0.5) / across,
});

/**
 * The closest of some places.
 * @param {Slot[]} slots
 * @param {(slot: Slot) => number} distance
 */
function closest(slots, distance) {
  /** @type {Slot | undefined} */
  let best;
  let least = Infinity;
  for (const slot of slots) {
    const far = distance(slot);
    if (far < least) [best, least] = [slot, far];
  }
  return best;
}

/**
 * The node above (sign 1) or below another one in its rack.
 * @param {Slot[]} slots
 * @param {Slot} here
 * @param {number} sign
 */
function above(slots, here, sign) {
  const { level, side } = middleOf(here);
  const others = slots.filter((slot) =>
    sign > 0 ? slot.unit > topOf(here) : topOf(slot) < here.unit,
  );
  return closest(others, (slot) => {
    const middle = middleOf(slot);
    return Math.abs(middle.level - level) + Math.abs(middle.side - side) / 2;
  });
}

/**
 * The node at the right (sign 1) or left of another one in the same units.
 * @param {Slot[]} slots
 * @param {Slot} here
 * @param {number} sign
 */
function adjacent(slots, here, sign) {
  const { side } = middleOf(here);
  const level = slots.filter((slot) => topOf(slot) >= here.unit && slot.unit <= topOf(here));
  const next = level.filter((slot) => sign * (middleOf(slot).side - side) > 0.001);
  return closest(next, (slot) => Math.abs(middleOf(slot).side - side));
}

/**
 * The node of the next rack that is about as high, at the edge that is next to this one.
 * @param {Rack | undefined} rack
 * @param {Slot} here
 * @param {number} sign
 */
function opposite(rack, here, sign) {
  const { level } = middleOf(here);
  return closest(rack?.slots ?? [], (slot) => {
    const middle = middleOf(slot);
    const edge = sign > 0 ? middle.side : 1 - middle.side;
    return Math.abs(middle.level - level) + edge / 2;
  });
}

const UPRIGHT = /^Arrow(Up|Down)$/;
/** @type {Record<string, number>} */
const SIGNS = { ArrowUp: 1, ArrowDown: -1, ArrowRight: 1, ArrowLeft: -1, Home: 0, End: 0 };

/**
 * Where a key leads from a node ("": from none yet); null: that key leads nowhere.
 * @param {Rack[]} racks
 * @param {string} key
 * @param {string} at
 * @returns {string | null}
 */
export function moved(racks, key, at) {
  const filled = racks.filter(({ slots }) => slots.length);
  if (!Object.hasOwn(SIGNS, key) || !filled.length) return null;
  const place = filled.findIndex(({ slots }) => slots.some(({ name }) => name === at));
  if (place < 0 || key === "Home") return filled[0].slots[0].name;
  if (key === "End") return filled[filled.length - 1].slots.slice(-1)[0].name;
  return beyond(filled, place, key, at);
}

/**
 * Where an arrow leads from a node of a rack; to the node itself at the ends.
 * @param {Rack[]} filled
 * @param {number} place of the rack
 * @param {string} key
 * @param {string} at
 */
function beyond(filled, place, key, at) {
  const { slots } = filled[place];
  const here = /** @type {Slot} */ (slots.find(({ name }) => name === at));
  const sign = SIGNS[key];
  const inRack = UPRIGHT.test(key) ? above(slots, here, sign) : adjacent(slots, here, sign);
  const next = inRack ?? (UPRIGHT.test(key) ? here : opposite(filled[place + sign], here, sign));
  return next?.name ?? at;
}

/** One line about a place. @param {Rack} rack @param {Slot} slot */
export function placeWords({ name }, { unit, units }) {
  return units === 1
    ? `rack ${name}, unit ${unit}`
    : `rack ${name}, units ${unit} to ${unit + units - 1}`;
}

/**
 * @typedef {object} RackProps
 * @property {Rack} rack
 * @property {(NodeRow | undefined)[]} nodes of its slots; undefined: Slurm does not know it
 * @property {boolean[]} pale of its slots: the filter leaves it out
 * @property {Size} size
 * @property {string} colouring
 * @property {Record<string, NodeFigures>} figures
 * @property {string} at the node with the frame, "" where it is in another rack
 * @property {boolean} entry whether Tab leads to it
 * @property {string} under the node of it that is under the pointer
 * @property {(name: string) => void} point
 * @property {(event: KeyboardEvent) => void} press
 */

/**
 * @template T
 * @param {T[]} a
 * @param {T[]} b
 */
const same = (a, b) => a.length === b.length && a.every((value, i) => value === b[i]);

const SCALARS = /** @type {const} */ ([
  ...["rack", "size", "colouring", "figures", "at", "entry", "under"],
]);

/** @extends {Drawing<RackProps, object>} */
class RackCanvas extends Drawing {
  /** @param {RackProps} next */
  shouldComponentUpdate(next) {
    const { nodes, pale } = this.props;
    return (
      SCALARS.some((key) => next[key] !== this.props[key]) ||
      !same(nodes, next.nodes) ||
      !same(pale, next.pale)
    );
  }

  draw() {
    const canvas = this.canvas.current;
    const pen = canvas?.getContext("2d");
    if (!canvas || !pen) return;
    const { rack, size, nodes, pale, at } = this.props;
    resize(canvas, pen, size.wide, heightOf(size, rack));
    this.paintFrame(pen);
    const painter = new Painter(pen, this.props);
    const card = colour("card");
    rack.slots.forEach((slot, i) => {
      const box = boxOf(rack, slot, size);
      const node = nodes[i];
      painter.ink(card);
      pen.fillRect(...box); // no lines of units below what is shown in part
      if (node) painter.paint(node, box, { named: true, pale: pale[i] });
      else this.paintUnknown(painter, slot, box);
    });
    const slot = rack.slots.find(({ name }) => name === at);
    if (!slot || document.activeElement !== canvas) return;
    const [x, y, wide, high] = boxOf(rack, slot, size);
    pen.strokeStyle = colour("focus");
    pen.lineWidth = 2;
    pen.strokeRect(x, y, wide, high);
  }

  /** The rack with its units, all of them empty. @param {CanvasRenderingContext2D} pen */
  paintFrame(pen) {
    const { rack, size } = this.props;
    const { unit, wide } = size;
    pen.strokeStyle = colour("edge");
    pen.strokeRect(0.5, 0.5, wide - 1, heightOf(size, rack) - 1);
    pen.fillStyle = colour("line");
    const left = EDGE + (unit >= NUMBERED_PX ? NUMBERS_PX : 0);
    for (let i = 1; i < rack.units; i += 1) {
      pen.fillRect(left, EDGE + i * unit - 1, wide - left - EDGE, 1);
    }
    if (unit < NUMBERED_PX) return;
    pen.fillStyle = colour("dim");
    pen.font = "9px system-ui, sans-serif";
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (let i = 1; i <= rack.units; i += 1) {
      const y = EDGE + (rack.units - i + 0.5) * unit;
      pen.fillText(String(i), NUMBERS_PX - 2, y);
    }
  }

  /**
   * A node of the file that Slurm does not know: its frame and name.
   * @param {Painter} painter
   * @param {Slot} slot
   * @param {number[]} box
   */
  paintUnknown(painter, { name }, box) {
    const { pen } = painter;
    const [x, y, wide, high] = box;
    pen.strokeStyle = colour("dim");
    pen.lineWidth = 1;
    pen.setLineDash([3, 3]);
    pen.strokeRect(x + 0.5, y + 0.5, wide - 1, high - 1);
    pen.setLineDash([]);
    painter.name(name, box, colour("dim"));
  }

  /** @param {MouseEvent} event */
  pointed = (event) => {
    const box = this.canvas.current?.getBoundingClientRect();
    if (!box) return;
    const { rack, size, point } = this.props;
    point(slotAt(rack, size, event.clientX - box.left, event.clientY - box.top)?.name ?? "");
  };

  render() {
    const { rack, size, nodes, entry, press, under, point } = this.props;
    const i = rack.slots.findIndex(({ name }) => name === under);
    const counts = `${many(rack.slots.length, "node")}, ${many(rack.units, "unit")}`;
    const words = `Rack ${rack.name}: ${counts}`;
    const canvas = el("canvas", {
      class: "rack",
      style: {
        width: `${size.wide}px`,
        height: `${heightOf(size, rack)}px`,
        cursor: nodes[i] ? "pointer" : "default",
      },
      role: "application",
      tabIndex: entry ? 0 : -1,
      ref: this.canvas,
      "data-key": `rack ${rack.name}`,
      "aria-roledescription": "rack",
      "aria-label": `${words}. Arrow keys go from node to node and to other racks, Enter opens one`,
      onKeyDown: press,
      onFocus: this.soon,
      onBlur: this.soon,
      onMouseMove: this.pointed,
      onMouseDown: this.pointed,
      onMouseLeave: () => point(""),
    });
    return el(
      "figure",
      null,
      el("figcaption", { style: { maxWidth: `${size.wide}px` }, title: rack.name }, rack.name),
      linked(canvas, nodes[i] ? `node/${under}` : ""),
    );
  }
}

/** The node with the keyboard's focus; kept while other pages are shown. */
const kept = { at: "" };

/**
 * @typedef {object} RacksProps
 * @property {RackElevation[]} elevations
 * @property {Map<string, NodeRow>} nodes
 * @property {(node: NodeRow) => boolean} test of the filter
 * @property {string} colouring
 * @property {Record<string, NodeFigures>} figures
 * @property {Room | null} full the screen, where they fill it
 */

/** @extends {Component<RacksProps, { under: string, at: string, width: number }>} */
export class Racks extends Component {
  state = { under: "", at: kept.at, width: 1200 };
  /** @type {{ current: HTMLElement | null }} */
  box = createRef();
  /** @type {{ elevations: RackElevation[], racks: Rack[] } | null} */
  made = null;
  resized = new ResizeObserver((entries) =>
    this.setState({ width: entries[entries.length - 1].contentRect.width }),
  );

  componentDidMount() {
    if (this.box.current) this.resized.observe(this.box.current);
  }

  componentWillUnmount() {
    this.resized.disconnect();
  }

  racks() {
    const { elevations } = this.props;
    if (this.made?.elevations !== elevations)
      this.made = { elevations, racks: racksOf(elevations) };
    return this.made.racks;
  }

  /** @param {string} under */
  point = (under) => {
    if (under !== this.state.under) this.setState({ under });
  };

  /** @param {KeyboardEvent} event */
  press = (event) => {
    const { at } = this.state;
    if (event.key === "Enter" && this.props.nodes.has(at)) location.hash = `node/${at}`;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const racks = this.racks();
    const next = moved(racks, event.key, at);
    if (next === null) return;
    event.preventDefault();
    kept.at = next;
    const rack = racks.find(({ slots }) => slots.some(({ name }) => name === next));
    this.setState({ at: next, under: "" }, () => {
      const key = CSS.escape(`rack ${rack?.name}`);
      const canvas = this.box.current?.querySelector(`[data-key="${key}"]`);
      if (canvas instanceof HTMLElement) canvas.focus();
    });
  };

  /** What the line above the racks reads out. @param {Rack[]} racks */
  line(racks) {
    const { nodes, figures } = this.props;
    const name = this.state.under || this.state.at;
    for (const rack of racks) {
      const slot = rack.slots.find((each) => each.name === name);
      if (!slot) continue;
      const node = nodes.get(name);
      const words = node ? lineOf(node, figures[name]) : `${name}  Slurm does not know it`;
      return `${words}  ${placeWords(rack, slot)}`;
    }
    return "\u00a0";
  }

  /** @param {Rack} rack @param {Size} size @param {string} entry the rack that Tab leads to */
  one(rack, size, entry) {
    const { nodes, test, colouring, figures } = this.props;
    const { at, under } = this.state;
    const here = rack.slots.map(({ name }) => nodes.get(name));
    const has = (/** @type {string} */ name) =>
      rack.slots.some((slot) => slot.name === name) ? name : "";
    return h(RackCanvas, {
      key: rack.name,
      ...{ rack, size, colouring, figures, at: has(at), under: has(under) },
      nodes: here,
      pale: here.map((node) => node !== undefined && !test(node)),
      entry: rack.name === entry,
      point: this.point,
      press: this.press,
    });
  }

  /** Nodes of Slurm's that the file gives no place. @param {Rack[]} racks */
  elsewhere(racks) {
    const { nodes, test, colouring, figures } = this.props;
    const placed = new Set(racks.flatMap(({ slots }) => slots.map(({ name }) => name)));
    const rest = [...nodes.values()].filter((node) => !placed.has(node.name) && test(node));
    if (!rest.length) return null;
    return el(
      "section",
      { class: "elsewhere" },
      el("h3", null, "In no rack", el("span", { class: "dim" }, `  ${many(rest.length, "node")}`)),
      h(Heat, { nodes: rest, label: "in no rack", colouring, figures }),
    );
  }

  render() {
    const racks = this.racks();
    if (!racks.length) {
      const none = "The cluster file declares no racks: `racks` there has where each node is.";
      return el("p", { class: "dim" }, none.replaceAll("`", ""));
    }
    const { full } = this.props;
    const { at, width } = this.state;
    const size = full
      ? sizeFor(racks, full, SIZES)
      : sizeFor(racks, { width, height: Math.max(700, innerHeight - 160) });
    const current = racks.find(({ slots }) => slots.some(({ name }) => name === at));
    const entry = (current ?? racks.find(({ slots }) => slots.length) ?? racks[0]).name;
    return el(
      "div",
      { ref: this.box },
      el("div", { class: "tip mono", role: "status" }, this.line(racks)),
      el(
        "div",
        { class: "racks rows" },
        inRows(racks).map(([row, some]) =>
          el(
            "section",
            { key: row },
            row ? el("h3", null, row) : null,
            el(
              "div",
              { class: "racks" },
              some.map((rack) => this.one(rack, size, entry)),
            ),
          ),
        ),
      ),
      this.elsewhere(racks),
    );
  }
}
