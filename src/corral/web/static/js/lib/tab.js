// Whether this tab is in front. A browser has six connections to an address for all tabs together
// (HTTP/1.1), and an open stream holds one: with six of them no tab would get another answer. So
// a tab that nobody sees keeps none.

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
