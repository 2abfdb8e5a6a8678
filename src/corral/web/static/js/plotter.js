// uPlot, loaded when the first plot is drawn.
import { el } from "./dom.js";

let loading = null;
export function plotter() {
  loading ||= new Promise((resolve, reject) => {
    document.head.append(
      el("link", { rel: "stylesheet", href: "vendor/uPlot.min.css" }),
      el("script", {
        src: "vendor/uPlot.iife.min.js",
        onload: () => resolve(window.uPlot),
        onerror: reject,
      }),
    );
  });
  return loading;
}
