// A row per node and a bar per job over time, on one canvas that shows the rows in sight: 10,000
// nodes are no more elements than ten.
import { createRef } from "../../vendor/preact.mjs";
import { Drawing, linked, resize } from "../lib/canvas.js";
import { clock, colour, el, many, span } from "../lib/view.js";
/** @import { Timeline, TimelineJob } from "../api.js" */
/** @typedef {{ name: string, place: number }} Row place: its position in the answer's nodes */
/** @typedef {{ job: TimelineJob, lane: number }} Bar */
/** @typedef {{ bars: Bar[], lanes: number }} Lanes */
/** @typedef {{ from: number, to: number, left: number, width: number }} Scale */
/** @typedef {{ row: number, bar: number }} Place a row, and a bar of it in order of time; -1: the node */

export const ROW = 26;
export const AXIS = 26;
const GAP = 3;
const BROAD = 640;
const TICK_PX = 66;
const LETTER_PX = 7;
const NAMED_PX = 14;
const THIN_PX = 2;
const MARKED_PX = 5;
const DAY_S = 86400;
const STEPS = [300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, DAY_S, 2 * DAY_S];

/**
 * The bars of one node; jobs that share it at the same time are in lanes one above the other.
 * @param {TimelineJob[]} jobs
 * @param {number} place
 * @returns {Lanes}
 */
export function lanesOf(jobs, place) {
  const here = jobs.filter(({ runs }) => runs.some(([a, b]) => a <= place && place <= b));
  here.sort((a, b) => a.start_at - b.start_at || a.id - b.id);
  /** @type {number[]} */
  const ends = [];
  const bars = here.map((job) => {
    const free = ends.findIndex((end) => end <= job.start_at);
    const lane = free < 0 ? ends.length : free;
    ends[lane] = job.end_at ?? Infinity;
    return { job, lane };
  });
  return { bars, lanes: Math.max(1, ends.length) };
}

/**
 * Where a time is, in pixels; at an edge where it is beyond.
 * @param {Scale} scale
 * @param {number} at
 */
const xOf = ({ from, to, left, width }, at) =>
  left + ((Math.min(to, Math.max(from, at)) - from) / (to - from)) * (width - left);

/**
 * Where a job begins and ends, in pixels; never thinner than can be seen.
 * @param {Scale} scale
 * @param {TimelineJob} job
 * @returns {[number, number]}
 */
export function extentOf(scale, { start_at, end_at }) {
  const [begin, end] = [xOf(scale, start_at), xOf(scale, end_at ?? scale.to)];
  if (end - begin >= THIN_PX) return [begin, end];
  const edge = Math.min(begin, scale.width - THIN_PX);
  return [edge, edge + THIN_PX];
}

/**
 * Where the lane of a bar is in its row, and how high it is.
 * @param {number} lane
 * @param {number} lanes
 * @returns {[number, number]}
 */
export function laneBox(lane, lanes) {
  const height = (ROW - 2 * GAP) / lanes;
  return [GAP + lane * height, Math.max(1, height - (lanes > 1 && height > 3 ? 1 : 0))];
}

/**
 * The times that the axis names, at full hours or days of this place's clock.
 * @param {Scale} scale
 * @returns {{ at: number, words: string }[]}
 */
export function ticksOf({ from, to, left, width }) {
  const most = Math.max(1, (width - left) / TICK_PX);
  const step = STEPS.find((each) => (to - from) / each <= most) ?? 7 * DAY_S;
  const east = -60 * new Date(from * 1000).getTimezoneOffset();
  const ticks = [];
  for (let at = Math.ceil((from + east) / step) * step - east; at <= to; at += step) {
    const words = clock(at);
    const midnight = (at + east) % DAY_S === 0;
    ticks.push({ at, words: midnight ? words.slice(5, 10) : words.slice(11, 16) });
  }
  return ticks;
}

/**
 * How a job is painted. What failed is underlined and what was cancelled is hollow, where there is
 * room: not everybody sees the colours.
 * @param {TimelineJob} job
 * @param {string} mine the user whose jobs stand out; "": all
 * @param {number} width
 * @param {number} height
 * @returns {{ ink: TimelineJob["kind"], alpha: number, mark: "" | "hollow" | "lined" }}
 */
export function paintOf({ kind, user }, mine, width, height) {
  const marks = { bad: /** @type {const} */ ("lined"), off: /** @type {const} */ ("hollow") };
  const marked = (kind === "bad" || kind === "off") && Math.min(width, height) > MARKED_PX;
  return { ink: kind, alpha: mine && user !== mine ? 0.22 : 1, mark: marked ? marks[kind] : "" };
}

