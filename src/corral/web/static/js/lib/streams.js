// Streams of events: which tab keeps one, and one that went silent.

// A browser has six connections to an address for all tabs together (HTTP/1.1), and an open stream
// holds one: with six of them no tab would get another answer. So a tab that nobody sees keeps none.
export const inFront = () => document.visibilityState !== "hidden";

/**
 * Calls back as this tab comes to the front and goes behind; returns what ends that.
 * @param {(front: boolean) => void} does
 */
export function whileInFront(does) {
  const changed = () => does(inFront());
  document.addEventListener("visibilitychange", changed);
  return () => document.removeEventListener("visibilitychange", changed);
}

// Three times the longest time in which the server sends nothing.
const SILENT_MS = 45000;

/**
 * Opens a stream. A browser never notices that the other end is gone where nothing reports it: behind
 * a laptop's sleep, another network or a VPN that ended. So what sends nothing for long is lost.
 * @param {string} address
 * @param {(source: EventSource) => void} lost
 * @param {number} [silentMs]
 */
export function stream(address, lost, silentMs = SILENT_MS) {
  const source = new EventSource(address);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let waiting;
  const over = () => {
    clearTimeout(waiting);
    const open = source.readyState !== EventSource.CLOSED;
    source.close();
    if (open) lost(source);
  };
  const heard = () => {
    clearTimeout(waiting);
    if (source.readyState !== EventSource.CLOSED) waiting = setTimeout(over, silentMs);
  };
  source.addEventListener("open", heard);
  source.addEventListener("message", heard);
  source.addEventListener("error", over);
  heard();
  return source;
}
