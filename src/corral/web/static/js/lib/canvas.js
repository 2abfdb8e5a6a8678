// A component that is drawn on a canvas: again when its size, the theme or what it shows changes,
// while it is in view or near it. Of 10,000 nodes by rack there are hundreds of canvases.
import { Component, createRef } from "../../vendor/preact.mjs";
import { el } from "./view.js";
/** @import { VNode } from "preact" */

/**
 * @template P
 * @template S
 * @extends {Component<P, S>}
 */
export class Drawing extends Component {
  /** @type {{ current: HTMLCanvasElement | null }} */
  canvas = createRef();
  frame = 0;
  near = false;
  late = true;
  resized = new ResizeObserver((entries) => {
    this.fits(entries[entries.length - 1].contentRect.width);
    this.soon();
  });
  viewed = new IntersectionObserver(
    (entries) => {
      this.near = entries[entries.length - 1].isIntersecting;
      if (this.near && this.late) this.soon();
    },
    { rootMargin: "400px" },
  );

  soon = () => {
    this.late = true;
    if (!this.near) return;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      this.late = false;
      this.draw();
    });
  };

  /** The element whose size decides. @returns {Element | null} */
  sized() {
    return this.canvas.current;
  }

  /**
   * Takes the height that goes with a width, also where it is not drawn yet.
   * @param {number} _width
   */
  fits(_width) {}

  draw() {}

  /** @returns {any} */
  render() {
    return null;
  }

  componentDidMount() {
    const element = this.sized();
    if (element) this.resized.observe(element);
    if (this.canvas.current) this.viewed.observe(this.canvas.current);
    document.addEventListener("theme", this.soon);
    this.soon();
  }

  componentDidUpdate() {
    this.soon();
  }

  componentWillUnmount() {
    this.resized.disconnect();
    this.viewed.disconnect();
    document.removeEventListener("theme", this.soon);
    cancelAnimationFrame(this.frame);
  }
}

/**
 * Give a canvas so many pixels of the page, each as sharp as the screen; its pen draws in those.
 * @param {HTMLCanvasElement} canvas
 * @param {CanvasRenderingContext2D} pen
 * @param {number} width
 * @param {number} height
 */
export function resize(canvas, pen, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.height = `${height}px`;
  pen.scale(ratio, ratio);
}

/**
 * A canvas as a link to what is under the pointer: the browser's own ways to open one work there.
 * @param {VNode} canvas
 * @param {string} address behind #; "": there is nothing under the pointer
 */
export const linked = (canvas, address) =>
  el("a", { class: "over", href: address ? `#${address}` : undefined, draggable: false }, canvas);
