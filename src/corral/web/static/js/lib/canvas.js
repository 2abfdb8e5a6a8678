// A component that is drawn on a canvas: again when its size, the theme or what it shows changes.
import { Component, createRef } from "../../vendor/preact.mjs";

/**
 * @template P
 * @template S
 * @extends {Component<P, S>}
 */
export class Drawing extends Component {
  /** @type {{ current: HTMLCanvasElement | null }} */
  canvas = createRef();
  frame = 0;
  resized = new ResizeObserver(() => this.soon());

  soon = () => {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  };

  /** The element whose size decides. @returns {Element | null} */
  sized() {
    return this.canvas.current;
  }

  draw() {}

  /** @returns {any} */
  render() {
    return null;
  }

  componentDidMount() {
    const element = this.sized();
    if (element) this.resized.observe(element);
    document.addEventListener("theme", this.soon);
    this.soon();
  }

  componentDidUpdate() {
    this.soon();
  }

  componentWillUnmount() {
    this.resized.disconnect();
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