/**
 * A name that fits: its end is what differs from the others.
 * @param {string} name
 * @param {number} width
 */
export function fitted(name, width) {
  const letters = Math.floor(width / LETTER_PX);
  return name.length <= letters ? name : `…${name.slice(name.length - Math.max(1, letters - 1))}`;
}

/**
 * The bar that begins closest to a time; -1: there is none.
 * @param {Bar[]} bars
 * @param {number} at
 */
function closest(bars, at) {
  let best = -1;
  let least = Infinity;
  bars.forEach(({ job }, i) => {
    const distance = Math.abs(job.start_at - at);
    if (distance < least) [best, least] = [i, distance];
  });
  return best;
}

/**
 * Where a key leads; null: that key leads nowhere.
 * @param {string} key
 * @param {Place} at
 * @param {number} count rows
 * @param {number} page rows in sight
 * @param {(row: number) => Bar[]} barsOf
 * @returns {Place | null}
 */
export function moved(key, at, count, page, barsOf) {
  /** @type {Record<string, number>} */
  const rows = {
    ArrowDown: at.row + 1,
    ArrowUp: at.row - 1,
    PageDown: at.row + page,
    PageUp: at.row - page,
    Home: 0,
    End: count - 1,
  };
  if (!count) return null;
  if (Object.hasOwn(rows, key)) {
    if (at.row < 0) return { row: 0, bar: -1 };
    const row = Math.min(count - 1, Math.max(0, rows[key]));
    if (at.bar < 0 || row === at.row) return { row, bar: at.bar };
    return { row, bar: closest(barsOf(row), barsOf(at.row)[at.bar].job.start_at) };
  }
  if (key !== "ArrowLeft" && key !== "ArrowRight") return null;
  if (at.row < 0) return { row: 0, bar: -1 };
  const bar = at.bar + (key === "ArrowRight" ? 1 : -1);
  return { row: at.row, bar: Math.min(barsOf(at.row).length - 1, Math.max(-1, bar)) };
}

/**
 * One line about a job on a node, or about a node.
 * @param {string | undefined} node
 * @param {TimelineJob} [job]
 * @param {Bar[]} [bars]
 * @param {number} [now]
 */
export function lineOf(node, job, bars = [], now = Date.now() / 1000) {
  if (!node) return "\u00a0";
  if (!job) return `${node}  ${many(bars.length, "job")}`;
  const { label, name, user, state, start_at, end_at } = job;
  const words = state.toLowerCase().replaceAll("_", " ");
  const until = end_at === null ? "now" : clock(end_at);
  const ran = span((end_at ?? now) - start_at);
  return [node, label, name, user, words, `${clock(start_at)} to ${until}`, ran].join("  ");
}

/**
 * The bar under a point of a row; -1: none.
 * @param {Lanes} lanes
 * @param {Scale} scale
 * @param {number} x
 * @param {number} y from the row's top
 */
export function barAt({ bars, lanes }, scale, x, y) {
  return bars.findLastIndex(({ job, lane }) => {
    const [begin, end] = extentOf(scale, job);
    const [top, height] = laneBox(lane, lanes);
    return x >= begin - 1 && x <= end + 1 && y >= top && y < top + height + 1;
  });
}

const NAMES = /** @type {const} */ ([
  ...["good", "mix", "busy", "warn", "bad", "off"],
  ...["card", "line", "text", "dim", "hover", "focus"],
]);

/**
 * @typedef {{ rows: Row[], data: Timeline, mine: string, count: number }} GanttProps
 * count: jobs on these rows
 * @extends {Drawing<GanttProps, { at: Place, under: Place | null }>}
 */
export class Gantt extends Drawing {
  /** @type {{ at: Place, under: Place | null }} */
  state = { at: { row: -1, bar: -1 }, under: null };
  /** @type {{ current: HTMLElement | null }} */
  scroller = createRef();
  /** @type {Map<number, Lanes>} */
  made = new Map();
  /** @type {Scale} */
  scale = { from: 0, to: 1, left: 0, width: 1 };

  sized() {
    return this.scroller.current;
  }

  /** @param {GanttProps} next */
  componentWillReceiveProps(next) {
    if (next.rows === this.props.rows && next.data === this.props.data) return;
    // Other rows or jobs: the frame stays at its node and job.
    const { at } = this.state;
    const name = this.props.rows[at.row]?.name;
    const job = this.job(at)?.id;
    if (next.data !== this.props.data) this.made.clear();
    const row = next.rows.findIndex((each) => each.name === name);
    const bars = row < 0 ? [] : lanesOf(next.data.jobs, next.rows[row].place).bars;
    const bar = bars.findIndex((each) => each.job.id === job);
    this.setState({ at: { row, bar }, under: null });
  }

