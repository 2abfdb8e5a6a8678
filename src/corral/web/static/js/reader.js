// What pages of other clusters load in a hidden frame (/reader.html): answers them two questions as
// who is logged in here. The session's secrets stay here, and nothing is changed by a message.
import { call, refused, touch } from "./lib/server.js";

const MOST_OPEN = 4;
const allowed = (document.documentElement.dataset.origins ?? "").split(" ").filter(Boolean);
let open = 0;

/** @param {unknown} ask @param {unknown} text */
async function answer(ask, text) {
  if (ask === "summary") return call("summary");
  if (ask !== "search") throw new Error("no such question");
  touch();
  return call(`search?q=${encodeURIComponent(String(text).slice(0, 300))}`);
}

/** @param {unknown} ask @param {unknown} text */
async function answered(ask, text) {
  if (open >= MOST_OPEN) return { why: "busy", message: "too many questions at once" };
  open += 1;
  try {
    return { data: await answer(ask, text) };
  } catch (error) {
    const { status, message } = refused(error);
    const why = { 0: "silent", 401: "logged-out" }[status] ?? "refused";
    return { why, message };
  } finally {
    open -= 1;
  }
}

touch(0); // what a frame asks keeps no session alive; what somebody searches for does
addEventListener("message", async ({ origin, source, data }) => {
  // frame-ancestors of this document names the same origins; this holds where a browser errs.
  if (source !== parent || source === window || !allowed.includes(origin)) return;
  if (data?.corral !== 1 || typeof data.number !== "number") return;
  const { number, ask, text } = data;
  parent.postMessage({ corral: 1, number, ...(await answered(ask, text)) }, origin);
});