  /** @param {number} row @returns {Lanes} */
  lanes(row) {
    const { rows, data } = this.props;
    const place = rows[row]?.place;
    if (place === undefined) return { bars: [], lanes: 1 };
    const known = this.made.get(place) ?? lanesOf(data.jobs, place);
    this.made.set(place, known);
    return known;
  }

  /** @param {Place} place */
  job = ({ row, bar }) => this.lanes(row).bars[bar]?.job;

  draw() {
    const [canvas, scroller] = [this.canvas.current, this.scroller.current];
    const pen = canvas?.getContext("2d");
    if (!canvas || !scroller || !pen) return;
    const { clientWidth: width, clientHeight: height } = scroller;
    const { data } = this.props;
    const left = width < BROAD ? 78 : 150;
    this.scale = { from: data.from, to: data.to, left, width };
    resize(canvas, pen, width, height);
    pen.font = getComputedStyle(canvas).font;
    pen.textBaseline = "middle";
    const inks = Object.fromEntries(NAMES.map((name) => [name, colour(name)]));
    this.paintBack(pen, inks, height);
    this.paintRows(pen, inks, height, scroller.scrollTop);
    this.paintAxis(pen, inks);
  }

  /**
   * The lines of the axis; what is left out is shaded.
   * @param {CanvasRenderingContext2D} pen
   * @param {Record<string, string>} inks
   * @param {number} height
   */
  paintBack(pen, inks, height) {
    const { data } = this.props;
    const { left, width } = this.scale;
    pen.clearRect(0, 0, width, height);
    if (data.cut) {
      pen.fillStyle = inks.hover;
      pen.fillRect(left, AXIS, xOf(this.scale, data.complete_from) - left, height - AXIS);
    }
    pen.fillStyle = inks.line;
    pen.globalAlpha = 0.5;
    for (const { at } of ticksOf(this.scale)) {
      pen.fillRect(xOf(this.scale, at), AXIS, 1, height - AXIS);
    }
    pen.globalAlpha = 1;
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {Record<string, string>} inks
   * @param {number} height
   * @param {number} scrolled
   */
  paintRows(pen, inks, height, scrolled) {
    const { rows } = this.props;
    const { left, width } = this.scale;
    const first = Math.floor(scrolled / ROW);
    const last = Math.min(rows.length, Math.ceil((scrolled + height - AXIS) / ROW));
    for (let row = first; row < last; row += 1) {
      const top = AXIS + row * ROW - scrolled;
      pen.fillStyle = inks.line;
      pen.fillRect(0, top + ROW - 1, width, 1);
      const lanes = this.lanes(row);
      lanes.bars.forEach((bar, i) =>
        this.paintBar(pen, inks, bar, lanes.lanes, top, { row, bar: i }),
      );
      pen.fillStyle = inks.text;
      pen.fillText(fitted(rows[row].name, left - 10), 2, top + ROW / 2);
      if (this.framed({ row, bar: -1 })) this.frameAround(pen, inks, 0, top, left - 4, ROW - 1);
    }
  }

  /** @param {Place} place */
  framed({ row, bar }) {
    const { at } = this.state;
    return at.row === row && at.bar === bar && document.activeElement === this.canvas.current;
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {Record<string, string>} inks
   * @param {number} x
   * @param {number} y
   * @param {number} width
   * @param {number} height
   */
  frameAround(pen, inks, x, y, width, height) {
    pen.strokeStyle = inks.focus;
    pen.lineWidth = 2;
    pen.strokeRect(x + 1, y + 1, Math.max(1, width - 2), Math.max(1, height - 2));
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {Record<string, string>} inks
   * @param {Bar} bar
   * @param {number} lanes
   * @param {number} top
   * @param {Place} place
   */
  paintBar(pen, inks, { job, lane }, lanes, top, place) {
    const [begin, end] = extentOf(this.scale, job);
    const [down, height] = laneBox(lane, lanes);
    const width = end - begin - (end - begin > 4 ? 1 : 0);
    const y = top + down;
    const { ink, alpha, mark } = paintOf(job, this.props.mine, width, height);
    pen.globalAlpha = alpha;
    pen.fillStyle = inks[ink];
    pen.fillRect(begin, y, width, height);
    pen.fillStyle = inks.card;
    if (mark === "hollow") pen.fillRect(begin + 2, y + 2, width - 4, height - 4);
    if (mark === "lined") pen.fillRect(begin, y + height - 4, width, 1.5);
    if (height >= NAMED_PX && width > 6 * LETTER_PX) {
      const words = `${job.label} ${job.name}`.slice(0, Math.floor((width - 8) / LETTER_PX));
      if (mark === "hollow") pen.fillStyle = inks.text;
      pen.fillText(words, begin + 5, y + height / 2 - 1);
    }
    pen.globalAlpha = 1;
    if (this.framed(place)) this.frameAround(pen, inks, begin - 2, y - 2, width + 4, height + 4);
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {Record<string, string>} inks
   */
  paintAxis(pen, inks) {
    const { left, width } = this.scale;
    pen.fillStyle = inks.card;
    pen.fillRect(0, 0, width, AXIS - 1);
    pen.fillStyle = inks.line;
    pen.fillRect(0, AXIS - 1, width, 1);
    pen.fillStyle = inks.dim;
    for (const { at, words } of ticksOf(this.scale)) {
      const x = xOf(this.scale, at);
      const half = pen.measureText(words).width / 2;
      pen.fillText(words, Math.min(width - 2 * half, Math.max(left, x - half)), AXIS / 2);
    }
  }

  /**
   * What is under the pointer.
   * @param {MouseEvent} event
   * @returns {Place | null}
   */
  under(event) {
    const [canvas, scroller] = [this.canvas.current, this.scroller.current];
    if (!canvas || !scroller) return null;
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top - AXIS];
    const down = y + scroller.scrollTop;
    const row = Math.floor(down / ROW);
    if (y < 0 || row >= this.props.rows.length) return null;
    if (x < this.scale.left) return { row, bar: -1 };
    const bar = barAt(this.lanes(row), this.scale, x, down - row * ROW);
    return bar < 0 ? null : { row, bar };
  }

  /** What a place leads to, behind #; "" for nothing. @param {Place | null} place */
  address(place) {
    if (!place || !this.props.rows[place.row]) return "";
    const job = this.job(place);
    return job ? `job/${job.id}` : `node/${this.props.rows[place.row].name}`;
  }

  /** @param {KeyboardEvent} event */
  pressed = (event) => {
    const { at } = this.state;
    const scroller = this.scroller.current;
    const address = this.address(at);
    if (event.key === "Enter" && address) location.hash = address;
    if (!scroller || event.ctrlKey || event.metaKey || event.altKey) return;
    const seen = Math.max(1, Math.floor((scroller.clientHeight - AXIS) / ROW));
    const bars = (/** @type {number} */ row) => this.lanes(row).bars;
    const next = moved(event.key, at, this.props.rows.length, seen, bars);
    if (!next) return;
    event.preventDefault();
    const top = next.row * ROW;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    const below = top + ROW - (scroller.clientHeight - AXIS);
    if (below > scroller.scrollTop) scroller.scrollTop = below;
    this.setState({ at: next, under: null });
  };

  // Also as a button goes down: the rows may have been scrolled below a pointer that stayed.
  /** @param {MouseEvent} event */
  pointed = (event) => {
    const under = this.under(event);
    const { under: before } = this.state;
    if (under?.row !== before?.row || under?.bar !== before?.bar) this.setState({ under });
  };

  render() {
    const { rows, data, count } = this.props;
    const { at, under } = this.state;
    const place = under ?? at;
    const line = lineOf(
      rows[place.row]?.name,
      this.job(place),
      this.lanes(place.row).bars,
      data.to,
    );
    const counts = `${many(rows.length, "node")}, ${many(count, "job")}`;
    const label = `${counts}. Up and Down go from node to node, Left and Right from job to job, Enter opens one`;
    const height = AXIS + rows.length * ROW;
    const canvas = el("canvas", {
      role: "application",
      tabIndex: 0,
      ref: this.canvas,
      "data-key": "gantt",
      "aria-roledescription": "timeline",
      "aria-label": label,
      style: { cursor: under ? "pointer" : "default" },
      onKeyDown: this.pressed,
      onFocus: this.soon,
      onBlur: this.soon,
      onMouseMove: this.pointed,
      onMouseLeave: () => this.setState({ under: null }),
      onMouseDown: this.pointed,
    });
    const link = linked(canvas, this.address(under));
    const room = el("div", { class: "gantt-room", style: { height: `${height}px` } }, link);
    return [
      el("div", { class: "tip mono", role: "status" }, line),
      el(
        "div",
        {
          class: "gantt",
          ref: this.scroller,
          style: { height: `${height}px` },
          onScroll: this.soon,
        },
        room,
      ),
    ];
  }
}
